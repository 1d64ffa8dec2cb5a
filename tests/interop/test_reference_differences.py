"""Does delta-spark still do what decision 005 says of it, where a MERGE of ours does otherwise?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.support.log_reading import actions_of, newest_version
from tests.support.table_builder import TableBuilder

import ebbtide

pytestmark = [pytest.mark.reference, pytest.mark.spark]

SOURCE = "(SELECT * FROM VALUES (2, 'b'), (9, 'i') AS s(id, v))"
NEVER = f"MERGE INTO {{}} t USING {SOURCE} s ON t.id = s.id WHEN MATCHED AND t.id < 0 THEN DELETE "


@pytest.fixture
def session(spark, spark_kind):
    if spark_kind != "reference":
        pytest.skip("asks delta-spark in the same session: --spark=reference")
    return spark


def built(path, *properties):
    builder = TableBuilder(path, pa.schema({"id": pa.int64(), "v": pa.string()}))
    for name in properties:
        builder.feature(name).table_property(f"delta.{name}", "true")
    builder.file([{"id": number, "v": "old"} for number in (1, 2, 3)])
    builder.file([{"id": number, "v": "old"} for number in (4, 5, 6)])
    return builder.commit().path


def test_merge_whose_clauses_apply_to_nothing_is_committed_by_the_reference_alone(session, tmp_path):
    ours, theirs = built(tmp_path / "ours"), built(tmp_path / "theirs")
    words = NEVER + "WHEN NOT MATCHED AND s.id < 0 THEN INSERT *"
    assert ebbtide.sql(session, words.format(f"delta.`{ours}`")).collect()[0][0] == 0
    assert session.sql(words.format(f"delta.`{theirs}`")).collect()[0][0] == 0
    assert newest_version(ours) == 0
    assert newest_version(theirs) == 1
    assert len(actions_of(theirs, 1, "remove")) == 1


def test_append_only_table_takes_insertions_beside_clauses_that_apply_to_nothing_from_us_alone(session, tmp_path):
    ours, theirs = (built(tmp_path / name, "appendOnly") for name in ("ours", "theirs"))
    words = NEVER + "WHEN NOT MATCHED THEN INSERT *"
    assert ebbtide.sql(session, words.format(f"delta.`{ours}`")).collect()[0][0] == 1
    with pytest.raises(PySparkException) as caught:
        session.sql(words.format(f"delta.`{theirs}`")).collect()
    assert caught.value.getCondition() == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
