"""Do finished files get their final names and everything else go, without a file of others being touched?"""

from __future__ import annotations

import re

import pytest
from tests.support.write_targets import struct, with_physical_names, write_target

from ebbtide.errors import ObjectExistsError
from ebbtide.storage import open_store
from ebbtide.write import staging as staging_module
from ebbtide.write.staging import open_staging

JOB = "65a3dfcc-7360-4fa6-9a2e-533eb7d89f4e"
SPARK_FILE = f"part-00003-{JOB}.c000.snappy.parquet"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
def memory():
    store = open_store("memory://write-staging/table")
    yield store
    for meta in list(store.list("")):
        store.delete(meta.path)


def put(store, staging, *names):
    for name in names:
        store.put(f"{staging.directory}/{name}", b"data")


def published(target, staging, label_name, *, is_change=False, texts=()):
    return staging.publish(target, [(file, is_change, texts) for file in staging.files(label_name)])


def test_leavings_of_the_committer_are_not_finished_files(memory):
    with open_staging(memory) as staging:
        put(
            memory,
            staging,
            SPARK_FILE,
            "_SUCCESS",
            f".{SPARK_FILE}.crc",
            f"_temporary/0/{SPARK_FILE}",
            f"x=d/{SPARK_FILE}",
        )
        assert [file.meta.path for file in staging.files(None)] == [f"{staging.directory}/{SPARK_FILE}"]
        assert [file.label for file in staging.files("x")] == ["d"]


def test_files_of_an_unpartitioned_table_go_to_the_root_of_the_local_disk(tmp_path):
    target = write_target(tmp_path / "t", struct(a="long"))
    with open_staging(target.store) as staging:
        put(target.store, staging, SPARK_FILE)
        (path,) = published(target, staging, None)
    assert re.fullmatch(rf"part-00000-{UUID}\.c000\.snappy\.parquet", path)
    assert [item.name for item in (tmp_path / "t").iterdir()] == [path]


def test_partitions_become_escaped_directories_of_physical_names(tmp_path):
    target = write_target(
        tmp_path, with_physical_names(struct(a="long", p="string", q="string")), ["p", "q"], mapping="name"
    )
    with open_staging(target.store) as staging:
        put(target.store, staging, f"x=d/{SPARK_FILE}")
        (path,) = published(target, staging, "x", texts=("a/b c", None))
    assert path.startswith("p2=a%2Fb c/p3=__HIVE_DEFAULT_PARTITION__/part-00000-")
    assert (tmp_path / path).read_bytes() == b"data"


def test_change_data_goes_below_its_own_directory(tmp_path):
    target = write_target(tmp_path, struct(a="long", p="string"), ["p"])
    with open_staging(target.store) as staging:
        put(target.store, staging, f"x=c/{SPARK_FILE}")
        (path,) = published(target, staging, "x", is_change=True, texts=("1",))
    assert re.fullmatch(rf"_change_data/p=1/cdc-00000-{UUID}\.c000\.snappy\.parquet", path)


def test_random_prefixes_replace_partition_directories(tmp_path):
    properties = {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "3"}
    target = write_target(tmp_path, struct(a="long", p="string"), ["p"], properties=properties)
    with open_staging(target.store) as staging:
        put(target.store, staging, f"x=d/{SPARK_FILE}")
        (path,) = published(target, staging, "x", texts=("1",))
    assert re.fullmatch(rf"[A-Za-z0-9]{{3}}/part-00000-{UUID}\.c000\.snappy\.parquet", path)


def test_value_too_long_for_a_directory_name_leaves_the_file_at_the_root(tmp_path):
    target = write_target(tmp_path, struct(a="long", p="string"), ["p"])
    with open_staging(target.store) as staging:
        put(target.store, staging, f"x=d/{SPARK_FILE}")
        (path,) = published(target, staging, "x", texts=("é" * 200,))
    assert "/" not in path


def test_codec_in_the_name_is_the_one_that_spark_used(tmp_path):
    target = write_target(tmp_path, struct(a="long"))
    with open_staging(target.store) as staging:
        put(target.store, staging, f"part-00000-{JOB}-c000.zstd.parquet", f"part-00001-{JOB}-c001.parquet")
        paths = published(target, staging, None)
    assert [path.partition(".c000")[2] for path in paths] == [".zstd.parquet", ".parquet"]


def test_files_in_an_object_store_stay_and_only_the_leavings_go(memory):
    target = write_target(memory, struct(a="long", p="string"), ["p"])
    memory.put("part-of-the-table.parquet", b"live")
    with open_staging(memory) as staging:
        put(memory, staging, f"x=d/{SPARK_FILE}", "_SUCCESS")
        paths = published(target, staging, "x", texts=("1",))
    assert paths == [f"{staging.directory}/x=d/{SPARK_FILE}"]
    assert sorted(meta.path for meta in memory.list("")) == sorted([*paths, "part-of-the-table.parquet"])


def test_directory_of_spark_is_neither_hidden_nor_shared(memory):
    with open_staging(memory) as first, open_staging(memory) as second:
        assert first.directory != second.directory
        assert first.directory[0] not in "._"


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_failed_write_leaves_nothing_of_its_own_and_everything_else(tmp_path, memory, kind):
    store = memory if kind == "memory" else open_store(str(tmp_path))
    store.put("part-of-the-table.parquet", b"live")
    with pytest.raises(KeyboardInterrupt), open_staging(store) as staging:
        put(store, staging, SPARK_FILE, "_temporary/0/x")
        raise KeyboardInterrupt
    assert [meta.path for meta in store.list("")] == ["part-of-the-table.parquet"]


def test_taken_name_stops_the_write_and_the_file_there_is_not_replaced(tmp_path, monkeypatch):
    target = write_target(tmp_path, struct(a="long"))
    monkeypatch.setattr(staging_module, "uuid4", lambda: UUID_IN_USE)
    taken = tmp_path / f"part-00000-{UUID_IN_USE}.c000.snappy.parquet"
    taken.write_bytes(b"live")
    with pytest.raises(ObjectExistsError), open_staging(target.store) as staging:
        put(target.store, staging, SPARK_FILE)
        published(target, staging, None)
    assert taken.read_bytes() == b"live"
    assert list(tmp_path.iterdir()) == [taken]


class _FixedUuid(str):
    __slots__ = ()
    hex = "0" * 32


UUID_IN_USE = _FixedUuid("00000000-0000-0000-0000-000000000000")
