"""Schemas: what is read, what is refused, and what stands in the Parquet files."""

import json

import pytest

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.protocol.schema import (
    MAX_DEPTH,
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    field_id,
    find_field,
    leaf_columns,
    parse_schema,
    partition_fields,
    physical_name,
    physical_schema,
    split_column_path,
)

INTEGER = PrimitiveType("integer")
STRING = PrimitiveType("string")


def field_json(name, data_type, *, nullable=True, **metadata):
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": metadata}


def struct_json(*fields):
    return {"type": "struct", "fields": list(fields)}


def schema_of(*fields):
    return parse_schema(json.dumps(struct_json(*fields)))


def mapped(name, data_type, physical, identifier, **more):
    metadata = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": identifier, **more}
    return field_json(name, data_type, **metadata)


NESTED = struct_json(
    field_json("a", "integer", nullable=False, comment="first"),
    field_json(
        "S", struct_json(field_json("x", "decimal(10,2)"), field_json("y", struct_json(field_json("z", "date"))))
    ),
    field_json("arr", {"type": "array", "elementType": struct_json(field_json("e", "string")), "containsNull": False}),
    field_json("m", {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True}),
)


def test_a_nested_schema_is_read_and_gives_back_the_same_json():
    schema = parse_schema(json.dumps(NESTED))
    assert schema.to_json() == NESTED
    assert json.loads(schema.to_schema_string()) == NESTED
    assert schema.names == ("a", "S", "arr", "m")
    assert schema.fields[0] == StructField("a", INTEGER, False, {"comment": "first"})
    assert schema.fields[2].type == ArrayType(StructType((StructField("e", STRING),)), False)
    assert schema.fields[3].type == MapType(STRING, PrimitiveType("variant"), True)


def test_pyspark_accepts_the_json_of_a_schema():
    types = pytest.importorskip("pyspark.sql.types")
    schema = types.StructType.fromJson(parse_schema(json.dumps(NESTED)).to_json())
    assert schema.fieldNames() == ["a", "S", "arr", "m"]
    assert schema["S"].dataType["x"].dataType == types.DecimalType(10, 2)


@pytest.mark.parametrize(
    ("text", "name"),
    [(name, name) for name in ("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary")]
    + [(name, name) for name in ("date", "timestamp", "timestamp_ntz", "variant", "void")]
    + [
        ("null", "void"),
        ("decimal", "decimal(10,0)"),
        ("decimal(38,38)", "decimal(38,38)"),
        ("decimal( 6, 2 )", "decimal(6,2)"),
    ],
)
def test_every_type_of_the_protocol_is_known(text, name):
    assert schema_of(field_json("c", text)).fields[0].type == PrimitiveType(name)


def test_decimal_bounds_are_known_and_other_types_have_none():
    assert PrimitiveType("decimal(12,4)").decimal_bounds == (12, 4)
    assert STRING.decimal_bounds is None


@pytest.mark.parametrize(
    "text",
    [
        "geometry(OGC:CRS84)",
        "geography(OGC:CRS84, spherical)",
        "interval",
        "interval day to second",
        "time(6)",
        "char(3)",
        "varchar(3)",
        "string collate UNICODE",
    ],
)
def test_a_type_that_is_known_but_not_served_names_itself(text):
    with pytest.raises(UnsupportedFeatureError, match=r"schemaString\.c has the type"):
        schema_of(field_json("c", text))


def test_a_user_defined_type_is_refused_because_it_names_code_to_run():
    udt = {"type": "udt", "class": None, "pyClass": "os.system", "sqlType": "string"}
    with pytest.raises(UnsupportedFeatureError, match="user-defined"):
        schema_of(field_json("c", udt))


@pytest.mark.parametrize(
    "text",
    [
        "nosuchtype",
        "INTEGER",
        "int",
        "",
        "decimal(39,0)",
        "decimal(0,0)",
        "decimal(5,6)",
        "decimal(5,-1)",
        "decimal(5)",
        "decimal(99999,1)",
    ],
)
def test_an_unknown_or_impossible_type_is_a_corrupt_table(text):
    with pytest.raises(CorruptTableError, match="type"):
        schema_of(field_json("c", text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"integer"',
        '{"type":"array","elementType":"string","containsNull":true}',
        '{"type":"struct"}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"type":"string"}]}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":1}]}',
        '{"type":"struct","fields":[{"name":"a","type":"string","nullable":"yes"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"string","metadata":[]}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"map","keyType":"string"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":{}}]}',
        "{" * 100_000,
    ],
)
def test_a_broken_schema_string_is_a_corrupt_table(text):
    with pytest.raises(CorruptTableError):
        parse_schema(text)


def test_absent_nullability_and_metadata_have_spark_defaults():
    schema = parse_schema('{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"string"}}]}')
    assert schema == StructType((StructField("a", ArrayType(STRING, True), True, {}),))


def test_nesting_is_allowed_up_to_the_bound_and_refused_beyond():
    def nested(levels):
        inner = "string"
        for _ in range(levels):
            inner = {"type": "array", "elementType": inner, "containsNull": True}
        return struct_json(field_json("c", inner))

    deep = parse_schema(json.dumps(nested(MAX_DEPTH - 1)))
    assert parse_schema(deep.to_schema_string()) == deep
    with pytest.raises(CorruptTableError, match="nests"):
        parse_schema(json.dumps(nested(MAX_DEPTH)))


def test_a_chain_of_structs_at_the_bound_can_still_be_written():
    inner = "string"
    for _ in range(MAX_DEPTH):
        inner = struct_json(field_json("s", inner))
    schema = parse_schema(json.dumps(inner))
    assert parse_schema(schema.to_schema_string()) == schema


def test_column_names_keep_their_case_and_differ_in_more_than_case():
    assert schema_of(field_json("CamelCase", "string")).names == ("CamelCase",)
    with pytest.raises(CorruptTableError, match="'A'") as caught:
        schema_of(field_json("a", "string"), field_json("A", "string"))
    assert caught.value.error_class == "DELTA_DUPLICATE_COLUMNS_FOUND"
    with pytest.raises(CorruptTableError, match="duplicate"):
        schema_of(field_json("s", struct_json(field_json("b", "string"), field_json("b", "long"))))


def test_leaf_columns_run_through_structs_and_stop_at_arrays_and_maps():
    schema = parse_schema(json.dumps(NESTED))
    assert [".".join(item.name for item in chain) for chain in leaf_columns(schema)] == [
        "a",
        "S.x",
        "S.y.z",
        "arr",
        "m",
    ]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("A", "a"),
        ("s.X", "S.x"),
        ("`S`.`y`.z", "S.y.z"),
        (("s", "y"), "S.y"),
        ("nope", None),
        ("a.b", None),
        ("arr.e", None),
        ("s.nope", None),
        ((), None),
    ],
)
def test_a_field_is_found_by_its_dotted_name_in_any_case(path, found):
    chain = find_field(parse_schema(json.dumps(NESTED)), path)
    assert (chain and ".".join(item.name for item in chain)) == found


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("a b", ("a b",)),
        ("``", ("",)),
    ],
)
def test_backticks_quote_parts_of_a_column_name(text, parts):
    assert split_column_path(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "`a`b"])
def test_a_malformed_column_name_is_a_request_error(text):
    with pytest.raises(RequestError):
        split_column_path(text)


def test_partition_columns_are_found_in_their_own_order():
    schema = parse_schema(json.dumps(NESTED))
    assert [item.name for item in partition_fields(schema, ["m", "A"])] == ["m", "a"]
    with pytest.raises(CorruptTableError, match="'nope'"):
        partition_fields(schema, ["nope"])
    with pytest.raises(CorruptTableError, match="duplicate partition column"):
        partition_fields(schema, ["a", "A"])


MAPPED = schema_of(
    mapped("a", "integer", "col-1", 1, CURRENT_DEFAULT="7", EXISTS_DEFAULT="7"),
    mapped("s", struct_json(mapped("x", "string", "col-3", 3)), "col-2", 2),
    mapped("arr", {"type": "array", "elementType": struct_json(mapped("e", "string", "col-5", 5)), "containsNull": True}, "col-4", 4, **{"delta.columnMapping.nested.ids": {"col-4.element": 9}}),
    mapped("m", {"type": "map", "keyType": struct_json(mapped("k", "string", "col-7", 7)), "valueType": "long", "valueContainsNull": True}, "col-6", 6, **{"delta.typeChanges": [{"fromType": "integer", "toType": "long", "fieldPath": "value"}]}),
)  # fmt: skip


def names_of(schema):
    names = []
    for item in schema.fields:
        names.append(item.name)
        inner = item.type
        for child in (inner, getattr(inner, "element_type", None), getattr(inner, "key_type", None)):
            if isinstance(child, StructType):
                names.extend(names_of(child))
    return names


def test_physical_names_replace_logical_ones_at_every_level():
    physical = physical_schema(MAPPED, "name")
    assert names_of(physical) == ["col-1", "col-2", "col-3", "col-4", "col-5", "col-6", "col-7"]
    assert physical.fields[0].metadata == {}


def test_id_mode_adds_the_field_id_that_spark_resolves_by():
    physical = physical_schema(MAPPED, "id")
    assert physical.fields[1].metadata == {"parquet.field.id": 2}
    assert physical.fields[1].type.fields[0].metadata == {"parquet.field.id": 3}
    assert names_of(physical)[0] == "col-1"


def test_without_mapping_left_over_physical_names_are_not_used():
    physical = physical_schema(MAPPED, "none")
    assert names_of(physical) == ["a", "s", "x", "arr", "e", "m", "k"]
    assert physical.fields[0].metadata == {}


def test_metadata_that_changes_how_spark_reads_text_stays_and_follows_the_rename():
    schema = schema_of(
        mapped(
            "c",
            "string",
            "col-1",
            1,
            __COLLATIONS={"c": "icu.UNICODE", "c.element": "x", "cc": "y"},
            __CHAR_VARCHAR_TYPE_STRING="char(3)",
        )
    )
    assert physical_schema(schema, "name").fields[0].metadata == {
        "__COLLATIONS": {"col-1": "icu.UNICODE", "col-1.element": "x", "cc": "y"},
        "__CHAR_VARCHAR_TYPE_STRING": "char(3)",
    }


def test_physical_name_and_id_of_a_field_without_mapping():
    plain = StructField("a", INTEGER)
    assert physical_name(plain) == "a"
    assert field_id(plain) is None
    assert (physical_name(MAPPED.fields[0]), field_id(MAPPED.fields[0])) == ("col-1", 1)


@pytest.mark.parametrize(
    ("fields", "mode", "message"),
    [
        ([field_json("a", "string")], "name", "physicalName"),
        ([field_json("a", "string", **{"delta.columnMapping.physicalName": "p"})], "id", "columnMapping.id"),
        ([mapped("a", "string", "p", 1), mapped("b", "string", "p", 2)], "name", "physical name"),
        ([mapped("a", "string", "p", 1), mapped("b", "string", "q", 1)], "id", "another column"),
        ([mapped("a", "string", 3, 1)], "name", "physicalName"),
        ([mapped("a", "string", "p", "x")], "id", "columnMapping.id"),
        ([mapped("a", struct_json(field_json("b", "string")), "p", 1)], "name", "'b'"),
    ],
)
def test_broken_mapping_metadata_is_refused_instead_of_guessed(fields, mode, message):
    with pytest.raises(CorruptTableError, match=message):
        physical_schema(schema_of(*fields), mode)


def test_an_unknown_mapping_mode_is_refused():
    with pytest.raises(RequestError, match="'ids'"):
        physical_schema(MAPPED, "ids")


def test_schemas_are_values_that_can_be_hashed_and_compared():
    assert hash(parse_schema(json.dumps(NESTED))) == hash(parse_schema(json.dumps(NESTED)))
    assert parse_schema(json.dumps(NESTED)) != MAPPED


def nested_json(depth):
    value = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "metadata",
    [
        {"__CHAR_VARCHAR_TYPE_STRING": "array<" * 500 + "varchar(3)" + ">" * 500},
        {"__COLLATIONS": nested_json(200)},
        {"comment": nested_json(60)},
    ],
    ids=["char", "collations", "comment"],
)
def test_field_metadata_that_nests_too_deep_is_refused_before_anybody_follows_it(metadata):
    field = {"name": "a", "type": "string", "nullable": True, "metadata": metadata}
    with pytest.raises(CorruptTableError, match="nests more than 100 levels"):
        parse_schema(json.dumps({"type": "struct", "fields": [field]}))


def test_field_metadata_of_ordinary_depth_is_kept():
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(3)>", "comment": nested_json(10)}
    field = {"name": "a", "type": "string", "nullable": True, "metadata": metadata}
    assert parse_schema(json.dumps({"type": "struct", "fields": [field]})).fields[0].metadata == metadata
