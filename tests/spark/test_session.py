"""Does the session that tests ask for have the kind and the settings they count on?"""

from __future__ import annotations


def test_session_is_of_the_kind_asked_for_on_the_command_line(spark, spark_kind):
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect.")
    assert is_remote == (spark_kind == "connect")


def test_session_reads_timestamps_in_utc_and_has_no_hive_catalog(spark):
    (row,) = spark.sql("SELECT unix_timestamp(TIMESTAMP'1970-01-02 00:00:00') AS seconds").collect()
    assert row.seconds == 24 * 60 * 60
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
