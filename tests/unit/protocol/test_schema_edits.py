"""Does a change of one column leave everything else of the schema as it was?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from ebbtide.protocol.schema_edits import (
    Place,
    add_field,
    change_type,
    drop_field,
    move_field,
    rename_field,
    replace_field,
    shown_path,
    spelled_path,
    type_at,
)

INT = PrimitiveType("integer")
LONG = PrimitiveType("long")


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


# --- adding, moving, renaming -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (None, ("id", "s", "arr", "m", "n")),
        (Place(), ("n", "id", "s", "arr", "m")),
        (Place("S"), ("id", "s", "n", "arr", "m")),
        (Place("m"), ("id", "s", "arr", "m", "n")),
    ],
)
def test_new_column_goes_where_it_is_told(place, names):
    assert add_field(SCHEMA, (), StructField("n", INT), place).names == names


@pytest.mark.parametrize("parent", [("s",), ("s", "b"), ("arr", "element"), ("m", "key"), ("m", "value")])
def test_new_field_goes_into_the_struct_that_is_named(parent):
    changed = add_field(SCHEMA, parent, StructField("n", INT), Place())
    assert type_at(changed, parent).names == ("n", *type_at(SCHEMA, parent).names)
    assert drop_field(changed, (*parent, "n")) == SCHEMA


@pytest.mark.parametrize(
    ("parent", "name", "place", "error_class"),
    [
        ((), "ID", None, "FIELD_ALREADY_EXISTS"),
        (("s",), "A", None, "FIELD_ALREADY_EXISTS"),
        (("id",), "x", None, "INVALID_FIELD_NAME"),
        (("arr",), "x", None, "INVALID_FIELD_NAME"),
        (("nope",), "x", None, "UNRESOLVED_COLUMN"),
        ((), "x", Place("nope"), "UNRESOLVED_COLUMN"),
        (("s",), "x", Place("id"), "UNRESOLVED_COLUMN"),
    ],
)
def test_new_field_that_has_no_place_is_refused(parent, name, place, error_class):
    with pytest.raises(RequestError) as caught:
        add_field(SCHEMA, parent, StructField(name, INT), place)
    assert caught.value.error_class == error_class


def test_column_moves_among_its_neighbours():
    assert move_field(SCHEMA, ("m",), Place()).names == ("m", "id", "s", "arr")
    assert move_field(SCHEMA, ("id",), Place("ARR")).names == ("s", "arr", "id", "m")
    assert move_field(SCHEMA, ("id",), Place("Id")) == SCHEMA
    assert type_at(move_field(SCHEMA, ("s", "b"), Place()), ("s",)).names == ("b", "a")
    with pytest.raises(UnknownColumnError, match=r"s\.nope"):
        move_field(SCHEMA, ("s", "a"), Place("nope"))


def test_field_is_renamed_where_it_stands():
    assert rename_field(SCHEMA, ("S",), "t").names == ("id", "t", "arr", "m")
    assert type_at(rename_field(SCHEMA, ("arr", "element", "x"), "z"), ("arr", "element")).names == ("z", "y")
    for name in ("arr", "ID"):
        with pytest.raises(RequestError, match="FIELD_ALREADY_EXISTS"):
            rename_field(SCHEMA, ("id",), name)
    with pytest.raises(RequestError, match="INVALID_FIELD_NAME"):
        rename_field(SCHEMA, ("arr", "element"), "z")


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "noted_in", "entry"),
    [
        (("id",), ("id",), {"toType": "long", "fromType": "integer"}),
        (("s", "b", "c"), ("s", "b", "c"), {"toType": "long", "fromType": "integer"}),
    ],
)
def test_wider_type_is_noted_in_its_field(path, noted_in, entry):
    changed = change_type(SCHEMA, path, LONG)
    assert type_at(changed, path) == LONG
    parent = type_at(changed, noted_in[:-1])
    assert parent.get(noted_in[-1]).metadata == {"delta.typeChanges": [entry]}


def test_wider_type_inside_arrays_and_maps_is_noted_in_the_nearest_field_with_its_path():
    schema = struct(a=ArrayType(MapType(INT, INT)))
    changed = change_type(change_type(schema, ("a", "element", "value"), LONG), ("a", "element", "key"), LONG)
    assert changed.fields[0].type == ArrayType(MapType(LONG, LONG))
    assert [entry["fieldPath"] for entry in changed.fields[0].metadata["delta.typeChanges"]] == [
        "element.value",
        "element.key",
    ]
