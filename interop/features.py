"""Which kinds of table are asked about?

One small table for each feature of the protocol, made of a definition (columns, partitioning, properties) and of rows
that are computed from a number. The same story happens to all of them (`interop.stories`). Nothing here knows an
engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

import pyarrow as pa

from interop.steps import KEY, Model, Row

__all__ = ["FEATURES", "Definition", "Feature", "ddl_type"]

VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED_BY_NAME = {"delta.columnMapping.mode": "name"}
COLUMNS = (pa.field(KEY, pa.int64()), pa.field("n", pa.int64()), pa.field("v", pa.string()))
# Directory names that need encoding, and a value that a directory cannot name.
PARTITIONS = ("a", None, "x y", "ü=100%", "a/b#c", "b")


@dataclass(frozen=True)
class Definition:
    """A table as engines are told of it; `columns` are names and types of Spark's SQL, `schema` the same in Arrow's."""

    columns: tuple[tuple[str, str], ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    generated: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema | None = None

    def to_json(self) -> dict[str, Any]:
        """All but the Arrow schema, for engines that are told in SQL."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "schema"}


@dataclass(frozen=True)
class Feature:
    """`extra` gives a row what its further columns hold. `protocol` are the table features that it is about.

    `in_short` features are asked about in every CI run, `has_history` ones are taken turns on, `is_maintained` ones
    are compacted, vacuumed, restored and cloned.
    """

    name: str
    columns: tuple[pa.Field, ...] = ()
    extra: Callable[[int], Row] = lambda _: {}
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    generated: Mapping[str, tuple[str, Callable[[Row], Any]]] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    protocol: tuple[str, ...] = ()
    in_short: bool = False
    has_history: bool = False
    is_maintained: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*COLUMNS, *self.columns])

    @property
    def definition(self) -> Definition:
        return Definition(
            tuple((each.name, ddl_type(each.type)) for each in self.schema),
            self.partition_by,
            dict(self.properties),
            {name: sql for name, (sql, _) in self.generated.items()},
            dict(self.checks),
            self.schema,
        )

    def model(self) -> Model:
        return Model(self.schema, self.partition_by, {name: computed for name, (_, computed) in self.generated.items()})

    def row(self, number: int, n: int) -> Row:
        row = {KEY: number, "n": n, "v": None if number % 4 == 3 else f"v{number}"} | self.extra(number)
        return row | {name: computed(row) for name, (_, computed) in self.generated.items()}


def ddl_type(data_type: pa.DataType) -> str:
    """The name of a type in Spark's SQL."""
    if pa.types.is_struct(data_type):
        return f"STRUCT<{', '.join(f'{each.name}: {ddl_type(each.type)}' for each in data_type)}>"
    if pa.types.is_map(data_type):
        return f"MAP<{ddl_type(data_type.key_type)}, {ddl_type(data_type.item_type)}>"
    if pa.types.is_list(data_type):
        return f"ARRAY<{ddl_type(data_type.value_type)}>"
    if pa.types.is_decimal(data_type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return _NAMES[data_type]


_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}


# --- rows -------------------------------------------------------------------------------------------------------------


def _partition(number: int) -> Row:
    return {"p": PARTITIONS[number % len(PARTITIONS)], "d": dt.date(1969, 12, 31) + dt.timedelta(days=number % 3)}


def _empty_partition(number: int) -> Row:
    return {"p": "" if number % 3 == 1 else "a"}


def _nested(number: int) -> Row:
    """Nulls at every depth, empty lists and maps."""
    return {
        "s": None if number % 7 == 6 else {"a": number, "b": None if number % 2 else {"c": f"c{number}"}},
        "l": (None, [], [number, None], [1, 2, 3])[number % 4],
        "m": (None, [], [("k", number), ("z", None)])[number % 3],
        "ls": None if number % 5 == 4 else [{"x": number, "y": None}, None][: number % 3],
    }


_UTC = dt.timezone.utc
_PRIMITIVES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "flag": (pa.bool_(), (True, False, None)),
    "tiny": (pa.int8(), (-128, 127, None, 0)),
    "small": (pa.int16(), (-32768, 32767, None)),
    "normal": (pa.int32(), (-(2**31), 2**31 - 1, None)),
    "large": (pa.int64(), (-(2**63), 2**63 - 1, None)),
    "single": (pa.float32(), (1.5, float("inf"), None, -0.0)),
    "double": (pa.float64(), (1e300, float("-inf"), None, 0.1)),
    "money": (pa.decimal128(9, 2), (Decimal("1234567.89"), Decimal("-0.01"), None)),
    "exact": (pa.decimal128(38, 10), (Decimal("9999999999999999999999999999.0123456789"), Decimal(0), None)),
    "bytes": (pa.binary(), (b"", b"\x00\xff", None)),
    "day": (pa.date32(), (dt.date(1969, 12, 31), dt.date(1900, 1, 1), dt.date(2199, 12, 31), None)),
    "at": (
        pa.timestamp("us", "UTC"),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999999, _UTC), dt.datetime(2038, 1, 20, tzinfo=_UTC), None),
    ),
    "local": (pa.timestamp("us"), (dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2024, 3, 31, 2, 30), None)),
}


def _primitives(number: int) -> Row:
    return {name: values[number % len(values)] for name, (_, values) in _PRIMITIVES.items()}


# --- the list ---------------------------------------------------------------------------------------------------------

_PARTED = (pa.field("p", pa.string()), pa.field("d", pa.date32()))
_NESTED = (
    pa.field("s", pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.string()})})),
    pa.field("l", pa.list_(pa.int64())),
    pa.field("m", pa.map_(pa.string(), pa.int64())),
    pa.field("ls", pa.list_(pa.struct({"x": pa.int64(), "y": pa.string()}))),
)

_FEED = {"delta.enableChangeDataFeed": "true"}
_BY_ID = {"delta.columnMapping.mode": "id"}
_CLASSIC = {"delta.checkpointInterval": "2"}
_V2 = _CLASSIC | {"delta.checkpointPolicy": "v2"}
_DV, _CM, _CDF = "deletionVectors", "columnMapping", "changeDataFeed"
_DOUBLED = {"g": ("n * 2", lambda row: row["n"] * 2)}
_TYPES = tuple(pa.field(name, kind) for name, (kind, _) in _PRIMITIVES.items())

FEATURES = (
    Feature("plain", in_short=True, has_history=True, is_maintained=True),
    Feature("partitions", _PARTED, _partition, ("p", "d"), has_history=True),
    Feature("empty partition value", _PARTED[:1], _empty_partition, ("p",)),
    Feature(
        "deletion vectors", properties=VECTORS, protocol=(_DV,), in_short=True, has_history=True, is_maintained=True
    ),
    Feature(
        "deletion vectors in partitions", _PARTED, _partition, ("p", "d"), VECTORS,
        protocol=(_DV,), in_short=True, is_maintained=True,
    ),
    Feature(
        "column mapping by name", properties=MAPPED_BY_NAME | VECTORS, protocol=(_CM, _DV), has_history=True,
        is_maintained=True,
    ),
    Feature("column mapping by id", properties=_BY_ID, protocol=(_CM,)),
    Feature("column mapping and partitions", _PARTED, _partition, ("p", "d"), MAPPED_BY_NAME, protocol=(_CM,)),
    Feature("change data feed", properties=_FEED, protocol=(_CDF,)),
    Feature("change data feed and vectors", properties=_FEED | VECTORS, protocol=(_CDF, _DV), is_maintained=True),
    Feature(
        "row tracking", properties={"delta.enableRowTracking": "true"}, protocol=("rowTracking",), is_maintained=True
    ),
    Feature(
        "in-commit timestamps", properties={"delta.enableInCommitTimestamps": "true"}, protocol=("inCommitTimestamp",)
    ),
    Feature("classic checkpoint", properties=_CLASSIC | VECTORS, protocol=(_DV,), in_short=True),
    Feature("V2 checkpoint", properties=_V2 | VECTORS, protocol=("v2Checkpoint", _DV)),
    Feature("nested types", _NESTED, _nested),
    Feature("primitive types", _TYPES, _primitives, protocol=("timestampNtz",)),
    Feature("CHECK constraint", checks={"small": f"{KEY} < 1000"}, protocol=("checkConstraints",)),
    Feature("generated column", (pa.field("g", pa.int64()),), generated=_DOUBLED, protocol=("generatedColumns",)),
)  # fmt: skip
