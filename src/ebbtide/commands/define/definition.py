"""What must the log say of a table that is created or replaced?

A `TableDefinition` is what a caller wants: columns, partitioning, properties, a comment. `define_table` turns it
into the commit's protocol and metadata, or says why there can be no such table. It reads only the definition and, for a
replaced table, what that was: its id stays, and its protocol only grows. See "Change Metadata" in PROTOCOL.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import types as T

from ebbtide.commands.define.alter import properties_of_new_table
from ebbtide.commands.row_level.counters import now_ms
from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError, UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.change_columns import refuse_change_columns
from ebbtide.protocol.features import upgrade_protocol_for
from ebbtide.protocol.properties import FEATURE_PREFIX, TableProperties
from ebbtide.protocol.schema import (
    CHAR_VARCHAR,
    COLLATIONS,
    COLUMN_ID,
    PHYSICAL_NAME,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
)
from ebbtide.protocol.schema_evolution import MAX_COLUMN_ID
from ebbtide.protocol.variables import refuse_variables
from ebbtide.storage import ObjectStore
from ebbtide.transaction.table_changes import protocol_for, required_features
from ebbtide.write import WriteTarget

__all__ = [
    "TableDefinition",
    "check_column_names",
    "check_partitioning",
    "define_table",
    "refuse_nested_void",
    "schema_of",
    "target_of",
    "with_row_tracking_columns",
]

# Parquet readers of other engines stumble over these; with column mapping the files never see them.
_INVALID_CHARACTERS = re.compile(r"[ ,;{}()\n\t=]")
_VOID: Final = PrimitiveType("void")
_ROW_TRACKING_COLUMNS: Final = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table as the caller wants it. `properties` may hold `delta.feature.<name>` and `comment`.

    `is_exact`: letter case counts in the names of partition columns (`spark.sql.caseSensitive`). `cluster_by`: columns,
    or fields of structs, by which OPTIMIZE sorts the rows; not beside partition columns.
    """

    schema: StructType
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    is_exact: bool = False
    cluster_by: tuple[tuple[str, ...], ...] = ()


def schema_of(schema: T.StructType, *, keeps_rules: bool = False) -> StructType:
    """The columns of a DataFrame as a table has them.

    A frame's columns say nothing about later rows, so all of them are nullable, and metadata that engines keep for
    themselves is left out. With `keeps_rules` the schema is meant for the table and is kept as it is.
    """
    described = _describe_type(_with_lengths_noted(schema).jsonValue(), keeps_rules=keeps_rules)
    _refuse_repeated(schema)
    return parse_schema(_schema_text(described), source="the columns of the DataFrame")


def define_table(
    definition: TableDefinition,
    *,
    replaced: Snapshot | None = None,
    keeps_properties: bool = False,
    defaults: Mapping[str, str] | None = None,
) -> tuple[Protocol, Metadata]:
    """Protocol and metadata of the table.

    `replaced` is the table that it replaces; `keeps_properties` keeps its properties unless new ones are given.
    `defaults` are properties that the definition does not set.
    """
    if replaced is not None and "delta.clustering" in replaced.domain_metadata:
        raise UnsupportedFeatureError(
            f"The table at {replaced.store.url} is clustered by some of its columns, and Ebbtide does not replace the "
            "columns of such a table.",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        )
    given = {**properties_of_new_table(defaults or {}), **properties_of_new_table(definition.properties)}
    marks = [key[len(FEATURE_PREFIX) :] for key in given if key.startswith(FEATURE_PREFIX)]
    comment = given.pop("comment", definition.description)
    configuration = {key: value for key, value in given.items() if not key.startswith(FEATURE_PREFIX)}
    if replaced is not None and keeps_properties:
        configuration = {**replaced.metadata.configuration, **configuration}
    configuration = with_row_tracking_columns(configuration, replaced)
    mode = TableProperties.parse(configuration).column_mapping_mode
    partition_columns = _check_definition(definition, configuration, mode)
    schema = definition.schema
    if mode != "none":
        first = 0 if replaced is None else int(replaced.metadata.configuration.get(MAX_COLUMN_ID, 0))
        schema, highest = _map_columns(schema, first)
        configuration[MAX_COLUMN_ID] = str(highest)
    metadata = Metadata(
        id=str(uuid4()) if replaced is None else replaced.metadata.id,
        schema_string=schema.to_schema_string(),
        partition_columns=partition_columns,
        configuration=configuration,
        description=comment,
        created_time=now_ms() if replaced is None else replaced.metadata.created_time,
    )
    if replaced is None:
        return protocol_for(metadata, marks), metadata
    return upgrade_protocol_for(replaced.protocol, {*required_features(metadata), *marks}), metadata


def target_of(store: ObjectStore, protocol: Protocol, metadata: Metadata, *, config: EngineConfig) -> WriteTarget:
    """What a writer must know of a table with this metadata."""
    properties = TableProperties.parse(metadata.configuration)
    return WriteTarget(
        store=store,
        schema=parse_schema(metadata.schema_string),
        partition_columns=metadata.partition_columns,
        column_mapping_mode=properties.column_mapping_mode,
        properties=properties,
        protocol=protocol,
        allowed_functions=config.allowed_functions,
    )


# --- what may be a table ----------------------------------------------------------------------------------------------


def _check_definition(definition: TableDefinition, configuration: Mapping[str, str], mode: str) -> tuple[str, ...]:
    """The partition columns as the schema spells them; RequestError for a table that cannot exist."""
    schema = definition.schema
    if schema.fields and all(item.type == _VOID for item in schema.fields):
        raise RequestError(
            "A table needs at least one column that can hold a value, and these are all of type void. Cast one.",
            error_class="DELTA_EMPTY_DATA",
        )
    refuse_variables(schema)
    if mode == "none":
        check_column_names(name for kind in _types(schema) if isinstance(kind, StructType) for name in kind.names)
    if TableProperties.parse(configuration).enable_change_data_feed:
        refuse_change_columns(schema.names)
    refuse_nested_void(schema)
    return check_partitioning(schema, definition.partition_columns, is_exact=definition.is_exact)


def check_column_names(names: Iterable[str]) -> None:
    """RequestError for a name that files cannot have without column mapping."""
    for name in names:
        if _INVALID_CHARACTERS.search(name):
            raise RequestError(
                f"The column name '{name}' has a character of ' ,;{{}}()\\n\\t=', which names in files cannot have. "
                "Rename the column, or make the table with the property delta.columnMapping.mode = 'name'.",
                error_class="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            )


def check_partitioning(schema: StructType, wanted: tuple[str, ...], *, is_exact: bool = False) -> tuple[str, ...]:
    """The partition columns as the schema spells them; with `is_exact` the caller must spell them the same way."""
    found: list[StructField] = []
    for name in wanted:
        column = schema.get(name)
        if column is None or (is_exact and column.name != name):
            raise RequestError(
                f"The partition column '{name}' is not among the columns {', '.join(schema.names)}.",
                error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        is_atomic = isinstance(column.type, PrimitiveType) and column.type.name not in {"variant", "void"}
        if not is_atomic:
            raise RequestError(
                f"The column '{column.name}' cannot be a partition column: files cannot be told apart by its type.",
                error_class="DELTA_INVALID_PARTITION_COLUMN_TYPE",
            )
        if column in found:
            raise RequestError(
                f"The partition column '{name}' is named twice.", error_class="DELTA_DUPLICATE_COLUMNS_ON_INSERT"
            )
        found.append(column)
    if found and len(found) == len([item for item in schema.fields if item.type != _VOID]):
        raise RequestError(
            "Every column is a partition column, so nothing would be left for the files. Leave one out.",
            error_class="DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
        )
    return tuple(column.name for column in found)


def refuse_nested_void(schema: StructType) -> None:
    for column in schema.fields:
        if column.type != _VOID and _VOID in list(_types(column.type)):
            raise RequestError(
                f"The column '{column.name}' has a part of type void, which has no form in Parquet. Cast it.",
                error_class="DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
            )


def _refuse_repeated(schema: T.StructType) -> None:
    seen: set[str] = set()
    for item in schema.fields:
        if item.name.lower() in seen:
            raise RequestError(
                f"The column '{item.name}' comes twice (case does not count). Rename or drop one of them.",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
            )
        seen.add(item.name.lower())
        _refuse_repeated_inside(item.dataType)


def _refuse_repeated_inside(data_type: T.DataType) -> None:
    match data_type:
        case T.StructType():
            _refuse_repeated(data_type)
        case T.ArrayType():
            _refuse_repeated_inside(data_type.elementType)
        case T.MapType():
            _refuse_repeated_inside(data_type.keyType)
            _refuse_repeated_inside(data_type.valueType)


def _types(data_type: DataType) -> list[DataType]:
    match data_type:
        case StructType():
            return [data_type, *(deep for item in data_type.fields for deep in _types(item.type))]
        case ArrayType():
            return [data_type, *_types(data_type.element_type)]
        case MapType():
            return [data_type, *_types(data_type.key_type), *_types(data_type.value_type)]
    return [data_type]


# --- schemas ----------------------------------------------------------------------------------------------------------


def _schema_text(described: Any) -> str:
    return T.StructType.fromJson(described).json()


def _describe_type(value: Any, *, keeps_rules: bool) -> Any:
    """The JSON of a frame's type, as a table may have it."""
    if isinstance(value, list):
        return [_describe_type(item, keeps_rules=keeps_rules) for item in value]
    if not isinstance(value, dict):
        return value
    relaxed = {
        key: _describe_type(item, keeps_rules=keeps_rules)
        if key != "metadata"
        else _keep_metadata(item, keeps_rules=keeps_rules)
        for key, item in value.items()
    }
    for key in ("nullable", "containsNull", "valueContainsNull"):
        if key in relaxed and not keeps_rules:
            relaxed[key] = True
    return relaxed


def _with_lengths_noted(schema: T.StructType) -> T.StructType:
    """CHAR and VARCHAR as tables have them: strings, and the whole type of the column as text in its metadata."""
    return T.StructType([_with_length_noted(field) for field in schema.fields])


def _with_length_noted(field: T.StructField) -> T.StructField:
    plain = _as_strings(field.dataType)
    if plain == field.dataType:
        return field
    metadata = {**field.metadata, CHAR_VARCHAR: field.dataType.simpleString()}
    return T.StructField(field.name, plain, field.nullable, metadata)


def _as_strings(data_type: T.DataType) -> T.DataType:
    match data_type:
        case T.CharType() | T.VarcharType():
            return T.StringType()
        case T.StructType():
            return T.StructType(
                [
                    T.StructField(item.name, _as_strings(item.dataType), item.nullable, item.metadata)
                    for item in data_type.fields
                ]
            )
        case T.ArrayType():
            return T.ArrayType(_as_strings(data_type.elementType), data_type.containsNull)
        case T.MapType():
            key, value = _as_strings(data_type.keyType), _as_strings(data_type.valueType)
            return T.MapType(key, value, data_type.valueContainsNull)
    return data_type


def _keep_metadata(metadata: Mapping[str, Any], *, keeps_rules: bool) -> dict[str, Any]:
    if COLLATIONS in metadata:
        raise UnsupportedFeatureError(
            "A column with a collation cannot be written: statistics would have to follow the collation.",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        )
    if keeps_rules:
        return dict(metadata)
    prefixes = ("delta.", "__", "parquet.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
    return {key: value for key, value in metadata.items() if key == CHAR_VARCHAR or not key.startswith(prefixes)}


def _map_columns(schema: StructType, first: int) -> tuple[StructType, int]:
    """The schema with column ids after `first` and physical names of its own, and the highest id."""
    highest = first

    def of_type(data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return StructType(tuple(of_field(item) for item in data_type.fields))
            case ArrayType():
                return replace(data_type, element_type=of_type(data_type.element_type))
            case MapType():
                return replace(
                    data_type, key_type=of_type(data_type.key_type), value_type=of_type(data_type.value_type)
                )
        return data_type

    def of_field(item: StructField) -> StructField:
        nonlocal highest
        highest += 1
        metadata = {**item.metadata, COLUMN_ID: highest, PHYSICAL_NAME: f"col-{uuid4()}"}
        return replace(item, type=of_type(item.type), metadata=metadata)

    return StructType(tuple(of_field(item) for item in schema.fields)), highest


def with_row_tracking_columns(configuration: dict[str, str], replaced: Snapshot | None) -> dict[str, str]:
    """Name the columns in which later rewrites keep row ids, as no user would name them; a replaced table's stay."""
    if not TableProperties.parse(configuration).enable_row_tracking:
        return configuration
    before = {} if replaced is None else replaced.metadata.configuration
    names = {key: before.get(key, f"{prefix}{uuid4()}") for key, prefix in _ROW_TRACKING_COLUMNS.items()}
    return {**configuration, **names}
