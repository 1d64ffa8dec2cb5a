"""Is every call and every name of an expression found, and everything refused that could be a query?"""

from __future__ import annotations

import pytest

from ebbtide.write.expression_reading import UnknownSyntaxError, read_expression

READABLE = {
    # text: (calls, names)
    "id > 0": ("", "id"),
    "a between 1 and 2 and b = 3": ("", "a b"),
    "a not between 1 and 2": ("", "a"),
    "extract(year from d) > 2000": ("extract", "d"),
    "trim(both 'x' from a) = 'b'": ("trim", "a"),
    "trim(leading from a)": ("trim", "a"),
    "trim('x' from a)": ("trim", "a"),
    "substring(a from 1 for 2)": ("substring", "a"),
    "position('a' in b) > 0": ("position", "b"),
    "overlay(a placing 'b' from 1 for 2)": ("overlay", "a"),
    "case when a then b else c end": ("", "a b c"),
    "case a when 1 then 2 when 3 then 4 end = 5": ("", "a"),
    "case = 1": ("", "case"),
    "cast(a as decimal(10,2)) > 1": ("", "a"),
    "try_cast(a as array<struct<x:int,y:map<string,int>>>) is null": ("", "a"),
    "cast(a as interval day to second)": ("", "a"),
    "a::int = 1": ("", "a"),
    "d > date'2020-01-01'": ("", "d"),
    "date(d) > date '2020-01-01'": ("date", "d"),
    "date = 1": ("", "date"),
    "d >= timestamp '2020-01-01 00:00:00' - interval 1 day": ("", "d"),
    "d + interval '1-2' year to month < e": ("", "d e"),
    "d + interval 1 day -2 hours > e": ("", "d e"),
    "d + interval '1 day' > e": ("", "d e"),
    "a not in ('x', 'y')": ("", "a"),
    "(a, b) in ((1, 2), (3, 4))": ("", "a b"),
    "a like 'b%' escape '!'": ("", "a"),
    "a not like all ('a', 'b')": ("", "a"),
    "a is not distinct from b": ("", "a b"),
    "not a or ! b and -c + +d = ~e": ("", "a b c d e"),
    "a[0].b = 1": ("", "a"),
    "transform(arr, x -> x + n)[0] = 1": ("transform", "arr n"),
    "aggregate(a, 0, (acc, x) -> acc + x, acc -> acc) > 0": ("aggregate", "a"),
    "f(x).y.z = 1": ("f", "x"),
    "'select' 'b' = \"from\"": ("", ""),
    "(map('a', 1))['a'] = reduce(b, 0, (p, q) -> p + q)": ("map reduce", "b"),
    "`a b`.c > 1": ("", "a b.c"),
    "`select` = 1 and (`from` > 2)": ("", "select from"),
    "timestampadd(DAY, 1, d) > date_add(d, 1)": ("timestampadd date_add", "d d"),
    "1 /* (select 1) */ + 1 -- reflect('a')": ("", ""),
    "x'ff' = b": ("", "b"),
    "current_date": ("", "current_date"),
    "UPPER(a) = upper(b)": ("upper", "a b"),
}


@pytest.mark.parametrize("text", READABLE)
def test_calls_and_names_of_an_expression_are_found(text):
    calls, names = READABLE[text]
    reading = read_expression(text)
    assert reading.calls == frozenset(calls.split())
    assert sorted(".".join(parts) for parts in reading.names) == sorted(
        ["a b.c"] if names == "a b.c" else names.split()
    )


@pytest.mark.parametrize(
    "text",
    [
        "(select 1)",
        "((select 1))",
        "a in (select b from t)",
        "exists(select 1)",
        "exists (from t)",
        "(FROM t)",
        "(values 1)",
        "a in (values 1)",
        "(table t)",
        "(with a as (select 1) select * from a)",
        "(map a using 'cat' as b from t)",
        "(map (a) using 'cat' as b from t)",
        "(reduce (a) using 'cat' from t)",
        "(\u017felect secret from t)",
        "case when 1 then (select 1) end",
        "cast((select 1) as int)",
        "a[(select 1)]",
        "trim((select 1 from t))",
        "extract(year from (select 1))",
        "position('a' in (select 1))",
        "transform(a, x -> (select 1))",
        "a between (select 1) and 2",
        "a like (select 1)",
        "interval (select 1) day",
    ],
)
def test_a_subquery_is_no_expression_of_a_table(text):
    with pytest.raises(UnknownSyntaxError):
        read_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- nothing",
        "a b",
        "a as b",
        "1 1",
        "a.b(c)",
        "`reflect`('a')",
        '"reflect"(1)',
        "system.builtin.reflect('a')",
        "identifier('reflect')('a')",
        "count(*)",
        "struct(*)",
        "t.*",
        "sum(a) over ()",
        "count(a) filter (where a)",
        "f(distinct a)",
        "f(a => 1)",
        ":x",
        "?",
        "a:b",
        "a; b",
        "a not b",
        "-",
        "(",
        ")",
        "f(",
        "/*+ hint */ a",
        "'a",
        "(" * 200 + "a" + ")" * 200,
        "cast(a as " + "array<" * 200 + "int" + ">" * 200 + ")",
        "a" * 100_001,
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_not_understood_is_refused(text):
    with pytest.raises(UnknownSyntaxError):
        read_expression(text)
