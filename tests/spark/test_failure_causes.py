"""Does a user whose Spark cannot reach the store read why? Spark is real and has no connector; S3 is moto."""

from __future__ import annotations

import pytest
from tests.support.s3_endpoint import s3_endpoint

import ebbtide
from ebbtide.errors import StorageError
from ebbtide.spark_border.causes import hadoop_version

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def endpoint():
    with s3_endpoint() as endpoint:
        yield endpoint


def test_spark_without_a_connector_says_which_one_to_add(spark, endpoint):
    url = f"s3://{endpoint.create_bucket('no-connector')}/people"
    with pytest.raises(StorageError) as caught:
        ebbtide.write(spark.range(3), url, storage_options=endpoint.storage_options)
    assert "Spark has no connector for S3" in str(caught.value)
    assert f"org.apache.hadoop:hadoop-aws:{hadoop_version()}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bucket_that_does_not_exist_is_not_called_a_missing_table(spark, endpoint):
    url = "s3://no-such-bucket-here/people"
    for ask in (ebbtide.read, ebbtide.DeltaTable.forPath, ebbtide.DeltaTable.isDeltaTable):
        with pytest.raises(StorageError, match="the bucket or container does not exist"):
            ask(spark, url, storage_options=endpoint.storage_options)
