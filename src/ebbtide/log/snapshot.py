"""What is the table at one version?

`load_snapshot` answers with a frozen `Snapshot`: protocol, metadata, schema, properties, live files and tombstones,
read behind the feature gate. Given an older snapshot as a hint, it reads only what was committed since, so the cost per
commit stays flat over a long run. A snapshot knows neither scans nor transactions; they meet in `commands`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import CorruptTableError, ObjectNotFoundError, RequestError
from ebbtide.log.checkpoint import open_checkpoint
from ebbtide.log.commit_scan import FileActions
from ebbtide.log.commit_times import snapshot_timestamp_ms, version_at_timestamp
from ebbtide.log.file_tables import add_files
from ebbtide.log.listing import LogListing, list_log, look_ahead
from ebbtide.log.outside_files import ensure_inside_root
from ebbtide.log.replay import LiveFiles, surviving_tombstones
from ebbtide.log.segment import Segment, cover
from ebbtide.log.small_actions import SmallActions
from ebbtide.log.table_state import TableHead, TableState, read_state, scan_log_files
from ebbtide.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from ebbtide.protocol.features import ensure_readable
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import StructType, parse_schema
from ebbtide.storage.links import ensure_no_links_outside
from ebbtide.storage.store import ObjectStore, is_local

__all__ = ["Snapshot", "load_snapshot"]

# Beyond this many commits since the hint, a newer checkpoint is the quicker start.
_COMMITS_WORTH_A_CHECKPOINT = 256


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of a table. It never changes, and its files passed the checks of `log.replay`."""

    store: ObjectStore
    version: int
    protocol: Protocol
    metadata: Metadata
    schema: StructType
    properties: TableProperties
    transactions: Mapping[str, SetTransaction]
    domain_metadata: Mapping[str, DomainMetadata]
    timestamp_ms: int
    live: LiveFiles
    segment: Segment
    commit_removes: tuple[FileActions, ...]
    config: EngineConfig

    @property
    def files(self) -> pa.Table:
        """The live files, rows of `LIVE_FILES_SCHEMA`."""
        return self.live.table()

    @property
    def num_files(self) -> int:
        return self.live.num_files

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the live data files as the log states them; deletion vectors are not counted."""
        return self.live.size_in_bytes

    def add_files(self, table: pa.Table | None = None) -> Iterator[AddFile]:
        """The live files, or the given rows of them, as actions."""
        return add_files(self.files if table is None else table)

    def tombstones(self) -> pa.Table:
        """The removed files that the log still remembers, rows of `TOMBSTONES_SCHEMA`; reads the checkpoint again."""
        batches: list[pa.RecordBatch] = []
        if self.segment.checkpoint is not None:
            try:
                batches += open_checkpoint(self.store, self.segment.checkpoint, self.config).tombstones()
            except (CorruptTableError, ObjectNotFoundError):
                # A snapshot that was carried forward may outlive the checkpoint it started from.
                renewed = load_snapshot(self.store, version=self.version, config=self.config)
                if renewed.segment.checkpoint == self.segment.checkpoint:
                    raise
                return renewed.tombstones()
        batches += [batch for removes in self.commit_removes for batch in removes.batches]
        return surviving_tombstones(batches, self.live, self.store.url)


def load_snapshot(
    store: ObjectStore,
    *,
    version: int | None = None,
    timestamp_ms: int | None = None,
    config: EngineConfig = DEFAULT_CONFIG,
    hint: Snapshot | None = None,
    allow_repeats: bool = False,
) -> Snapshot:
    """The table at a version, at a time, or (neither given) at its newest version.

    `hint` is an earlier snapshot of the same table; when the log no longer continues it, it is ignored. With
    `allow_repeats` a path may be live twice, which only a repair may see. Errors:
    TableNotFoundError, VersionNotFoundError, UnsupportedFeatureError at the gate, CorruptTableError.
    """
    if version is not None and timestamp_ms is not None:
        raise RequestError("Give either a version or a timestamp, not both.")
    if config.inside_root_only:
        # Before anything is read: the log itself may be a link.
        ensure_no_links_outside(store)
    if timestamp_ms is not None:
        version = version_at_timestamp(store, timestamp_ms, config=config)
    if hint is not None and hint.store.url == store.url and (version is None or version >= hint.version):
        snapshot = _carry_forward(store, hint, version, config)
        if snapshot is not None:
            return snapshot
    state = read_state(store, version=version, config=config, allow_repeats=allow_repeats)
    return _snapshot(store, state, config)


def _snapshot(store: ObjectStore, state: TableState, config: EngineConfig) -> Snapshot:
    head = state.head
    ensure_inside_root(state.live, store, config)
    return Snapshot(
        store=store,
        version=head.segment.version,
        protocol=head.protocol,
        metadata=head.metadata,
        schema=parse_schema(head.metadata.schema_string),
        properties=TableProperties.parse(head.metadata.configuration),
        transactions=head.transactions,
        domain_metadata=head.domain_metadata,
        timestamp_ms=snapshot_timestamp_ms(store, head, config),
        live=state.live,
        segment=head.segment,
        commit_removes=(state.removes,) if state.removes.num_rows else (),
        config=config,
    )


def _carry_forward(store: ObjectStore, hint: Snapshot, version: int | None, config: EngineConfig) -> Snapshot | None:
    """The snapshot that follows `hint`; None when only a full load can tell."""
    listing = _list_since(store, hint)
    # Without this very commit, the table was dropped and created again in the meantime.
    if hint.segment.commit is None or listing.commits.get(hint.version) != hint.segment.commit:
        return None
    target = (listing.latest_version or 0) if version is None else version
    try:
        log_files = tuple(cover(listing, hint.version + 1, target, table_url=store.url, use_compacted=False))
        if len(log_files) > _COMMITS_WORTH_A_CHECKPOINT and listing.checkpoints:
            return None
        scan = scan_log_files(store, log_files, config)
        adds, removes = scan.file_actions()
        live = hint.live.replay(adds, removes, store.url)
    except (CorruptTableError, ObjectNotFoundError):
        return None
    ensure_inside_root(live, store, config)
    if not log_files:
        return hint if hint.config == config else replace(hint, config=config)
    segment, kept_removes = _rebase(hint, Segment(target, None, log_files, listing.commits[target]), listing)
    head = _head_after(hint, scan.small, segment)
    return replace(
        hint,
        store=store,
        version=target,
        protocol=head.protocol,
        metadata=head.metadata,
        schema=parse_schema(head.metadata.schema_string) if scan.small.metadata else hint.schema,
        properties=TableProperties.parse(head.metadata.configuration) if scan.small.metadata else hint.properties,
        transactions=head.transactions,
        domain_metadata=head.domain_metadata,
        timestamp_ms=snapshot_timestamp_ms(store, head, config),
        live=live,
        segment=segment,
        commit_removes=(*kept_removes, *_removes_after((removes,), segment)),
        config=config,
    )


def _head_after(hint: Snapshot, small: SmallActions, segment: Segment) -> TableHead:
    """The table's head once newer commits are added; UnsupportedFeatureError at the gate."""
    protocol, metadata = small.protocol or hint.protocol, small.metadata or hint.metadata
    if small.protocol or small.metadata:
        ensure_readable(protocol, metadata)
    domains = {**hint.domain_metadata, **small.domain_metadata}
    return TableHead(
        segment=segment,
        protocol=protocol,
        metadata=metadata,
        transactions={**hint.transactions, **small.transactions} if small.transactions else hint.transactions,
        domain_metadata={name: domain for name, domain in domains.items() if not domain.removed},
        commit_info=small.commit_info,
    )


def _list_since(store: ObjectStore, hint: Snapshot) -> LogListing:
    """The log from the hint's version on. Now and then this looks for checkpoints as well."""
    interval = hint.properties.checkpoint_interval
    checkpoint = hint.segment.checkpoint
    age = hint.version - (-1 if checkpoint is None else checkpoint.version)
    if is_local(store) and age < 2 * interval:
        found = look_ahead(store, hint.version, at_most=interval + 1)
        if found is not None:
            return found
    return list_log(store, start_version=hint.version)


def _rebase(hint: Snapshot, added: Segment, listing: LogListing) -> tuple[Segment, tuple[FileActions, ...]]:
    """The hint's segment with more commits, moved to a newer checkpoint when there is one.

    Otherwise a snapshot that is carried forward forever would keep every tombstone it ever saw.
    """
    newest = next((files for files in listing.checkpoints if files.version <= added.version), hint.segment.checkpoint)
    start = -1 if newest is None else newest.version
    log_files = [log_file for log_file in (*hint.segment.log_files, *added.log_files) if log_file.end_version > start]
    segment = Segment(added.version, newest, tuple(log_files), added.commit)
    return segment, _removes_after(hint.commit_removes, segment)


def _removes_after(removes: tuple[FileActions, ...], segment: Segment) -> tuple[FileActions, ...]:
    """The removes that the segment's checkpoint does not hold already."""
    start = -1 if segment.checkpoint is None else segment.checkpoint.version
    kept = []
    for actions in removes:
        first = bisect_right(actions.versions, start)
        if first == 0 and actions.num_rows:
            kept.append(actions)
        elif first < actions.num_rows:
            batches = pa.Table.from_batches(actions.batches).slice(first).to_batches()
            kept.append(FileActions(tuple(batches), actions.versions[first:]))
    return tuple(kept)
