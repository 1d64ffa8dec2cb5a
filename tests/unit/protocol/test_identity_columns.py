"""Does an identity column count in its steps, never twice, and only within 64 bits?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.log_builder import metadata
from tests.support.transactions import as_action

from ebbtide.errors import CorruptTableError, DeltaError, RequestError
from ebbtide.protocol.identity_columns import (
    IdentityColumn,
    advance_marks,
    check_identity_fields,
    identity_metadata,
    keep_marks,
    moves_only_marks,
)
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType, parse_schema

LONG = PrimitiveType("long")
LOWEST, HIGHEST = -(2**63), 2**63 - 1
LONGS = st.integers(LOWEST, HIGHEST)


def column(start=1, step=1, mark=None):
    return IdentityColumn("id", start, step, False, mark)


def field(start=1, step=1, mark=None, *, name="id", kind=LONG, **more):
    entries = {**identity_metadata(start, step, allows_values=False), **more}
    return StructField(name, kind, True, entries if mark is None else {**entries, "delta.identity.highWaterMark": mark})


def table(*fields, **more):
    return as_action(metadata(schemaString=StructType(fields).to_schema_string(), **more))


def marks(of):
    return [item.metadata.get("delta.identity.highWaterMark") for item in parse_schema(of.schema_string).fields]


# --- one column -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (column(), 1),
        (column(mark=5), 6),
        (column(start=10, step=3, mark=16), 19),
        (column(start=10, step=-3, mark=4), 1),
        # Not one of its own numbers: another engine left it, and the next number lies beyond it all the same.
        (column(start=10, step=3, mark=17), 19),
        (column(start=10, step=-3, mark=5), 4),
        # Before the start: no number of this column.
        (column(start=10, step=3, mark=2), 10),
        (column(start=10, step=-3, mark=12), 10),
    ],
)
def test_next_number_lies_beyond_the_mark(counted, expected):
    assert counted.next_number == expected


@given(start=LONGS, step=LONGS.filter(bool), mark=st.none() | LONGS)
def test_next_number_is_one_of_the_steps_and_beyond_the_mark(start, step, mark):
    counted = column(start, step, mark)
    found = counted.next_number
    assert (found - start) % step == 0
    assert (found - start) // step >= 0
    assert mark is None or counted.is_beyond(found, mark)


@given(start=LONGS, step=LONGS.filter(bool), mark=st.none() | LONGS)
def test_room_is_the_last_step_that_fits(start, step, mark):
    counted = column(start, step, mark)
    first = counted.next_number
    room = counted.room(first)
    if room == -1:
        assert not LOWEST <= first <= HIGHEST
        return
    assert LOWEST <= first + room * step <= HIGHEST
    assert not LOWEST <= first + (room + 1) * step <= HIGHEST


@pytest.mark.parametrize(
    ("counted", "number", "expected"),
    [
        (column(), 4, 4),
        (column(mark=9), 4, 9),
        (column(start=1, step=3), 2, 4),
        (column(start=1, step=3, mark=4), 5, 7),
        (column(start=1, step=-3), -1, -2),
        (column(start=1, step=-3, mark=-5), -2, -5),
        # Before the start: the first number is still to come.
        (column(start=1, step=3), 0, None),
        (column(start=1, step=-3), 2, None),
    ],
)
def test_mark_follows_a_number_in_whole_steps_and_never_goes_back(counted, number, expected):
    assert counted.advance_to(number).mark == expected


def test_mark_that_would_not_fit_is_refused():
    with pytest.raises(RequestError, match="'id' has no number left") as refused:
        column(step=10).advance_to(HIGHEST)
    assert refused.value.error_class == "ARITHMETIC_OVERFLOW"


@pytest.mark.parametrize(
    "entries",
    [
        {"delta.identity.start": 1},
        {"delta.identity.start": 1, "delta.identity.step": 0, "delta.identity.allowExplicitInsert": True},
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": "yes"},
        {"delta.identity.start": True, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True},
        {"delta.identity.start": 2**63, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True},
        {**identity_metadata(1, 1, allows_values=True), "delta.identity.highWaterMark": "9"},
    ],
)
def test_metadata_that_is_not_whole_is_named(entries):
    with pytest.raises(CorruptTableError, match="'id'") as refused:
        IdentityColumn.of(StructField("id", LONG, True, entries))
    assert refused.value.error_class == "DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA"


# --- new tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "partitioned", "error_class"),
    [
        (field(kind=PrimitiveType("integer")), (), "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE"),
        (field(kind=StructType(())), (), "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE"),
        (field(step=0), (), "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP"),
        (field(), ("ID",), "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED"),
        (
            field(**{"delta.generationExpression": "1"}),
            (),
            "DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
        ),
        (field(CURRENT_DEFAULT="1"), (), "IDENTITY_COLUMN_WITH_DEFAULT_VALUE"),
        (StructField("id", StructType((field(),))), (), "DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA"),
    ],
)
def test_column_that_no_table_can_have_is_refused(wrong, partitioned, error_class):
    with pytest.raises(DeltaError, match="'id'") as refused:
        check_identity_fields(StructType((wrong,)), partitioned)
    assert refused.value.error_class == error_class


# --- marks of a table -------------------------------------------------------------------------------------------------


def test_marks_move_by_physical_name_and_only_those_that_count():
    mapped = field(name="b", **{"delta.columnMapping.physicalName": "col-b"})
    before = table(field(name="a"), mapped, StructField("c", LONG))
    after = advance_marks(before, {"a": 3, "col-b": 4, "c": 5})
    assert marks(after) == [3, 4, None]
    assert moves_only_marks(before, after)


def test_nothing_new_is_the_same_metadata():
    before = table(field(mark=9))
    assert advance_marks(before, {"id": 4}) is before
    assert advance_marks(before, {}) is before
    assert keep_marks(before, table(field(mark=3))) == before


def test_older_metadata_keeps_the_marks_of_the_newest():
    older, newest = (
        table(field(name="up"), field(step=-1, mark=-2, name="down")),
        table(field(mark=9, name="up"), field(step=-1, mark=-7, name="down"), field(mark=3, name="gone")),
    )
    assert marks(keep_marks(older, newest)) == [9, -7]


@pytest.mark.parametrize(
    "other",
    [
        table(field()),
        table(field(mark=2, step=3)),
        table(field(mark=2, name="ID")),
        table(field(mark=2), StructField("n", LONG)),
        table(field(mark=2), configuration={"a": "b"}),
    ],
)
def test_any_other_change_is_more_than_a_count(other):
    assert not moves_only_marks(table(field()), other)
