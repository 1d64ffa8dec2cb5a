"""Statistics: lenient to read, exact to keep, and wide after rows are marked."""

import json
from decimal import Decimal

import pytest

from ebbtide.protocol.statistics import FileStatistics, num_records, only_num_records, widen


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "null",
        "[]",
        "1",
        '"x"',
        "{",
        "{}x",
        '{"a":1,}',
        '{,"a":1}',
        '{"a" 1}',
        "{1:2}",
        '{"a":NaN}',
        '{"a":Infinity}',
        "{'a':1}",
        '{"a":' + "[" * 100_000,
        '{"a":"\n"}',
        '{"a":1 "b":2}',
    ],
)
def test_text_that_is_no_json_object_is_no_statistics(text):
    assert FileStatistics.parse(text) is None
    assert widen(text, 0) is None
    assert num_records(text) is None
    assert only_num_records(text) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('{"numRecords":5}', 5),
        ('{"numRecords":5.0}', 5),
        ('{"numRecords":"5"}', 5),
        ('{"numRecords":0}', 0),
        ('{"numRecords":null}', None),
        ('{"numRecords":-1}', None),
        ('{"numRecords":1.5}', None),
        ('{"numRecords":true}', None),
        ('{"numRecords":99999999999999999999}', None),
        ('{"numRecords":1e400}', None),
        ('{"numRecords":{}}', None),
        ('{"numRecords":1,"numRecords":2}', 2),
        ("{}", None),
        (' { "minValues" : { } } ', None),
    ],
)
def test_the_record_count_is_read_only_where_it_is_a_count(text, count):
    assert FileStatistics.parse(text).num_records == count
    assert num_records(text) == count
    assert only_num_records(text) == (None if count is None else f'{{"numRecords":{count}}}')


WIDENED = [
    (
        "first vector: all-null and no-null columns keep their meaning, the rest stays",
        '{"numRecords":3,"minValues":{"a":1},"maxValues":{"a":2},"nullCount":{"a":0,"b":3,"c":1},"tightBounds":true}',
        0,
        '{"numRecords":3,"minValues":{"a":1},"maxValues":{"a":2},"nullCount":{"a":0,"b":3,"c":1},"tightBounds":false}',
    ),
    (
        "tight bounds with an old vector: all visible rows null becomes all physical rows null",
        '{"numRecords":10,"nullCount":{"a":7,"s":{"b":7,"c":{"d":7,"e":6}},"f":10},"tightBounds":true}',
        3,
        '{"numRecords":10,"nullCount":{"a":10,"s":{"b":10,"c":{"d":10,"e":6}},"f":10},"tightBounds":false}',
    ),
    (
        "already wide: nothing is reinterpreted",
        '{"numRecords":10,"nullCount":{"a":7},"tightBounds":false}',
        3,
        '{"numRecords":10,"nullCount":{"a":7},"tightBounds":false}',
    ),
    (
        "absent tightBounds: counts stay, the flag is written",
        '{"numRecords":10,"nullCount":{"a":7}}',
        3,
        '{"numRecords":10,"nullCount":{"a":7},"tightBounds":false}',
    ),
    ("nothing is invented", '{"numRecords":10}', 0, '{"numRecords":10,"tightBounds":false}'),
    ("no record count", '{"nullCount":{"a":1},"tightBounds":true}', 0, '{"nullCount":{"a":1},"tightBounds":false}'),
    (
        "members are put in order and unknown ones follow",
        '{"x":[1, 2],"tightBounds":true,"nullCount":{},"maxValues":{},"minValues":{},"numRecords":1}',
        0,
        '{"numRecords":1,"minValues":{},"maxValues":{},"nullCount":{},"tightBounds":false,"x":[1, 2]}',
    ),
    (
        "digits beyond a float and escapes come through as they were",
        '{"numRecords":1,"minValues":{"d":12345678901234567890.123456789012345678,"s":"\\u00e9\\ud83d"},"tightBounds":true}',
        0,
        '{"numRecords":1,"minValues":{"d":12345678901234567890.123456789012345678,"s":"\\u00e9\\ud83d"},"tightBounds":false}',
    ),
    (
        "no visible row left: no nulls stays no nulls",
        '{"numRecords":4,"nullCount":{"a":0},"tightBounds":true}',
        4,
        '{"numRecords":4,"nullCount":{"a":0},"tightBounds":false}',
    ),
    (
        "strange counts are left alone",
        '{"numRecords":2,"nullCount":{"a":"x","b":[2],"c":2.5,"d":"1"},"tightBounds":true}',
        1,
        '{"numRecords":2,"nullCount":{"a":"x","b":[2],"c":2.5,"d":2},"tightBounds":false}',
    ),
]


@pytest.mark.parametrize(
    ("before", "old_cardinality", "after"), [case[1:] for case in WIDENED], ids=[case[0] for case in WIDENED]
)
def test_statistics_are_widened_with_the_cardinality_of_the_old_vector(before, old_cardinality, after):
    assert widen(before, old_cardinality) == after


def test_widening_twice_changes_nothing_more():
    once = widen('{"numRecords":10,"nullCount":{"a":7},"tightBounds":true}', 3)
    assert widen(once, 5) == once


def test_a_null_count_that_nests_deeper_than_any_schema_is_not_walked():
    text = '{"numRecords":1,"nullCount":' + '{"a":' * 500 + "1" + "}" * 501
    statistics = FileStatistics.parse(text)
    assert statistics is not None
    assert statistics.null_count is None
    assert statistics.num_records == 1
    assert widen(text, 0).endswith(',"tightBounds":false}')


def test_built_statistics_are_compact_ordered_json_without_nulls():
    statistics = FileStatistics.build(
        num_records=3,
        min_values={
            "d": Decimal("12345678901234567890.123456789012345678"),
            "f": float("-inf"),
            "n": None,
            "s": {"x": "ü\n"},
        },
        max_values={"d": Decimal("1E+2"), "f": float("nan"), "g": float("inf"), "b": True},
        null_count={"n": 3, "list": [1]},
        tight_bounds=True,
    )
    text = statistics.to_json()
    assert text == (
        '{"numRecords":3,"minValues":{"d":12345678901234567890.123456789012345678,"f":"-Infinity","s":{"x":"ü\\n"}},'
        '"maxValues":{"d":100,"f":"NaN","g":"Infinity","b":true},"nullCount":{"n":3,"list":[1]},"tightBounds":true}'
    )
    assert json.loads(text)["numRecords"] == 3
    assert FileStatistics.parse(text).members == statistics.members


def test_built_statistics_hold_only_what_was_given():
    assert FileStatistics.build(num_records=0).to_json() == '{"numRecords":0}'
    assert FileStatistics.parse("{}").to_json() == "{}"
