"""What may SET say, and does the row hold it afterwards?

Targets (nested, overlapping, unknown), values (casts, overflow, null structs, random ones), the rules of the table that
new rows must keep, and everything that is refused, before anything is written.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.log_reading import newest_version
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import ConstraintViolationError, DeltaError, InvalidPredicateError, RequestError, UnknownColumnError

pytestmark = pytest.mark.spark

INNER = pa.struct({"c": pa.int64(), "d": pa.string()})
NESTED = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.struct({"x": pa.int32(), "b": INNER}),
        "items": pa.list_(pa.struct({"x": pa.int32()})),
        "facts": pa.map_(pa.string(), pa.int32()),
        "small": pa.int8(),
        "day": pa.date32(),
        "price": pa.decimal128(5, 2),
        "text": pa.string(),
    }
)
ROWS = [
    {"id": 0, "a": {"x": 1, "b": {"c": 2, "d": "d"}}, "small": 1, "text": "t"},
    {"id": 1, "a": {"x": 5, "b": None}, "small": 2, "text": None},
    {"id": 2, "a": None, "small": None, "text": "u"},
]
EMPTY = {"items": None, "facts": None, "day": None, "price": None}
MODES = pytest.mark.parametrize("mode", ["on", "off"], ids=["vectors", "rewriting"])


@pytest.fixture
def table(tmp_path):
    builder = TableBuilder(tmp_path / "t", NESTED).deletion_vectors()
    return builder.file([EMPTY | row for row in ROWS] + [EMPTY | ROWS[0] | {"id": 3}]).commit()


def column_of(spark, table, column):
    """The values of a column, plain, in the order of the ids."""
    rows = ebbtide.read(spark, str(table.path)).orderBy("id").select(column).collect()
    return [row.asDict(recursive=True)[column] for row in rows]


def files_below(table):
    return {file for file in table.path.rglob("*") if file.is_file()}


# --- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("both modes update on both kinds in test_update.py")
@MODES
def test_field_of_a_struct_is_assigned_and_its_neighbours_stay(spark, table, checked_update, mode):
    checked_update(table, {"a.b.c": "a.x * 100", "a.x": "-a.x"}, "id < 3", deletion_vectors=mode)
    assert column_of(spark, table, "a") == [
        {"x": -1, "b": {"c": 100, "d": "d"}},
        # A struct that was null has the assigned field now, and nulls beside it.
        {"x": -5, "b": {"c": 500, "d": None}},
        {"x": None, "b": {"c": None, "d": None}},
        {"x": 1, "b": {"c": 2, "d": "d"}},
    ]


@pytest.mark.one_value("both modes update on both kinds in test_update.py")
@MODES
def test_whole_struct_is_assigned_by_field_names(spark, table, checked_update, mode):
    value = "named_struct('b', named_struct('d', 'new', 'c', 7), 'x', 9)"
    checked_update(table, {"a": value}, "id IN (0, 2)", deletion_vectors=mode)
    new = {"x": 9, "b": {"c": 7, "d": "new"}}
    assert column_of(spark, table, "a") == [new, {"x": 5, "b": None}, new, ROWS[0]["a"]]
    checked_update(table, {"a": "NULL"}, "id IN (0, 1)", deletion_vectors=mode)
    assert column_of(spark, table, "a") == [None, None, new, ROWS[0]["a"]]


@pytest.mark.one_kind("the calls of test_update_changes_the_matching_rows_and_no_other for other values")
def test_expressions_see_the_old_row(spark, table, checked_update):
    checked_update(table, {"id": "id + 10", "small": "id + 1", "text": "CAST(id AS STRING)"}, "small IS NOT NULL")
    assert column_of(spark, table, "id") == [2, 10, 11, 13]
    assert column_of(spark, table, "small") == [None, 1, 2, 4]
    assert column_of(spark, table, "text") == ["u", "0", "1", "3"]


@pytest.mark.one_kind(
    "names are resolved by us; test_table_door_takes_columns_aliases_and_the_session_setting runs on both kinds"
)
def test_names_ignore_case_and_take_the_alias(spark, table, checked_update):
    checked_update(table, {"T.A.B.C": "t.ID"}, "T.id = 0", alias="t")
    assert column_of(spark, table, "a")[0] == {"x": 1, "b": {"c": 0, "d": "d"}}


@pytest.mark.one_kind("refused by us; test_bad_value_is_refused_before_anything_is_written runs on both kinds")
@pytest.mark.parametrize(
    ("assignments", "error", "error_class"),
    [
        ({"nope": "1"}, UnknownColumnError, "DELTA_MISSING_SET_COLUMN"),
        ({"a.nope": "1"}, UnknownColumnError, "FIELD_NOT_FOUND"),
        ({"t.id": "1"}, UnknownColumnError, "DELTA_MISSING_SET_COLUMN"),
        ({"`a.x`": "1"}, UnknownColumnError, "DELTA_MISSING_SET_COLUMN"),
        ({"id": "1", "ID": "2"}, RequestError, "DELTA_CONFLICT_SET_COLUMN"),
        ({"a": "NULL", "a.x": "2"}, RequestError, "DELTA_CONFLICT_SET_COLUMN"),
        ({"a.b.c": "1", "A.B": "NULL"}, RequestError, "DELTA_CONFLICT_SET_COLUMN"),
        ({"items.x": "1"}, RequestError, "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        ({"facts.key": "1"}, RequestError, "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        ({"id.x": "1"}, RequestError, "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        ({"id..x": "1"}, RequestError, None),
        ({"": "1"}, RequestError, None),
        ({"id": ""}, RequestError, None),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_bad_target_is_refused_before_anything_is_written(table, checked_update, assignments, error, error_class):
    before = files_below(table)
    with pytest.raises(error) as caught:
        checked_update(table, assignments, "id = 0")
    if error_class is not None:
        assert caught.value.error_class == error_class
    assert files_below(table) == before


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("id", "nope + 1", UnknownColumnError),
        ("id", "1 +", InvalidPredicateError),
        ("id", "sum(id)", InvalidPredicateError),
        ("id", "row_number() OVER (ORDER BY id)", InvalidPredicateError),
        ("id", "explode(array(1, 2))", InvalidPredicateError),
        ("a", "1", RequestError),
        ("id", "array(1)", RequestError),
        ("day", "5", RequestError),
        ("a", "named_struct('x', 1, 'other', 2)", RequestError),
    ],
)
def test_bad_value_is_refused_before_anything_is_written(table, checked_update, column, value, error):
    before = files_below(table)
    with pytest.raises(error):
        checked_update(table, {column: value}, "id = 0")
    assert files_below(table) == before


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("assignments", [None, {}, {"id": 5}, {"id": None}, {5: "id"}])
def test_call_without_usable_assignments_is_refused(spark, table, assignments):
    with pytest.raises(RequestError):
        ebbtide.DeltaTable.forPath(spark, str(table.path)).update("id = 0", assignments)


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("both modes update on both kinds in test_update.py")
@MODES
def test_values_are_cast_to_the_type_of_the_column(spark, table, checked_update, mode):
    checked_update(
        table,
        {"small": "100L", "day": "'2024-02-29'", "price": "1.005", "text": "12", "facts": "map('k', 7L)"},
        F.col("id") == 1,
        deletion_vectors=mode,
    )
    row = ebbtide.read(spark, str(table.path), where="id = 1").first()
    assert (row["small"], row["day"], row["text"]) == (100, dt.date(2024, 2, 29), "12")
    assert row["price"] in (Decimal("1.01"), Decimal("1.00"))
    assert row["facts"] == {"k": 7}


@pytest.mark.one_value("the same calls for other values")
@MODES
@pytest.mark.parametrize(
    "assignments", [{"small": "id + 1000"}, {"price": "id + 12345.67"}, {"day": "concat('x', id)"}], ids=str
)
def test_value_that_does_not_fit_fails_the_update_and_leaves_nothing(table, checked_update, assignments, mode):
    before = files_below(table)
    with pytest.raises(RequestError):
        checked_update(table, assignments, "id = 1", deletion_vectors=mode)
    assert files_below(table) == before
    assert newest_version(table.path) == 0


def test_value_is_not_computed_for_rows_that_stay(spark, table, checked_update):
    """Row 2 has a null struct and row 0 a zero: neither may be divided by."""
    checked_update(table, {"text": "CAST(10 DIV (a.x - 1) AS STRING)"}, "a.x > 1", deletion_vectors="off")
    assert column_of(spark, table, "text") == ["t", "2", "u", "t"]


@pytest.mark.one_kind("the calls of test_values_are_cast_to_the_type_of_the_column for other values")
def test_null_is_a_value(spark, table, checked_update):
    checked_update(table, {"text": "NULL", "small": F.lit(None), "a.b": "NULL"}, "id = 0")
    row = ebbtide.read(spark, str(table.path), where="id = 0").first().asDict(recursive=True)
    assert (row["text"], row["small"], row["a"]) == (None, None, {"x": 1, "b": None})


# --- rules of the table -----------------------------------------------------------------------------------------------


def described(builder, **metadata):
    """The table with metadata on fields of its schema; the builder itself has no word for that."""
    commit = builder.log / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            for field in schema["fields"]:
                field["metadata"] |= metadata.get(field["name"], {})
            line["metaData"]["schemaString"] = json.dumps(schema)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return builder


@pytest.mark.one_value("both modes update on both kinds in test_update.py")
@MODES
def test_constraints_hold_for_new_values(spark, tmp_path, checked_update, mode):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors().feature("checkConstraints").feature("invariants")
    builder.table_property("delta.constraints.positive", "id > 0")
    builder.file([{"id": n, "name": "n"} for n in range(1, 6)]).commit()
    before = files_below(builder)
    with pytest.raises(ConstraintViolationError, match="positive") as caught:
        checked_update(builder, {"id": "id - 2"}, "name = 'n'", deletion_vectors=mode)
    assert caught.value.error_class == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    with pytest.raises(ConstraintViolationError) as caught:
        checked_update(builder, {"id": "NULL"}, "id = 3", deletion_vectors=mode)
    assert caught.value.error_class == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    assert files_below(builder) == before
    checked_update(builder, {"id": "id * 10"}, "id = 3", deletion_vectors=mode)
    assert column_of(spark, builder, "id") == [1, 2, 4, 5, 30]


@pytest.mark.one_value("both modes update on both kinds in test_update.py")
@MODES
def test_generated_columns_follow_the_new_values(spark, tmp_path, checked_update, mode):
    schema = pa.schema({"id": pa.int64(), "double": pa.int64(), "name": pa.string()})
    builder = TableBuilder(tmp_path / "t", schema).deletion_vectors().feature("generatedColumns")
    builder.file([{"id": n, "double": 2 * n, "name": "n"} for n in range(4)]).commit()
    described(builder, double={"delta.generationExpression": "id * 2"})
    checked_update(builder, {"id": "id + 10"}, "id IN (1, 2)", deletion_vectors=mode)
    assert column_of(spark, builder, "double") == [0, 6, 22, 24]
    checked_update(builder, {"id": "7", "double": "14"}, "id = 11", deletion_vectors=mode)
    with pytest.raises(ConstraintViolationError):
        checked_update(builder, {"double": "15"}, "id = 7", deletion_vectors=mode)
    assert column_of(spark, builder, "double") == [0, 6, 14, 24]


@pytest.mark.one_kind("defaults are computed on both kinds in write/test_rules.py")
def test_default_is_what_an_insert_would_fill_in(spark, tmp_path, checked_update):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "name": pa.string()})).deletion_vectors()
    builder.feature("allowColumnDefaults").file([{"id": n, "name": "n"} for n in range(3)]).commit()
    described(builder, name={"CURRENT_DEFAULT": "'fresh'"})
    checked_update(builder, {"name": "DEFAULT", "id": "default"}, "id = 1")
    assert sorted(map(str, column_of(spark, builder, "name"))) == ["fresh", "n", "n"]
    assert column_of(spark, builder, "id") == [None, 0, 2]


@pytest.mark.one_kind("refused before Spark is asked")
def test_identity_columns_cannot_be_assigned_to(tmp_path, checked_update):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "name": pa.string()})).deletion_vectors()
    builder.feature("identityColumns").file([{"id": 1, "name": "n"}]).commit()
    described(builder, id={"delta.identity.start": 1, "delta.identity.step": 1})
    with pytest.raises(DeltaError) as caught:
        checked_update(builder, {"id": "2"}, "id = 1")
    assert caught.value.error_class == "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"
    assert checked_update(builder, {"name": "'m'"}, "id = 1").num_affected_rows == 1
