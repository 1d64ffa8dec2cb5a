"""Type widening: which former types can be read as today's."""

import json

import pytest

from ebbtide.errors import CorruptTableError, UnsupportedFeatureError
from ebbtide.protocol.schema import PrimitiveType, parse_schema
from ebbtide.protocol.type_changes import ensure_type_changes_readable, is_readable_type_change


def schema_with(data_type, changes):
    field = {"name": "c", "type": data_type, "nullable": True, "metadata": {"delta.typeChanges": changes}}
    return parse_schema(json.dumps({"type": "struct", "fields": [field]}))


@pytest.mark.parametrize(
    ("old", "new", "readable"),
    [
        ("byte", "short", True),
        ("byte", "long", True),
        ("short", "integer", True),
        ("integer", "long", True),
        ("integer", "double", True),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("void", "string", True),
        ("long", "long", True),
        ("decimal(6,2)", "decimal(10,4)", True),
        ("decimal(6,2)", "decimal(7,4)", False),
        ("decimal(6,2)", "decimal(10,1)", False),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(20,0)", True),
        ("long", "decimal(19,0)", False),
        ("long", "integer", False),
        ("long", "double", False),
        ("byte", "float", False),
        ("double", "float", False),
        ("date", "timestamp", False),
        ("string", "integer", False),
        ("timestamp", "decimal(38,0)", False),
    ],
)
def test_only_the_widenings_of_the_protocol_are_readable(old, new, readable):
    assert is_readable_type_change(PrimitiveType(old), PrimitiveType(new)) is readable


# What delta-spark 4.4 reads (TypeWidening.isTypeChangeSupported), and what Spark's Parquet reader can. Bytes and shorts
# are stored as 32-bit integers, and its vectorised reader takes those for a decimal only where every 32-bit integer would
# fit: a byte as decimal(4,1) holds no more than the type can, but is refused by both.
DECIMALS = (
    "decimal(3,0)", "decimal(4,1)", "decimal(5,0)", "decimal(6,1)", "decimal(9,0)", "decimal(10,0)", "decimal(11,1)",
    "decimal(11,2)", "decimal(12,2)", "decimal(19,0)", "decimal(20,0)", "decimal(21,1)", "decimal(38,0)",
    "decimal(38,38)",
)  # fmt: skip
TEN_DIGITS = "decimal(10,0) decimal(11,1) decimal(12,2) decimal(19,0) decimal(20,0) decimal(21,1) decimal(38,0)"
WIDER = {
    "byte": f"short integer long double {TEN_DIGITS}",
    "short": f"integer long double {TEN_DIGITS}",
    "integer": f"long double {TEN_DIGITS}",
    "long": "decimal(20,0) decimal(21,1) decimal(38,0)",
    "float": "double",
    "date": "timestamp_ntz",
    "decimal(3,0)": f"decimal(4,1) decimal(5,0) decimal(6,1) decimal(9,0) decimal(11,2) {TEN_DIGITS}",
    "decimal(4,1)": "decimal(6,1) decimal(11,1) decimal(11,2) decimal(12,2) decimal(21,1)",
    "decimal(5,0)": f"decimal(6,1) decimal(9,0) decimal(11,2) {TEN_DIGITS}",
    "decimal(6,1)": "decimal(11,1) decimal(11,2) decimal(12,2) decimal(21,1)",
    "decimal(9,0)": f"decimal(11,2) {TEN_DIGITS}",
    "decimal(10,0)": TEN_DIGITS,
    "decimal(11,1)": "decimal(12,2) decimal(21,1)",
    "decimal(11,2)": "decimal(12,2)",
    "decimal(19,0)": "decimal(20,0) decimal(21,1) decimal(38,0)",
    "decimal(20,0)": "decimal(21,1) decimal(38,0)",
}
TYPES = (
    "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string", "boolean",
    "binary", "variant", *DECIMALS,
)  # fmt: skip


@pytest.mark.parametrize("old", TYPES)
def test_every_pair_of_types_is_judged_as_the_reference_judges_it(old):
    readable = {new for new in TYPES if is_readable_type_change(PrimitiveType(old), PrimitiveType(new))}
    assert readable == {old, *WIDER.get(old, "").split()}


@pytest.mark.parametrize(
    ("data_type", "changes"),
    [
        (
            "long",
            [{"fromType": "short", "toType": "integer"}, {"fromType": "integer", "toType": "long", "tableVersion": 3}],
        ),
        ("long", []),
        (
            {"type": "map", "keyType": "double", "valueType": "integer", "valueContainsNull": True},
            [{"fromType": "float", "toType": "double", "fieldPath": "key"}],
        ),
        (
            {
                "type": "array",
                "elementType": {
                    "type": "map",
                    "keyType": "string",
                    "valueType": "decimal(10,4)",
                    "valueContainsNull": True,
                },
                "containsNull": True,
            },
            [{"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)", "fieldPath": "element.value"}],
        ),
        # What counts is the step from the file's type to today's; the type named in between may even be unknown.
        ("short", [{"fromType": "byte", "toType": "unsupported"}]),
    ],
)
def test_recorded_widenings_that_spark_applies_are_accepted(data_type, changes):
    ensure_type_changes_readable(schema_with(data_type, changes))


@pytest.mark.parametrize(
    ("data_type", "change"),
    [
        ("integer", {"fromType": "string", "toType": "integer"}),
        ("integer", {"fromType": "short", "toType": "integer", "fieldPath": "element"}),
        ({"type": "array", "elementType": "integer", "containsNull": True}, {"fromType": "short", "toType": "integer"}),
        (
            {"type": "array", "elementType": "integer", "containsNull": True},
            {"fromType": "long", "toType": "integer", "fieldPath": "element"},
        ),
    ],
)
def test_a_former_type_that_cannot_be_read_as_todays_is_refused(data_type, change):
    with pytest.raises(UnsupportedFeatureError) as caught:
        ensure_type_changes_readable(schema_with(data_type, [change]))
    assert caught.value.error_class == "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"


@pytest.mark.parametrize(
    "changes", ["x", {"a": 1}, [1], [{}], [{"fromType": 3}], [{"fromType": "nosuch", "toType": "long"}]]
)
def test_a_malformed_history_is_a_corrupt_table(changes):
    with pytest.raises(CorruptTableError):
        ensure_type_changes_readable(schema_with("long", changes))


def test_changes_inside_nested_structs_are_found():
    inner = {
        "name": "x",
        "type": "integer",
        "nullable": True,
        "metadata": {"delta.typeChanges": [{"fromType": "string"}]},
    }
    struct = {"type": "struct", "fields": [inner]}
    for data_type in (
        struct,
        {"type": "array", "elementType": struct},
        {"type": "map", "keyType": "string", "valueType": struct},
    ):
        schema = parse_schema(json.dumps({"type": "struct", "fields": [{"name": "s", "type": data_type}]}))
        with pytest.raises(UnsupportedFeatureError, match="'x'"):
            ensure_type_changes_readable(schema)
