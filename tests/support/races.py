"""How does a test let others commit at the very moment at which a command is about to, and what did each of them do?

`RacingStore` runs a rival just before the commit of a version reaches storage, so that this version is the rival's. No
threads, no sleeps: the loser always loses. The rivals here write what other engines write: appends, compactions, restores,
overwrites, changes of the table itself. Tables have the one column `id`. `ids_at` reads them back by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.delta_schema import statistics
from tests.support.log_reading import (
    actions_of,
    commit_info,
    data_file,
    log_state,
    newest_version,
    vector_file,
    vector_rows,
)
from tests.support.stores import HookedStore

from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import Action, AddFile
from ebbtide.protocol.log_names import commit_name, log_path
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Committed, Operation, Transaction, property_changes

__all__ = [
    "ID_SCHEMA",
    "RacingStore",
    "add_column",
    "append",
    "assert_each_delete_counts_its_own_rows",
    "commit",
    "compact",
    "ids_at",
    "live_paths",
    "new_data_file",
    "overwrite",
    "parquet_bytes",
    "restore",
    "set_property",
    "unnamed_files",
]

ID_SCHEMA = pa.schema({"id": pa.int64()})


class RacingStore(HookedStore):
    """The first of `rivals` runs before the commit of version `first` reaches storage, the next before the one after.

    A rival that makes more than one version takes the place of those behind it.
    """

    def __init__(self, inner: ObjectStore, *rivals: Callable[[], Any], first: int) -> None:
        super().__init__(inner)
        self.rivals = {log_path(commit_name(first + number)): rival for number, rival in enumerate(rivals)}

    def before(self, op: str, path: str) -> None:
        rival = self.rivals.pop(path, None) if op == "put_if_absent" else None
        if rival is not None:
            rival()


# --- what rivals do ---------------------------------------------------------------------------------------------------


def parquet_bytes(ids: Iterable[int]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(ids)}, schema=ID_SCHEMA), sink)
    return sink.getvalue().to_pybytes()


def new_data_file(store: ObjectStore, ids: Iterable[int], *, data_change: bool = True) -> AddFile:
    """A data file that no commit names yet."""
    ids = list(ids)
    data, path = parquet_bytes(ids), f"part-{uuid4()}.snappy.parquet"
    store.put_if_absent(path, data)
    stats = statistics(pa.table({"id": ids}, schema=ID_SCHEMA), tight=True)
    return AddFile(path, {}, len(data), 1_704_067_200_000, data_change, stats=stats)


def commit(store: ObjectStore, actions: Iterable[Action], name: str = "WRITE", **operation: Any) -> Committed:
    """One commit by somebody who read nothing."""
    return Transaction.begin(store).commit(list(actions), Operation(name, **operation))


def append(store: ObjectStore, ids: Iterable[int]) -> Committed:
    return commit(store, [new_data_file(store, ids)])


def compact(store: ObjectStore, table: Path, *, paths: Iterable[str] | None = None) -> Committed:
    """Replace files (all unless named) by one with the same rows, and say that no data changed."""
    chosen = None if paths is None else set(paths)
    old = [add for add in load_snapshot(store).add_files() if chosen is None or add.path in chosen]
    rows = ids_at(table, paths={add.path for add in old})
    removes = [add.remove(1_704_067_200_000, data_change=False) for add in old]
    return commit(store, [*removes, new_data_file(store, rows, data_change=False)], "OPTIMIZE")


def overwrite(store: ObjectStore, ids: Iterable[int]) -> Committed:
    removes = [add.remove(1_704_067_200_000) for add in load_snapshot(store).add_files()]
    return commit(store, [*removes, new_data_file(store, ids)])


def restore(store: ObjectStore, version: int) -> Committed:
    """The files of an older version, vectors included, as RESTORE commits them."""
    wanted = {add.key: add for add in load_snapshot(store, version=version).add_files()}
    present = {add.key: add for add in load_snapshot(store).add_files()}
    back = [replace(add, data_change=True) for key, add in wanted.items() if key not in present]
    gone = [add.remove(1_704_067_200_000) for key, add in present.items() if key not in wanted]
    return commit(store, [*back, *gone], "RESTORE")


def set_property(store: ObjectStore, name: str, value: str) -> Committed:
    snapshot = load_snapshot(store)
    changes = property_changes(snapshot.protocol, snapshot.metadata, set={name: value})
    return commit(store, changes, "SET TBLPROPERTIES")


def add_column(store: ObjectStore, name: str) -> Committed:
    metadata = load_snapshot(store).metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"].append({"name": name, "type": "string", "nullable": True, "metadata": {}})
    return commit(store, [replace(metadata, schema_string=json.dumps(schema))], "ADD COLUMNS")


# --- what came of it, read by hand ------------------------------------------------------------------------------------


def live_paths(table: Path, version: int | None = None) -> list[str]:
    return [path for path, _ in log_state(table, version).live]


def ids_at(table: Path, version: int | None = None, *, paths: set[str] | None = None) -> list[int]:
    """The ids that a version shows, in order, with their duplicates; of all live files or of those at `paths`."""
    shown: list[int] = []
    for add in log_state(table, version).adds:
        if paths is None or add["path"] in paths:
            marks = vector_rows(table, add)
            ids = pq.ParquetFile(data_file(table, add)).read(columns=["id"])["id"].to_pylist()
            shown += [number for row, number in enumerate(ids) if row not in marks]
    return sorted(shown)


def assert_each_delete_counts_its_own_rows(table: Path) -> None:
    """Every DELETE in the log says exactly how many rows are gone since the version before; no row counts twice."""
    for version in range(1, newest_version(table) + 1):
        info = commit_info(table, version)
        if info["operation"] == "DELETE" and "operationMetrics" in info:
            gone = len(ids_at(table, version - 1)) - len(ids_at(table, version))
            assert int(info["operationMetrics"]["numDeletedRows"]) == gone, f"numDeletedRows of version {version}"
        paths = live_paths(table, version)
        assert len(paths) == len(set(paths)), f"a file is live twice in version {version}"
        assert actions_of(table, version, "commitInfo"), f"version {version} does not say who wrote it"


def unnamed_files(table: Path) -> set[str]:
    """Files below the table that no version ever named: what a later cleanup may delete. The log is left out."""
    named = set()
    for version in range(newest_version(table) + 1):
        for kind in ("add", "remove", "cdc"):
            for action in actions_of(table, version, kind):
                named.add(data_file(table, action))
                named |= _vector_files(table, action)
    present = {file for file in table.rglob("*") if file.is_file() and "_delta_log" not in file.parts}
    return {str(file.relative_to(table)) for file in present - named}


def _vector_files(table: Path, action: dict[str, Any]) -> set[Path]:
    descriptor = action.get("deletionVector")
    file = None if descriptor is None else vector_file(table, descriptor)
    return set() if file is None else {file}
