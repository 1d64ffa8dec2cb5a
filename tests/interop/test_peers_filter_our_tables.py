"""Do our statistics ever hide a row from an engine that skips files by them?

Rows are drawn with the values at which a bound could be cut, rounded or put in the wrong order, a few in each file, and come
into a table by a write, an UPDATE, a MERGE, or stay there after DELETEs. Then hypothesis asks DuckDB, deltalake and Polars for
`column <operator> value`, and the rows each engine gives are compared with the same filter in Python. The last test
falsifies bounds, to see that these engines do skip by what the log says.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.log_reading import log_state
from tests.support.peers import duckdb_connection
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import DeltaTable

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("duckdb")
pytest.importorskip("duckdb_extension_delta")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.spark

EPOCH = dt.datetime(1970, 1, 1)
UTC = dt.timezone.utc
FILES, ROWS_A_FILE = 24, 3
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

# --- values -----------------------------------------------------------------------------------------------------------

# One, two, three and four bytes in UTF-8; below and above the surrogates of UTF-16; the last of ASCII and of everything.
CHARACTERS = "ak\x7fé€\ud7ff\ue000\uffff\U00010000\U0001f600\U0010fffe\U0010ffff"
LENGTHS = (0, 1, 15, 16, 17, 30, 31, 32, 33, 34, 40, 63, 64, 65, 70)
DOUBLES = (math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5, -1.5, 0.1, 5e-324, 1.7976931348623157e308, 2.0**53)
SINGLES = (math.nan, -0.0, 0.0, math.inf, -math.inf, 0.1, 16777216.0, 1e-45, 3.4028234663852886e38, -0.3)
MICROSECONDS = (-1, 0, 1, 999, 1000, 1001, -999, -1000, -1001, 1704110400123456, -62135596800000000, 253402300799999999)
DAYS = (dt.date(1, 1, 1), dt.date(999, 12, 31), dt.date(1582, 10, 10), dt.date(1969, 12, 31), dt.date(9999, 12, 31))
LONGS = (-(2**63), -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1)


def text(rng: random.Random) -> str:
    start = rng.choice(CHARACTERS) * rng.choice(LENGTHS)
    return start + "".join(rng.choice(CHARACTERS) for _ in range(rng.randrange(4)))


def double(rng: random.Random) -> float:
    return rng.choice(DOUBLES) if rng.random() < 0.7 else rng.uniform(-3, 3)


def single(rng: random.Random) -> float:
    value = rng.choice(SINGLES) if rng.random() < 0.7 else rng.uniform(-3, 3)
    return struct.unpack("<f", struct.pack("<f", value))[0]


def moment(rng: random.Random) -> dt.datetime:
    micros = rng.choice(MICROSECONDS) + (rng.random() < 0.3) * rng.randrange(2000)
    return EPOCH + dt.timedelta(microseconds=min(micros, MICROSECONDS[-1]))


def instant(rng: random.Random) -> dt.datetime:
    return moment(rng).replace(tzinfo=UTC)


def day(rng: random.Random) -> dt.date:
    return rng.choice(DAYS) if rng.random() < 0.5 else dt.date(1970, 1, 1) + dt.timedelta(days=rng.randrange(-900, 900))


def decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def draw(rng: random.Random) -> Decimal:
        digits = rng.choice(
            [10**precision - 1, 10**precision - 2, 10 ** (precision - 1), 1, 0, rng.randrange(10**precision)]
        )
        return Decimal((rng.randrange(2), tuple(map(int, str(digits))), -scale))

    return draw


@dataclass(frozen=True)
class Column:
    """A column to filter by: its values, its type, and how each engine writes it and one of its values."""

    name: str
    draw: Callable[[random.Random], Any]
    arrow: pa.DataType
    duckdb_type: str
    deltalake_type: str
    polars_type: Any

    @property
    def path(self) -> list[str]:
        return self.name.split(".")

    def of(self, row: dict[str, Any] | None) -> Any:
        for step in self.path:
            row = None if row is None else row[step]
        return row


COLUMNS = {
    column.name: column
    for column in (
        Column("n", lambda rng: rng.choice(LONGS), pa.int64(), "BIGINT", "Int64", pl.Int64),
        Column("s", text, pa.string(), "VARCHAR", "Utf8", pl.String),
        Column("d", double, pa.float64(), "DOUBLE", "Float64", pl.Float64),
        Column("f", single, pa.float32(), "FLOAT", "Float32", pl.Float32),
        Column("ts", instant, pa.timestamp("us", "UTC"), "TIMESTAMPTZ", 'Timestamp(Microsecond, Some("UTC"))', pl.Datetime("us", "UTC")),
        Column("ntz", moment, pa.timestamp("us"), "TIMESTAMP", "Timestamp(Microsecond, None)", pl.Datetime("us")),
        Column("day", day, pa.date32(), "DATE", "Date32", pl.Date),
        Column("small", decimal(5, 2), pa.decimal128(5, 2), "DECIMAL(5,2)", "Decimal128(5, 2)", pl.Decimal(5, 2)),
        Column("medium", decimal(18, 6), pa.decimal128(18, 6), "DECIMAL(18,6)", "Decimal128(18, 6)", pl.Decimal(18, 6)),
        Column("large", decimal(38, 4), pa.decimal128(38, 4), "DECIMAL(38,4)", "Decimal128(38, 4)", pl.Decimal(38, 4)),
        Column("none", text, pa.string(), "VARCHAR", "Utf8", pl.String),
        Column("st.in", text, pa.string(), "VARCHAR", "Utf8", pl.String),
        Column("st.deep.ts", instant, pa.timestamp("us", "UTC"), "TIMESTAMPTZ", 'Timestamp(Microsecond, Some("UTC"))', pl.Datetime("us", "UTC")),
        Column("st.deep.d", double, pa.float64(), "DOUBLE", "Float64", pl.Float64),
    )
}  # fmt: skip
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "file": pa.int32(),
        **{column.name: column.arrow for column in COLUMNS.values() if len(column.path) == 1},
        "st": pa.struct({"in": pa.string(), "deep": pa.struct({"ts": pa.timestamp("us", "UTC"), "d": pa.float64()})}),
    }
)


def drawn_rows(rng: random.Random) -> list[dict[str, Any]]:
    return [
        row(rng, file, file * ROWS_A_FILE + at) for file in range(FILES) for at in range(rng.randint(1, ROWS_A_FILE))
    ]


def row(rng: random.Random, file: int, number: int) -> dict[str, Any]:
    values = {name: None if rng.random() < 0.15 else column.draw(rng) for name, column in COLUMNS.items()}
    deep = {"ts": values.pop("st.deep.ts"), "d": values.pop("st.deep.d")}
    inner = {"in": values.pop("st.in"), "deep": deep if rng.random() < 0.9 else None}
    return {"id": number, "file": file, **values, "none": None, "st": inner if rng.random() < 0.9 else None}


# --- tables -----------------------------------------------------------------------------------------------------------

VECTORS = {"delta.enableDeletionVectors": "true"}


def written(spark, path, rows):
    put(spark, path, rows[::2])
    put(spark, path, rows[1::2], mode="append")
    return rows


def updated(spark, path, rows):
    """Most rows lie in files that UPDATE wrote; the others in files whose bounds are no longer tight."""
    put(spark, path, rows, partition_by=["file"])
    DeltaTable.forPath(spark, str(path)).update("id % 7 <> 0", {"id": "id"})
    return rows


def merged(spark, path, rows):
    """Half of the rows are there under the values of others, and are updated; the other half is inserted."""
    mixed = [other | {"id": row["id"]} for row, other in pairwise(rows)]
    put(spark, path, mixed[::2], partition_by=["file"])
    merge = DeltaTable.forPath(spark, str(path)).alias("t").merge(frame(spark, rows).alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    return rows


def deleted_from(spark, path, rows):
    """Marked rows widen bounds and stay in them; then some files are written anew."""
    put(spark, path, rows)
    table = DeltaTable.forPath(spark, str(path))
    table.delete("id % 3 = 0")
    table.delete("id % 11 = 1", deletion_vectors="off")
    return [row for row in rows if row["id"] % 3 and row["id"] % 11 != 1]


def put(spark, path, rows, **options):
    """About one file for each number in `file`; exactly one where that is the partition column."""
    if "mode" not in options:
        options["properties"] = VECTORS
    ebbtide.write(frame(spark, rows).repartitionByRange(FILES, "file"), str(path), **options)


def frame(spark, rows):
    """Spark takes an Arrow timestamp without a zone for one of the session's zone, which is UTC."""
    made = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    return made.withColumn("ntz", made["ntz"].cast("timestamp_ntz"))


MADE = {"written": written, "updated": updated, "merged": merged, "deleted from": deleted_from}


@dataclass(frozen=True)
class Table:
    path: Path
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module", params=list(MADE))
def table(spark, request, tmp_path_factory):
    path = tmp_path_factory.mktemp("filtered") / "t"
    rows = drawn_rows(random.Random(f"filters {request.param}"))
    left = MADE[request.param](spark, path, rows)
    assert {row["id"] for row in ebbtide.read(spark, str(path)).select("id").collect()} == {row["id"] for row in left}
    assert len(log_state(path).live) >= FILES // 2, "so few files cannot be told apart by their bounds"
    return Table(path, left)


# --- filters ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter:
    """`column <sign> value`, or IS NULL when the value is None and the sign is `=`."""

    column: Column
    sign: str
    value: Any

    def sql(self, name: str, literal: str) -> str:
        if self.value is None:
            return f"{name} IS {'NOT ' * (self.sign != '=')}NULL"
        return f"{name} {self.sign} {literal}"

    def keeps(self, row: dict[str, Any], key: Callable[[Any], Any]) -> bool:
        have = self.column.of(row)
        if self.value is None:
            return (have is None) == (self.sign == "=")
        return have is not None and OPERATORS[self.sign](key(have), key(self.value))


def nan_is_greatest(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def spelled(value: Any) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value).replace("'", "''")


def ids_by_duckdb(path: Path, asked: Filter) -> list[int]:
    name = ".".join(f'"{step}"' for step in asked.column.path)
    condition = asked.sql(name, f"CAST('{spelled(asked.value)}' AS {asked.column.duckdb_type})")
    with duckdb_connection() as connection:
        found = connection.execute(f"SELECT id FROM delta_scan($path) WHERE {condition}", {"path": str(path)})
        return [number for (number,) in found.fetchall()]


def ids_by_deltalake(path: Path, asked: Filter) -> list[int]:
    first, *steps = asked.column.path
    name = f'"{first}"' + "".join(f"['{step}']" for step in steps)
    condition = asked.sql(name, f"arrow_cast('{spelled(asked.value)}', '{asked.column.deltalake_type}')")
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(path)))
    return pa.table(engine.execute(f"SELECT id FROM t WHERE {condition}").read_all())["id"].to_pylist()


def ids_by_polars(path: Path, asked: Filter) -> list[int]:
    first, *steps = asked.column.path
    column = pl.col(first)
    for step in steps:
        column = column.struct.field(step)
    if asked.value is None:
        condition = column.is_null() if asked.sign == "=" else column.is_not_null()
    else:
        condition = OPERATORS[asked.sign](column, pl.lit(asked.value, dtype=asked.column.polars_type))
    return pl.scan_delta(str(path)).filter(condition).select("id").collect()["id"].to_list()


ASKED = {"DuckDB": ids_by_duckdb, "deltalake": ids_by_deltalake, "Polars": ids_by_polars}


@pytest.mark.parametrize("name", list(COLUMNS))
@settings(max_examples=8, deadline=None, database=None, derandomize=True)
@given(st.data())
def test_filter_finds_every_row(table, name, data):
    column = COLUMNS[name]
    known = [column.of(row) for row in table.rows] or [None]
    fresh = st.integers(0, 2**32).map(lambda seed: column.draw(random.Random(seed)))
    value = data.draw(st.sampled_from(known) | fresh, label="value")
    asked = Filter(column, data.draw(st.sampled_from(list(OPERATORS)), label="sign"), value)
    expected = sorted(row["id"] for row in table.rows if asked.keeps(row, nan_is_greatest))
    found = {peer: sorted(ids(table.path, asked)) for peer, ids in ASKED.items()}
    assert found == dict.fromkeys(ASKED, expected)


# --- do they skip at all? ---------------------------------------------------------------------------------------------

# (the value in the file, the bound that the log claims)
FALSIFIED = {
    "n": (5, -1),
    "s": ("m", "a"),
    "d": (1.5, -1.5),
    "f": (1.5, -1.5),
    "ts": (dt.datetime(2024, 1, 1, tzinfo=UTC), "1999-01-01T00:00:00.000Z"),
    "ntz": (dt.datetime(2024, 1, 1), "1999-01-01T00:00:00.000"),
    "day": (dt.date(2024, 1, 1), "1999-01-01"),
    "small": (Decimal("5.00"), -1.5),
    "medium": (Decimal("5.000000"), -1.5),
    "large": (Decimal("5.0000"), -1.5),
}
# DuckDB 1.5 looks into every file when it is asked for a time.
NEVER_SKIPS_BY = {("DuckDB", "ts"), ("DuckDB", "ntz")}


@pytest.mark.parametrize("is_nested", [False, True], ids=["column", "field"])
@pytest.mark.parametrize("name", list(FALSIFIED))
def test_false_bound_does_hide_a_row(tmp_path, name, is_nested):
    """Else the tests above could not fail."""
    value, bound = FALSIFIED[name]
    column = COLUMNS[name]
    if is_nested:
        column = replace(column, name=f"st.{name}")
        fields, row, bounds = {"st": pa.struct({name: column.arrow})}, {"st": {name: value}}, {"st": {name: bound}}
    else:
        fields, row, bounds = {name: column.arrow}, {name: value}, {name: bound}
    table = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), **fields})).feature("timestampNtz")
    table.file([{"id": 1, **row}])
    claim = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}
    table.files[0].add["stats"] = json.dumps(claim)
    table.commit()
    found = {peer: ids(table.path, Filter(column, "=", value)) for peer, ids in ASKED.items()}
    assert found == {peer: [1] if (peer, name) in NEVER_SKIPS_BY else [] for peer in ASKED}
