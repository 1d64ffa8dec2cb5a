"""Which files of the log may be deleted, and when?

History older than the table's retention goes, but only below a checkpoint that was just read and found complete: every
version from that checkpoint on stays readable, by version and by time. The rules are those of "Metadata Cleanup" in
PROTOCOL.md, read strictly:

- the newest commit that is not younger than the cutoff (midnight UTC) stays, and everything after it;
- the boundary is the newest checkpoint at or below that commit; it stays, and so does its commit;
- a version whose commit time depends on older commits is no boundary: time travel would give another answer;
- with checkpoint protection, all protected versions go at once or none;
- a sidecar goes when no remaining checkpoint names it and it is too old to belong to one being written.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, ObjectNotFoundError, RequestError
from ebbtide.log.checkpoint import open_checkpoint
from ebbtide.log.commit_times import file_times, in_commit_times, read_commit_info
from ebbtide.log.listing import CheckpointFiles, LogListing, last_checkpoint_version, list_log
from ebbtide.log.replay import LiveFiles
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.features import ensure_writable
from ebbtide.protocol.json_fields import INT64_MAX
from ebbtide.protocol.log_names import (
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    CheckpointName,
    CommitName,
    CompactedName,
    LogName,
    V2CheckpointName,
    parse_log_name,
)
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["clean_expired_log", "clean_up_log", "truncate_log"]

_DAY_MS: Final = 86_400_000
_MINUTE_MS: Final = 60_000
# Each try reads a whole checkpoint; a table full of broken ones can wait for the next cleanup.
_MAX_TRIES: Final = 3


def clean_up_log(
    snapshot: Snapshot, *, config: EngineConfig, now_ms: int | None = None, dry_run: bool = False
) -> tuple[str, ...]:
    """Delete expired log files and return their paths: none when there is nothing to do or it is not allowed.

    `dry_run` returns the same paths and deletes nothing. UnsupportedFeatureError when the table has a feature whose
    writer rules Ebbtide does not know.
    """
    properties = snapshot.properties
    if not properties.enable_expired_log_cleanup:
        return ()
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    cutoff_ms = _midnight(now_ms - properties.log_retention_ms)
    return _delete_below(snapshot, cutoff_ms, now_ms, config=config, dry_run=dry_run)


def truncate_log(snapshot: Snapshot, *, retention_ms: int, config: EngineConfig, now_ms: int) -> tuple[str, ...]:
    """Delete log files that are older than `retention_ms`, whatever the table's properties say of its history.

    For a caller who was told to: otherwise as `clean_up_log`, with a cutoff at the full minute.
    """
    cutoff_ms = (now_ms - retention_ms) // _MINUTE_MS * _MINUTE_MS
    return _delete_below(snapshot, cutoff_ms, now_ms, config=config, dry_run=False)


def _delete_below(
    snapshot: Snapshot, cutoff_ms: int, now_ms: int, *, config: EngineConfig, dry_run: bool
) -> tuple[str, ...]:
    ensure_writable(snapshot.protocol, snapshot.metadata)
    if not _has_expired(snapshot.store, cutoff_ms):
        return ()
    boundary = _boundary(snapshot, cutoff_ms, config)
    if boundary is None or boundary < snapshot.properties.require_checkpoint_protection_before_version:
        return ()
    expired = [(name, meta.path) for name, meta in _log_files(snapshot.store) if _is_below(name, boundary)]
    if not dry_run:
        _delete(snapshot.store, expired)
    deleted = [path for _, path in expired]
    if any(isinstance(name, (CheckpointName, V2CheckpointName)) for name, _ in expired):
        sidecars = _unnamed_sidecars(snapshot.store, boundary, min(cutoff_ms, _midnight(now_ms - _DAY_MS)), config)
        if not dry_run:
            _delete_each(snapshot.store, sidecars)
        deleted += sidecars
    return tuple(deleted)


def clean_expired_log(
    snapshot: Snapshot, *, config: EngineConfig, now_ms: int | None = None, dry_run: bool = False
) -> tuple[str, ...]:
    """`clean_up_log` for a caller who asks for it: RequestError when the table does not allow it."""
    if not snapshot.properties.enable_expired_log_cleanup:
        raise RequestError(
            f"The table at {snapshot.store.url} keeps its whole history: delta.enableExpiredLogCleanup is false. Set "
            "it to true first, if old versions may go."
        )
    return clean_up_log(snapshot, config=config, now_ms=now_ms, dry_run=dry_run)


def _midnight(timestamp_ms: int) -> int:
    return timestamp_ms // _DAY_MS * _DAY_MS


def _log_files(store: ObjectStore) -> Iterator[tuple[LogName, ObjectMeta]]:
    for meta in store.list_directory(LOG_DIRECTORY):
        name = parse_log_name(meta.path.rpartition("/")[2])
        if name is not None:
            yield name, meta


def _has_expired(store: ObjectStore, cutoff_ms: int) -> bool:
    """Whether the oldest log file is old enough; most commits need no more of the listing."""
    first = next(_log_files(store), None)
    return first is not None and first[1].last_modified_ms <= cutoff_ms


def _is_below(name: LogName, boundary: int) -> bool:
    if isinstance(name, CompactedName):
        # One that begins at the boundary is not needed for any later version.
        return name.version <= boundary
    return name.version < boundary


def _boundary(snapshot: Snapshot, cutoff_ms: int, config: EngineConfig) -> int | None:
    """The version of the checkpoint below which everything may go, if there is one."""
    store = snapshot.store
    listing = list_log(store)
    newest = _newest_at(snapshot, listing, cutoff_ms, config)
    hint = last_checkpoint_version(store)
    # Readers go where the hint points, so what it points at must stay.
    if newest is None or hint is None:
        return None
    usable = [
        files
        for files in listing.checkpoints
        if files.version <= min(newest, hint) and _keeps_its_time(snapshot, listing, files.version)
    ]
    return next((files.version for files in usable[:_MAX_TRIES] if _is_whole(store, files, config)), None)


def _newest_at(snapshot: Snapshot, listing: LogListing, cutoff_ms: int, config: EngineConfig) -> int | None:
    """The newest commit that is not younger than the cutoff, by file time and by in-commit timestamp."""
    by_file = file_times(listing.commits)
    versions = sorted(by_file)
    versions = versions[: bisect_right(versions, cutoff_ms, key=by_file.__getitem__)]
    times = in_commit_times(snapshot.protocol, snapshot.metadata)
    if times is not None:

        def time_of(version: int) -> int:
            if version < times.first_version:
                return by_file[version]
            info = read_commit_info(snapshot.store, listing.commits[version], config)
            timestamp = None if info is None else info.in_commit_timestamp
            return INT64_MAX if timestamp is None else timestamp

        versions = versions[: bisect_right(versions, cutoff_ms, key=time_of)]
    return versions[-1] if versions else None


def _keeps_its_time(snapshot: Snapshot, listing: LogListing, version: int) -> bool:
    """Whether the version's commit is there and its time is its own, not moved forward by an older commit."""
    commit = listing.commits.get(version)
    if commit is None:
        return False
    times = in_commit_times(snapshot.protocol, snapshot.metadata)
    if times is not None and version >= times.first_version:
        return True
    return file_times(listing.commits)[version] == commit.last_modified_ms


def _is_whole(store: ObjectStore, files: CheckpointFiles, config: EngineConfig) -> bool:
    try:
        checkpoint = open_checkpoint(store, files, config)
        LiveFiles.of_checkpoint(checkpoint.live_files(), store.url)
        checkpoint.tombstones()
        small = checkpoint.small
        # Commits may have replaced a malformed action, but older versions would be left without it.
        small.ensure_well_formed()
        return small.protocol is not None and small.metadata is not None
    except (CorruptTableError, ObjectNotFoundError):
        return False


def _delete(store: ObjectStore, expired: list[tuple[LogName, str]]) -> None:
    # The oldest commit goes first and alone: while it exists the log counts as complete from there on.
    first = next((path for name, path in expired if isinstance(name, CommitName)), None)
    if first is not None:
        store.delete(first)
    _delete_each(store, [path for _, path in expired if path != first])


def _delete_each(store: ObjectStore, paths: list[str]) -> None:
    for _ in prefetch(store.delete, paths, ahead=choose_read_ahead(store)):
        pass


def _unnamed_sidecars(store: ObjectStore, boundary: int, oldest_kept_ms: int, config: EngineConfig) -> list[str]:
    """The old sidecars that no checkpoint from the boundary on names."""
    candidates = [
        meta.path for meta in store.list_directory(SIDECAR_DIRECTORY) if meta.last_modified_ms < oldest_kept_ms
    ]
    if not candidates:
        return []
    # An unreadable checkpoint may name any of them: its error ends the cleanup here.
    kept = [files for files in list_log(store).checkpoints if files.version >= boundary]
    named = {path for files in kept for path in open_checkpoint(store, files, config).sidecar_paths}
    return [path for path in candidates if path not in named]
