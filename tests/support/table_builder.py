"""How does a test get a Delta table of exactly the shape it is about, without Spark and without Ebbtide's own writer?

`TableBuilder` writes data with pyarrow and the log by hand, along four axes that combine freely:

- log state: commits only, every kind of checkpoint with or without the hint, compacted commits, cleaned-up commits;
- features: deletion vectors (`u` with or without prefix, `i`, `p`), column mapping, change data feed, row tracking,
  in-commit timestamps, or any other by name;
- layout: files, partitions, row groups, statistics or none;
- version: everything staged since the last `commit()` becomes one version.

    table = (
        TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "p": pa.string()}))
        .partitioned_by("p")
        .deletion_vectors()
        .file([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}], deleted=[0])
        .commit()
        .checkpoint("multipart")
    )
    assert table.rows() == [{"id": 2, "p": "a"}]

The builder remembers what each version must show (`rows`, `expected`). `deltalake_table` makes a table with another engine
where the shape does not matter.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.checkpoint_files import CheckpointKind, write_checkpoint
from tests.support.deletion_vector_files import VectorFile, inline_descriptor
from tests.support.delta_schema import (
    ColumnIds,
    log_path,
    map_columns,
    partition_string,
    schema_string,
    statistics,
    to_physical,
)

__all__ = ["DataFile", "Row", "TableBuilder", "deltalake_table"]

Row = dict[str, Any]
# 2024-01-01 00:00:00 UTC; versions are a minute apart unless the test says otherwise.
FIRST_COMMIT_MS = 1_704_067_200_000
COMMIT_INTERVAL_MS = 60_000
READER_FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck"}
)


@dataclass(frozen=True)
class DataFile:
    """A live file: its `add` action as logged, its rows in physical order, and which of them are marked as deleted."""

    add: dict[str, Any]
    rows: list[Row]
    deleted: frozenset[int]

    @property
    def live_rows(self) -> list[Row]:
        return [row for index, row in enumerate(self.rows) if index not in self.deleted]


class TableBuilder:
    """A Delta table in the making; every method that changes it returns the builder."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.log = path / "_delta_log"
        self.log.mkdir(parents=True)
        self.version = -1
        self._schema = schema
        self._partition_columns: list[str] = []
        self._properties: dict[str, str] = {}
        self._features: dict[str, bool] = {}
        self._column_ids: ColumnIds | None = None
        self._id = str(uuid.uuid4())
        self._definition_changed = True
        self._staged: list[dict[str, Any]] = []
        self._live: dict[str, DataFile] = {}
        self._tombstones: list[dict[str, Any]] = []
        self._transactions: dict[str, dict[str, Any]] = {}
        self._domains: dict[str, dict[str, Any]] = {}
        self._history: list[tuple[pa.Schema, list[Row]]] = []
        self._next_row_id = 0
        self._vectors_share_a_file = False
        self._shared_vector_file: VectorFile | None = None

    # --- definition ---------------------------------------------------------------------------------------------------

    def schema(self, schema: pa.Schema) -> TableBuilder:
        """Change the schema with the next commit; older files simply lack a new column."""
        self._schema = schema
        return self._redefine()

    def partitioned_by(self, *columns: str) -> TableBuilder:
        self._partition_columns = list(columns)
        return self._redefine()

    def table_property(self, name: str, value: str) -> TableBuilder:
        self._properties[name] = value
        return self._redefine()

    def feature(self, name: str, *, reader: bool | None = None) -> TableBuilder:
        """Require a table feature; whether readers need it too is known for the protocol's own features."""
        self._features[name] = name in READER_FEATURES if reader is None else reader
        return self._redefine()

    def deletion_vectors(self, *, share_a_file: bool = False) -> TableBuilder:
        """Allow vectors; with `share_a_file` those of one commit lie in one `.bin` file."""
        self._vectors_share_a_file = share_a_file
        return self.feature("deletionVectors").table_property("delta.enableDeletionVectors", "true")

    def column_mapping(self, mode: str) -> TableBuilder:
        """Map columns by `name` or `id`: physical names are `col-1`, `col-2`, ... and stay with the column."""
        self._column_ids = ColumnIds()
        return self.feature("columnMapping").table_property("delta.columnMapping.mode", mode)

    def change_data_feed(self) -> TableBuilder:
        return self.feature("changeDataFeed").table_property("delta.enableChangeDataFeed", "true")

    def row_tracking(self) -> TableBuilder:
        self.feature("domainMetadata").feature("rowTracking")
        names = {"RowId": "row-id", "RowCommitVersion": "row-commit-version"}
        for name, column in names.items():
            self.table_property(f"delta.rowTracking.materialized{name}ColumnName", f"_{column}-col-{self._id}")
        return self.table_property("delta.enableRowTracking", "true")

    def in_commit_timestamps(self) -> TableBuilder:
        return self.feature("inCommitTimestamp").table_property("delta.enableInCommitTimestamps", "true")

    def _redefine(self) -> TableBuilder:
        self._definition_changed = True
        return self

    # --- staging ------------------------------------------------------------------------------------------------------

    def file(
        self,
        rows: Sequence[Row],
        *,
        deleted: Iterable[int] = (),
        vector: str = "u",
        vector_prefix: str = "",
        row_group_size: int | None = None,
        stats: bool = True,
        name: str | None = None,
    ) -> TableBuilder:
        """Stage a data file. `deleted` are physical row indexes; `vector` is how they are stored: `u`, `i` or `p`.

        All rows of a file of a partitioned table must lie in one partition. `name` may hold any character that a file
        name can; the log encodes it.
        """
        values = self._partition_values(rows)
        table = to_physical(
            list(rows), [each for each in self._mapped_columns() if each.name not in self._partition_columns]
        )
        on_disk, encoded = log_path(values, name or f"part-{uuid.uuid4()}.snappy.parquet")
        target = self.path / on_disk
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, row_group_size=row_group_size)
        marked = frozenset(deleted)
        add: dict[str, Any] = {
            "path": encoded,
            "partitionValues": values,
            "size": target.stat().st_size,
            "modificationTime": self._next_timestamp_ms(),
            "dataChange": True,
        }
        if stats:
            add["stats"] = statistics(table, tight=not marked)
        if marked:
            add["deletionVector"] = self._vector(marked, vector, vector_prefix)
        if "rowTracking" in self._features:
            add |= {"baseRowId": self._next_row_id, "defaultRowCommitVersion": self.version + 1}
            self._next_row_id += table.num_rows
        return self._stage_add(DataFile(add, list(rows), marked))

    def mark(
        self, file: DataFile, row_indexes: Iterable[int], *, vector: str = "u", vector_prefix: str = ""
    ) -> TableBuilder:
        """Stage what a DELETE stages: the file leaves with its old vector and comes back with old and new marks."""
        marked = file.deleted | frozenset(row_indexes)
        add = file.add | {"deletionVector": self._vector(marked, vector, vector_prefix)}
        if "stats" in add:
            add["stats"] = json.dumps(json.loads(add["stats"]) | {"tightBounds": False})
        return self.remove(file)._stage_add(DataFile(add, file.rows, marked))

    def remove(self, file: DataFile) -> TableBuilder:
        kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
        remove = {key: value for key, value in file.add.items() if key in kept}
        remove |= {"deletionTimestamp": self._next_timestamp_ms(), "dataChange": True, "extendedFileMetadata": True}
        del self._live[file.add["path"]]
        self._tombstones.append({"remove": remove})
        self._staged.append({"remove": remove})
        return self

    def change_file(self, rows: Sequence[Row]) -> TableBuilder:
        """Stage a change data file; every row names its `_change_type`."""
        values = self._partition_values(rows)
        change_type = pa.array([row["_change_type"] for row in rows], pa.string())
        table = to_physical(
            list(rows), [each for each in self._mapped_columns() if each.name not in self._partition_columns]
        )
        on_disk, encoded = log_path(values, f"cdc-{uuid.uuid4()}.snappy.parquet")
        target = self.path / "_change_data" / on_disk
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.append_column("_change_type", change_type), target)
        cdc = {"path": f"_change_data/{encoded}", "partitionValues": values, "size": target.stat().st_size}
        self._staged.append({"cdc": cdc | {"dataChange": False}})
        return self

    def transaction(self, app_id: str, version: int) -> TableBuilder:
        self._transactions[app_id] = {"txn": {"appId": app_id, "version": version}}
        self._staged.append(self._transactions[app_id])
        return self

    def domain(self, domain: str, configuration: str, *, removed: bool = False) -> TableBuilder:
        action = {"domainMetadata": {"domain": domain, "configuration": configuration, "removed": removed}}
        self._domains.pop(domain, None)
        if not removed:
            self._domains[domain] = action
        self._staged.append(action)
        return self

    def raw(self, action: dict[str, Any]) -> TableBuilder:
        """Stage an action as it stands, right or wrong; the builder's own picture of the table does not change."""
        self._staged.append(action)
        return self

    def _stage_add(self, file: DataFile) -> TableBuilder:
        self._live[file.add["path"]] = file
        self._staged.append({"add": file.add})
        return self

    def _partition_values(self, rows: Sequence[Row]) -> dict[str, str | None]:
        names = {each.name: each.physical_name for each in self._mapped_columns()}
        values = {}
        for column in self._partition_columns:
            found = {partition_string(row[column]) for row in rows}
            assert len(found) == 1, f"the rows of one file lie in one partition, not in {column}={found}"
            values[names[column]] = found.pop()
        return values

    def _vector(self, row_indexes: frozenset[int], storage_type: str, prefix: str) -> dict[str, Any]:
        assert "deletionVectors" in self._features, "call deletion_vectors() first; use raw() for a broken table"
        if storage_type == "i":
            return inline_descriptor(row_indexes)
        file = self._shared_vector_file or VectorFile(self.path, prefix=prefix)
        if self._vectors_share_a_file:
            self._shared_vector_file = file
        return file.add(row_indexes, storage_type=storage_type)

    # --- versions -----------------------------------------------------------------------------------------------------

    def commit(self, *, operation: str = "WRITE", timestamp_ms: int | None = None) -> TableBuilder:
        """Write what is staged as the next version; the commit file's modification time is the commit's."""
        timestamp_ms = self._next_timestamp_ms() if timestamp_ms is None else timestamp_ms
        if "rowTracking" in self._features:
            self.domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": self._next_row_id - 1}))
        actions = [self._commit_info(operation, timestamp_ms)]
        if self._definition_changed:
            actions += [self._protocol(), self._metadata()]
        self.version += 1
        commit = self.log / f"{self.version:020d}.json"
        commit.write_text(_lines(actions + self._staged), encoding="utf-8")
        os.utime(commit, ns=(timestamp_ms * 1_000_000, timestamp_ms * 1_000_000))
        self._definition_changed = False
        self._staged = []
        self._shared_vector_file = None
        self._history.append((self._schema, [row for file in self._live.values() for row in file.live_rows]))
        return self

    def checkpoint(
        self, kind: CheckpointKind = "classic", *, parts: int = 2, sidecars: int = 0, hint: bool = True
    ) -> TableBuilder:
        """Write a checkpoint of the newest version, with or without the `_last_checkpoint` hint."""
        actions = [self._protocol(), self._metadata(), *self._transactions.values(), *self._domains.values()]
        actions += [{"add": file.add | {"dataChange": False}} for file in self._live.values()]
        actions += self._unrevived_tombstones()
        options = {"kind": kind, "parts": parts, "sidecars": sidecars, "hint": hint}
        write_checkpoint(self.log, self.version, actions, **options)
        return self

    def compact(self, first: int, last: int) -> TableBuilder:
        """Write a compacted log file of the versions `first` to `last`, both included."""
        newest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for version in range(first, last + 1):
            for line in (self.log / f"{version:020d}.json").read_text(encoding="utf-8").splitlines():
                action = json.loads(line)
                if not action.keys() & {"commitInfo", "cdc"}:
                    newest[_action_key(action)] = action
        target = self.log / f"{first:020d}.{last:020d}.compacted.json"
        target.write_text(_lines(newest.values()), encoding="utf-8")
        return self

    def clean_commits(self, *, before: int) -> TableBuilder:
        """Remove the commit files of versions below `before`, as log retention does."""
        for version in range(before):
            (self.log / f"{version:020d}.json").unlink()
        return self

    def _unrevived_tombstones(self) -> list[dict[str, Any]]:
        live = {_action_key({"add": file.add}) for file in self._live.values()}
        return [tombstone for tombstone in self._tombstones if _action_key(tombstone) not in live]

    def _next_timestamp_ms(self) -> int:
        return FIRST_COMMIT_MS + (self.version + 1) * COMMIT_INTERVAL_MS

    def _commit_info(self, operation: str, timestamp_ms: int) -> dict[str, Any]:
        info = {"timestamp": timestamp_ms, "operation": operation, "operationParameters": {}}
        if "inCommitTimestamp" in self._features:
            info = {"inCommitTimestamp": timestamp_ms, **info}
        return {"commitInfo": info}

    def _protocol(self) -> dict[str, Any]:
        if not self._features:
            return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        readers = sorted(name for name, reader in self._features.items() if reader)
        body: dict[str, Any] = {"minReaderVersion": 3 if readers else 1, "minWriterVersion": 7}
        if readers:
            body["readerFeatures"] = readers
        return {"protocol": body | {"writerFeatures": sorted(self._features)}}

    def _metadata(self) -> dict[str, Any]:
        fields = self._mapped_columns()
        if self._column_ids:
            self._properties["delta.columnMapping.maxColumnId"] = str(self._column_ids.highest)
        body = {
            "id": self._id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(fields),
            "partitionColumns": self._partition_columns,
            "configuration": self._properties,
            "createdTime": FIRST_COMMIT_MS,
        }
        return {"metaData": body}

    def _mapped_columns(self) -> list[Any]:
        return map_columns(self._schema, self._column_ids)

    # --- what must come out -------------------------------------------------------------------------------------------

    @property
    def files(self) -> list[DataFile]:
        """The live files, in the order they were added."""
        return list(self._live.values())

    def rows(self, version: int | None = None) -> list[Row]:
        """The rows that a version (the newest unless named) must show; no particular order."""
        return self.expected(version).to_pylist()

    def expected(self, version: int | None = None) -> pa.Table:
        """The same with the types of that version's schema, for `assert_same_rows`."""
        schema, rows = self._history[self.version if version is None else version]
        completed = [{name: row.get(name) for name in schema.names} for row in rows]
        for row in completed:
            # An empty string is null as a partition value.
            row.update({name: None for name in self._partition_columns if row[name] == ""})
        return pa.Table.from_pylist(completed, schema=schema)


def deltalake_table(path: Path, data: pa.Table, **options: Any) -> Path:
    """Write a table with the `deltalake` engine (options of its `write_deltalake`); again to append or overwrite."""
    from deltalake import write_deltalake

    write_deltalake(path, data, **options)
    return path


def _lines(actions: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


def _action_key(action: dict[str, Any]) -> tuple[Any, ...]:
    """What a later action of the same key replaces. A file is its path and its vector."""
    ((name, body),) = action.items()
    if name in ("add", "remove"):
        vector = body.get("deletionVector") or {}
        return ("file", body["path"], vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset"))
    return (name, body.get("appId"), body.get("domain"))
