"""Does a filtered read give what filtering a list gives, however marked rows are dropped?

The tables and conditions of `test_delete_against_list`. Each condition is asked in `where=`, where a part of it may be
asked before the marks, and of the rows that came back.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.spark.properties.test_delete_against_list import CONDITIONS, ON_SPARK, SCHEMA, built, tables
from tests.support.comparison import assert_same_rows

import ebbtide
from ebbtide.scan import dataframe

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# What is put in the place of functions of the scan, so that few marks are treated like many.
NO_LIST = {"has_few_marks": lambda *arguments: False}
WAYS = {
    "listed": {"has_few_marks": lambda *arguments: True},
    "looked up": NO_LIST,
    "joined": NO_LIST | {"mark_lookup": lambda *arguments: None},
}


@ON_SPARK
@given(
    drawn=tables(vectors=True),
    asked=st.lists(st.tuples(CONDITIONS, st.sampled_from(sorted(WAYS))), min_size=1, max_size=4),
)
def test_filtered_read_gives_what_filtering_a_list_gives(spark, drawn, asked):
    with tempfile.TemporaryDirectory() as directory:
        builder = built(Path(directory, "t"), drawn)
        path = str(builder.path)
        for condition, way in asked:
            note(f"WHERE {condition.sql} ({way})")
            rows = [row for row in builder.rows() if condition.holds(row) is True]
            expected = pa.Table.from_pylist(rows, schema=SCHEMA)
            with mock.patch.multiple(dataframe, **WAYS[way]):
                assert_same_rows(ebbtide.read(spark, path, where=condition.sql), expected)
                assert_same_rows(ebbtide.read(spark, path, where=condition.column()), expected)
                assert_same_rows(ebbtide.read(spark, path).where(condition.sql), expected)
