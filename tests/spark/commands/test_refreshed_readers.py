"""Is a command that has been committed reported as done, whatever Spark can reach?"""

from __future__ import annotations

import pytest

from ebbtide.commands.row_level.committing import refresh_readers
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark


def test_spark_without_a_connector_does_not_make_a_landed_commit_fail(spark):
    """RESTORE and CLONE need no Spark; on S3 they were committed and then raised ClassNotFoundException."""
    store = open_store("s3://bucket/table", {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"})
    with pytest.raises(Exception, match=r"S3AFileSystem|No FileSystem"):
        spark.catalog.refreshByPath(store.spark_path)
    refresh_readers(spark, store)
