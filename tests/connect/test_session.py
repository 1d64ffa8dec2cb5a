"""Is a run with `--spark=connect` really a run on Spark Connect, with nothing of the JVM within reach?"""

from __future__ import annotations

from pyspark.sql.connect.session import SparkSession as ConnectSession


def test_connect_run_holds_a_remote_session_and_no_jvm_gateway(spark):
    from pyspark import SparkContext

    assert isinstance(spark, ConnectSession)
    assert SparkContext._active_spark_context is None
    assert SparkContext._gateway is None


def test_connect_session_has_the_settings_of_the_classic_one(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
