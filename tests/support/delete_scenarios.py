"""Which kinds of tables can a DELETE leave behind?

A scenario is a table and the DELETEs to run on it, each with the same condition in SQL and in Python, so that the rows of
every version are known without any engine. Peers and the reference engine are asked to read what came of them.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.table_builder import Row, TableBuilder

__all__ = ["SCENARIOS", "Scenario", "Step", "rows_of_versions"]

UTC = dt.timezone.utc
HOUR_MS = 3_600_000
ID = pa.schema({"id": pa.int64()})
WIDE = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int16(),
        "text": pa.string(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", tz="UTC"),
        "price": pa.decimal128(10, 2),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "nested": pa.struct({"x": pa.int32(), "names": pa.list_(pa.string())}),
        "p": pa.string(),
        "q": pa.int32(),
    }
)


@dataclass(frozen=True)
class Step:
    """One DELETE: the condition twice, and how rows are deleted. No condition: all rows."""

    sql: str | None
    holds: Callable[[Row], bool | None] = lambda _: True
    vectors: str = "on"
    checkpoint: bool = False


@dataclass(frozen=True)
class Scenario:
    schema: pa.Schema
    build: Callable[[TableBuilder], Any]
    steps: tuple[Step, ...]
    features: frozenset[str] = frozenset()
    directory: str = "t"

    def table(self, parent: Path) -> TableBuilder:
        builder = TableBuilder(parent / self.directory, self.schema)
        self.build(builder)
        # Recent, since the reference does not travel to versions whose files could have been swept already.
        return builder.commit(timestamp_ms=int(time.time() * 1000) - HOUR_MS)


def rows_of_versions(builder: TableBuilder, steps: Iterable[Step]) -> list[pa.Table]:
    """The rows of version 0 and after each DELETE; a DELETE that finds nothing makes no version."""
    versions = [builder.rows()]
    for step in steps:
        left = [row for row in versions[-1] if step.holds(row) is not True]
        if len(left) < len(versions[-1]):
            versions.append(left)
    return [pa.Table.from_pylist(rows, schema=builder.expected().schema) for rows in versions]


# --- tables -----------------------------------------------------------------------------------------------------------


def wide(number: int, p: str | None = "a", q: int | None = 1) -> Row:
    return {
        "id": number,
        "small": number % 100 if number % 7 else None,
        "text": f"text {number}" if number % 4 else None,
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=number),
        "moment": dt.datetime(2024, 1, 1, tzinfo=UTC) + dt.timedelta(hours=number, microseconds=number),
        "price": Decimal(number).quantize(Decimal("0.01")),
        "ratio": number / 3 if number % 5 else None,
        "flag": number % 2 == 0,
        "raw": b"\x00\xff" + bytes([number % 256]),
        "nested": {"x": number, "names": ["a", None]} if number % 6 else None,
        "p": p,
        "q": q,
    }


def ids(first: int, last: int) -> list[Row]:
    return [{"id": number} for number in range(first, last)]


def wide_files(builder: TableBuilder) -> TableBuilder:
    builder.deletion_vectors()
    builder.file([wide(number) for number in range(20)], row_group_size=6)
    builder.file([wide(number) for number in range(20, 40)], row_group_size=7)
    return builder.file([wide(number) for number in range(40, 45)], stats=False)


def partitioned_files(builder: TableBuilder) -> TableBuilder:
    builder.deletion_vectors().partitioned_by("p", "q")
    places = [("a b%/=é", 1), (None, 1), ("x'y", None), (None, None), ("a:b", 2), ("a:b", 3)]
    for at, (p, q) in enumerate(places):
        builder.file([wide(at * 10 + number, p, q) for number in range(10)])
    return builder


def plainly_partitioned_files(builder: TableBuilder) -> TableBuilder:
    """Partitions whose directories need no escaping."""
    builder.deletion_vectors().partitioned_by("p", "q")
    for at, (p, q) in enumerate([("a", 1), (None, 1), ("b", None)]):
        builder.file([wide(at * 10 + number, p, q) for number in range(10)])
    return builder


def with_column_mapping(mode: str) -> Callable[[TableBuilder], TableBuilder]:
    return lambda builder: wide_files(builder.column_mapping(mode))


def many_files(builder: TableBuilder) -> TableBuilder:
    builder.deletion_vectors()
    for at in range(12):
        builder.file(ids(at * 10, at * 10 + 10))
    return builder


def large_file(builder: TableBuilder) -> TableBuilder:
    return builder.deletion_vectors().file(ids(0, 70_000), row_group_size=30_000).file(ids(70_000, 70_010))


def plain_files(builder: TableBuilder) -> TableBuilder:
    """No deletion vectors: every DELETE rewrites."""
    return builder.file([wide(number) for number in range(20)]).file([wide(number) for number in range(20, 30)])


def with_features(
    build: Callable[[TableBuilder], Any], *names: str, **properties: str
) -> Callable[[TableBuilder], Any]:
    def built(builder: TableBuilder) -> Any:
        for name in names:
            builder.feature(name)
        for name, value in properties.items():
            builder.table_property(f"delta.{name.replace('__', '.')}", value)
        return build(builder)

    return built


# --- deletes ----------------------------------------------------------------------------------------------------------

BY_ROW = (
    Step("id = 0 OR id = 19", lambda row: row["id"] in (0, 19)),
    Step("text IS NULL AND id < 30", lambda row: row["text"] is None and row["id"] < 30),
    Step("id BETWEEN 38 AND 41", lambda row: 38 <= row["id"] <= 41),
    Step("nested.x > 42", lambda row: row["nested"] is not None and row["nested"]["x"] > 42),
    Step("id = 1000", lambda row: row["id"] == 1000),
)
WHOLE_FILE = Step("id < 20", lambda row: row["id"] < 20)
CHECKPOINTED = (BY_ROW[0], Step(BY_ROW[1].sql, BY_ROW[1].holds, checkpoint=True), *BY_ROW[2:], WHOLE_FILE)

SCENARIOS: dict[str, Scenario] = {
    "unpartitioned": Scenario(WIDE, wide_files, (*BY_ROW, WHOLE_FILE)),
    "partitioned": Scenario(
        WIDE,
        partitioned_files,
        (
            Step("id IN (0, 9, 10, 25)", lambda row: row["id"] in (0, 9, 10, 25)),
            Step("p IS NULL AND q = 1", lambda row: row["p"] is None and row["q"] == 1),
            Step("p = 'a:b' AND id % 2 = 0", lambda row: row["p"] == "a:b" and row["id"] % 2 == 0),
            Step("q IS NULL AND flag", lambda row: row["q"] is None and row["flag"]),
            Step("p = 'a b%/=é'", lambda row: row["p"] == "a b%/=é"),
            Step("p <=> NULL AND id >= 35", lambda row: row["p"] is None and row["id"] >= 35),
        ),
    ),
    "partitioned, plain names": Scenario(
        WIDE,
        plainly_partitioned_files,
        (
            Step("id IN (0, 9, 10, 25)", lambda row: row["id"] in (0, 9, 10, 25)),
            Step("p IS NULL AND id > 12", lambda row: row["p"] is None and row["id"] > 12),
            Step("q IS NULL", lambda row: row["q"] is None),
        ),
    ),
    "mapped by name": Scenario(WIDE, with_column_mapping("name"), BY_ROW, frozenset({"columnMapping"})),
    "mapped by id": Scenario(WIDE, with_column_mapping("id"), BY_ROW, frozenset({"columnMapping"})),
    "mapped and partitioned": Scenario(
        WIDE,
        lambda builder: partitioned_files(builder.column_mapping("name")),
        (
            Step("id IN (0, 9, 10, 25)", lambda row: row["id"] in (0, 9, 10, 25)),
            Step("p = 'a:b' AND q = 2", lambda row: row["p"] == "a:b" and row["q"] == 2),
        ),
        frozenset({"columnMapping"}),
    ),
    "many vectors in one file": Scenario(
        ID,
        many_files,
        (Step("id % 10 = 3", lambda row: row["id"] % 10 == 3), Step("id % 10 = 4", lambda row: row["id"] % 10 == 4)),
    ),
    "vectors below a prefix": Scenario(
        ID,
        with_features(many_files, randomizeFilePrefixes="true", randomPrefixLength="3"),
        (Step("id % 10 = 3", lambda row: row["id"] % 10 == 3), Step("id = 4", lambda row: row["id"] == 4)),
    ),
    "borders of containers": Scenario(
        ID,
        large_file,
        (
            Step("id IN (0, 65535, 65536, 69999)", lambda row: row["id"] in (0, 65535, 65536, 69999)),
            Step("id BETWEEN 65530 AND 65540", lambda row: 65530 <= row["id"] <= 65540),
            Step("id % 2 = 0", lambda row: row["id"] % 2 == 0),
            Step("id BETWEEN 1 AND 66000", lambda row: 1 <= row["id"] <= 66000),
        ),
    ),
    "classic checkpoint": Scenario(WIDE, wide_files, CHECKPOINTED),
    "V2 checkpoint": Scenario(
        WIDE,
        with_features(wide_files, "v2Checkpoint", checkpointPolicy="v2"),
        CHECKPOINTED,
        frozenset({"v2Checkpoint"}),
    ),
    "rewritten": Scenario(WIDE, plain_files, BY_ROW),
    "marked and then rewritten": Scenario(
        WIDE,
        wide_files,
        (
            BY_ROW[0],
            Step(BY_ROW[1].sql, BY_ROW[1].holds, vectors="off"),
            Step(BY_ROW[2].sql, BY_ROW[2].holds),
            Step("id < 25", lambda row: row["id"] < 25),
        ),
    ),
    "marked or rewritten, whichever is better": Scenario(
        WIDE, wide_files, (Step("id < 15 OR id = 25", lambda row: row["id"] < 15 or row["id"] == 25, vectors="auto"),)
    ),
    "change data feed": Scenario(
        WIDE,
        with_features(lambda builder: wide_files(builder.change_data_feed())),
        (BY_ROW[0], Step(BY_ROW[1].sql, BY_ROW[1].holds, vectors="off")),
    ),
    "row tracking": Scenario(WIDE, lambda builder: wide_files_counted(builder.row_tracking()), BY_ROW[:3]),
    "timestamps in commits": Scenario(WIDE, lambda builder: wide_files(builder.in_commit_timestamps()), BY_ROW[:2]),
    "path with odd characters": Scenario(WIDE, partitioned_files, (BY_ROW[0],), directory="a b%#é+"),
    "everything": Scenario(ID, many_files, (Step("id < 5", lambda row: row["id"] < 5), Step(None))),
}


def wide_files_counted(builder: TableBuilder) -> TableBuilder:
    """Row ids are given by counting rows, so every file must say how many it has."""
    builder.deletion_vectors()
    builder.file([wide(number) for number in range(20)], row_group_size=6)
    return builder.file([wide(number) for number in range(20, 40)])
