"""Does the comparison that every other test trusts see a difference, and only a difference?"""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.comparison import assert_same_rows, difference


def table(values, data_type):
    return pa.table({"c": pa.array(values, data_type)})


FLOAT = pa.float64()
MAP = pa.map_(pa.string(), pa.int32())
NESTED = pa.list_(pa.struct({"f": FLOAT, "m": MAP}))
VARIANT = pa.struct({"metadata": pa.binary(), "value": pa.binary()})
VARIANT_ONE = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}
VARIANT_ONE_WIDE = {"metadata": b"\x01\x00\x00", "value": b"\x10\x01\x00"}
VARIANT_TRUE = {"metadata": b"\x01\x00\x00", "value": b"\x04"}


@pytest.mark.parametrize(
    ("left", "right", "data_type"),
    [
        pytest.param([1, 2, 2], [2, 1, 2], pa.int64(), id="other-order"),
        pytest.param([math.nan], [-math.nan], FLOAT, id="nan"),
        pytest.param([[("a", 1), ("b", 2)]], [[("b", 2), ("a", 1)]], MAP, id="order-of-map-entries"),
        pytest.param(
            [[{"f": math.nan, "m": [("a", 1), ("b", None)]}], None],
            [None, [{"f": math.nan, "m": [("b", None), ("a", 1)]}]],
            NESTED,
            id="nested",
        ),
        pytest.param([VARIANT_ONE], [VARIANT_ONE_WIDE], VARIANT, id="variant-in-another-encoding"),
        pytest.param([-(2**62)], [-(2**62)], pa.timestamp("us", "UTC"), id="instant-outside-python"),
    ],
)
def test_same_rows_compare_equal(left, right, data_type):
    assert difference(table(left, data_type), table(right, data_type)) == ""


@pytest.mark.parametrize(
    ("left", "right", "data_type"),
    [
        pytest.param([1, 2, 2], [1, 1, 2], pa.int64(), id="other-multiplicity"),
        pytest.param([0.0], [-0.0], FLOAT, id="sign-of-zero"),
        pytest.param([None], [[]], NESTED, id="null-and-empty-list"),
        pytest.param([None], [{"f": None}], pa.struct({"f": FLOAT}), id="null-and-struct-of-nulls"),
        pytest.param([[("a", 1)]], [[("a", 1), ("a", 1)]], MAP, id="key-twice"),
        pytest.param([VARIANT_ONE], [VARIANT_TRUE], VARIANT, id="variant-one-and-true"),
        pytest.param([1], [2], pa.timestamp("us", "UTC"), id="one-microsecond"),
        pytest.param([""], [None], pa.string(), id="null-and-empty-string"),
    ],
)
def test_different_rows_are_told_with_the_rows_themselves(left, right, data_type):
    told = difference(table(left, data_type), table(right, data_type))
    assert "missing" in told
    assert "unexpected" in told


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.int32(), pa.int64(), id="width"),
        pytest.param(pa.timestamp("us"), pa.timestamp("us", "UTC"), id="time-zone"),
        pytest.param(pa.decimal128(10, 2), pa.decimal128(11, 2), id="precision"),
        pytest.param(pa.struct({"a": pa.int32()}), pa.struct({"b": pa.int32()}), id="name-inside"),
    ],
)
def test_types_that_differ_are_told_even_without_rows(left, right):
    assert "expected" in difference(table([], left), table([], right))


def test_types_that_differ_only_in_form_compare_equal():
    plain = pa.table({"c": pa.array(["a", "b"])})
    for form in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert difference(plain, pa.table({"c": pa.array(["b", "a"]).cast(form)})) == ""


def test_columns_in_another_order_are_a_difference():
    one = pa.table({"a": [1], "b": [2]})
    assert "columns are ['b', 'a']" in difference(one.select(["b", "a"]), one)


def test_sliced_nested_columns_compare_by_their_own_rows():
    whole = table([[("a", 1)], [("b", 2)], None, [("c", 3)]], MAP)
    assert difference(whole.slice(1, 2), table([None, [("b", 2)]], MAP)) == ""


def test_plain_rows_take_the_schema_of_the_table_they_are_compared_with():
    actual = pa.table({"id": pa.array([1, 2], pa.int32()), "d": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2))})
    assert_same_rows(actual, [{"id": 2, "d": None}, {"id": 1, "d": Decimal("1.5")}])
    with pytest.raises(AssertionError, match=r"(?s)orders: 2 rows, expected 1.*unexpected: 1\n  id=2, d=None"):
        assert_same_rows(actual, [{"id": 1, "d": Decimal("1.5")}], label="orders")


def test_plain_rows_that_forget_a_column_are_refused():
    with pytest.raises(AssertionError, match="does not name the columns"):
        assert_same_rows(pa.table({"a": [1], "b": [None]}), [{"a": 1}])
