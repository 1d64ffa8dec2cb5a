"""Which columns does the table have, with which logical and physical names and types?

`parse_schema` turns a `schemaString` into frozen types of our own, so that nothing below the Spark border needs Spark.
`StructType.to_json` returns what `pyspark.sql.types.StructType.fromJson` takes. `physical_schema` translates to the
names (and, in id mode, the field ids) that are in the Parquet files. An untrusted schema is refused when it nests too
deep, repeats a column name (names are case-insensitive), or holds a type that is unknown (`CorruptTableError`) or known
but not served (`UnsupportedFeatureError`). See "Schema Serialization Format" and "Column Mapping" in PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.json_fields import INT32_MAX, MAX_DEPTH, JsonFields, ensure_shallow, load_json_object

__all__ = [
    "MAX_DEPTH",
    "ArrayType",
    "DataType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "all_fields",
    "field_id",
    "find_field",
    "leaf_columns",
    "logical_schema",
    "parse_primitive",
    "parse_schema",
    "partition_fields",
    "physical_name",
    "physical_schema",
    "split_column_path",
]

MAX_DECIMAL_PRECISION: Final = 38
COLUMN_ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
# Spark resolves Parquet columns by this id when spark.sql.parquet.fieldId.read.enabled is on.
PARQUET_FIELD_ID: Final = "parquet.field.id"
COLLATIONS: Final = "__COLLATIONS"
CHAR_VARCHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"

_PRIMITIVE_NAMES: Final = frozenset(
    {
        "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp",
        "timestamp_ntz", "variant", "void",
    }
)  # fmt: skip
_ALIASES: Final = {"null": "void", "decimal": "decimal(10,0)"}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,4})\s*,\s*(-?[0-9]{1,4})\s*\)", re.ASCII)
# Types that Spark knows but that we do not support in tables; saying so is more useful than "unknown type".
_UNSUPPORTED = re.compile(
    r"(geometry|geography|interval|time\([0-9]+\)|char\(|varchar\(|string collate |calendarinterval|object).*",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parts; `name` is the protocol's spelling, for decimals always `decimal(p,s)`."""

    name: str

    @property
    def decimal_bounds(self) -> tuple[int, int] | None:
        """(precision, scale), or None when this is not a decimal."""
        match = _DECIMAL.fullmatch(self.name)
        return None if match is None else (int(match[1]), int(match[2]))

    def to_json(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    element_type: DataType
    contains_null: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"type": "array", "elementType": self.element_type.to_json(), "containsNull": self.contains_null}


@dataclass(frozen=True, slots=True)
class MapType:
    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "map",
            "keyType": self.key_type.to_json(),
            "valueType": self.value_type.to_json(),
            "valueContainsNull": self.value_contains_null,
        }


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_identity(self) -> bool:
        """Whether the table generates the values of this column by counting."""
        return any(key.startswith("delta.identity.") for key in self.metadata)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type.to_json(),
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields in order. No two names are equal when case is ignored."""

    fields: tuple[StructField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.fields)

    def get(self, name: str) -> StructField | None:
        """The direct field with that name, ignoring case; names with dots are taken literally."""
        folded = name.lower()
        return next((item for item in self.fields if item.name.lower() == folded), None)

    def to_json(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [item.to_json() for item in self.fields]}

    def to_schema_string(self) -> str:
        # The standard encoder, because orjson stops at 254 levels and a legal schema may nest deeper in JSON.
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))


DataType: TypeAlias = PrimitiveType | ArrayType | MapType | StructType


def parse_schema(schema_string: str, *, source: str = "schemaString") -> StructType:
    """The table's columns. Raises CorruptTableError or UnsupportedFeatureError; see the module docstring."""
    parsed = _parse_type(load_json_object(schema_string, source=source), at=source, depth=0)
    if not isinstance(parsed, StructType):
        raise CorruptTableError(f"{source} must describe a struct")
    return parsed


def physical_name(column: StructField) -> str:
    """The name in Parquet files, partition values and statistics of a column-mapped table.

    Falls back to the logical name: tables without column mapping carry no such metadata. Ask only when mapping is on;
    a table that turned it off may still have the metadata.
    """
    name = JsonFields(column.metadata, subject=f"column '{column.name}'").optional_string(PHYSICAL_NAME)
    return column.name if name is None else name


def field_id(column: StructField) -> int | None:
    fields = JsonFields(column.metadata, subject=f"column '{column.name}'")
    return fields.optional_integer(COLUMN_ID, maximum=INT32_MAX)


def leaf_columns(schema: StructType) -> Iterator[tuple[StructField, ...]]:
    """Every leaf in schema order as the chain of fields from the root to it.

    Arrays and maps are leaves: statistics and skipping stop there. Map the chain through `name` or `physical_name`.
    """
    for item in schema.fields:
        if isinstance(item.type, StructType):
            for chain in leaf_columns(item.type):
                yield (item, *chain)
        else:
            yield (item,)


def all_fields(data_type: DataType) -> Iterator[StructField]:
    """Every field of every struct in the type, whatever it stands in; a field comes before those inside it."""
    match data_type:
        case StructType():
            for column in data_type.fields:
                yield column
                yield from all_fields(column.type)
        case ArrayType():
            yield from all_fields(data_type.element_type)
        case MapType():
            yield from all_fields(data_type.key_type)
            yield from all_fields(data_type.value_type)


def partition_fields(schema: StructType, partition_columns: Sequence[str]) -> tuple[StructField, ...]:
    """The fields of the partition columns, in that order; one that is missing or repeated is refused."""
    _refuse_duplicates(iter(partition_columns), "partition column")
    fields = [schema.get(name) for name in partition_columns]
    for name, found in zip(partition_columns, fields, strict=True):
        if found is None:
            raise CorruptTableError(f"the partition column '{name}' is not a column of the schema")
    return tuple(found for found in fields if found is not None)


def find_field(schema: StructType, path: str | Sequence[str]) -> tuple[StructField, ...] | None:
    """The chain of fields that `a.b` (or its parts) names, ignoring case; None when there is no such column."""
    parts = split_column_path(path) if isinstance(path, str) else path
    chain: list[StructField] = []
    current: DataType = schema
    for part in parts:
        found = current.get(part) if isinstance(current, StructType) else None
        if found is None:
            return None
        chain.append(found)
        current = found.type
    return tuple(chain) or None


def split_column_path(text: str) -> tuple[str, ...]:
    """The parts of a dotted column name; backticks quote a part, a doubled backtick stands for one inside it."""
    parts = re.findall(r"`((?:[^`]|``)*)`|([^`.]+)", text)
    rebuilt = ".".join(f"`{quoted}`" if plain == "" else plain for quoted, plain in parts)
    if not parts or rebuilt != text:
        raise RequestError(f"'{text}' is not a column name: quote special characters with backticks, as in `a.b`.c")
    return tuple(quoted.replace("``", "`") if plain == "" else plain for quoted, plain in parts)


def physical_schema(schema: StructType, mode: str) -> StructType:
    """The schema to hand to a Parquet reader for column mapping mode `none`, `name` or `id`.

    Names are physical at every level, and in id mode each field carries Spark's `parquet.field.id`. All other field
    metadata is dropped except collations and char/varchar lengths: Spark would act on some of it (it fills columns that
    a file lacks from EXISTS_DEFAULT, where the protocol says null).
    """
    if mode not in {"none", "name", "id"}:
        raise RequestError(f"column mapping mode '{mode}' is not known; expected none, name or id")
    seen_ids: set[int] = set()
    return _physical_struct(schema, mode, seen_ids)


def logical_schema(schema: StructType) -> StructType:
    """The schema of the rows that users get: names and types, and of the metadata what Spark may see, with comments."""
    return _physical_struct(schema, "logical", set())


def _physical_struct(schema: StructType, mode: str, seen_ids: set[int]) -> StructType:
    fields = tuple(_physical_field(item, mode, seen_ids) for item in schema.fields)
    _refuse_duplicates((item.name for item in fields), "physical name")
    return StructType(fields)


def _physical_field(column: StructField, mode: str, seen_ids: set[int]) -> StructField:
    name = column.name if mode in {"none", "logical"} else _mapped_name(column)
    metadata = _reader_metadata(column, name)
    if mode == "logical" and isinstance(column.metadata.get("comment"), str):
        metadata["comment"] = column.metadata["comment"]
    if mode == "id":
        metadata[PARQUET_FIELD_ID] = _mapped_id(column, seen_ids)
    return StructField(name, _physical_type(column.type, mode, seen_ids), column.nullable, metadata)


def _physical_type(data_type: DataType, mode: str, seen_ids: set[int]) -> DataType:
    if isinstance(data_type, StructType):
        return _physical_struct(data_type, mode, seen_ids)
    if isinstance(data_type, ArrayType):
        return replace(data_type, element_type=_physical_type(data_type.element_type, mode, seen_ids))
    if isinstance(data_type, MapType):
        return replace(
            data_type,
            key_type=_physical_type(data_type.key_type, mode, seen_ids),
            value_type=_physical_type(data_type.value_type, mode, seen_ids),
        )
    return data_type


def _mapped_name(column: StructField) -> str:
    # Falling back to the logical name would read a renamed column as all null: wrong rows.
    if column.metadata.get(PHYSICAL_NAME) is None:
        raise CorruptTableError(f"column '{column.name}' has no {PHYSICAL_NAME} although column mapping is on")
    return physical_name(column)


def _mapped_id(column: StructField, seen_ids: set[int]) -> int:
    identifier = field_id(column)
    if identifier is None:
        raise CorruptTableError(f"column '{column.name}' has no {COLUMN_ID} although column mapping is by id")
    if identifier in seen_ids:
        raise CorruptTableError(f"column '{column.name}' has the {COLUMN_ID} {identifier} of another column")
    seen_ids.add(identifier)
    return identifier


def _reader_metadata(column: StructField, name: str) -> dict[str, Any]:
    # What is not even of the right type means nothing to a reader; writers refuse it.
    kept = {key: column.metadata[key] for key in (CHAR_VARCHAR,) if isinstance(column.metadata.get(key), str)}
    collations = column.metadata.get(COLLATIONS)
    if isinstance(collations, Mapping):
        # Keys are paths that begin with the field's own name ("c", "c.element"): they follow the rename.
        kept[COLLATIONS] = {_rename_path(path, column.name, name): value for path, value in collations.items()}
    return kept


def _rename_path(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(f"{old}.") else path


def _parse_type(value: Any, *, at: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise CorruptTableError(f"the schema nests more than {MAX_DEPTH} levels deep (at {at[:200]})")
    if isinstance(value, str):
        return parse_primitive(value, at=at)
    fields = JsonFields(value, subject=at)
    kind = fields.string("type")
    if kind == "struct":
        return _parse_struct(value, at=at, depth=depth)
    if kind == "array":
        element = _parse_type(value.get("elementType"), at=f"{at}.element", depth=depth + 1)
        return ArrayType(element, fields.boolean("containsNull", default=True))
    if kind == "map":
        return MapType(
            _parse_type(value.get("keyType"), at=f"{at}.key", depth=depth + 1),
            _parse_type(value.get("valueType"), at=f"{at}.value", depth=depth + 1),
            fields.boolean("valueContainsNull", default=True),
        )
    if kind == "udt":
        # PySpark would import the Python class that the table names; a table must never choose what code runs.
        raise UnsupportedFeatureError(f"{at} has a user-defined type, which Ebbtide does not read")
    return parse_primitive(kind, at=at)


def _parse_struct(value: Mapping[str, Any], *, at: str, depth: int) -> StructType:
    items = value.get("fields")
    if not isinstance(items, list):
        raise CorruptTableError(f"the struct {at} must have an array 'fields'")
    fields = tuple(_parse_field(item, at=at, depth=depth + 1) for item in items)
    _refuse_duplicates((item.name for item in fields), f"column name in {at}")
    return StructType(fields)


def _parse_field(value: Any, *, at: str, depth: int) -> StructField:
    fields = JsonFields(value, subject=f"field of {at}")
    name = fields.string("name")
    return StructField(
        name=name,
        type=_parse_type(value.get("type"), at=f"{at}.{name}", depth=depth),
        nullable=fields.boolean("nullable", default=True),
        metadata=_check_metadata(fields.optional_object("metadata") or {}, at=f"{at}.{name}"),
    )


def _check_metadata(metadata: Mapping[str, Any], *, at: str) -> Mapping[str, Any]:
    """The metadata itself; CorruptTableError when it nests too deep for Spark or for us."""
    if metadata:
        ensure_shallow(metadata, what=f"the metadata of {at[:200]}")
        declared = metadata.get(CHAR_VARCHAR)
        # A type as text, such as array<varchar(3)>.
        if isinstance(declared, str) and declared.count("<") > MAX_DEPTH:
            raise CorruptTableError(f"the type in {CHAR_VARCHAR} of {at[:200]} nests more than {MAX_DEPTH} levels deep")
    return metadata


def parse_primitive(text: str, *, at: str) -> PrimitiveType:
    name = _ALIASES.get(text, text)
    if name in _PRIMITIVE_NAMES:
        return PrimitiveType(name)
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if not (1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
            raise CorruptTableError(f"{at} has the impossible type '{text}': need 1 <= p <= 38 and 0 <= s <= p")
        return PrimitiveType(f"decimal({precision},{scale})")
    if _UNSUPPORTED.fullmatch(name):
        raise UnsupportedFeatureError(
            f"{at} has the type '{text[:80]}', which Ebbtide does not serve", error_class="DELTA_UNSUPPORTED_DATA_TYPES"
        )
    raise CorruptTableError(f"{at} has the unknown type '{text[:80]}'")


def _refuse_duplicates(names: Iterator[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        folded = name.lower()
        if folded in seen:
            raise CorruptTableError(
                f"duplicate {what}: '{name}' (case is ignored)", error_class="DELTA_DUPLICATE_COLUMNS_FOUND"
            )
        seen.add(folded)
