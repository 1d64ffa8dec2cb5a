"""Is every commit of the log there and readable, and is the change data that it names?

Commits are read in parallel, and only a few are in memory at a time. The caller knows which of them the newest version
needs: damage to the others concerns older versions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from ebbtide.commands.fsck import findings
from ebbtide.commands.fsck.findings import Finding
from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError, ObjectNotFoundError, UnsupportedFeatureError
from ebbtide.log.commit_scan import CommitScan
from ebbtide.log.listing import LogListing, list_log
from ebbtide.log.segment import earliest_version
from ebbtide.protocol.actions import AddCDCFile, parse_commit
from ebbtide.protocol.log_names import (
    LOG_DIRECTORY,
    CheckpointName,
    ChecksumName,
    commit_name,
    log_path,
    parse_log_name,
)
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectMeta, ObjectStore
from ebbtide.storage.prefetch import prefetch

__all__ = ["IncompleteCheckpoint", "LogFiles", "check_commits", "check_compacted_logs", "find_gaps", "list_log_files"]

_CHANGE_DATA: Final = b'"cdc"'


@dataclass(frozen=True, slots=True)
class IncompleteCheckpoint:
    """A multi-part checkpoint that lacks parts; `path` is that of its first part that is there."""

    version: int
    path: str
    missing_parts: tuple[int, ...]
    parts: int


@dataclass(frozen=True, slots=True)
class LogFiles:
    listing: LogListing
    incomplete: tuple[IncompleteCheckpoint, ...]
    checksums: dict[int, ObjectMeta]


def list_log_files(store: ObjectStore) -> LogFiles:
    """The whole log, and what readers pass over in it."""
    parts: dict[tuple[int, int], dict[int, str]] = {}
    checksums: dict[int, ObjectMeta] = {}
    for meta in store.list_directory(LOG_DIRECTORY):
        match parse_log_name(meta.path.rpartition("/")[2]):
            case ChecksumName(version):
                checksums[version] = meta
            case CheckpointName(version, part, total, is_multipart=True):
                parts.setdefault((version, total), {})[part] = meta.path
            case _:
                pass
    incomplete = tuple(
        IncompleteCheckpoint(version, min(found.values()), tuple(_missing(found, total)), total)
        for (version, total), found in sorted(parts.items())
        if len(found) < total
    )
    return LogFiles(list_log(store), incomplete, checksums)


def _missing(found: dict[int, str], total: int, *, at_most: int = 10) -> Iterator[int]:
    """The first missing parts; a name can claim any number of them."""
    shown = 0
    for part in range(1, total + 1):
        if part not in found:
            yield part
            shown += 1
            if shown == at_most:
                return


def find_gaps(listing: LogListing, *, needed_from: int | None) -> Iterator[Finding]:
    """Commits that are missing between others, or (from `needed_from` on) before the first.

    Commits before the oldest version that can be rebuilt do not count: a cleanup takes the log from its beginning, and
    may leave some behind.
    """
    earliest, latest = earliest_version(listing), listing.latest_version
    known = sorted(version for version in listing.commits if version >= (earliest or 0))
    if latest is None or not known:
        return
    expected = known[0] if needed_from is None or earliest is None else min(known[0], needed_from)
    for version in [*known, latest + 1]:
        if version > expected:
            path = log_path(commit_name(expected))
            is_needed = needed_from is not None and version > needed_from
            yield findings.missing_commits(expected, version - 1, path, is_needed=is_needed)
        expected = max(expected, version + 1)


def check_commits(
    store: ObjectStore,
    listing: LogListing,
    *,
    needed_from: int | None,
    change_data_since_ms: int,
    config: EngineConfig,
    on_progress: Callable[[int, int], None],
) -> Iterator[Finding]:
    """Read every commit. Change data is looked for in commits from `change_data_since_ms` on: VACUUM takes older."""
    commits = sorted(listing.commits.items())
    look = partial(_look_at_commit, store, config, needed_from, change_data_since_ms)
    for done, found in enumerate(prefetch(look, commits), start=1):
        yield from found
        on_progress(done, len(commits))


def _look_at_commit(
    store: ObjectStore,
    config: EngineConfig,
    needed_from: int | None,
    change_data_since_ms: int,
    commit: tuple[int, ObjectMeta],
) -> list[Finding]:
    version, meta = commit
    try:
        data = store.read(meta.path, max_bytes=config.max_commit_bytes)
        changes = _read_commit(data, version, meta.path, config)
    except ObjectNotFoundError:
        # The log's cleanup may run beside us, and a commit that is needed makes the table unreadable anyway.
        return []
    except CorruptTableError as error:
        is_needed = needed_from is not None and version >= needed_from
        return [findings.corrupt_commit(meta.path, version, error, is_needed=is_needed)]
    if meta.last_modified_ms < change_data_since_ms:
        return []
    return [
        findings.missing_change_data(path, version)
        for path in _change_paths(changes, store)
        if not _exists(store, path)
    ]


def _read_commit(data: bytes, version: int, source: str, config: EngineConfig) -> list[AddCDCFile]:
    """The change data files of a commit; CorruptTableError when anything in it breaks the protocol."""
    if not data.strip():
        raise CorruptTableError(f"{source} is empty")
    scan = CommitScan(config)
    scan.read(data, version=version, source=source)
    scan.small.ensure_well_formed()
    scan.file_actions()
    if _CHANGE_DATA not in data:
        return []
    lines = b"\n".join(line for line in data.split(b"\n") if _CHANGE_DATA in line)
    actions = parse_commit(lines, source=source, max_line_bytes=config.max_log_line_bytes)
    return [action for action in actions if isinstance(action, AddCDCFile)]


def _change_paths(changes: list[AddCDCFile], store: ObjectStore) -> Iterator[str]:
    for change in changes:
        try:
            path = resolve_data_path(change.path, store.url).relative_path
        except (CorruptTableError, UnsupportedFeatureError):
            continue
        if path is not None:
            yield path


def _exists(store: ObjectStore, path: str) -> bool:
    try:
        store.head(path)
    except ObjectNotFoundError:
        return False
    return True


def check_compacted_logs(store: ObjectStore, listing: LogListing, config: EngineConfig) -> Iterator[Finding]:
    for run in listing.compacted:
        path = run.file.path
        try:
            _read_commit(store.read(path, max_bytes=config.max_commit_bytes), run.end_version, path, config)
        except ObjectNotFoundError:
            continue
        except CorruptTableError as error:
            yield findings.corrupt_compacted_log(path, run.end_version, error)
