"""What can be done to a table, and which rows must be there afterwards?

A `Step` is one commit's worth of work in words that every engine can be told (`Step.to_json` crosses to a process).
Rows travel as a Parquet file, which all engines read. `Model` is the judge: a list of rows in plain Python that
follows the same steps, keeps the rows of every version for a restore, and the changes that a feed must tell. It knows
no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CHANGE_TYPE", "KEY", "UPKEEP", "Condition", "Model", "Row", "Step", "every", "is_null", "source_file"]

Row = dict[str, Any]
# The column that MERGE compares; every table of this package has it.
KEY = "id"
CHANGE_TYPE = "_change_type"
# Steps after which the table shows the same rows, or rows that it showed before.
UPKEEP = ("optimize", "zorder", "purge", "restore", "lite vacuum", "clone", "vacuum")


@dataclass(frozen=True)
class Condition:
    """A predicate in SQL that Spark and DataFusion read alike, and what it means."""

    sql: str
    holds: Callable[[Row], bool]


def every(divisor: int, remainder: int) -> Condition:
    return Condition(f"{KEY} % {divisor} = {remainder}", lambda row: row[KEY] % divisor == remainder)


def is_null(column: str) -> Condition:
    return Condition(f"{column} IS NULL", lambda row: row[column] is None)


@dataclass(frozen=True)
class Step:
    """`kind` is append, delete, update, merge or checkpoint, or one of `UPKEEP`.

    An update adds `amount` to the column `n`. A merge matches by the key and inserts what it does not find; what it
    finds it updates as a whole, or deletes. A vacuum keeps the newest version only; a lite one looks at the log alone,
    without listing the table. A clone is made at the path `target`.
    """

    kind: str
    source: str = ""
    where: str = ""
    amount: int = 0
    deletes: bool = False
    version: int = 0
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def source_file(rows: Iterable[Row], schema: pa.Schema, path: Path) -> str:
    """The rows as a Parquet file, which is how they reach an engine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    return str(path)


@dataclass
class Model:
    """The rows that must be there. `generated` are columns computed from the others, by name."""

    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    generated: Mapping[str, Callable[[Row], Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    versions: dict[int, list[Row]] = field(default_factory=dict)

    def append(self, rows: Iterable[Row]) -> None:
        added = [self._stored(row) for row in rows]
        self._tell("insert", added)
        self.rows = self.rows + added

    def delete(self, condition: Condition) -> None:
        self._tell("delete", [row for row in self.rows if condition.holds(row)])
        self.rows = [row for row in self.rows if not condition.holds(row)]

    def update(self, condition: Condition, amount: int) -> None:
        def updated(row: Row) -> Row:
            return self._stored(row | {"n": None if row["n"] is None else row["n"] + amount})

        met = [row for row in self.rows if condition.holds(row)]
        self._tell("update_preimage", met)
        self._tell("update_postimage", [updated(row) for row in met])
        self.rows = [updated(row) if condition.holds(row) else row for row in self.rows]

    def merge(self, source: Iterable[Row], *, deletes: bool) -> None:
        """Keys of the source are unique, so that no row has two partners."""
        partners = {row[KEY]: self._stored(row) for row in source}
        found = [row for row in self.rows if row[KEY] in partners]
        missing = [row for key, row in partners.items() if key not in {row[KEY] for row in found}]
        matched = [] if deletes else [partners[row[KEY]] for row in found]
        self._tell("delete" if deletes else "update_preimage", found)
        self._tell("update_postimage", matched)
        self._tell("insert", missing)
        self.rows = [row for row in self.rows if row[KEY] not in partners] + matched + missing

    def restore(self, version: int) -> None:
        self.rows = list(self.versions[version])

    def committed(self, version: int) -> None:
        """All versions up to this one that are not known yet show the rows of now."""
        for known in range(max(self.versions, default=-1) + 1, version + 1):
            self.versions[known] = list(self.rows)

    def forget_before(self, version: int) -> None:
        """A vacuum has taken the files of older versions away."""
        self.versions = {known: rows for known, rows in self.versions.items() if known >= version}

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=self.schema)

    def feed(self) -> pa.Table:
        return pa.Table.from_pylist(self.changes, schema=self.schema.append(pa.field(CHANGE_TYPE, pa.string())))

    def _tell(self, change_type: str, rows: Iterable[Row]) -> None:
        self.changes += [row | {CHANGE_TYPE: change_type} for row in rows]

    def _stored(self, row: Row) -> Row:
        # An empty string is null as a partition value.
        emptied = {name: None for name in self.partition_by if row[name] == ""}
        stored = dict(row) | emptied
        return stored | {name: computed(stored) for name, computed in self.generated.items()}
