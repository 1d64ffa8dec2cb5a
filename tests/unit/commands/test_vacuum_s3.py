"""Does VACUUM work on an object store: with bulk deletes, without directories, and without commits of its own?"""

from __future__ import annotations

import pytest
from tests.support.s3_endpoint import s3_endpoint
from tests.support.vacuum_tables import builder, needed_by, vacuum

from ebbtide.commands.vacuum import deletion, survey
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

ROWS = [{"id": number, "part": "a"} for number in range(3)]
# Long after any object of the tests was put.
LATER = 4_000_000_000_000


@pytest.fixture(scope="module")
def s3():
    with s3_endpoint() as endpoint:
        endpoint.create_bucket("vacuum")
        yield endpoint


@pytest.fixture
def upload(s3, request):
    """Puts a local table into the bucket and opens it there."""

    def put_all(table):
        root = f"tables/{request.node.name}"
        for path in table.path.rglob("*"):
            if path.is_file():
                key = f"{root}/{path.relative_to(table.path).as_posix()}"
                s3.client.put_object(Bucket="vacuum", Key=key, Body=path.read_bytes())
        return open_store(f"s3://vacuum/{root}", s3.storage_options)

    return put_all


def objects(store):
    return {meta.path for meta in store.list("")} - {meta.path for meta in store.list("_delta_log")}


def changed(path):
    table = builder(path).partitioned_by("part").file(ROWS, deleted=[0], vector_prefix="ab").commit()
    table.mark(table.files[0], [1], vector_prefix="cd").commit()
    for name in ("part=a/orphan.parquet", "deep/er/orphan.parquet", "_hidden/kept", "a b#%20.parquet"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"x")
    return table


def test_orphans_and_expired_vectors_go_and_the_history_has_no_word_of_it(tmp_path, upload, monkeypatch):
    monkeypatch.setattr(deletion, "BATCH", 2)
    table = changed(tmp_path / "t")
    store = upload(table)
    looked = vacuum(store, LATER, dry_run=True)
    done = vacuum(store, LATER)
    assert set(looked.paths) == set(done.paths)
    assert objects(store) == needed_by(table) | {"_hidden/kept"}
    assert done.metrics.num_deleted_files == 4
    # part=a, ab, cd, deep, deep/er and the root.
    assert done.metrics.num_vacuumed_directories == 6
    assert (done.version, load_snapshot(store).version) == (None, 1)
    assert all(path.startswith("s3a://vacuum/tables/") for path in looked.absolute_paths())


def test_history_is_written_where_the_session_asks_for_it(tmp_path, upload):
    store = upload(changed(tmp_path / "t"))
    assert vacuum(store, LATER, is_logged=True).version == 3


def test_nothing_younger_than_the_retention_is_touched(tmp_path, upload):
    store = upload(changed(tmp_path / "t"))
    before = objects(store)
    put_ms = min(store.head(path).last_modified_ms for path in before)
    vacuum(store, put_ms, retention_hours=0)
    assert objects(store) == before


def test_lite_deletes_what_the_log_names(tmp_path, upload):
    table = changed(tmp_path / "t")
    store = upload(table)
    done = vacuum(store, LATER, lite=True)
    assert {path.partition("/")[0] for path in done.paths} == {"ab"}
    assert len(objects(store)) == 6


def test_many_objects_are_listed_in_ranges(tmp_path, upload, monkeypatch):
    monkeypatch.setattr(survey, "_FILES_WORTH_SPLITTING", 4)
    table = builder(tmp_path / "t")
    for number in range(20):
        table.file(ROWS[:1], name=f"part-{number:02d}.parquet")
    table.commit()
    for number in range(20):
        (table.path / f"part-{number:02d}-orphan.parquet").write_bytes(b"x")
    store = upload(table)
    assert len(survey.split_points(load_snapshot(store))) == 15
    assert len(vacuum(store, LATER).paths) == 20
    assert objects(store) == needed_by(table)
