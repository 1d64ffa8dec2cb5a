"""Are files that a condition rules out left closed, and is the answer still the whole answer?

The proof that a file is not opened: it is not there any more, and the read succeeds.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.support.comparison import assert_same_rows
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.errors import InvalidPredicateError, MissingDataFileError, UnknownColumnError
from ebbtide.scan import dataframe

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "part": pa.string(),
    }
)
FIRST_DAY = dt.date(2024, 1, 1)


def row(number, part):
    day = FIRST_DAY + dt.timedelta(days=number)
    return {"id": number, "name": f"n{number:03d}", "day": day, "price": Decimal(number), "part": part}


@pytest.fixture
def builder(tmp_path):
    """Three partitions, ids 0-9, 100-109 and 200-209; each file has marks but the first."""
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    for start, part in ((0, "a"), (100, "b"), (200, "c")):
        rows = [row(number, part) for number in range(start, start + 10)]
        builder.file(rows, deleted=[2, 3] if start else [])
    return builder.commit()


def lose_all_files_but(builder, part):
    for file in builder.files:
        if file.add["partitionValues"]["part"] != part:
            (builder.path / file.add["path"]).unlink()


# SQL text and the Column that says the same; only the file of partition "b" can hold a row for which they are true.
CONDITIONS = {
    "partition value": ("part = 'b'", lambda: F.col("part") == "b"),
    "one of a list": ("part IN ('b', 'x')", lambda: F.col("part").isin("b", "x")),
    "range of a number": ("id >= 100 AND id < 150", lambda: (F.col("id") >= 100) & (F.col("id") < 150)),
    "between": ("id BETWEEN 50 AND 150", lambda: F.col("id").between(50, 150)),
    "equal number": ("id = 105", lambda: F.col("id") == 105),
    "text": ("name > 'n100' AND name < 'n150'", lambda: (F.col("name") > "n100") & (F.col("name") < "n150")),
    "either": (
        "id = 101 OR (part = 'b' AND id > 5)",
        lambda: (F.col("id") == 101) | ((F.col("part") == "b") & (F.col("id") > 5)),
    ),
    "date": ("day = DATE'2024-04-15'", lambda: F.col("day") == F.lit(dt.date(2024, 4, 15))),
    "decimal": ("price = 104.00", lambda: F.col("price") == F.lit(Decimal("104.00"))),
    "mixed": (
        "part = 'b' AND upper(name) LIKE 'N1%'",
        lambda: (F.col("part") == "b") & F.upper(F.col("name")).like("N1%"),
    ),
}


# Connect gives a decimal literal another type than SQL does, so that both mean the same cannot be proven there.
NOT_PROVEN = {("decimal", "column", "connect")}


@pytest.mark.one_value("pruning reads the log and the text of the condition")
@pytest.mark.parametrize("form", ["text", "column"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_files_that_a_condition_rules_out_are_not_opened(spark, builder, name, form, spark_kind):
    text, column = CONDITIONS[name]
    expected = ebbtide.read(spark, str(builder.path)).where(text).toArrow()
    assert expected.num_rows
    if (name, form, spark_kind) not in NOT_PROVEN:
        lose_all_files_but(builder, "b")
    frame = ebbtide.read(spark, str(builder.path), where=text if form == "text" else column())
    assert_same_rows(frame, expected)


@pytest.mark.one_kind("refused before Spark is asked")
def test_filter_on_the_result_still_needs_every_file(spark, builder):
    lose_all_files_but(builder, "b")
    with pytest.raises(MissingDataFileError):
        ebbtide.read(spark, str(builder.path)).where("part = 'b'")


@pytest.mark.one_value("properties/test_reads_against_list.py tries conditions of any form on both kinds")
@pytest.mark.parametrize(
    "where",
    [
        "id % 3 = 1",
        "length(name) = 4 AND part <> 'a'",
        "part IS NULL",
        "NOT (id < 100)",
        "name LIKE '%5'",
        "id = 5 OR rand() > 2",
    ],
)
def test_condition_that_rules_out_nothing_or_everything_gives_the_same_rows(spark, builder, where):
    path = str(builder.path)
    assert_same_rows(ebbtide.read(spark, path, where=where), ebbtide.read(spark, path).where(where))


@pytest.fixture
def with_odd_deleted_row(tmp_path):
    """The deleted row has a zero and a word where the others have numbers."""
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "name": pa.string()})).deletion_vectors()
    rows = [{"id": number, "name": str(number)} for number in range(1, 200)]
    # Alone in a list of marks, and among enough of them for a lookup.
    for deleted in ([0], range(0, 199, 2)):
        builder.file([{"id": 0, "name": "word"}, *rows], deleted=deleted)
    return builder.commit()


@pytest.fixture(params=["looked-up", "joined"])
def way(request, monkeypatch):
    """How rows are told to be marked: so many marks that they are joined would take long to make."""
    if request.param == "joined":
        monkeypatch.setattr(dataframe, "has_few_marks", lambda *arguments: False)
        monkeypatch.setattr(dataframe, "mark_lookup", lambda *arguments: None)
    return request.param


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize(
    "where",
    ["10 / id > 1", "name = 5", "CAST(name AS INT) < 7", "id < 50 AND 10 / id > 1", "id < 50 OR 10 / id > 1", "id < 9"],
)
def test_no_condition_fails_on_a_deleted_row(spark, with_odd_deleted_row, way, where):
    path = str(with_odd_deleted_row.path)
    rows = ebbtide.read(spark, path)
    expected = as_table([each for each in rows.collect() if holds(where, each.id)])
    assert expected.num_rows
    assert_same_rows(rows.where(where).toArrow(), expected)
    assert_same_rows(ebbtide.read(spark, path, where=where).toArrow(), expected)
    assert_same_rows(ebbtide.read(spark, path, where=F.expr(where)).toArrow(), expected)
    result = ebbtide.DeltaTable.forPath(spark, path).delete(where)
    assert result.num_affected_rows == expected.num_rows


def holds(where, number):
    return {
        "10 / id > 1": number < 10,
        "name = 5": number == 5,
        "CAST(name AS INT) < 7": number < 7,
        "id < 50 AND 10 / id > 1": number < 10,
        "id < 50 OR 10 / id > 1": number < 50,
        "id < 9": number < 9,
    }[where]


def as_table(rows):
    columns = {"id": pa.array([each.id for each in rows], pa.int64()), "name": pa.array([each.name for each in rows])}
    return pa.table(columns)


def test_row_is_looked_up_among_the_marks_only_where_the_condition_holds(spark, with_odd_deleted_row, capsys):
    path = str(with_odd_deleted_row.path)
    before = planned(ebbtide.read(spark, path, where="id >= 150 AND 10 / id > 0"), capsys)
    assert before.index("id#>=150") < before.index("getbit") < before.index("10.0/"), "asked first, then marks, then /"
    assert before.count("id#>=150") == planned(ebbtide.read(spark, path).where("id >= 150"), capsys).count("id#>=150")


def planned(frame, capsys):
    """The conditions of the filter above the scan, without spaces and numbers of columns."""
    frame.explain()
    filters = [line for line in capsys.readouterr().out.splitlines() if "Filter " in line and "getbit" in line]
    assert filters
    return re.sub(r"#\d+L?", "#", re.sub(r"\s", "", filters[0]))


def test_condition_that_no_file_can_fulfil_gives_the_schema_and_no_row(spark, builder):
    frame = ebbtide.read(spark, str(builder.path), where="id > 5000")
    assert frame.columns == SCHEMA.names
    assert frame.collect() == []


@pytest.mark.one_kind("pruning reads the log")
def test_statistics_by_physical_names_prune_a_mapped_table(spark, tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).column_mapping("name")
    builder.file([{"id": 1}]).file([{"id": 100}]).commit()
    (builder.path / builder.files[0].add["path"]).unlink()
    assert [row.id for row in ebbtide.read(spark, str(builder.path), where="id > 50").collect()] == [100]


@pytest.mark.one_kind("pruning reads the log")
def test_condition_prunes_the_files_of_the_version_asked_for(spark, builder):
    builder.file([row(300, "b")]).commit()
    frame = ebbtide.read(spark, str(builder.path), version=0, where="part = 'b'")
    assert {each.id for each in frame.collect()} == {100, 101, *range(104, 110)}


def test_condition_with_an_unknown_column_is_named(spark, builder):
    with pytest.raises(UnknownColumnError, match="nonsense"):
        ebbtide.read(spark, str(builder.path), where="nonsense = 1")


@pytest.mark.parametrize("where", ["id =", "SELECT 1", "id", "sum(id) > 3"])
def test_condition_that_is_no_condition_is_refused(spark, builder, where):
    with pytest.raises(InvalidPredicateError):
        ebbtide.read(spark, str(builder.path), where=where)
