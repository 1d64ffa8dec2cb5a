"""How do many commits become one file that readers can use in their place?

`x.y.compacted.json` holds what the commits from x to y mean together: the newest action about each file, application
and domain, and the newest protocol and metadata. Tombstones stay, so that what the commits removed is removed. What
only describes a commit, its provenance and its change data, is left out. The commits themselves stay: time travel and
the change feed read them. See "Log Compaction Files" and "Action Reconciliation" in PROTOCOL.md.

Actions are copied as they were written, fields that we do not know included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ebbtide.errors import CorruptTableError, ObjectExistsError, RequestError
from ebbtide.log.listing import LogListing, list_log
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    parse_commit,
)
from ebbtide.protocol.features import ensure_writable
from ebbtide.protocol.log_names import compacted_name, log_path
from ebbtide.protocol.paths import canonical_path
from ebbtide.storage.prefetch import choose_read_ahead, prefetch

__all__ = ["CompactionResult", "compact_log"]

# What distinguishes two actions that the newer of them replaces.
_Key = tuple[str, ...]
_LEFT_OUT: Final = "left out"


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The commits `version` to `end_version` in one file. `is_new` is False when there was one already."""

    version: int
    end_version: int
    path: str
    num_actions: int
    size_in_bytes: int
    is_new: bool = True


def compact_log(
    snapshot: Snapshot, start: int | None = None, end: int | None = None, *, dry_run: bool = False
) -> CompactionResult:
    """Write the commits from `start` to `end`, both included, as one file.

    By default everything since the newest checkpoint. `dry_run` reads the same and writes nothing. RequestError when
    that is fewer than two commits, or when a commit is missing; UnsupportedFeatureError when the table has a feature
    whose writer rules Ebbtide does not know.
    """
    ensure_writable(snapshot.protocol, snapshot.metadata)
    listing = list_log(snapshot.store)
    last = snapshot.version if end is None else end
    newest = next((files.version for files in listing.checkpoints if files.version <= snapshot.version), -1)
    first = newest + 1 if start is None else start
    if start is None and end is None and first >= last:
        since = "" if newest < 0 else f" since its newest checkpoint, version {newest},"
        raise RequestError(
            f"The commits of {snapshot.store.url}{since} are not a range of at least two commits, so there is nothing "
            "to compact. Give a start to compact older ones."
        )
    _check_range(snapshot, first, last, listing)
    lines = _reconcile(snapshot, range(first, last + 1))
    data = b"".join(line + b"\n" for line in lines)
    if len(data) > snapshot.config.max_commit_bytes:
        raise RequestError(
            f"The compacted log of versions {first} to {last} would be {len(data)} bytes long; readers take at most "
            f"{snapshot.config.max_commit_bytes} (EngineConfig.max_commit_bytes). Compact fewer versions."
        )
    path = log_path(compacted_name(first, last))
    result = CompactionResult(first, last, path, len(lines), len(data))
    if dry_run:
        return replace(result, is_new=all(each.file.path != path for each in listing.compacted))
    try:
        snapshot.store.put_if_absent(path, data)
    except ObjectExistsError:
        # All compactions of the same commits are equivalent, so the other writer's will do.
        return replace(result, is_new=False)
    return result


def _check_range(snapshot: Snapshot, first: int, last: int, listing: LogListing) -> None:
    if not 0 <= first < last <= snapshot.version:
        raise RequestError(
            f"Versions {first} to {last} of {snapshot.store.url} are not a range of at least two commits; the newest "
            f"version is {snapshot.version}. Give a start below an end that exists."
        )
    missing = next((version for version in range(first, last + 1) if version not in listing.commits), None)
    if missing is not None:
        raise RequestError(
            f"The commit of version {missing} of {snapshot.store.url} was cleaned up, so versions {first} to {last} "
            f"cannot be compacted. Start after {missing}."
        )


def _reconcile(snapshot: Snapshot, versions: range) -> list[bytes]:
    """The newest action of each kind and file, as lines, protocol and metadata first."""
    newest: dict[_Key, bytes] = {}
    store, config = snapshot.store, snapshot.config
    paths = [log_path(f"{version:020d}.json") for version in versions]
    read = partial(store.read, max_bytes=config.max_commit_bytes)
    for path, data in zip(paths, prefetch(read, paths, ahead=choose_read_ahead(store)), strict=True):
        newest |= _of_commit(_lines(data, path, config.max_log_line_bytes), store.url, path)
    order = {"protocol": 0, "metaData": 1}
    return [newest[key] for key in sorted(newest, key=lambda key: order.get(key[0], 2))]


def _lines(data: bytes, source: str, max_line_bytes: int) -> Iterator[tuple[Action, bytes]]:
    for line in data.split(b"\n"):
        for action in parse_commit(line, source=source, max_line_bytes=max_line_bytes):
            yield action, line


def _of_commit(lines: Iterator[tuple[Action, bytes]], table_url: str, source: str) -> dict[_Key, bytes]:
    found: dict[_Key, tuple[Action, bytes]] = {}
    for action, line in lines:
        key = _key(action, table_url)
        if key[0] == _LEFT_OUT:
            continue
        known = found.get(key)
        if known is not None and not _may_repeat(known[0], action):
            raise CorruptTableError(
                f"{source} says two different things about {' '.join(key)}; which of them holds is undefined",
                error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
            )
        if known is None or not _is_older(action, known[0]):
            found[key] = (action, line)
    return {key: line for key, (_, line) in found.items()}


def _key(action: Action, table_url: str) -> _Key:
    match action:
        case AddFile() | RemoveFile():
            return ("file", canonical_path(action.path, table_url), action.dv_id or "")
        case SetTransaction():
            return ("txn", action.app_id)
        case DomainMetadata():
            return ("domainMetadata", action.domain)
        case Protocol():
            return ("protocol",)
        case Metadata():
            return ("metaData",)
        case _:
            return (_LEFT_OUT,)


def _may_repeat(known: Action, action: Action) -> bool:
    both_transactions = isinstance(known, SetTransaction) and isinstance(action, SetTransaction)
    return known == action or both_transactions


def _is_older(action: Action, known: Action) -> bool:
    return isinstance(action, SetTransaction) and isinstance(known, SetTransaction) and action.version < known.version
