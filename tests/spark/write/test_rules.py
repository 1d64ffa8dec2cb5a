"""Do rows that break a rule of the table fail the write, with the rule and the row named, and nothing left behind?"""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.write_targets import struct, write_target

from ebbtide.errors import ConstraintViolationError, InternalError, UnknownColumnError, UnsupportedFeatureError
from ebbtide.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from ebbtide.write import complete_rows, enforce_rules, generated_columns, write_files

pytestmark = pytest.mark.spark

LONG, STRING, DATE = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("date")


def rows_of(tmp_path, written):
    return [row for add in written.adds for row in pq.ParquetFile(tmp_path / "t" / add.path).read().to_pylist()]


def checked_table(tmp_path, schema=None, partition_columns=(), **constraints):
    return write_target(
        tmp_path / "t",
        schema or struct(id="long", name="string"),
        partition_columns,
        properties={f"delta.constraints.{name}": text for name, text in constraints.items()},
        features=["checkConstraints", "generatedColumns", "allowColumnDefaults", "invariants"],
    )


def one_field(name, kind, *, nullable=True, **metadata):
    return StructField(name, kind, nullable, metadata)


def left_behind(tmp_path):
    return [item for item in (tmp_path / "t").rglob("*") if item.is_file()] if (tmp_path / "t").exists() else []


def test_rows_that_keep_every_rule_are_written(spark, tmp_path):
    target = checked_table(tmp_path, positive="id > 0 AND name IS NOT NULL")
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")
    written = write_files(spark, enforce_rules(frame, target), target)
    assert sorted(row["id"] for row in rows_of(tmp_path, written)) == [1, 2]


def test_a_broken_check_names_the_constraint_and_the_values_and_leaves_nothing(spark, tmp_path):
    target = checked_table(tmp_path, positive="id > 0 AND name <> 'bad'")
    frame = spark.createDataFrame([(1, "a"), (-7, "b")], "id long, name string")
    with pytest.raises(ConstraintViolationError) as caught:
        write_files(spark, enforce_rules(frame, target), target)
    assert caught.value.error_class == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    for part in ("positive", "id > 0 AND name <> 'bad'", "id : -7", "name : b"):
        assert part in str(caught.value)
    assert left_behind(tmp_path) == []


@pytest.mark.one_kind(
    "the calls of test_a_broken_check_names_the_constraint_and_the_values_and_leaves_nothing, which runs on both kinds"
)
def test_a_check_that_is_null_is_broken(spark, tmp_path):
    target = checked_table(tmp_path, positive="id > 0")
    frame = spark.createDataFrame([(None, "a")], "id long, name string")
    with pytest.raises(ConstraintViolationError, match="id : null"):
        write_files(spark, enforce_rules(frame, target), target)


def test_a_rule_on_a_column_that_nothing_else_needs_is_checked(spark, tmp_path):
    schema = struct(id="long", p="string", name="string")
    target = checked_table(tmp_path, schema, ["p"], short="length(name) < 3")
    frame = spark.createDataFrame([(1, "x", "ab"), (2, "y", "abc")], "id long, p string, name string")
    with pytest.raises(ConstraintViolationError, match="name : abc"):
        write_files(spark, enforce_rules(frame, target), target)


def test_rows_that_a_filter_took_away_break_nothing(spark, tmp_path):
    target = checked_table(tmp_path, positive="id > 0")
    frame = spark.createDataFrame([(1, "a"), (-7, "b")], "id long, name string").where("name = 'a'")
    assert write_files(spark, enforce_rules(frame, target).where("id < 5"), target).num_rows == 1


@pytest.mark.one_kind(
    "the calls of test_a_broken_check_names_the_constraint_and_the_values_and_leaves_nothing, which runs on both kinds"
)
def test_column_invariants_are_checks(spark, tmp_path):
    invariant = json.dumps({"expression": {"expression": "id > 3"}})
    target = checked_table(tmp_path, StructType((one_field("id", LONG, **{"delta.invariants": invariant}),)))
    with pytest.raises(ConstraintViolationError, match="id > 3"):
        write_files(spark, enforce_rules(spark.range(1), target), target)


NESTED = StructType((StructField("a", LONG, False), StructField("b", LONG)))


@pytest.mark.one_value("the same calls for other types")
@pytest.mark.parametrize(
    ("kind", "nullable", "value", "place"),
    [
        (LONG, False, "CAST(NULL AS LONG)", "c"),
        (NESTED, True, "named_struct('a', CAST(NULL AS LONG), 'b', 1L)", "c.a"),
        (NESTED, True, "CAST(NULL AS STRUCT<a: LONG, b: LONG>)", "c.a"),
        (ArrayType(LONG, False), True, "array(1L, CAST(NULL AS LONG))", "c.element"),
        (ArrayType(NESTED), True, "array(named_struct('a', CAST(NULL AS LONG), 'b', 1L))", "c.element.a"),
    ],
)
def test_nulls_are_refused_at_every_level(spark, tmp_path, kind, nullable, value, place):
    target = checked_table(tmp_path, StructType((one_field("c", kind, nullable=nullable),)))
    with pytest.raises(ConstraintViolationError, match=rf"column: {place}") as caught:
        write_files(spark, enforce_rules(spark.sql(f"SELECT {value} AS c"), target), target)
    assert caught.value.error_class == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"


@pytest.mark.one_kind("the calls of test_nulls_are_refused_at_every_level for other values")
def test_null_containers_of_elements_that_may_not_be_null_are_fine(spark, tmp_path):
    target = checked_table(tmp_path, StructType((one_field("c", ArrayType(LONG, False)),)))
    frame = spark.sql("SELECT CAST(NULL AS ARRAY<LONG>) AS c UNION ALL SELECT array(1L)")
    assert write_files(spark, enforce_rules(frame, target), target).num_rows == 2


@pytest.mark.one_kind("test_lengths_inside_other_types_hold_too runs on both kinds")
def test_strings_longer_than_the_column_are_refused(spark, tmp_path):
    field = one_field("c", STRING, __CHAR_VARCHAR_TYPE_STRING="varchar(3)")
    target = checked_table(tmp_path, StructType((field,)))
    assert write_files(spark, enforce_rules(spark.sql("SELECT 'äöü' AS c"), target), target).num_rows == 1
    with pytest.raises(ConstraintViolationError, match=r"'abcd' exceeds .* varchar\(3\)") as caught:
        write_files(spark, enforce_rules(spark.sql("SELECT 'abcd' AS c"), target), target)
    assert caught.value.error_class == "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"


@pytest.mark.one_value("the same calls for other types")
@pytest.mark.parametrize(
    ("declared", "kind", "good", "bad"),
    [
        ("array<varchar(3)>", ArrayType(STRING), "array('abc', null)", "array('a', 'abcd')"),
        (
            "map<char(2),struct<v:varchar(1),n:int>>",
            MapType(STRING, struct(v="string", n="integer")),
            "map('ab', named_struct('v', 'x', 'n', 1))",
            "map('ab', named_struct('v', 'xy', 'n', 1))",
        ),
    ],
)
def test_lengths_inside_other_types_hold_too(spark, tmp_path, declared, kind, good, bad):
    field = one_field("c", kind, __CHAR_VARCHAR_TYPE_STRING=declared)
    target = checked_table(tmp_path, StructType((field,)))
    assert write_files(spark, enforce_rules(spark.sql(f"SELECT {good} AS c"), target), target).num_rows == 1
    with pytest.raises(ConstraintViolationError, match="exceeds a length"):
        write_files(spark, enforce_rules(spark.sql(f"SELECT {bad} AS c"), target), target)


@pytest.mark.one_kind("the calls of test_nulls_are_refused_at_every_level for other values")
def test_an_empty_partition_value_is_null_to_the_rules(spark, tmp_path):
    schema = StructType((one_field("id", LONG), one_field("p", STRING, nullable=False)))
    target = checked_table(tmp_path, schema, ["p"])
    with pytest.raises(ConstraintViolationError, match="column: p"):
        write_files(spark, enforce_rules(spark.sql("SELECT 1L AS id, '' AS p"), target), target)
    assert write_files(spark, enforce_rules(spark.sql("SELECT 1L AS id, 'x' AS p"), target), target).num_rows == 1


def test_a_table_without_rules_costs_nothing(spark, tmp_path):
    frame = spark.range(3)
    assert enforce_rules(frame, checked_table(tmp_path, struct(id="long"))) is frame


@pytest.mark.parametrize(
    ("expression", "error"), [("nowhere > 1", UnknownColumnError), ("id >", UnsupportedFeatureError)]
)
def test_a_constraint_that_cannot_be_read_stops_the_write_before_it_begins(spark, tmp_path, expression, error):
    target = checked_table(tmp_path, broken=expression)
    with pytest.raises(error, match="CHECK constraint broken"):
        enforce_rules(spark.createDataFrame([(1, "a")], "id long, name string"), target)


# --- generated columns, defaults, identity ----------------------------------------------------------------------------

GENERATED = StructType(
    (one_field("id", LONG), one_field("d", DATE, **{"delta.generationExpression": "date_add(DATE'2024-01-01', id)"}))
)


def test_generated_columns_are_computed_where_they_are_not_given(spark, tmp_path):
    target = checked_table(tmp_path, GENERATED)
    assert generated_columns(target) == {"d": "date_add(DATE'2024-01-01', id)"}
    frame = complete_rows(spark.range(2).select(F.col("id").cast("int").alias("ID")), target, given={"id"})
    frame = frame.withColumn("id", F.col("id").cast("long"))
    assert [str(row["d"]) for row in frame.orderBy("id").collect()] == ["2024-01-01", "2024-01-02"]
    assert frame.columns == ["id", "d"]


def test_a_given_value_must_be_what_would_have_been_generated(spark, tmp_path):
    target = checked_table(tmp_path, StructType((*GENERATED.fields[1:], one_field("id", PrimitiveType("integer")))))
    good = spark.sql("SELECT 1 AS id, DATE'2024-01-02' AS d")
    assert (
        write_files(spark, enforce_rules(complete_rows(good, target, given={"id", "d"}), target), target).num_rows == 1
    )
    bad = spark.sql("SELECT 1 AS id, DATE'2024-01-03' AS d")
    with pytest.raises(ConstraintViolationError, match="d : 2024-01-03") as caught:
        write_files(spark, enforce_rules(bad, target), target)
    assert "Generated Column" in str(caught.value)
    assert "id : 1" in str(caught.value)


def test_defaults_fill_columns_that_are_not_given_and_generated_columns_see_them(spark, tmp_path):
    schema = StructType(
        (
            one_field("id", LONG),
            one_field("k", LONG, CURRENT_DEFAULT="40 + 2"),
            one_field("g", LONG, **{"delta.generationExpression": "k + 1"}),
            one_field("n", STRING),
        )
    )
    frame = complete_rows(
        spark.range(1).withColumn("helper", F.lit("h")), checked_table(tmp_path, schema), given={"id"}
    )
    assert [row.asDict() for row in frame.collect()] == [{"id": 0, "k": 42, "g": 43, "n": None, "helper": "h"}]


@pytest.mark.one_kind("refused before Spark is asked")
def test_identity_columns_must_have_been_numbered(spark, tmp_path):
    schema = StructType((one_field("id", LONG, **{"delta.identity.start": 1}), one_field("n", LONG)))
    target = write_target(tmp_path / "t", schema, features=["identityColumns"])
    with pytest.raises(InternalError, match="'id' has no numbers"):
        complete_rows(spark.sql("SELECT 1L AS n"), target, given={"n"})
    kept = complete_rows(spark.sql("SELECT 1L AS n, 5L AS id"), target, given={"n", "id"})
    assert [row.asDict() for row in kept.collect()] == [{"id": 5, "n": 1}]
