"""How does a test write every form of a Delta checkpoint, without the code under test?

The actions of a table state, as dictionaries under the protocol's names, become a classic checkpoint, one of several parts,
or a V2 checkpoint (JSON or Parquet) with or without sidecars, plus the `_last_checkpoint` hint.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CHECKPOINT_KINDS", "CheckpointKind", "write_checkpoint"]

CheckpointKind = Literal["classic", "multipart", "v2-json", "v2-parquet"]
CHECKPOINT_KINDS: tuple[CheckpointKind, ...] = get_args(CheckpointKind)

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
_FILE_FIELDS = {
    "path": pa.string(),
    "partitionValues": _TEXT_MAP,
    "size": pa.int64(),
    "dataChange": pa.bool_(),
    "tags": _TEXT_MAP,
    "deletionVector": _VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
_ACTIONS = {
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
    "add": pa.struct(_FILE_FIELDS | {"modificationTime": pa.int64(), "stats": pa.string()}),
    "remove": pa.struct(_FILE_FIELDS | {"deletionTimestamp": pa.int64(), "extendedFileMetadata": pa.bool_()}),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "name": pa.string(),
            "description": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": _TEXT_MAP}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "configuration": _TEXT_MAP,
            "createdTime": pa.int64(),
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(pa.string()),
            "writerFeatures": pa.list_(pa.string()),
        }
    ),
    "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _TEXT_MAP}),
    "sidecar": pa.struct(
        {"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": _TEXT_MAP}
    ),
}
_FILE_ACTIONS = ("add", "remove")
_V2_ONLY = ("checkpointMetadata", "sidecar")


def write_checkpoint(
    log: Path,
    version: int,
    actions: list[dict[str, Any]],
    *,
    kind: CheckpointKind = "classic",
    parts: int = 2,
    sidecars: int = 0,
    hint: bool = True,
) -> list[Path]:
    """Write a checkpoint of `version` and return its top-level files."""
    prefix = f"{version:020d}.checkpoint"
    if kind == "classic":
        files = [_write_parquet(log / f"{prefix}.parquet", actions, _classic_columns())]
    elif kind == "multipart":
        names = [f"{prefix}.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1)]
        files = [_write_parquet(log / name, actions[at::parts], _classic_columns()) for at, name in enumerate(names)]
    else:
        files = [_write_v2(log, version, actions, suffix=kind.removeprefix("v2-"), sidecars=sidecars)]
    if hint:
        content = {"version": version, "size": len(actions)} | ({"parts": parts} if kind == "multipart" else {})
        (log / "_last_checkpoint").write_text(json.dumps(content), encoding="utf-8")
    return files


def _classic_columns() -> list[str]:
    return [name for name in _ACTIONS if name not in _V2_ONLY]


def _write_v2(log: Path, version: int, actions: list[dict[str, Any]], *, suffix: str, sidecars: int) -> Path:
    top: list[dict[str, Any]] = [{"checkpointMetadata": {"version": version}}]
    if sidecars:
        files = [action for action in actions if next(iter(action)) in _FILE_ACTIONS]
        top += [action for action in actions if next(iter(action)) not in _FILE_ACTIONS]
        top += [{"sidecar": _write_sidecar(log, files[at::sidecars])} for at in range(sidecars)]
    else:
        top += actions
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.{suffix}"
    if suffix == "parquet":
        return _write_parquet(path, top, list(_ACTIONS))
    path.write_text("".join(json.dumps(action) + "\n" for action in top), encoding="utf-8")
    return path


def _write_sidecar(log: Path, actions: list[dict[str, Any]]) -> dict[str, Any]:
    path = log / "_sidecars" / f"{uuid.uuid4()}.parquet"
    path.parent.mkdir(exist_ok=True)
    _write_parquet(path, actions, list(_FILE_ACTIONS))
    state = path.stat()
    return {"path": path.name, "sizeInBytes": state.st_size, "modificationTime": int(state.st_mtime * 1000)}


def _write_parquet(path: Path, actions: list[dict[str, Any]], columns: list[str]) -> Path:
    schema = pa.schema([pa.field(name, _ACTIONS[name]) for name in columns])
    pq.write_table(pa.Table.from_pylist([_with_pairs(action) for action in actions], schema=schema), path)
    return path


def _with_pairs(action: dict[str, Any]) -> dict[str, Any]:
    """Arrow wants a map as pairs; inside an action every dictionary but the vector and the format is a map."""
    ((name, body),) = action.items()
    maps = ("partitionValues", "tags", "configuration", "options")
    converted = {}
    for key, value in body.items():
        if key == "format":
            value = value | {"options": list(value.get("options", {}).items())}
        is_map = key in maps and isinstance(value, dict)
        converted[key] = list(value.items()) if is_map else value
    return {name: converted}
