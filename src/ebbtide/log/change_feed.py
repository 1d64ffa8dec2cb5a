"""Which rows of which files changed between two versions?

The change data feed as the log describes it, without Spark. If a commit has `cdc` actions, those files hold its
changes. Otherwise they follow from its adds and removes: an added file is all inserts, a removed file is all deletes. A
file that is removed and added again has a new deletion vector: the rows in which the two vectors differ changed.

Nothing here opens a data file or a vector; `scan.change_feed` does. See "Change Data Files" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import CorruptTableError, RequestError, VersionNotFoundError
from ebbtide.log.change_bounds import ChangeBounds, resolve_bounds
from ebbtide.log.change_schemas import ensure_same_columns, read_snapshot
from ebbtide.log.commit_times import file_times
from ebbtide.log.file_retention import ensure_start_retained
from ebbtide.log.history import read_commit
from ebbtide.log.listing import LogListing, list_log
from ebbtide.log.outside_files import ensure_paths_inside_root
from ebbtide.log.snapshot import Snapshot, load_snapshot
from ebbtide.log.table_state import TableHead, read_head
from ebbtide.protocol.actions import Action, AddCDCFile, AddFile, CommitInfo, Metadata, Protocol, RemoveFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.features import ensure_readable
from ebbtide.protocol.paths import canonical_path
from ebbtide.protocol.properties import TableProperties
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.storage.store import ObjectStore

__all__ = ["ChangeFeed", "ChangeType", "ChangedRows", "read_change_feed"]

_A = TypeVar("_A", AddFile, RemoveFile)

ChangeType: TypeAlias = Literal["insert", "delete"]

_ROWS_OF_MERGE = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of one file changed in one version: those in `shown` (None: all) that are not in `hidden`.

    `change_type` is None for a change data file: its rows carry it.
    """

    version: int
    change_type: ChangeType | None
    file: AddFile | RemoveFile | AddCDCFile
    partition_values: Mapping[str, str | None]
    shown: DeletionVectorDescriptor | None = None
    hidden: DeletionVectorDescriptor | None = None


@dataclass(frozen=True, slots=True)
class ChangeFeed:
    """The changes of some consecutive versions. `snapshot` is the version whose columns the feed has."""

    snapshot: Snapshot
    changes: tuple[ChangedRows, ...] = ()
    # When each of the versions was committed, in milliseconds.
    times_ms: Mapping[int, int] | None = None


def read_change_feed(store: ObjectStore, bounds: ChangeBounds, *, config: EngineConfig = DEFAULT_CONFIG) -> ChangeFeed:
    """The changes between the bounds, both included.

    RequestError when the bounds make no range or change data was not recorded in all of it.
    """
    newest = load_snapshot(store, config=config)
    versions = resolve_bounds(store, bounds, newest.version, config)
    if not versions:
        return ChangeFeed(newest)
    start, end = versions[0], versions[-1]
    listing = list_log(store)
    _ensure_commits(listing, versions, store.url)
    first = read_head(store, version=start, config=config)
    ensure_readable(first.protocol, first.metadata)
    if bounds.enforces_retention:
        ensure_start_retained(first, newest)
    _ensure_recorded(first.metadata, start, versions, store.url)
    snapshot = read_snapshot(store, first, end, newest, config)
    walk = _Walk(store.url, versions, first, snapshot, file_times(listing.commits))
    commits = prefetch(partial(read_commit, store, config=config), list(versions), ahead=choose_read_ahead(store))
    for version, actions in zip(versions, commits, strict=True):
        walk.read(version, actions)
    ensure_paths_inside_root(
        (change.file.path for change in walk.changes),
        (vector for change in walk.changes for vector in (change.shown, change.hidden)),
        store,
        config,
    )
    return ChangeFeed(snapshot, tuple(walk.changes), walk.times_ms)


class _Walk:
    """The commits of the range, one after the other."""

    def __init__(
        self, table_url: str, versions: range, first: TableHead, snapshot: Snapshot, file_times_ms: dict[int, int]
    ) -> None:
        self.table_url = table_url
        self.versions = versions
        self.protocol, self.metadata = first.protocol, first.metadata
        self.snapshot = snapshot
        self.file_times_ms = file_times_ms
        self.changes: list[ChangedRows] = []
        self.times_ms: dict[int, int] = {}
        ensure_same_columns(self.metadata, snapshot, version=versions[0], is_change=False)

    def read(self, version: int, actions: list[Action]) -> None:
        info = next((action for action in actions if isinstance(action, CommitInfo)), None)
        own_time = None if info is None else info.in_commit_timestamp
        self.times_ms[version] = self.file_times_ms[version] if own_time is None else own_time
        if version != self.versions[0]:
            self.read_definition(version, actions)
        self.changes += _changes(version, actions, info, self.metadata, self.table_url)

    def read_definition(self, version: int, actions: list[Action]) -> None:
        """Take in the commit's protocol and metadata. Those of the first version were checked before."""
        for action in actions:
            if isinstance(action, Protocol):
                self.protocol = action
            elif isinstance(action, Metadata):
                self.metadata = action
        if not any(isinstance(action, Protocol | Metadata) for action in actions):
            return
        ensure_readable(self.protocol, self.metadata)
        _ensure_recorded(self.metadata, version, self.versions, self.table_url)
        ensure_same_columns(self.metadata, self.snapshot, version=version, is_change=True)


def _changes(
    version: int, actions: list[Action], info: CommitInfo | None, metadata: Metadata, table_url: str
) -> Iterator[ChangedRows]:
    recorded = [action for action in actions if isinstance(action, AddCDCFile)]
    if recorded:
        yield from (ChangedRows(version, None, file, file.partition_values) for file in recorded)
        return
    if info is not None and _is_empty_merge(info):
        return
    adds: dict[str, AddFile] = {}
    removes: dict[str, RemoveFile] = {}
    for action in actions:
        if isinstance(action, AddFile) and action.data_change:
            _put(adds, action, version, table_url)
        elif isinstance(action, RemoveFile) and action.data_change:
            _put(removes, action, version, table_url)
    for path in dict.fromkeys([*removes, *adds]):
        yield from _change(version, adds.get(path), removes.get(path), metadata)


def _change(version: int, add: AddFile | None, remove: RemoveFile | None, metadata: Metadata) -> Iterator[ChangedRows]:
    if add is not None and remove is not None:
        yield from _difference(version, add, remove)
    elif add is not None:
        yield ChangedRows(version, "insert", add, add.partition_values, hidden=add.deletion_vector)
    elif remove is not None:
        values = _values_of(remove, version, metadata)
        yield ChangedRows(version, "delete", remove, values, hidden=remove.deletion_vector)


def _difference(version: int, add: AddFile, remove: RemoveFile) -> Iterator[ChangedRows]:
    """The file stayed with another vector: newly marked rows were deleted, rows no longer marked came back."""
    new, old = add.deletion_vector, remove.deletion_vector
    if new is None and old is None:
        raise CorruptTableError(
            f"version {version} removes the data file '{add.path}' and adds it again, and neither action has a "
            "deletion vector: nobody can tell which rows changed. Read the changes before and after that version."
        )
    if new == old:
        return
    # Both actions describe the same bytes; the one that stays describes them best.
    if new is not None:
        yield ChangedRows(version, "delete", add, add.partition_values, shown=new, hidden=old)
    if old is not None:
        yield ChangedRows(version, "insert", add, add.partition_values, shown=old, hidden=new)


def _put(known: dict[str, _A], action: _A, version: int, url: str) -> None:
    path = canonical_path(action.path, url)
    if path in known:
        kind = "adds" if isinstance(action, AddFile) else "removes"
        raise CorruptTableError(
            f"version {version} {kind} the data file '{action.path}' twice",
            error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
        )
    known[path] = action


def _values_of(remove: RemoveFile, version: int, metadata: Metadata) -> Mapping[str, str | None]:
    if remove.partition_values is not None:
        return remove.partition_values
    if remove.extended_file_metadata and not metadata.partition_columns:
        return {}
    raise RequestError(
        f"Version {version} removed the data file '{remove.path}' without saying which partition it was in, so its "
        "rows cannot be shown as changes. Start after that version.",
        error_class="DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA",
    )


def _is_empty_merge(info: CommitInfo) -> bool:
    """A MERGE that changed no row may still have rewritten files; its metrics tell."""
    metrics = info.operation_metrics
    return info.operation == "MERGE" and all(str(metrics.get(name)) == "0" for name in _ROWS_OF_MERGE)


def _ensure_recorded(metadata: Metadata, version: int, versions: range, table_url: str) -> None:
    if TableProperties.parse(metadata.configuration).enable_change_data_feed:
        return
    raise RequestError(
        f"The changes of versions {versions[0]} to {versions[-1]} of the table at {table_url} cannot be read: in "
        f"version {version} change data was not recorded (delta.enableChangeDataFeed is not true). Ask for versions "
        "in which it was.",
        error_class="DELTA_MISSING_CHANGE_DATA",
    )


def _ensure_commits(listing: LogListing, versions: range, table_url: str) -> None:
    missing = next((version for version in versions if version not in listing.commits), None)
    if missing is None:
        return
    oldest = min(listing.commits, default=None)
    known = "no commit is left" if oldest is None else f"the oldest that is left is version {oldest}"
    raise VersionNotFoundError(
        f"the changes of version {missing} of the table at {table_url} are not known any more: its commit was cleaned "
        f"up; {known}"
    )
