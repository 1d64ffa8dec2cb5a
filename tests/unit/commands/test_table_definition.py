"""Does a definition become protocol and metadata that say what was asked for, or an error that says why not?"""

from __future__ import annotations

import pytest
from pyspark.sql import types as T
from tests.support.write_targets import struct

from ebbtide.commands.define.definition import TableDefinition, check_partitioning, define_table, schema_of
from ebbtide.errors import RequestError, UnsupportedFeatureError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructType, parse_schema

LONG = PrimitiveType("long")


def fields_of(metadata):
    return {field.name: field for field in parse_schema(metadata.schema_string).fields}


def test_a_plain_table_has_the_oldest_protocol_and_an_id_of_its_own():
    protocol, metadata = define_table(TableDefinition(struct(id="long", name="string"), description="d"))
    assert (protocol.min_reader_version, protocol.min_writer_version, protocol.writer_features) == (1, 2, None)
    assert (metadata.partition_columns, metadata.configuration, metadata.description) == ((), {}, "d")
    assert metadata.id != define_table(TableDefinition(struct(id="long")))[1].id


def test_column_mapping_numbers_fields_at_every_level():
    schema = struct(a="long", s=struct(x="long"), l=ArrayType(struct(y="long")), m=MapType(LONG, struct(z="long")))
    protocol, metadata = define_table(TableDefinition(schema, properties={"delta.columnMapping.mode": "id"}))
    assert metadata.configuration["delta.columnMapping.maxColumnId"] == "7"
    assert (protocol.min_reader_version, protocol.writer_features) == (
        2,
        frozenset({"appendOnly", "invariants", "columnMapping"}),
    )
    fields = fields_of(metadata)
    numbers = [field.metadata["delta.columnMapping.id"] for field in fields.values()]
    assert numbers == [1, 2, 4, 6]
    nested = fields["m"].type.value_type
    assert isinstance(nested, StructType)
    assert nested.fields[0].metadata["delta.columnMapping.id"] == 7
    assert nested.fields[0].metadata["delta.columnMapping.physicalName"].startswith("col-")


def test_partition_columns_are_spelled_as_the_schema_spells_them():
    _, metadata = define_table(TableDefinition(struct(Id="long", Day="date"), ("DAY",)))
    assert metadata.partition_columns == ("Day",)


@pytest.mark.parametrize(
    ("schema", "wanted", "error_class"),
    [
        (struct(a="long"), ("b",), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (struct(a="long"), ("a",), "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
        (struct(a="long", v="void"), ("a",), "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
        (struct(a="long", b=ArrayType(LONG)), ("b",), "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
        (struct(a="long", b="variant"), ("b",), "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
        (struct(a="long", b="long"), ("b", "B"), "DELTA_DUPLICATE_COLUMNS_ON_INSERT"),
    ],
)
def test_columns_that_cannot_part_files_are_refused(schema, wanted, error_class):
    with pytest.raises(RequestError) as caught:
        check_partitioning(schema, wanted)
    assert caught.value.error_class == error_class


@pytest.mark.parametrize(
    ("properties", "features"),
    [
        ({"delta.enableDeletionVectors": "true"}, {"deletionVectors"}),
        ({"delta.enableChangeDataFeed": "TRUE"}, {"changeDataFeed"}),
        ({"delta.feature.timestampntz": "supported"}, {"timestampNtz"}),
        ({"delta.enableRowTracking": "true"}, {"rowTracking", "domainMetadata"}),
        ({"delta.constraints.C": "a > 1"}, {"checkConstraints"}),
        ({"DELTA.CHECKPOINTPOLICY": "v2"}, {"v2Checkpoint"}),
    ],
)
def test_properties_bring_their_features(properties, features):
    protocol, metadata = define_table(TableDefinition(struct(a="long"), properties=properties))
    assert features <= (protocol.writer_features or frozenset())
    assert not any(key.startswith("delta.feature.") for key in metadata.configuration)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.unknown": "1"},
        {"delta.columnMapping.maxColumnId": "5"},
        {"delta.minReaderVersion": "3"},
        {"delta.feature.nonsense": "supported"},
        {"delta.enableChangeDataFeed": "yes"},
        {"location": "/somewhere"},
    ],
)
def test_properties_that_nobody_may_set_are_refused(properties):
    with pytest.raises(RequestError):
        define_table(TableDefinition(struct(a="long"), properties=properties))


@pytest.mark.parametrize("name", ["delta.enableIcebergCompatV2", "delta.rowTrackingSuspended"])
def test_properties_that_ebbtide_cannot_keep_are_refused(name):
    with pytest.raises(UnsupportedFeatureError, match="cannot be made"):
        define_table(TableDefinition(struct(a="long"), properties={name: "true"}))
    define_table(TableDefinition(struct(a="long"), properties={name: "false"}))


def test_the_columns_of_a_frame_lose_rules_and_marks_and_keep_comments():
    frame = T.StructType(
        [
            T.StructField("id", T.LongType(), False, {"comment": "c", "delta.columnMapping.id": 4, "__x": 1}),
            T.StructField("l", T.ArrayType(T.StructType([T.StructField("x", T.IntegerType(), False)]), False), False),
        ]
    )
    schema = schema_of(frame)
    assert schema.fields[0].metadata == {"comment": "c"}
    assert schema.fields[0].nullable
    inner = schema.fields[1].type
    assert isinstance(inner, ArrayType)
    assert inner.contains_null
    kept = schema_of(frame, keeps_rules=True)
    assert not kept.fields[0].nullable


def test_lengths_of_strings_are_kept_beside_the_type():
    schema = schema_of(T.StructType([T.StructField("c", T.VarcharType(3))]), keeps_rules=True)
    assert schema.fields[0].type == PrimitiveType("string")
    assert schema.fields[0].metadata == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}


def test_names_that_differ_only_in_case_are_refused_at_every_level():
    twice = T.StructType([T.StructField("a", T.IntegerType()), T.StructField("A", T.IntegerType())])
    for schema in (twice, T.StructType([T.StructField("s", T.ArrayType(twice))])):
        with pytest.raises(RequestError, match="DELTA_DUPLICATE_COLUMNS_FOUND"):
            schema_of(schema)


def test_the_change_data_feed_keeps_its_names():
    with pytest.raises(RequestError, match="RESERVED_CDC_COLUMNS_ON_WRITE"):
        define_table(TableDefinition(struct(_Change_Type="long"), properties={"delta.enableChangeDataFeed": "true"}))
