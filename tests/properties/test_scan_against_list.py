"""Does a scan with random vectors show what filtering a list shows, however Spark cuts the files?

Random files, marks, row groups, split sizes and reader settings; and random conditions, where the read that leaves files
closed must give the rows of the read that opens them all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.support.comparison import assert_same_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import spark_border
from ebbtide.scan import dataframe
from ebbtide.scan.mark_lookup import mark_lookup

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Each example starts Spark jobs, and no example shares anything with another but the session.
ON_SPARK = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCHEMA = pa.schema({"id": pa.int64(), "text": pa.string(), "part": pa.string()})


@st.composite
def marks(draw, count):
    """Row indexes of a file: scattered ones, ranges, or those around the borders of 64-bit words."""
    found = set(draw(st.lists(st.integers(0, count - 1), max_size=20)))
    for start, length in draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, count)), max_size=2)):
        found |= set(range(start, min(start + length, count)))
    if draw(st.booleans()):
        found |= {row for border in range(0, count + 1, 64) for row in (border - 1, border) if 0 <= row < count}
    if draw(st.booleans()):
        found.add(count - 1)
    return found


@st.composite
def files(draw):
    count = draw(st.sampled_from([1, 2, 63, 64, 65, 128, 200, 1_000, 3_000]))
    return {
        "count": count,
        "deleted": draw(st.one_of(st.just(set()), marks(count))),
        "row_group_size": draw(st.sampled_from([1, 7, 64, 100, 1_000_000]))
        if count <= 200
        else draw(st.sampled_from([64, 500, 1_000_000])),
        "vector": draw(st.sampled_from(["u", "i", "p"])),
        "part": draw(st.sampled_from(["a", "b/c", None])),
    }


def built(path, drawn, *, partitioned):
    builder = TableBuilder(path, SCHEMA).deletion_vectors()
    if partitioned:
        builder.partitioned_by("part")
    for at, file in enumerate(drawn):
        rows = [
            {"id": at * 10_000 + row, "text": f"{row % 10}" * (row % 30), "part": file["part"]}
            for row in range(file["count"])
        ]
        options = {name: file[name] for name in ("deleted", "row_group_size", "vector")}
        builder.file(rows, **options)
    return builder.commit()


@ON_SPARK
@given(
    drawn=st.lists(files(), min_size=1, max_size=4),
    partitioned=st.booleans(),
    split_bytes=st.sampled_from([1_000, 2_048, 4_096, 16_384, 1 << 27]),
    vectorized=st.booleans(),
    form=st.sampled_from(["list", "arrays", "join"]),
    by_metadata=st.booleans(),
    modulus=st.sampled_from([1, 2, 3, 50]),
)
def test_scan_shows_what_filtering_a_list_shows(
    spark, drawn, partitioned, split_bytes, vectorized, form, by_metadata, modulus
):
    session = {
        "spark.sql.files.maxPartitionBytes": str(split_bytes),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.parquet.enableVectorizedReader": str(vectorized).lower(),
    }
    lookup = (lambda *arguments: None) if form == "join" else mark_lookup
    fills = (lambda spark: False) if by_metadata else spark_border.fills_reader_row_index
    with (
        tempfile.TemporaryDirectory() as directory,
        session_settings(spark, session),
        mock.patch.object(dataframe, "has_few_marks", lambda files: form == "list"),
        mock.patch.object(dataframe, "mark_lookup", lookup),
        mock.patch.object(spark_border, "fills_reader_row_index", fills),
    ):
        builder = built(Path(directory, "t"), drawn, partitioned=partitioned)
        frame = ebbtide.read(spark, str(builder.path)).where(f"id % {modulus} = 0")
        assert_same_rows(frame, [row for row in builder.rows() if row["id"] % modulus == 0])


LEAVES = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.just("id"),
        st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"]),
        st.integers(-1, 30_100),
    ),
    st.builds(
        "{} {} '{}'".format,
        st.sampled_from(["part", "text"]),
        st.sampled_from(["=", "<", ">", "<=>"]),
        st.sampled_from(["a", "b/c", "", "1111"]),
    ),
    st.builds("id BETWEEN {} AND {}".format, st.integers(0, 30_000), st.integers(0, 30_000)),
    st.builds("part IN ({})".format, st.sampled_from(["'a'", "'a', 'x'", "'b/c', NULL"])),
    st.sampled_from(
        ["part IS NULL", "part IS NOT NULL", "text LIKE '22%'", "id % 7 = 3", "coalesce(part, 'a') = 'a'", "true"]
    ),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Twelve files of three partitions, most of them marked; some without statistics."""
    builder = TableBuilder(tmp_path_factory.mktemp("pruned") / "t", SCHEMA).partitioned_by("part").deletion_vectors()
    for at in range(12):
        rows = [
            {"id": at * 2_500 + row, "text": str(at % 4) * row if row % 5 else None, "part": ("a", "b/c", None)[at % 3]}
            for row in range(20)
        ]
        builder.file(rows, deleted=range(0, 20, at) if at else [], stats=at % 5 != 4)
    return builder.commit()


@ON_SPARK
@given(conditions=st.lists(CONDITIONS, min_size=1, max_size=4))
def test_read_that_leaves_files_closed_gives_the_rows_of_the_read_that_opens_all(spark, table, conditions):
    whole = ebbtide.read(spark, str(table.path))
    for condition in conditions:
        note(condition)
        assert_same_rows(ebbtide.read(spark, str(table.path), where=condition), whole.where(condition), label=condition)
