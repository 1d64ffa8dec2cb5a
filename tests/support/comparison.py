"""Do two tables hold the same rows, with the same types, in whatever order?

Both sides become Arrow tables (a Spark DataFrame through `toArrow`, plain Python rows through a schema), and are compared
as multisets. Column names, their order and their types must agree; nullability need not, since engines differ in what they
promise there. Values are exact: a timestamp is its microseconds, -0.0 is not 0.0, a decimal keeps its scale; NaN equals
NaN; the entries of a map have no order. A variant (in Arrow a struct of `metadata` and `value`) is compared by what it
says, since the same value has several encodings.

`assert_same_rows` raises an `AssertionError` with the first missing and unexpected rows; `difference` returns that text.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType, VariantVal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["arrow_table", "assert_same_rows", "difference", "type_name"]

SHOWN_ROWS = 5
SHOWN_CHARACTERS = 400
NAN = "NaN"
NEGATIVE_ZERO = "-0.0"
VARIANT = "variant"


def assert_same_rows(actual: Any, expected: Any, *, label: str = "table") -> None:
    """Fail unless both sides hold the same multiset of rows.

    Each side is a Spark DataFrame, an Arrow table, or (the expected one only) a list of dictionaries, which then takes
    the schema of the actual side and so says nothing about types.
    """
    found = difference(actual, expected)
    if found:
        raise AssertionError(f"{label}: {found}")


def difference(actual: Any, expected: Any) -> str:
    """What differs, in a few lines; empty when nothing does."""
    actual_table = arrow_table(actual)
    expected_table = _expected_table(expected, actual_table.schema)
    return _schema_difference(actual_table.schema, expected_table.schema) or _row_difference(
        actual_table, expected_table
    )


def arrow_table(data: pa.Table | DataFrame) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    return _collect(data) if "variant" in data.schema.simpleString() else data.toArrow()


def _collect(frame: DataFrame) -> pa.Table:
    """What `toArrow` should return: Spark 4.2's own conversion refuses a variant that is null."""
    schema = frame.limit(0).toArrow().schema
    fields = frame.schema.fields
    rows = frame.collect()
    columns = [[_plain(row[at], field.dataType) for row in rows] for at, field in enumerate(fields)]
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, names=schema.names)


def _plain(value: Any, data_type: DataType) -> Any:
    """A value that Spark collected, in the form that Arrow takes for the same type."""
    if value is None:
        return None
    match data_type:
        case StructType():
            return {field.name: _plain(value[at], field.dataType) for at, field in enumerate(data_type.fields)}
        case ArrayType():
            return [_plain(item, data_type.elementType) for item in value]
        case MapType():
            return [(_plain(key, data_type.keyType), _plain(item, data_type.valueType)) for key, item in value.items()]
        case VariantType():
            return {"metadata": value.metadata, "value": value.value}
        case TimestampType():
            # Collected instants are in the zone of this process and do not say so.
            return value.astimezone(dt.timezone.utc)
    return value


def _expected_table(expected: Any, schema: pa.Schema) -> pa.Table:
    if not isinstance(expected, Sequence):
        return arrow_table(expected)
    for row in expected:
        if set(row) != set(schema.names):
            raise AssertionError(f"the expected row {row} does not name the columns {schema.names}")
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist([dict(row) for row in expected], schema=nullable)


# --- types ------------------------------------------------------------------------------------------------------------


def _schema_difference(actual: pa.Schema, expected: pa.Schema) -> str:
    if actual.names != expected.names:
        return f"columns are {actual.names}, expected {expected.names}"
    lines = [
        f"column {have.name} is {type_name(have.type)}, expected {type_name(want.type)}"
        for have, want in zip(actual, expected, strict=True)
        if type_name(have.type) != type_name(want.type)
    ]
    return "\n".join(lines)


def type_name(data_type: pa.DataType) -> str:
    """A type without what does not matter: nullability, names of list elements, 64-bit offsets, dictionary encoding."""
    if _is_variant(data_type):
        return VARIANT
    if pa.types.is_struct(data_type):
        return f"struct<{', '.join(f'{field.name}: {type_name(field.type)}' for field in data_type)}>"
    if pa.types.is_map(data_type):
        return f"map<{type_name(data_type.key_type)}, {type_name(data_type.item_type)}>"
    if _is_list(data_type):
        return f"list<{type_name(data_type.value_type)}>"
    if pa.types.is_dictionary(data_type):
        return type_name(data_type.value_type)
    return str(data_type).removeprefix("large_").removesuffix("_view")


def _is_list(data_type: pa.DataType) -> bool:
    return pa.types.is_list(data_type) or pa.types.is_large_list(data_type)


def _is_variant(data_type: pa.DataType) -> bool:
    if not pa.types.is_struct(data_type) or data_type.num_fields != 2:
        return False
    return {(field.name, type_name(field.type)) for field in data_type} == {
        ("metadata", "binary"),
        ("value", "binary"),
    }


# --- values -----------------------------------------------------------------------------------------------------------


def _row_difference(actual: pa.Table, expected: pa.Table) -> str:
    actual_rows, expected_rows = _rows(actual), _rows(expected)
    actual_counts, expected_counts = Counter(actual_rows), Counter(expected_rows)
    if actual_counts == expected_counts:
        return ""
    missing = expected_counts - actual_counts
    unexpected = actual_counts - expected_counts
    lines = [f"{actual.num_rows} rows, expected {expected.num_rows}"]
    lines += _describe_rows("missing", missing, expected, expected_rows)
    lines += _describe_rows("unexpected", unexpected, actual, actual_rows)
    return "\n".join(lines)


def _describe_rows(title: str, rows: Counter[Any], table: pa.Table, all_rows: list[Any]) -> Iterator[str]:
    yield f"{title}: {rows.total()}"
    positions = {row: position for position, row in enumerate(all_rows) if row in rows}
    for row, count in list(rows.items())[:SHOWN_ROWS]:
        times = f" (x{count})" if count > 1 else ""
        text = ", ".join(
            f"{column.name}={value}"
            for column, value in zip(table.schema, _readable(table, positions[row], row), strict=True)
        )
        yield f"  {text[:SHOWN_CHARACTERS]}{times}"
    if len(rows) > SHOWN_ROWS:
        yield f"  and {len(rows) - SHOWN_ROWS} more"


def _readable(table: pa.Table, position: int, row: Any) -> Iterator[str]:
    for column, compared in zip(table.columns, row, strict=True):
        try:
            yield repr(column[position].as_py())
        except (ValueError, OverflowError):
            # Instants that Python's datetime cannot hold are shown as they were compared.
            yield repr(compared)


def _rows(table: pa.Table) -> list[Any]:
    """Every row as one hashable tuple that is equal to another exactly when the rows are the same."""
    if not table.num_columns:
        return [()] * table.num_rows
    columns = [_chunked_values(column) for column in table.columns]
    return list(zip(*columns, strict=True))


def _chunked_values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = []
    for chunk in column.chunks:
        values += _values(chunk)
    return values


def _values(array: pa.Array) -> list[Any]:
    data_type = array.type
    for applies, convert in _CONVERSIONS:
        if applies(data_type):
            return convert(array)
    return array.to_pylist()


def _variant_values(array: pa.StructArray) -> list[Any]:
    return [None if row is None else (VARIANT, _python_value(row)) for row in array.to_pylist()]


def _python_value(variant: Mapping[str, bytes]) -> Any:
    return _hashable(VariantVal(variant["value"], variant["metadata"]).toPython())


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, float):
        return _float(value)
    # Python holds True and 1 for equal; a variant does not.
    return (type(value).__name__, value)


def _struct_values(array: pa.StructArray) -> list[Any]:
    fields = [_values(child) for child in array.flatten()]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(array))
    return [row if valid else None for row, valid in zip(rows, _validity(array), strict=True)]


def _list_values(array: pa.ListArray) -> list[Any]:
    return _slices(array, _values(array.values), tuple)


def _map_values(array: pa.MapArray) -> list[Any]:
    entries = list(zip(_values(array.keys), _values(array.items), strict=True))
    # A multiset, not a set: a map that holds a key twice is not one that holds it once.
    return _slices(array, entries, lambda pairs: frozenset(Counter(pairs).items()))


def _slices(array: Any, values: list[Any], make: Callable[[list[Any]], Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [
        make(values[offsets[row] : offsets[row + 1]]) if valid else None for row, valid in enumerate(_validity(array))
    ]


def _validity(array: pa.Array) -> list[bool]:
    return array.is_valid().to_pylist()


def _float_values(array: pa.Array) -> list[Any]:
    return [None if value is None else _float(value) for value in array.to_pylist()]


def _float(value: float) -> Any:
    if math.isnan(value):
        return NAN
    return NEGATIVE_ZERO if value == 0 and str(value).startswith("-") else value


def _integer_values(array: pa.Array) -> list[Any]:
    """Instants as their integers: Python's datetime ends at year 9999 and knows no year 0."""
    width = array.type.bit_width
    return array.view(pa.int64() if width == 64 else pa.int32()).to_pylist()


def _decoded_values(array: pa.DictionaryArray) -> list[Any]:
    return _values(array.dictionary_decode())


# The first that applies wins: a variant is a struct as well.
_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], list[Any]]], ...] = (
    (_is_variant, _variant_values),
    (pa.types.is_struct, _struct_values),
    (pa.types.is_map, _map_values),
    (_is_list, _list_values),
    (pa.types.is_floating, _float_values),
    (pa.types.is_temporal, _integer_values),
    (pa.types.is_dictionary, _decoded_values),
)
