"""How does a test make a transaction log of exactly the shape it is about, with no data, no JVM and no code under test?

`MemoryStore` keeps objects in a dictionary, with times that a test sets. `LogBuilder` writes any kind of log file into it
(or into any other store) from actions as dictionaries under the protocol's names:

    log = LogBuilder()
    log.commit(0, [protocol(), metadata(), add("a.parquet")])
    log.checkpoint(0, [protocol(), metadata(), add("a.parquet")], parts=2)
    snapshot = load_snapshot(log.store)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from ebbtide.errors import CorruptTableError, ObjectExistsError, ObjectNotFoundError, StorageError
from ebbtide.storage import ObjectMeta, ObjectStore

__all__ = [
    "CHECKPOINT_SCHEMA",
    "LogBuilder",
    "MemoryStore",
    "add",
    "checkpoint_table",
    "commit_info",
    "domain",
    "live_keys",
    "metadata",
    "protocol",
    "remove",
    "txn",
    "vector",
]

Json = dict[str, Any]
FIRST_TIME_MS = 1_700_000_000_000

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
CHECKPOINT_SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _MAP,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": _MAP,
                "deletionVector": _VECTOR,
                "baseRowId": pa.int64(),
                "defaultRowCommitVersion": pa.int64(),
                "clusteringProvider": pa.string(),
            }
        ),
        "remove": pa.struct(
            {
                "path": pa.string(),
                "deletionTimestamp": pa.int64(),
                "dataChange": pa.bool_(),
                "extendedFileMetadata": pa.bool_(),
                "partitionValues": _MAP,
                "size": pa.int64(),
                "deletionVector": _VECTOR,
            }
        ),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _MAP}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _MAP,
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
        "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _MAP}),
        "sidecar": pa.struct(
            {"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": _MAP}
        ),
    }
)


class MemoryStore:
    """Objects in a dictionary. Each new object is a second younger than the one before; `times` may be rewritten."""

    def __init__(self, url: str = "memory://tests/table") -> None:
        self.url = url
        self.spark_path = url
        self.spark_options: dict[str, str] = {}
        self.objects: dict[str, bytes] = {}
        self.times: dict[str, int] = {}
        self.reads: list[str] = []
        self.listings: list[str | None] = []

    def list(self, prefix: str, *, start_after: str | None = None, in_order: bool = True) -> Iterator[ObjectMeta]:
        base = f"{prefix}/" if prefix else ""
        paths = [path for path in self.objects if path.startswith(base) and (not start_after or path > start_after)]
        return iter([self._meta(path) for path in sorted(paths)])

    def list_directory(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectMeta]:
        self.listings.append(start_after)
        depth = prefix.count("/") + 1 if prefix else 0
        return (meta for meta in self.list(prefix, start_after=start_after) if meta.path.count("/") == depth)

    def head(self, path: str) -> ObjectMeta:
        self._data(path)
        return self._meta(path)

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        self.reads.append(path)
        data = self._data(path)
        if max_bytes is not None and len(data) > max_bytes:
            raise CorruptTableError(f"{path} is longer than {max_bytes}")
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.reads.append(path)
        return self._data(path)[offset : offset + length]

    def put_if_absent(self, path: str, data: bytes) -> None:
        if path in self.objects:
            raise ObjectExistsError(path)
        self.put(path, data)

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.times[path] = FIRST_TIME_MS + 1000 * len(self.times)

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)

    def delete_all(self, paths: Sequence[str]) -> dict[str, StorageError]:
        for path in paths:
            self.delete(path)
        return {}

    def _data(self, path: str) -> bytes:
        if path not in self.objects:
            raise ObjectNotFoundError(f"{path} does not exist")
        return self.objects[path]

    def _meta(self, path: str) -> ObjectMeta:
        return ObjectMeta(path, len(self.objects[path]), self.times[path])


def protocol(reader: int = 1, writer: int = 2, features: Sequence[str] | None = None, **extra: Any) -> Json:
    """A protocol action; `features` makes it (3, 7) with these in both lists."""
    if features is not None:
        lists = {"readerFeatures": list(features), "writerFeatures": list(features)}
        return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists, **extra}}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **extra}}


def metadata(
    columns: Json | None = None, *, partitions: Sequence[str] = (), configuration: Json | None = None, **extra: Any
) -> Json:
    fields = [
        {"name": name, "type": type_name, "nullable": True, "metadata": {}}
        for name, type_name in (columns or {"id": "long"}).items()
    ]
    return {
        "metaData": {
            "id": "5b3ba9a6-7d0f-4d6e-9f38-000000000001",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitions),
            "configuration": configuration or {},
            "createdTime": FIRST_TIME_MS,
            **extra,
        }
    }


def vector(text: str = "ab^-aqEH.-t@S}K{vb[*k^", *, offset: int | None = 1, cardinality: int = 1) -> Json:
    """A descriptor of a vector on disk; different texts or offsets are different vectors."""
    return {
        "storageType": "u",
        "pathOrInlineDv": text,
        **({} if offset is None else {"offset": offset}),
        "sizeInBytes": 34,
        "cardinality": cardinality,
    }


def add(path: str, *, dv: Json | None = None, size: int = 100, partition: Json | None = None, **extra: Any) -> Json:
    fields = {"path": path, "partitionValues": partition or {}, "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": {**fields, **({} if dv is None else {"deletionVector": dv}), **extra}}


def remove(path: str, *, dv: Json | None = None, at: int = 5, **extra: Any) -> Json:
    fields = {"path": path, "deletionTimestamp": at, "dataChange": True}
    return {"remove": {**fields, **({} if dv is None else {"deletionVector": dv}), **extra}}


def txn(app: str, version: int) -> Json:
    return {"txn": {"appId": app, "version": version}}


def domain(name: str, configuration: str = "{}", *, removed: bool = False) -> Json:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def commit_info(**fields: Any) -> Json:
    return {"commitInfo": fields}


def checkpoint_table(actions: Sequence[Json], schema: pa.Schema = CHECKPOINT_SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(actions), schema=schema)


def live_keys(snapshot: Any) -> set[tuple[str, str | None]]:
    return {file.key for file in snapshot.add_files()}


def _lines(actions: Sequence[Json]) -> bytes:
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def _parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


class LogBuilder:
    def __init__(self, store: ObjectStore | None = None) -> None:
        self.store: Any = MemoryStore() if store is None else store
        self._made = 0

    def raw(self, name: str, data: bytes) -> str:
        """Put a file of any content into the log directory."""
        path = f"_delta_log/{name}"
        self.store.put(path, data)
        return path

    def delete(self, name: str) -> None:
        self.store.delete(f"_delta_log/{name}")

    def table(self, **metadata_options: Any) -> LogBuilder:
        """The commit that creates an empty table."""
        self.commit(0, [protocol(), metadata(**metadata_options)])
        return self

    def commit(self, version: int, actions: Sequence[Json]) -> str:
        return self.raw(f"{version:020d}.json", _lines(actions))

    def compact(self, start: int, end: int, actions: Sequence[Json]) -> str:
        return self.raw(f"{start:020d}.{end:020d}.compacted.json", _lines(actions))

    def checkpoint(self, version: int, actions: Sequence[Json], *, parts: int = 1, **options: Any) -> list[str]:
        """A classic checkpoint, or one of several parts."""
        return self.checkpoint_of(version, checkpoint_table(actions), parts=parts, **options)

    def checkpoint_of(self, version: int, table: pa.Table, *, parts: int = 1, **options: Any) -> list[str]:
        if parts == 1:
            return [self.raw(f"{version:020d}.checkpoint.parquet", _parquet(table, **options))]
        size = -(-table.num_rows // parts)
        return [
            self.raw(
                f"{version:020d}.checkpoint.{part + 1:010d}.{parts:010d}.parquet",
                _parquet(table.slice(part * size, size), **options),
            )
            for part in range(parts)
        ]

    def v2_checkpoint(self, version: int, actions: Sequence[Json], *, format: str = "json", sidecars: int = 0) -> str:
        """A V2 checkpoint; with sidecars the file actions go there, without they stay inside."""
        top = [{"checkpointMetadata": {"version": version}}, *actions]
        if sidecars:
            files = [action for action in actions if "add" in action or "remove" in action]
            top = [action for action in top if "add" not in action and "remove" not in action]
            size = max(1, -(-len(files) // sidecars))
            for start in range(0, max(1, len(files)), size):
                top.append({"sidecar": self.sidecar(files[start : start + size])})
        name = f"{version:020d}.checkpoint.{self._uuid()}.{format}"
        return self.raw(name, _lines(top) if format == "json" else _parquet(checkpoint_table(top)))

    def sidecar(self, actions: Sequence[Json]) -> Json:
        name = f"{self._uuid()}.parquet"
        data = _parquet(checkpoint_table(actions).select(["add", "remove"]))
        self.raw(f"_sidecars/{name}", data)
        return {"path": name, "sizeInBytes": len(data), "modificationTime": 1}

    def last_checkpoint(self, version: int, **extra: Any) -> str:
        return self.raw("_last_checkpoint", json.dumps({"version": version, "size": 1, **extra}).encode())

    def _uuid(self) -> UUID:
        self._made += 1
        return UUID(int=self._made)
