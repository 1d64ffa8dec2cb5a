"""How is the state of a version written as a checkpoint?

`write_checkpoint` writes one file (classic), or, where the table asks for it, a V2 checkpoint: sidecar files that hold
the file actions and a small JSON file that names them. A checkpoint appears whole: sidecars come first and mean nothing
until the file that names them exists. The version's commit must have landed before. Correctness never depends on
checkpoints: a table without them reads the same, only slower.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import ObjectExistsError
from ebbtide.log.checkpoint_rows import FileRows, action_columns, file_rows, small_actions
from ebbtide.log.last_checkpoint import write_last_checkpoint
from ebbtide.log.listing import CheckpointFiles, list_log
from ebbtide.log.snapshot import Snapshot
from ebbtide.protocol.actions import CheckpointMetadata, Sidecar, serialize_actions
from ebbtide.protocol.features import ensure_writable, is_feature_supported
from ebbtide.protocol.log_names import (
    V2CheckpointName,
    checkpoint_name,
    log_path,
    parse_log_name,
    sidecar_path,
    v2_checkpoint_name,
)
from ebbtide.storage.store import ObjectMeta

__all__ = ["ACTIONS_PER_SIDECAR", "CheckpointResult", "has_checkpoint", "is_checkpoint_due", "write_checkpoint"]

ACTIONS_PER_SIDECAR: Final = 50_000
# Readers hold one row group in memory at a time and skip those without the actions they look for.
_ROWS_PER_GROUP: Final = 65_536
_CLASSIC_COLUMNS: Final = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata")


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """What was written. `files` are paths below the table root, the one that makes it a checkpoint last.

    `is_new` is False when the version had a checkpoint already, of whichever form; then no other was written.
    """

    version: int
    files: tuple[str, ...]
    num_actions: int
    num_add_files: int
    size_in_bytes: int
    is_new: bool = True


def is_checkpoint_due(snapshot: Snapshot) -> bool:
    return snapshot.version != 0 and snapshot.version % snapshot.properties.checkpoint_interval == 0


def has_checkpoint(snapshot: Snapshot) -> bool:
    """Whether this version has one. UnsupportedFeatureError as for writing it."""
    ensure_writable(snapshot.protocol, snapshot.metadata)
    listing = list_log(snapshot.store, start_version=snapshot.version)
    return any(files.version == snapshot.version for files in listing.checkpoints)


def write_checkpoint(
    snapshot: Snapshot, *, now_ms: int | None = None, actions_per_sidecar: int = ACTIONS_PER_SIDECAR
) -> CheckpointResult:
    """Write a checkpoint of the snapshot's version, in the form its properties ask for, and point the hint at it.

    `now_ms` decides which tombstones have expired. UnsupportedFeatureError when the table has a feature whose writer
    rules Ebbtide does not know: we might drop a part of its state.
    """
    ensure_writable(snapshot.protocol, snapshot.metadata)
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    known = snapshot.segment.checkpoint
    if known is not None and known.version == snapshot.version:
        # A second one, in another form than the hint says, would make readers that trust the hint stumble.
        return _keep(snapshot, known, now_ms)
    if _is_v2(snapshot):
        return _write_v2(snapshot, now_ms, actions_per_sidecar)
    return _write_classic(snapshot, now_ms)


def _is_v2(snapshot: Snapshot) -> bool:
    return snapshot.properties.checkpoint_policy == "v2" and is_feature_supported(snapshot.protocol, "v2Checkpoint")


def _keep(snapshot: Snapshot, known: CheckpointFiles, now_ms: int) -> CheckpointResult:
    """The checkpoint that is there. Whoever wrote it may have died before the hint was pointed at it."""
    files = tuple(meta.path for meta in known.files)
    num_actions = snapshot.num_files + len(snapshot.tombstones()) + len(small_actions(snapshot, now_ms=now_ms))
    size = sum(meta.size for meta in known.files)
    result = CheckpointResult(snapshot.version, files, num_actions, snapshot.num_files, size, is_new=False)
    form: dict[str, Any] = {"parts": len(files)} if len(files) > 1 else {}
    if isinstance(parse_log_name(files[0].rpartition("/")[2]), V2CheckpointName):
        form["v2Checkpoint"] = _top_level(known.files[0])
    write_last_checkpoint(snapshot.store, _hint(result) | form)
    return result


def _top_level(meta: ObjectMeta) -> dict[str, Any]:
    return {"path": meta.path.rpartition("/")[2], "sizeInBytes": meta.size, "modificationTime": meta.last_modified_ms}


def _write_classic(snapshot: Snapshot, now_ms: int) -> CheckpointResult:
    files = file_rows(snapshot, now_ms=now_ms)
    small = pa.table(action_columns(small_actions(snapshot, now_ms=now_ms)))
    schema = pa.schema([_field_of(name, small.schema, files.table.schema) for name in _CLASSIC_COLUMNS])
    data = _parquet([_widen(small, schema), _widen(files.table, schema)], schema)
    path = log_path(checkpoint_name(snapshot.version))
    num_actions = small.num_rows + files.num_rows
    result = CheckpointResult(snapshot.version, (path,), num_actions, files.num_adds, len(data))
    try:
        snapshot.store.put_if_absent(path, data)
    except ObjectExistsError:
        # All checkpoints of a version are equivalent, so the other writer's will do.
        return CheckpointResult(snapshot.version, (path,), num_actions, files.num_adds, len(data), is_new=False)
    write_last_checkpoint(snapshot.store, _hint(result))
    return result


def _write_v2(snapshot: Snapshot, now_ms: int, actions_per_sidecar: int) -> CheckpointResult:
    files = file_rows(snapshot, now_ms=now_ms)
    sidecars = _write_sidecars(snapshot, files, now_ms, actions_per_sidecar)
    sidecar_bytes = sum(sidecar.size_in_bytes for _, sidecar in sidecars)
    tags = {
        "sidecarNumActions": str(files.num_rows),
        "sidecarSizeInBytes": str(sidecar_bytes),
        "numOfAddFiles": str(files.num_adds),
    }
    header = CheckpointMetadata(snapshot.version, tags)
    actions = [header, *small_actions(snapshot, now_ms=now_ms), *(sidecar for _, sidecar in sidecars)]
    data = serialize_actions(actions)
    name = v2_checkpoint_name(snapshot.version, uuid4(), "json")
    snapshot.store.put_if_absent(log_path(name), data)
    result = CheckpointResult(
        version=snapshot.version,
        files=(*(path for path, _ in sidecars), log_path(name)),
        num_actions=len(actions) + files.num_rows,
        num_add_files=files.num_adds,
        size_in_bytes=len(data) + sidecar_bytes,
    )
    top_level = _top_level(snapshot.store.head(log_path(name)))
    write_last_checkpoint(snapshot.store, _hint(result) | {"v2Checkpoint": top_level})
    return result


def _write_sidecars(
    snapshot: Snapshot, files: FileRows, now_ms: int, actions_per_sidecar: int
) -> list[tuple[str, Sidecar]]:
    sidecars = []
    for start in range(0, files.num_rows, actions_per_sidecar):
        data = _parquet([files.table.slice(start, actions_per_sidecar)], files.table.schema)
        path = sidecar_path(uuid4())
        snapshot.store.put_if_absent(path, data)
        sidecars.append((path, Sidecar(path.rpartition("/")[2], len(data), now_ms)))
    return sidecars


def _hint(result: CheckpointResult) -> dict[str, Any]:
    return {
        "version": result.version,
        "size": result.num_actions,
        "sizeInBytes": result.size_in_bytes,
        "numOfAddFiles": result.num_add_files,
    }


def _field_of(name: str, *schemas: pa.Schema) -> pa.Field:
    return next(schema.field(name) for schema in schemas if name in schema.names)


def _widen(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of the schema; those it lacks are null."""
    columns = [
        table.column(field.name) if field.name in table.schema.names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _parquet(tables: Iterable[pa.Table], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    # Without Arrow's own schema in the footer every reader sees the same plain Parquet types.
    options = {"compression": "snappy", "store_schema": False, "write_page_checksum": True}
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for table in tables:
            if table.num_rows:
                writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
    data: bytes = sink.getvalue().to_pybytes()
    return data
