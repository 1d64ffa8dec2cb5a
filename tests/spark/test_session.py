"""Does the session that tests ask for have the kind and the settings they count on, and does Ebbtide leave them alone?"""

from __future__ import annotations

import pytest
from tests.support.session_settings import session_settings

from ebbtide import spark_border


def test_session_is_of_the_kind_asked_for_on_the_command_line(spark, spark_kind):
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect.")
    assert is_remote == (spark_kind == "connect")


def test_session_reads_timestamps_in_utc_and_has_no_hive_catalog(spark):
    (row,) = spark.sql("SELECT unix_timestamp(TIMESTAMP'1970-01-02 00:00:00') AS seconds").collect()
    assert row.seconds == 24 * 60 * 60
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"


SETTING = "spark.sql.parquet.pushdown.inFilterThreshold"


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_settings_of_a_search_are_put_back_when_the_last_of_several_ends(spark, first_to_end):
    with session_settings(spark, {SETTING: "17", "spark.sql.shuffle.partitions": "100"}):
        searches = [spark_border.search_settings(spark, few_shuffles=few) for few in (True, False)]
        for search in searches:
            search.__enter__()
        assert (spark.conf.get(SETTING), spark.conf.get("spark.sql.shuffle.partitions")) == ("256", "8")
        searches.pop(first_to_end).__exit__(None, None, None)
        assert spark.conf.get(SETTING) == "256"
        searches.pop().__exit__(None, None, None)
        assert (spark.conf.get(SETTING), spark.conf.get("spark.sql.shuffle.partitions")) == ("17", "100")


def test_larger_settings_of_the_user_are_kept(spark):
    with session_settings(spark, {SETTING: "1000"}), spark_border.search_settings(spark, few_shuffles=False):
        assert spark.conf.get(SETTING) == "1000"
