"""What does `_last_checkpoint` say, and when may it be written?

The file is a hint that lets readers start near the end of the log. It is the only log file that is overwritten, so it
only ever moves forward. A hint that points beyond the end of the log is left over from an older table in this place and
is replaced. It carries a checksum ("JSON checksum" in PROTOCOL.md) that lets readers notice a torn read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from ebbtide.log.listing import last_checkpoint_version, list_log
from ebbtide.protocol.log_names import LAST_CHECKPOINT, log_path
from ebbtide.storage.store import ObjectStore

__all__ = ["json_checksum", "write_last_checkpoint"]


def write_last_checkpoint(store: ObjectStore, hint: Mapping[str, Any]) -> bool:
    """Write the hint; False when the existing one has the same `version` or a newer one."""
    known = last_checkpoint_version(store)
    if known is not None and known >= hint["version"] and list_log(store, start_version=known).has_log_files:
        return False
    data = orjson.dumps({**hint, "checksum": json_checksum(hint)})
    store.put(log_path(LAST_CHECKPOINT), data)
    return True


def json_checksum(content: Mapping[str, Any]) -> str:
    """The MD5 digest of the canonical form of a JSON object; its own member `checksum` is not part of it."""
    entries = _canonical_entries({key: value for key, value in content.items() if key != "checksum"}, ())
    ordered = sorted(entries, key=lambda entry: entry[0].encode())
    text = ",".join(f"{path}={value}" for path, value in ordered)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _canonical_entries(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _canonical_entries(item, (*path, _quote(key)))
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from _canonical_entries(item, (*path, str(position)))
    else:
        yield "+".join(path), _quote(value) if isinstance(value, str) else orjson.dumps(value).decode()


def _quote(text: str) -> str:
    return f'"{quote(text, safe="")}"'
