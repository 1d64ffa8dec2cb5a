"""Does Spark's lookup of a mark answer as the sets do, up to the largest arrays that are sent with a task?"""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from ebbtide.deletion_vectors import RowIndexSet
from ebbtide.scan.mark_lookup import mark_lookup

pytestmark = pytest.mark.spark

FILE = 77


def marked(spark, lookup, rows, number=FILE):
    """The ids of `rows`, a frame of row indexes of one file, that the lookup calls marked."""
    is_marked = lookup.is_marked(spark, f"{number}L", "id")
    return [row.id for row in rows.where(is_marked).orderBy("id").collect()]


@pytest.mark.matrix
def test_every_block_of_a_file_is_found(spark):
    # One row in each block of 65,536, at another place in each: the largest arrays that there are.
    places = [block * 65_537 for block in range(4096)]
    lookup = mark_lookup([RowIndexSet(places)], [FILE])
    assert lookup is not None
    assert len(lookup.words) == 4097 * 1024
    assert marked(spark, lookup, spark.range(0, 1 << 28, 65_537)) == places
    assert marked(spark, lookup, spark.range(1, 1 << 28, 65_537)) == []


def test_rows_of_an_unknown_file_fail_the_query(spark):
    lookup = mark_lookup([RowIndexSet([1])] * 3, [0, 1, 2])
    assert lookup is not None
    with pytest.raises(PySparkException, match="another size"):
        marked(spark, lookup, spark.range(4), number=3)
