"""Does a value become the column's value by the rules of store assignment, whatever the session casts like?"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from tests.support.write_targets import struct

from ebbtide.errors import RequestError
from ebbtide.protocol.schema import ArrayType, MapType, StructField, StructType
from ebbtide.spark_border import spark_errors
from ebbtide.write import cast_for_column

pytestmark = pytest.mark.spark


def field_of(kind):
    return struct(c=kind).fields[0]


def store(frame, field, policy="ANSI"):
    given = frame.schema.fields[0].dataType
    with spark_errors("storing"):
        return [row[0] for row in frame.select(cast_for_column(F.col("v"), given, field, policy=policy)).collect()]


@pytest.fixture(params=["true", "false"], ids=["ansi", "not-ansi"])
def session(spark, request):
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.one_value("the same calls for other types", "given", "wanted", "value", "expected")
@pytest.mark.parametrize(
    ("given", "wanted", "value", "expected"),
    [
        ("long", "integer", 5, 5),
        ("double", "integer", 1.7, 1),
        ("integer", "decimal(5,2)", 7, Decimal("7.00")),
        ("decimal(5,2)", "decimal(4,1)", Decimal("1.25"), Decimal("1.3")),
        ("integer", "string", 5, "5"),
        ("string", "boolean", "true", True),
        ("string", "date", "2024-02-29", dt.date(2024, 2, 29)),
        ("date", "timestamp_ntz", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29)),
        ("string", "integer", None, None),
    ],
)
def test_values_that_fit_are_cast(session, given, wanted, value, expected):
    frame = session.createDataFrame([(value,)], f"v {given}")
    assert store(frame, field_of(wanted)) == [expected]


@pytest.mark.one_value("the same calls for other types", "given", "wanted", "value", "error_class")
@pytest.mark.parametrize(
    ("given", "wanted", "value", "error_class"),
    [
        ("long", "integer", 2**40, "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("double", "long", float("nan"), "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("integer", "decimal(3,1)", 1000, "CAST_OVERFLOW_IN_TABLE_INSERT"),
        ("string", "integer", "five", "CAST_INVALID_INPUT"),
        ("string", "date", "2024-02-30", "CAST_INVALID_INPUT"),
    ],
)
def test_a_value_that_does_not_fit_fails_and_is_named(session, given, wanted, value, error_class):
    frame = session.createDataFrame([(value,)], f"v {given}")
    with pytest.raises(RequestError, match="column 'c'") as caught:
        store(frame, field_of(wanted))
    assert caught.value.error_class == error_class
    assert str(value).lower() in str(caught.value).lower()


@pytest.mark.one_kind("refused by us, from the types")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [("boolean", "integer"), ("integer", "timestamp"), ("integer", "date"), ("array<int>", "integer"),
     ("integer", struct(a="long"))],
)  # fmt: skip
def test_types_that_cannot_be_stored_are_refused_before_anything_runs(spark, given, wanted):
    frame = spark.createDataFrame([], f"v {given}")
    with pytest.raises(RequestError, match="cannot be stored in the column 'c'"):
        cast_for_column(F.col("v"), frame.schema.fields[0].dataType, field_of(wanted))


def test_the_strict_policy_takes_only_what_cannot_be_lost(spark):
    longs = spark.createDataFrame([(1,)], "v long")
    assert store(longs, field_of("double"), "STRICT") == [1.0]
    with pytest.raises(RequestError, match="CANNOT_UP_CAST_DATATYPE"):
        store(longs, field_of("integer"), "STRICT")
    with pytest.raises(RequestError, match="CANNOT_UP_CAST_DATATYPE"):
        store(spark.createDataFrame([("true",)], "v string"), field_of("boolean"), "strict")


def test_structs_go_by_name_and_a_missing_field_is_null(spark):
    frame = spark.sql("SELECT named_struct('B', 2L, 'a', 1) AS v UNION ALL SELECT null")
    rows = store(frame, field_of(struct(a="long", b="integer", c="string")))
    assert [None if row is None else row.asDict() for row in rows] == [{"a": 1, "b": 2, "c": None}, None]


@pytest.mark.one_kind("refused by us, from the types")
def test_a_field_that_the_column_does_not_have_is_refused(spark):
    frame = spark.sql("SELECT named_struct('a', 1, 'x', 2) AS v")
    with pytest.raises(RequestError, match="field 'x'"):
        store(frame, field_of(struct(a="long")))


@pytest.mark.one_value("both settings run on both kinds in test_values_that_fit_are_cast")
def test_arrays_and_maps_are_stored_element_by_element(session):
    longs = session.sql("SELECT array(1L, null, 3L) AS v")
    assert store(longs, field_of(ArrayType(field_of("integer").type))) == [[1, None, 3]]
    with pytest.raises(RequestError, match=r"column 'c\.element'"):
        store(session.sql("SELECT array(99999999999L) AS v"), field_of(ArrayType(field_of("integer").type)))
    entries = session.sql("SELECT map('7', named_struct('a', 1)) AS v")
    wanted = MapType(field_of("integer").type, StructType((StructField("a", field_of("long").type),)))
    assert [{key: value.asDict() for key, value in row.items()} for row in store(entries, field_of(wanted))] == [
        {7: {"a": 1}}
    ]
