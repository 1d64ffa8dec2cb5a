"""What does the log of a table on disk say, read by hand?

For checks that must not lean on the code under test: commits are parsed with `json`, replayed by the rule of the
protocol in a dozen lines, and deletion vectors are unpacked with `struct` and `pyroaring`. Local tables whose commits are
all there; checkpoints are not looked at.
"""

from __future__ import annotations

import base64
import json
import string
import struct
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyroaring import BitMap64

__all__ = [
    "LogState",
    "actions_of",
    "commit_info",
    "data_file",
    "files_with_vectors",
    "log_state",
    "newest_version",
    "physical_rows",
    "read_commit",
    "stats_of",
    "vector_file",
    "vector_id",
    "vector_rows",
]

Json = dict[str, Any]
MAGIC = 1681511377
UUID_CHARACTERS = 20
# Same arithmetic, other alphabet (see `tests/support/deletion_vector_files.py`).
_RFC1924 = (string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~").encode()
_Z85 = (string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#").encode()
_FROM_Z85 = bytes.maketrans(_Z85, _RFC1924)


@dataclass
class LogState:
    """What is live at a version. A file is known by its path and the id of its vector."""

    version: int
    live: dict[tuple[str, str | None], Json] = field(default_factory=dict)
    protocol: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)

    @property
    def adds(self) -> list[Json]:
        return list(self.live.values())

    @property
    def configuration(self) -> dict[str, str]:
        return self.metadata["configuration"]


def newest_version(table: Path) -> int:
    return max(int(file.stem) for file in (table / "_delta_log").glob("*.json") if file.stem.isdigit())


def read_commit(table: Path, version: int) -> list[Json]:
    """The actions of one version, in the order of the file."""
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def actions_of(table: Path, version: int, kind: str) -> list[Json]:
    """The bodies of the `add`, `remove`, `cdc`, ... actions of one version."""
    return [action[kind] for action in read_commit(table, version) if kind in action]


def commit_info(table: Path, version: int) -> Json:
    [info] = actions_of(table, version, "commitInfo")
    return info


def log_state(table: Path, version: int | None = None) -> LogState:
    """Replay the commits up to a version (the newest unless named)."""
    state = LogState(newest_version(table) if version is None else version)
    for number in range(state.version + 1):
        commit = read_commit(table, number)
        # Within one commit the order has no meaning, so what is removed goes first.
        for kind in ("remove", "add"):
            for body in (action[kind] for action in commit if kind in action):
                key = (body["path"], vector_id(body.get("deletionVector")))
                state.live.pop(key, None)
                if kind == "add":
                    state.live[key] = body
        for action in commit:
            state.protocol = action.get("protocol", state.protocol)
            state.metadata = action.get("metaData", state.metadata)
            if "txn" in action:
                state.transactions[action["txn"]["appId"]] = action["txn"]["version"]
    return state


def stats_of(action: Json) -> Json:
    return json.loads(action["stats"]) if action.get("stats") else {}


# --- files ------------------------------------------------------------------------------------------------------------


def data_file(table: Path, action: Json) -> Path:
    """Where the data file of an action lies; a path of its own is relative to the table or a `file:` URL."""
    parts = urlsplit(action["path"])
    return Path(unquote(parts.path)) if parts.scheme == "file" else table / unquote(action["path"])


def physical_rows(table: Path, action: Json) -> int:
    """Rows in the file, by its footer."""
    return pq.read_metadata(data_file(table, action)).num_rows


# --- deletion vectors -------------------------------------------------------------------------------------------------


def vector_id(descriptor: Json | None) -> str | None:
    if descriptor is None:
        return None
    offset = descriptor.get("offset")
    return descriptor["storageType"] + descriptor["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")


def vector_file(table: Path, descriptor: Json) -> Path | None:
    """The file that holds a vector; None for one that stands in the log itself."""
    text = descriptor["pathOrInlineDv"]
    match descriptor["storageType"]:
        case "i":
            return None
        case "p":
            return Path(unquote(urlsplit(text).path))
    prefix, encoded = text[:-UUID_CHARACTERS], text[-UUID_CHARACTERS:]
    return table / prefix / f"deletion_vector_{uuid.UUID(bytes=_z85_decoded(encoded))}.bin"


def vector_rows(table: Path, action: Json) -> BitMap64:
    """The rows that an action's vector marks, every check of the format made; none when it has no vector."""
    descriptor = action.get("deletionVector")
    if descriptor is None:
        return BitMap64()
    file = vector_file(table, descriptor)
    size = descriptor["sizeInBytes"]
    data = _z85_decoded(descriptor["pathOrInlineDv"])[:size] if file is None else _read_frame(file, descriptor)
    assert len(data) == size
    assert struct.unpack_from("<i", data)[0] == MAGIC
    rows = BitMap64.deserialize(data[4:])
    assert len(rows) == descriptor["cardinality"], f"{descriptor} marks {len(rows)} rows"
    return rows


def _read_frame(file: Path, descriptor: Json) -> bytes:
    content, offset, size = file.read_bytes(), descriptor["offset"], descriptor["sizeInBytes"]
    assert content[0] == 1, f"{file} has version {content[0]}"
    assert struct.unpack_from(">i", content, offset)[0] == size
    data = content[offset + 4 : offset + 4 + size]
    assert struct.unpack_from(">I", content, offset + 4 + size)[0] == zlib.crc32(data), f"checksum in {file}"
    return data


def _z85_decoded(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(_FROM_Z85))


def files_with_vectors(state: LogState) -> Iterator[Json]:
    return (add for add in state.adds if add.get("deletionVector") is not None)
