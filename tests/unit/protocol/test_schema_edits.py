"""Does a change of one column leave everything else of the schema as it was?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from ebbtide.protocol.schema_edits import drop_field, replace_field, shown_path, spelled_path

INT = PrimitiveType("integer")


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


SCHEMA = struct(
    id=INT,
    s=struct(a=INT, b=struct(c=INT, D=INT)),
    arr=ArrayType(struct(x=INT, y=INT), contains_null=False),
    m=MapType(struct(k=INT, l=INT), struct(p=INT, q=INT)),
)


def test_top_level_column_is_dropped_whatever_the_case():
    assert drop_field(SCHEMA, ("ID",)).names == ("s", "arr", "m")


@pytest.mark.parametrize(
    ("path", "after"),
    [
        (("s", "B", "d"), replace(SCHEMA.fields[1], type=struct(a=INT, b=struct(c=INT)))),
        (("s", "b"), replace(SCHEMA.fields[1], type=struct(a=INT))),
        (("arr", "ELEMENT", "x"), replace(SCHEMA.fields[2], type=ArrayType(struct(y=INT), contains_null=False))),
        (("m", "key", "k"), replace(SCHEMA.fields[3], type=MapType(struct(l=INT), struct(p=INT, q=INT)))),
        (("m", "value", "q"), replace(SCHEMA.fields[3], type=MapType(struct(k=INT, l=INT), struct(p=INT)))),
    ],
)
def test_field_inside_a_column_is_dropped_and_its_neighbours_stay(path, after):
    changed = drop_field(SCHEMA, path)
    assert changed.names == SCHEMA.names
    assert [field for field in changed.fields if field not in SCHEMA.fields] == [after]


@pytest.mark.parametrize(
    ("path", "error_class"),
    [
        (("nope",), "UNRESOLVED_COLUMN"),
        (("s", "nope"), "UNRESOLVED_COLUMN"),
        (("id", "x"), "INVALID_FIELD_NAME"),
        (("arr", "x"), "INVALID_FIELD_NAME"),
        (("m", "element", "p"), "INVALID_FIELD_NAME"),
    ],
)
def test_unknown_column_is_named(path, error_class):
    for edit in (drop_field, spelled_path):
        with pytest.raises(UnknownColumnError) as caught:
            edit(SCHEMA, path)
        assert caught.value.error_class == error_class and ".".join(path) in str(caught.value)


def test_element_of_an_array_is_no_field_to_drop():
    with pytest.raises(RequestError, match="DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE"):
        drop_field(SCHEMA, ("arr", "element"))


@pytest.mark.parametrize("path", [("only",), ("only", "one")])
def test_last_column_and_last_field_stay(path):
    with pytest.raises(RequestError, match="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"):
        drop_field(struct(only=struct(one=INT)), path)


def test_field_is_replaced_where_it_stands():
    changed = replace_field(SCHEMA, ("s", "B", "d"), lambda field: replace(field, nullable=False))
    assert changed.fields[1].type.fields[1].type.fields == (StructField("c", INT), StructField("D", INT, False))
    assert changed.fields[2:] == SCHEMA.fields[2:]


def test_path_is_spelled_as_the_schema_spells_it():
    assert spelled_path(SCHEMA, ("S", "B", "d")) == ("s", "b", "D")
    assert spelled_path(SCHEMA, ("ARR", "Element", "X")) == ("arr", "element", "x")
    assert shown_path(("a.b", "c")) == "`a.b`.c"
