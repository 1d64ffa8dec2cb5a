"""What state does the log describe at one version?

`read_state` finds a segment that can be read and replays it: protocol and metadata first, then the feature gate, then
the files. A checkpoint or compacted file that turns out to be damaged or missing is skipped in favour of an older one,
or of the commits, as long as those suffice; the commits are the truth and have no substitute. `read_head` stops
before the files and before the gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, ObjectNotFoundError
from ebbtide.log.checkpoint import Checkpoint, open_checkpoint
from ebbtide.log.commit_scan import CommitScan, FileActions
from ebbtide.log.listing import LogListing, list_log
from ebbtide.log.malformed_actions import MalformedFileActions
from ebbtide.log.replay import LiveFiles
from ebbtide.log.segment import LogFile, Segment, find_log, segments
from ebbtide.log.small_actions import SmallActions
from ebbtide.protocol.actions import CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from ebbtide.protocol.features import ensure_readable
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.storage.store import ObjectStore

__all__ = ["TableHead", "TableState", "read_head", "read_state", "scan_log_files"]

# Each try reads a checkpoint, so a table full of broken ones must not be tried forever.
_MAX_TRIES = 16

# What a damaged or missing file raises; other errors (permission, network) are no reason to look elsewhere.
_Unusable = (CorruptTableError, ObjectNotFoundError)


@dataclass(frozen=True, slots=True)
class TableHead:
    """Everything about a version except its files."""

    segment: Segment
    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domain_metadata: Mapping[str, DomainMetadata]
    # From the version's commit, if that was among the files read.
    commit_info: CommitInfo | None


@dataclass(frozen=True, slots=True)
class TableState:
    head: TableHead
    live: LiveFiles
    # From the commits after the checkpoint; the checkpoint's own tombstones are read on demand.
    removes: FileActions


@dataclass(frozen=True, slots=True)
class _Opened:
    """A segment whose small actions have been read."""

    head: TableHead
    scan: CommitScan
    checkpoint: Checkpoint | None


def read_state(
    store: ObjectStore, *, version: int | None, config: EngineConfig, allow_repeats: bool = False
) -> TableState:
    """The state at `version` (None: the newest), behind the feature gate. See `log.replay` for repeats."""
    failures: list[CorruptTableError | ObjectNotFoundError] = []
    for segment in _proposals(store, version):
        opened = _open(store, segment, config, failures)
        if opened is None:
            continue
        ensure_readable(opened.head.protocol, opened.head.metadata)
        state = _replay(store, opened, failures, allow_repeats=allow_repeats)
        if state is not None:
            return state
    raise _explain(failures[0])


def read_head(store: ObjectStore, *, version: int | None, config: EngineConfig) -> TableHead:
    """The state at `version` without files. It may belong to a table that this engine cannot read."""
    failures: list[CorruptTableError | ObjectNotFoundError] = []
    for segment in _proposals(store, version):
        opened = _open(store, segment, config, failures)
        if opened is not None:
            return opened.head
    raise _explain(failures[0])


def scan_log_files(store: ObjectStore, log_files: tuple[LogFile, ...], config: EngineConfig) -> CommitScan:
    """Read commits and compacted files in order."""
    scan = CommitScan(config)
    read = partial(store.read, max_bytes=config.max_commit_bytes)
    paths = [log_file.file.path for log_file in log_files]
    for log_file, data in zip(log_files, prefetch(read, paths, ahead=choose_read_ahead(store)), strict=True):
        scan.read(data, version=log_file.end_version, source=log_file.file.path)
    return scan


def _proposals(store: ObjectStore, version: int | None) -> Iterator[Segment]:
    listing = find_log(store, version=version)
    yield from _tries(listing, version, store.url)
    # All of it failed. The hint may have hidden older files, and a cleanup may have run since the listing.
    refreshed = list_log(store)
    if refreshed != listing:
        yield from _tries(refreshed, version, store.url)


def _tries(listing: LogListing, version: int | None, table_url: str) -> Iterator[Segment]:
    return islice(segments(listing, version=version, table_url=table_url), _MAX_TRIES)


def _open(
    store: ObjectStore, segment: Segment, config: EngineConfig, failures: list[CorruptTableError | ObjectNotFoundError]
) -> _Opened | None:
    try:
        scan = scan_log_files(store, segment.log_files, config)
        checkpoint = None if segment.checkpoint is None else open_checkpoint(store, segment.checkpoint, config)
        small = scan.small if checkpoint is None else scan.small.after(checkpoint.small)
        small.ensure_well_formed()
    except _Unusable as error:
        failures.append(error)
        return None
    return _Opened(_head(segment, small, store.url), scan, checkpoint)


def _explain(failure: CorruptTableError | ObjectNotFoundError) -> CorruptTableError:
    if isinstance(failure, CorruptTableError):
        return failure
    error = CorruptTableError(
        f"a file that the log names or listed is gone: {failure}", error_class="DELTA_LOG_FILE_NOT_FOUND"
    )
    error.__cause__ = failure
    return error


def _head(segment: Segment, small: SmallActions, table_url: str) -> TableHead:
    protocol, metadata = small.protocol, small.metadata
    if protocol is None or metadata is None:
        missing = "protocol" if protocol is None else "metaData"
        raise CorruptTableError(
            f"the log of {table_url} has no '{missing}' action at version {segment.version}; every table has one",
            error_class="DELTA_STATE_RECOVER_ERROR",
        )
    ends_with_commit = bool(segment.log_files) and not segment.log_files[-1].is_compacted
    return TableHead(
        segment=segment,
        protocol=protocol,
        metadata=metadata,
        transactions=small.transactions,
        domain_metadata={name: domain for name, domain in small.domain_metadata.items() if not domain.removed},
        commit_info=small.commit_info if ends_with_commit else None,
    )


def _replay(
    store: ObjectStore,
    opened: _Opened,
    failures: list[CorruptTableError | ObjectNotFoundError],
    *,
    allow_repeats: bool,
) -> TableState | None:
    try:
        live, malformed = LiveFiles(), MalformedFileActions()
        if opened.checkpoint is not None:
            batches = opened.checkpoint.live_files(malformed)
            live = LiveFiles.of_checkpoint(batches, store.url, allow_repeats=allow_repeats)
        adds, removes = opened.scan.file_actions()
        malformed.ensure_replaced([(adds.batches, adds.versions), (removes.batches, removes.versions)])
        live = live.replay(adds, removes, store.url, allow_repeats=allow_repeats)
        return TableState(opened.head, live, removes)
    except _Unusable as error:
        failures.append(error)
        return None
