"""In which order does a log go, so that nobody ever reads a part of the table for the whole?

A version is read from a starting point, which is the first commit or a checkpoint, and the commits after it. So the
starting points go first, the newest of them last: until then the newest version is whole, and after it there is none.
The newest commit stays long enough that no older version is ever the newest. All other files follow when the data is
gone. A note in the log says what is going on, and is the last thing to go: whoever finds it knows that the rest has to
go too. To other engines, a table in this state has a log that was cut off at the front.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import orjson

from ebbtide.config import EngineConfig
from ebbtide.errors import ConcurrentWriteException, CorruptTableError, ObjectNotFoundError
from ebbtide.log.listing import list_log
from ebbtide.protocol.json_fields import JsonFields, load_json_object
from ebbtide.protocol.log_names import DROP_NOTE, LOG_DIRECTORY, log_path
from ebbtide.storage import ObjectStore

__all__ = ["delete_log", "end_versions", "noted_names", "write_note"]

_NOTE: Final = log_path(DROP_NOTE)
_BATCH: Final = 1000


def write_note(store: ObjectStore, names: Collection[str]) -> None:
    """Say that the table is being dropped; `names` are files that later only this note can vouch for."""
    store.put(_NOTE, orjson.dumps({"names": sorted(names)}))


def noted_names(store: ObjectStore, config: EngineConfig) -> frozenset[str]:
    """The names in the note of a DROP TABLE that did not finish; none when there is no such note."""
    try:
        data = store.read(_NOTE, max_bytes=config.max_commit_bytes)
        names = JsonFields(load_json_object(data, source=_NOTE), subject=_NOTE).optional_strings("names")
    except (ObjectNotFoundError, CorruptTableError):
        return frozenset()
    return frozenset(names or ())


def end_versions(store: ObjectStore) -> None:
    """Delete every starting point, the newest last. Afterwards no version can be read."""
    listing = list_log(store)
    newest = listing.checkpoints[0].version if listing.checkpoints else -1
    first = [*(run.file for run in listing.compacted if run.version == 0)]
    if 0 in listing.commits:
        first.append(listing.commits[0])
    older = [file for files in listing.checkpoints if files.version < newest for file in files.files]
    last = [file for files in listing.checkpoints if files.version == newest for file in files.files]
    _delete(store, [meta.path for meta in (*older, *first)])
    _delete(store, [meta.path for meta in last])


def delete_log(store: ObjectStore) -> None:
    """Delete what is left of the log, and the note as the very last."""
    if 0 in list_log(store).commits:
        raise ConcurrentWriteException(
            f"Somebody created a table at {store.url} while the one that was there was being dropped. The new log was "
            "left alone; look at both, and run DROP TABLE again if the new one is to go too."
        )
    # A writer that was still at work may have left a checkpoint.
    end_versions(store)
    _delete(store, [meta.path for meta in store.list(LOG_DIRECTORY) if meta.path != _NOTE])
    _delete(store, [_NOTE])


def _delete(store: ObjectStore, paths: Iterable[str]) -> None:
    waiting = list(paths)
    for start in range(0, len(waiting), _BATCH):
        for error in store.delete_all(waiting[start : start + _BATCH]).values():
            raise error
