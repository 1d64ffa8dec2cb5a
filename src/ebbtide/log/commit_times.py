"""When was each version committed, and which version was current at a given time?

Two clocks exist. With in-commit timestamps (from the version that enabled them on), the commit states its own time.
Without them, it is the time of the commit file, moved forward where needed so that times increase by at least a
millisecond per version. See "In-Commit Timestamps" in PROTOCOL.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import CorruptTableError, VersionNotFoundError
from ebbtide.log.commit_scan import CommitScan
from ebbtide.log.listing import list_log
from ebbtide.log.segment import earliest_version
from ebbtide.log.table_state import TableHead, read_head
from ebbtide.protocol.actions import CommitInfo, Metadata, Protocol
from ebbtide.protocol.features import supported_features
from ebbtide.protocol.properties import TableProperties
from ebbtide.storage.store import ObjectMeta, ObjectStore

__all__ = ["InCommitTimes", "file_times", "first_version_since", "in_commit_times", "read_commit_info"]
__all__ += ["newest_commit_at", "snapshot_timestamp_ms", "version_at_timestamp"]

# commitInfo comes first in commits that carry their time; it nearly always fits into this much.
_FIRST_READ_BYTES = 16 * 1024
_FEATURE_NAMES = frozenset({"inCommitTimestamp", "inCommitTimestamp-preview"})
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class InCommitTimes:
    """In-commit timestamps count from `first_version`, which was committed at `first_timestamp_ms` where recorded."""

    first_version: int
    first_timestamp_ms: int | None


def in_commit_times(protocol: Protocol, metadata: Metadata) -> InCommitTimes | None:
    """From which version on commits carry their own time; None when they do not."""
    properties = TableProperties.parse(metadata.configuration)
    if _FEATURE_NAMES.isdisjoint(supported_features(protocol)) or not properties.enable_in_commit_timestamps:
        return None
    # Without the provenance properties they were on from the first commit.
    return InCommitTimes(
        properties.in_commit_timestamp_enablement_version or 0, properties.in_commit_timestamp_enablement_timestamp
    )


def file_times(commits: dict[int, ObjectMeta]) -> dict[int, int]:
    """File times of the commits in ascending order, each at least a millisecond after the one before."""
    times: dict[int, int] = {}
    previous: int | None = None
    for version in sorted(commits):
        time = commits[version].last_modified_ms
        previous = time if previous is None else max(time, previous + 1)
        times[version] = previous
    return times


def read_commit_info(store: ObjectStore, meta: ObjectMeta, config: EngineConfig) -> CommitInfo | None:
    """The commitInfo of a commit file, wherever in the file it is."""
    scan = CommitScan(config)
    head = store.read_range(meta.path, 0, _FIRST_READ_BYTES)
    line, newline, _ = head.partition(b"\n")
    if newline and b'"commitInfo"' in line:
        scan.read(line, version=0, source=meta.path)
    if scan.small.commit_info is None:
        data = store.read(meta.path, max_bytes=config.max_commit_bytes)
        lines = [line for line in data.split(b"\n") if b'"commitInfo"' in line]
        scan.read(b"\n".join(lines), version=0, source=meta.path)
    return scan.small.commit_info


def snapshot_timestamp_ms(store: ObjectStore, head: TableHead, config: EngineConfig) -> int:
    """When the version was committed: its in-commit timestamp if it has one, else its file's time."""
    segment = head.segment
    times = in_commit_times(head.protocol, head.metadata)
    if times is not None and segment.version >= times.first_version:
        info = head.commit_info
        if info is None and segment.commit is not None:
            info = read_commit_info(store, segment.commit, config)
        if info is not None and info.in_commit_timestamp is not None:
            return info.in_commit_timestamp
    if segment.commit is not None:
        return segment.commit.last_modified_ms
    return segment.checkpoint.files[0].last_modified_ms if segment.checkpoint else 0


def version_at_timestamp(store: ObjectStore, timestamp_ms: int, *, config: EngineConfig = DEFAULT_CONFIG) -> int:
    """The newest version committed at or before `timestamp_ms`.

    VersionNotFoundError when that is before the oldest version that can be rebuilt or, as in the reference, after the
    newest commit: a time that has not been reached yet has no final answer.
    """
    versions, time_of = _dated_versions(store, config)
    if timestamp_ms > time_of(versions[-1]):
        raise _too_late(store, timestamp_ms, versions[-1], time_of)
    position = bisect_right(versions, timestamp_ms, key=time_of)
    if position == 0:
        raise VersionNotFoundError(
            f"the timestamp {_format_time(timestamp_ms)} is before the oldest version that is still available of the "
            f"table at {store.url}, version {versions[0]} at {_format_time(time_of(versions[0]))}",
            error_class="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        )
    return versions[position - 1]


def first_version_since(store: ObjectStore, timestamp_ms: int, *, config: EngineConfig = DEFAULT_CONFIG) -> int:
    """The oldest version that is still available and was committed at or after `timestamp_ms`.

    VersionNotFoundError when every commit is older.
    """
    versions, time_of = _dated_versions(store, config)
    if timestamp_ms > time_of(versions[-1]):
        raise _too_late(store, timestamp_ms, versions[-1], time_of)
    return versions[bisect_left(versions, timestamp_ms, key=time_of)]


def newest_commit_at(
    store: ObjectStore, timestamp_ms: int, times: InCommitTimes | None, config: EngineConfig
) -> int | None:
    """The newest commit that was made at or before `timestamp_ms`, whether or not its version can be rebuilt."""
    commits = list_log(store).commits
    time_of = _clock(store, commits, times, config)
    versions = sorted(commits)
    position = bisect_right(versions, timestamp_ms, key=time_of)
    return versions[position - 1] if position else None


def _dated_versions(store: ObjectStore, config: EngineConfig) -> tuple[list[int], Callable[[int], int]]:
    """The versions that can be rebuilt and have a commit file, oldest first, and the time of each."""
    listing = list_log(store)
    head = read_head(store, version=None, config=config)
    earliest = earliest_version(listing) or 0
    commits = {version: meta for version, meta in listing.commits.items() if version >= earliest}
    if not commits:
        raise VersionNotFoundError(
            f"the table at {store.url} has no commits left that say when they were made; "
            f"read it by version ({head.segment.version})"
        )
    times = in_commit_times(head.protocol, head.metadata)
    return sorted(commits), _clock(store, commits, times, config)


def _too_late(
    store: ObjectStore, timestamp_ms: int, newest: int, time_of: Callable[[int], int]
) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"the timestamp {_format_time(timestamp_ms)} is after the newest commit of the table at {store.url}, version "
        f"{newest} at {_format_time(time_of(newest))}; use that time or read the newest version",
        error_class="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
    )


def _clock(
    store: ObjectStore, commits: dict[int, ObjectMeta], times: InCommitTimes | None, config: EngineConfig
) -> Callable[[int], int]:
    """The time of a version. Only the commits that a search looks at are read."""
    by_file = file_times(commits if times is None else {v: m for v, m in commits.items() if v < times.first_version})
    known: dict[int, int] = {}

    def time_of(version: int) -> int:
        if version in by_file:
            time = by_file[version]
            # A file copied later may be younger than the first in-commit timestamp, but its commit came before.
            limit = times.first_timestamp_ms if times else None
            return time if limit is None else min(time, limit - 1)
        if version not in known:
            known[version] = _in_commit_timestamp(store, commits[version], config)
        return known[version]

    return time_of


def _in_commit_timestamp(store: ObjectStore, meta: ObjectMeta, config: EngineConfig) -> int:
    info = read_commit_info(store, meta, config)
    timestamp = None if info is None else info.in_commit_timestamp
    if timestamp is None:
        raise CorruptTableError(
            f"{meta.path} has no in-commit timestamp, although the table's properties ask for one",
            error_class="DELTA_MISSING_COMMIT_TIMESTAMP",
        )
    return timestamp


def _format_time(timestamp_ms: int) -> str:
    try:
        return f"{(_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec='milliseconds')} ({timestamp_ms})"
    except OverflowError:
        return f"{timestamp_ms} ms"
