"""Which files does the log itself say are no longer needed?

VACUUM LITE lists nothing: it reads the commits that left the retention since the last VACUUM, and takes the files and
vectors that they removed, and their change data. It cannot find what no commit names, such as files of failed writers.
The file `_last_vacuum_info` in the log directory says how far the last VACUUM came. It is a hint: one that makes no
sense counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import orjson

from ebbtide.commands.vacuum.protected import ProtectedPaths, hash_path, vector_path
from ebbtide.commands.vacuum.survey import Findings
from ebbtide.errors import CorruptTableError, ObjectNotFoundError, RequestError
from ebbtide.log import Snapshot, read_commit
from ebbtide.log.commit_times import in_commit_times, newest_commit_at
from ebbtide.log.listing import list_log
from ebbtide.protocol.actions import Action, AddCDCFile, RemoveFile
from ebbtide.protocol.json_fields import JsonFields, load_json_object
from ebbtide.protocol.log_names import LAST_VACUUM_INFO, LOG_DIRECTORY, log_path
from ebbtide.protocol.paths import resolve_data_path
from ebbtide.storage import ObjectStore, is_local
from ebbtide.storage.prefetch import choose_read_ahead, prefetch
from ebbtide.storage.unlinked import look_at_file

__all__ = ["expired_commits", "find_in_log", "write_last_vacuum_info"]

_FIELD: Final = "latestCommitVersionOutsideOfRetentionWindow"
_MAX_INFO_BYTES: Final = 1024 * 1024


def expired_commits(snapshot: Snapshot, cutoff_ms: int) -> int | None:
    """The newest version that was committed before the cutoff, and so lies outside of the retention."""
    times = in_commit_times(snapshot.protocol, snapshot.metadata)
    return newest_commit_at(snapshot.store, cutoff_ms, times, snapshot.config)


def find_in_log(snapshot: Snapshot, protected: ProtectedPaths, cutoff_ms: int, newest: int | None) -> Findings:
    """The files that commits up to `newest` removed and no kept action needs.

    RequestError when commits that would have to be read were cleaned up.
    """
    found = Findings(num_directories=1)
    versions = _versions_to_read(snapshot, newest)
    read = partial(read_commit, snapshot.store, config=snapshot.config)
    seen: set[int] = set()
    for actions in prefetch(read, versions, ahead=choose_read_ahead(snapshot.store)):
        removed = {
            path: size for path, size in _removed_files(actions, snapshot.store, cutoff_ms) if path not in protected
        }
        # Many commits may have removed files with vectors in one file.
        new = {path: size for path, size in removed.items() if hash_path(path) not in seen}
        seen |= {hash_path(path) for path in new}
        found.files.extend(_still_there(snapshot.store, new, cutoff_ms))
        found.num_objects += len(new)
    return found


def write_last_vacuum_info(store: ObjectStore, newest: int | None) -> None:
    store.put(log_path(LAST_VACUUM_INFO), orjson.dumps({} if newest is None else {_FIELD: newest}) + b"\n")


def _versions_to_read(snapshot: Snapshot, newest: int | None) -> list[int]:
    if newest is None:
        return []
    commits = list_log(snapshot.store).commits
    earliest = min(commits)
    last = _last_vacuum(snapshot.store)
    start = earliest if last is None else last + 1
    missing = next((version for version in range(min(start, newest), newest + 1) if version not in commits), None)
    if (last is None and earliest != 0) or (missing is not None and missing >= start):
        gone = 0 if last is None else missing
        raise RequestError(
            f"VACUUM LITE of {snapshot.store.url} needs version {gone} of the log, which was cleaned up; it would miss "
            "the files that were removed there. Run VACUUM FULL.",
            error_class="DELTA_CANNOT_VACUUM_LITE",
        )
    return list(range(start, newest + 1))


def _last_vacuum(store: ObjectStore) -> int | None:
    source = log_path(LAST_VACUUM_INFO)
    try:
        data = store.read(source, max_bytes=_MAX_INFO_BYTES)
        return JsonFields(load_json_object(data, source=source), subject=LAST_VACUUM_INFO).optional_integer(_FIELD)
    except (CorruptTableError, ObjectNotFoundError):
        return None


def _removed_files(actions: list[Action], store: ObjectStore, cutoff_ms: int) -> Iterator[tuple[str, int]]:
    for action in actions:
        if isinstance(action, AddCDCFile):
            yield from _inside(action.path, action.size, store)
        elif isinstance(action, RemoveFile) and (action.deletion_timestamp or 0) < cutoff_ms:
            yield from _inside(action.path, action.size or 0, store)
            vector = action.deletion_vector
            path = None if vector is None else vector_path(vector, store)
            if vector is not None and path is not None:
                yield path, vector.size_in_bytes


def _inside(encoded_path: str, size: int, store: ObjectStore) -> Iterator[tuple[str, int]]:
    path = resolve_data_path(encoded_path, store.url, allow_foreign=True).relative_path
    # A log may say anything, but its own directory is never data.
    if path is not None and path.partition("/")[0] != LOG_DIRECTORY:
        yield path, size


def _still_there(store: ObjectStore, sizes: dict[str, int], cutoff_ms: int) -> list[tuple[str, int]]:
    if not is_local(store):
        # A request for each would cost more than deleting what is gone already.
        return list(sizes.items())
    metas = [look_at_file(store, path) for path in sizes]
    return [(meta.path, meta.size) for meta in metas if meta is not None and meta.last_modified_ms < cutoff_ms]
