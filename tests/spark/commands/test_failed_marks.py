"""Does a command whose second file of vectors cannot be written leave the table, and storage, as they were?"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.log_reading import newest_version
from tests.support.races import unnamed_files
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.request import InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.config import EngineConfig
from ebbtide.errors import StorageError
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark

# Every vector gets a file of its own.
OPTIONS = WriteOptions(config=EngineConfig(deletion_vector_target_bytes=1))


def delete(spark, store):
    return DeleteCommand(spark, DeleteRequest(store, "id % 2 = 1", options=OPTIONS))


def update(spark, store):
    return UpdateCommand(spark, UpdateRequest(store, "id % 2 = 1", [("id", "id + 100")], options=OPTIONS))


def merge(spark, store):
    source = spark.createDataFrame([(1,), (11,), (99,)], "id long").alias("s")
    clauses = {"matched": (UpdateClause((("id", "t.id + 100"),)),), "not_matched": (InsertClause(None),)}
    return MergeCommand(spark, MergeRequest(store, source, "t.id = s.id", target_alias="t", options=OPTIONS, **clauses))


@pytest.mark.one_value("about what lies in storage, not about Spark")
@pytest.mark.parametrize("command", [delete, update, merge])
def test_nothing_is_left_when_a_later_file_of_vectors_fails(spark, tmp_path, command):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    table = builder.file([{"id": 1}, {"id": 2}]).file([{"id": 11}, {"id": 12}]).commit()
    vectors = []

    def fail_the_second(op, path):
        if op == "put_if_absent" and path.endswith(".bin"):
            vectors.append(path)
            if len(vectors) > 1:
                raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="disk is full"):
        command(spark, HookedStore(open_store(str(table.path)), before=fail_the_second)).run()
    assert len(vectors) == 2
    assert unnamed_files(table.path) == set()
    assert newest_version(table.path) == table.version
    assert sorted(row["id"] for row in ebbtide.read(spark, str(table.path)).collect()) == [1, 2, 11, 12]
