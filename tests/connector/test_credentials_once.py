"""Are credentials that are given once enough for both halves, and do they stay secret? S3 is moto, its connector Hadoop's."""

from __future__ import annotations

import io
import logging
import traceback
from contextlib import redirect_stdout

import pytest
from tests.support.command_line import ebbtide as command_line
from tests.support.s3_endpoint import ACCESS_KEY, SECRET_KEY

import ebbtide
from ebbtide.errors import PermissionDeniedError, StorageError

pytestmark = [pytest.mark.spark, pytest.mark.connector]


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def told_by(error):
    return "".join([*traceback.format_exception(error), repr(error)])


def test_storage_options_alone_serve_every_kind_of_command(spark, endpoint):
    url = f"s3://{endpoint.create_bucket('once')}/people"
    options = endpoint.storage_options
    ebbtide.write(spark.range(10), url, storage_options=options, properties={"delta.enableDeletionVectors": "true"})
    table = ebbtide.DeltaTable.forPath(spark, url, storage_options=options)
    table.delete("id = 3")
    table.update("id = 4", {"id": "40"})
    source = spark.createDataFrame([(5,), (50,)], "id long")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    expected = [0, 1, 2, 6, 7, 8, 9, 40, 50]
    assert ids(ebbtide.read(spark, url, storage_options=options)) == expected
    table.optimize().executeCompaction()
    ebbtide.sql(spark, f"DELETE FROM delta.`{url}` WHERE id = 50", storage_options=options)
    assert ids(table.toDF()) == expected[:-1]
    assert ids(ebbtide.read(spark, url, version=0, storage_options=options)) == list(range(10))


def test_folder_of_parquet_files_is_converted_with_storage_options_alone(spark, endpoint):
    bucket = endpoint.create_bucket("folder")
    options = endpoint.storage_options
    ebbtide.write(spark.range(3), f"s3://{bucket}/t", storage_options=options)
    listed = endpoint.client.list_objects_v2(Bucket=bucket, Prefix="t/_delta_log/")["Contents"]
    for found in listed:
        endpoint.client.delete_object(Bucket=bucket, Key=found["Key"])
    table = ebbtide.DeltaTable.convertToDelta(spark, f"parquet.`s3://{bucket}/t`", storage_options=options)
    assert ids(table.toDF()) == [0, 1, 2]


def test_settings_of_the_session_alone_are_enough(spark, endpoint):
    url = f"s3a://{endpoint.create_bucket('by-session')}/people"
    settings = {
        "fs.s3a.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.endpoint": endpoint.url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        ebbtide.write(spark.range(3), url)
        ebbtide.DeltaTable.forPath(spark, url).delete("id = 1")
        assert ids(ebbtide.read(spark, url)) == [0, 2]
        assert ids(ebbtide.sql(spark, f"SELECT * FROM delta.`{url}`")) == [0, 2]
        assert ebbtide.DeltaTable.isDeltaTable(spark, url)
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_hadoop_keeps_the_first_options_of_a_bucket(spark, endpoint):
    """The fact behind decision 027. Should a release key its cache by credentials, the page can say something better."""
    url = f"s3://{endpoint.create_bucket('kept')}/t"
    ebbtide.write(spark.range(2), url, storage_options=endpoint.storage_options)
    table = ebbtide.DeltaTable.forPath(spark, url, storage_options=endpoint.storage_options)
    told = table._snapshot().store._options.for_spark
    told |= {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.bucket.kept.endpoint": "http://127.0.0.1:1"}
    assert ids(table.toDF()) == [0, 1]


def test_command_line_that_starts_spark_needs_nothing_but_its_options(spark, spark_kind, endpoint):
    url = f"s3://{endpoint.create_bucket('by-hand')}/people"
    ebbtide.write(spark.range(3), url, storage_options=endpoint.storage_options)
    given = [part for pair in endpoint.storage_options.items() for part in ("--storage-option", "=".join(pair))]
    shown = command_line("show", url, "--json", *given)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.count("id") == 3
    missing = command_line("show", "s3://no-such-bucket-at-all/people", *given)
    assert missing.exit_code == 1
    assert "the bucket or container does not exist" in " ".join(missing.stderr.split())


def test_spark_says_why_it_could_not_read(spark, endpoint):
    bucket = endpoint.create_bucket("vanishing")
    ebbtide.write(spark.range(3), f"s3://{bucket}/t", storage_options=endpoint.storage_options)
    frame = ebbtide.read(spark, f"s3://{bucket}/t", storage_options=endpoint.storage_options)
    assert ids(frame) == [0, 1, 2]
    table = ebbtide.DeltaTable.forPath(spark, f"s3://{bucket}/t", storage_options=endpoint.storage_options)
    snapshot = table._snapshot()
    told = {**snapshot.store.spark_options, "fs.s3a.bucket.vanishing.endpoint": "http://127.0.0.1:1"}
    # A file system of its own, because Hadoop keeps the one that reached the bucket.
    told |= {"fs.s3a.impl.disable.cache": "true"}
    told |= {"fs.s3a.bucket.vanishing.attempts.maximum": "1", "fs.s3a.bucket.vanishing.retry.limit": "0"}
    snapshot.store._options.for_spark.clear()
    snapshot.store._options.for_spark.update(told)
    with pytest.raises(
        StorageError, match="Spark's side failed, because the endpoint refused the connection"
    ) as caught:
        table.toDF().count()
    assert SECRET_KEY not in told_by(caught.value)


def test_secrets_are_in_no_plan_log_error_repr_or_history(spark, spark_kind, endpoint, event_logs, caplog):
    bucket = endpoint.create_bucket("secrets")
    url, options = f"s3://{bucket}/people", endpoint.storage_options
    told = io.StringIO()
    # Not Py4J's own DEBUG lines: they are the bytes on the wire to the JVM, whatever is called.
    logging.getLogger("py4j").setLevel(logging.INFO)
    with caplog.at_level(logging.DEBUG), redirect_stdout(told):
        ebbtide.write(spark.range(10), url, storage_options=options)
        table = ebbtide.DeltaTable.forPath(spark, url, storage_options=options)
        table.delete("id = 3")
        table.toDF().explain(extended=True)
        ebbtide.read(spark, url, storage_options=options).explain(extended=True)
        with pytest.raises(StorageError) as missing:
            ebbtide.read(spark, "s3://no-such-bucket-at-all/t", storage_options=options)
        with pytest.raises((StorageError, PermissionDeniedError)) as unreachable:
            ebbtide.read(
                spark, url, storage_options={**options, "aws_endpoint": "http://127.0.0.1:1", "max_retries": "0"}
            )
    assert "Parsed Logical Plan" in told.getvalue()
    written = [
        endpoint.client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
        for found in endpoint.client.list_objects_v2(Bucket=bucket)["Contents"]
    ]
    events = [path.read_bytes() for path in event_logs.rglob("*") if path.is_file()]
    assert any(b"InsertIntoHadoopFsRelationCommand" in event for event in events), "the plan of a write was looked at"
    texts = [told.getvalue(), caplog.text, told_by(missing.value), told_by(unreachable.value), repr(table)]
    texts += [repr(table._snapshot().store), repr(table._options())]
    for secret in (SECRET_KEY, ACCESS_KEY):
        assert not any(secret in text for text in texts)
        assert not any(secret.encode() in bytes_ for bytes_ in written)
    leaks = any(secret.encode() in event for secret in (SECRET_KEY, ACCESS_KEY) for event in events)
    if spark_kind == "connect" and leaks:
        pytest.xfail("a Spark Connect server writes requests, options included, into its event log (027)")
    assert not leaks
