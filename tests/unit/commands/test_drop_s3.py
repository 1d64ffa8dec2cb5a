"""Does DROP TABLE work on an object store: with bulk deletes, and without directories?"""

from __future__ import annotations

import pytest
from tests.support.races import ID_SCHEMA
from tests.support.s3_endpoint import s3_endpoint
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder

from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.errors import RequestError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.storage import open_store


@pytest.fixture(scope="module")
def s3():
    with s3_endpoint() as endpoint:
        endpoint.create_bucket("drop")
        yield endpoint


@pytest.fixture
def store(s3, request, tmp_path):
    """A table in the bucket, with another object beside it whose name begins like the table's."""
    builder = TableBuilder(tmp_path / "t", ID_SCHEMA).deletion_vectors()
    builder.file([{"id": number} for number in range(4)], deleted=[0], vector_prefix="ab").commit()
    builder.file([{"id": 9}]).commit()
    write_checkpoint(load_snapshot(open_store(str(builder.path))))
    root = f"tables/{request.node.name}"
    for file in builder.path.rglob("*"):
        if file.is_file():
            key = f"{root}/{file.relative_to(builder.path).as_posix()}"
            s3.client.put_object(Bucket="drop", Key=key, Body=file.read_bytes())
    for name in ("/deep/a b#%20.parquet", "-too/part-1.parquet"):
        s3.client.put_object(Bucket="drop", Key=root + name, Body=b"x")
    return open_store(f"s3://drop/{root}", s3.storage_options)


def test_all_objects_below_the_root_go_in_few_requests(store, s3, request):
    watched = HookedStore(store)
    result = DropCommand(DropRequest(watched)).run()
    assert result.num_files == 4 and result.num_versions == 2
    assert [meta.path for meta in store.list("")] == []
    left = s3.client.list_objects_v2(Bucket="drop", Prefix=f"tables/{request.node.name}")["Contents"]
    assert [found["Key"].rpartition("-too")[2] for found in left] == ["/part-1.parquet"]
    deletes = [op for op, _ in watched.calls if op.startswith("delete")]
    assert len(deletes) <= 7


@pytest.mark.parametrize("name", ["sub/_delta_log/00000000000000000000.json", "notes.txt"])
def test_what_is_not_the_tables_keeps_everything(store, name):
    store.put_if_absent(name, b"x")
    before = {meta.path for meta in store.list("")}
    with pytest.raises(RequestError):
        DropCommand(DropRequest(store)).run()
    assert {meta.path for meta in store.list("")} == before
