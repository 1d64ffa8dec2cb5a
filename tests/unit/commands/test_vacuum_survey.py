"""What does VACUUM look at below the root, and what does it leave alone?"""

from __future__ import annotations

import json
import os
import tracemalloc

import pyarrow as pa
import pytest
from tests.support.stores import HookedStore
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import SCHEMA, at, builder, names_below, needed_by, put, set_time, settle, vacuum

from ebbtide.commands.vacuum import spool, survey
from ebbtide.commands.vacuum.deletion import Deletion
from ebbtide.commands.vacuum.hidden_names import HiddenNames
from ebbtide.commands.vacuum.protected import ProtectedPaths
from ebbtide.commands.vacuum.spool import PathSpool
from ebbtide.log import load_snapshot
from ebbtide.storage import ObjectMeta, open_store

ROWS = [{"id": number, "part": "a"} for number in range(3)]
LATER = at(0, hours=1000)


@pytest.fixture
def table(tmp_path):
    table = builder(tmp_path / "t").file(ROWS, deleted=[0]).commit()
    settle(table)
    return table


def left(table):
    """What a VACUUM left besides what the table needs."""
    return names_below(table.path) - needed_by(table)


def directories(table):
    found = (path for path in table.path.rglob("*") if path.is_dir() and not path.is_symlink())
    return {path.relative_to(table.path).as_posix() for path in found} - {"_delta_log"}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "orphan.parquet",
        "deep/er/part-0.parquet",
        "part=a/part-0.parquet",
        "0123456789abcdef-ebbtide/part-00000-x-c000.snappy.parquet",
        "deletion_vector_0b4b4e5c-54a5-4b09-a1f1-d8f4a1c9c3cf.bin",
        "ab/deletion_vector_0b4b4e5c-54a5-4b09-a1f1-d8f4a1c9c3cf.bin",
        ".deletion_vector_0b4b4e5c-54a5-4b09-a1f1-d8f4a1c9c3cf.bin.00112233445566778899aabbccddeeff.tmp",
        "_change_data/cdc-0.parquet",
        "_change_data/part=a/cdc-0.parquet",
        "_delta_index/bloom",
        "metadata/v1.json",
        "a b#%20?*[0].parquet",
        "日本語.parquet",
        "new\nline",
    ],
)
def test_orphan_is_deleted(table, name):
    put(table.path, name, at(0))
    done = vacuum(table.path, LATER)
    assert left(table) == set()
    assert name in set(done.paths)


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.txt",
        "_hidden_dir/000001.text",
        "deep/_hidden/x.parquet",
        "_temporary/0/part-0.parquet",
        ".deletion_vector_x.tmp",
        "_delta_log_copy/00000000000000000000.json",
        "_other=1/part-0.parquet",
        "_symlink_format_manifest/manifest",
        "_change_data/_started",
    ],
)
def test_hidden_name_is_left_alone(table, name):
    put(table.path, name, at(0))
    vacuum(table.path, LATER)
    assert left(table) == {name}


def test_log_is_never_looked_into(table):
    kept = put(table.path, "_delta_log/part-0.parquet", at(0))
    vacuum(table.path, LATER)
    assert kept.exists()


def test_directories_of_a_partition_column_that_looks_hidden_are_looked_into(tmp_path):
    schema = pa.schema({"id": pa.int64(), "_part": pa.string()})
    table = TableBuilder(tmp_path / "t", schema).partitioned_by("_part").file([{"id": 1, "_part": "a"}]).commit()
    settle(table)
    put(table.path, "_part=a/orphan.parquet", at(0))
    put(table.path, "_part=b/orphan.parquet", at(0))
    put(table.path, "_partial/kept.parquet", at(0))
    vacuum(table.path, LATER)
    assert left(table) == {"_partial/kept.parquet"}


def test_directories_keep_the_physical_name_of_a_renamed_partition_column(tmp_path):
    """Column mapping by name on a table that was older: the physical name is the first one."""
    table = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("part").column_mapping("name").file(ROWS).commit()
    settle(table)
    metadata = load_snapshot(open_store(str(table.path))).metadata
    log = table.log / "00000000000000000000.json"
    text = log.read_text().replace("col-2", "_first")
    assert "_first" in text, metadata
    log.write_text(text)
    (table.path / "col-2=a").rename(table.path / "_first=a")
    put(table.path, "_first=a/orphan.parquet", at(0))
    vacuum(table.path, LATER)
    assert not (table.path / "_first=a/orphan.parquet").exists()
    assert len(names_below(table.path)) == 1


def test_iceberg_metadata_beside_the_table_is_left_alone(table):
    table.table_property("delta.universalFormat.enabledFormats", "iceberg").commit()
    put(table.path, "metadata/v1.metadata.json", at(0))
    vacuum(table.path, LATER)
    assert left(table) == {"metadata/v1.metadata.json"}


def test_checksum_that_hadoop_kept_beside_a_file_goes_with_it(table):
    put(table.path, "orphan.parquet", at(0))
    put(table.path, ".orphan.parquet.crc", LATER)
    vacuum(table.path, LATER)
    assert left(table) == set()


def test_name_that_is_not_utf8_is_left_alone(table):
    raw = os.fsencode(table.path) + b"/\xff.parquet"
    with open(raw, "wb"):
        pass
    os.utime(raw, (1, 1))
    vacuum(table.path, LATER)
    assert os.path.exists(raw)


# --- directories ------------------------------------------------------------------------------------------------------


def test_empty_directories_go_however_deep(table):
    (table.path / "a/b/c").mkdir(parents=True)
    (table.path / "a/d").mkdir()
    for name in ("a/b/c", "a/b", "a/d", "a"):
        set_time(table.path / name, at(0))
    done = vacuum(table.path, LATER)
    assert directories(table) == set()
    assert done.metrics.num_deleted_files == 4
    assert done.metrics.num_vacuumed_directories == 5


def test_directory_that_this_vacuum_empties_goes_with_the_next(table):
    put(table.path, "a/orphan.parquet", at(0))
    vacuum(table.path, LATER)
    assert directories(table) == {"a"}
    set_time(table.path / "a", at(0))
    vacuum(table.path, LATER)
    assert directories(table) == set()


def test_empty_directory_younger_than_the_retention_stays(table):
    """A writer may have made it a moment ago, to put a file into it."""
    (table.path / "young").mkdir()
    set_time(table.path / "young", LATER)
    vacuum(table.path, LATER)
    assert directories(table) == {"young"}


def test_directory_with_a_hidden_file_or_directory_is_not_empty(table):
    put(table.path, "a/.hidden", at(0))
    put(table.path, "b/_hidden/x", at(0))
    vacuum(table.path, LATER)
    assert left(table) == {"a/.hidden", "b/_hidden/x"}


def test_directory_that_is_filled_meanwhile_stays(table):
    (table.path / "a").mkdir()
    set_time(table.path / "a", at(0))
    deletion = Deletion(open_store(str(table.path)))
    put(table.path, "a/new.parquet", LATER)
    deletion.remove_directories(["a"])
    assert (deletion.num_deleted, deletion.num_failed) == (0, 0)
    assert left(table) == {"a/new.parquet"}


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path):
    """A directory beside the table, with an old file in it."""
    put(tmp_path, "outside/precious.parquet", at(0))
    return tmp_path / "outside"


def test_linked_directory_is_not_entered(table, outside):
    (table.path / "link").symlink_to(outside)
    done = vacuum(table.path, LATER)
    assert (outside / "precious.parquet").exists()
    assert (table.path / "link").is_symlink()
    assert done.num_links == 1


def test_linked_file_and_its_target_stay(table, outside):
    (table.path / "link.parquet").symlink_to(outside / "precious.parquet")
    set_time(table.path / "link.parquet", at(0))
    (table.path / "nowhere.parquet").symlink_to(outside / "none")
    vacuum(table.path, LATER)
    assert (outside / "precious.parquet").exists()
    assert left(table) == {"link.parquet", "nowhere.parquet"}


def test_files_that_a_link_inside_the_table_leads_to_stay(table):
    """The log may name them through the link, as here, and then nothing but the link shows that they are needed."""
    (table.path / "real").mkdir()
    file = table.files[0].add["path"]
    (table.path / file).rename(table.path / "real" / file)
    (table.path / "alias").symlink_to("real")
    add = table.files[0].add | {"path": f"alias/{file}"}
    table.remove(table.files[0]).raw({"add": add}).commit()
    put(table.path, "orphan.parquet", at(0))
    vacuum(table.path, at(1, hours=1000))
    assert (table.path / "real" / file).exists()
    assert not (table.path / "orphan.parquet").exists()


def test_directory_swapped_for_a_link_after_the_survey_is_not_followed(table, outside):
    put(table.path, "a/precious.parquet", at(0))

    def swap(op, path):
        if op == "delete_all":
            (table.path / "a").rename(table.path / "b")
            (table.path / "a").symlink_to(outside)

    done = vacuum(HookedStore(open_store(str(table.path)), before=swap), LATER)
    assert (outside / "precious.parquet").exists()
    assert "symbolic link" in done.failures["a/precious.parquet"]


def test_table_whose_root_is_a_link_is_vacuumed(table, tmp_path):
    (tmp_path / "link").symlink_to(table.path)
    put(table.path, "orphan.parquet", at(0))
    vacuum(tmp_path / "link", LATER)
    assert left(table) == set()


# --- other tables -----------------------------------------------------------------------------------------------------


def test_table_inside_the_table_is_left_alone(table):
    inner = builder(table.path / "a/inner").file(ROWS).commit()
    settle(inner, at(0))
    put(inner.path, "0/orphan.parquet", at(0))
    put(table.path, "a/orphan.parquet", at(0))
    everything = names_below(inner.path)
    done = vacuum(table.path, LATER)
    assert names_below(inner.path) == everything
    assert done.other_tables == ("a/inner",)
    assert set(done.paths) == {"a/orphan.parquet"}
    assert done.metrics.num_files_to_delete == 1


# --- many objects -----------------------------------------------------------------------------------------------------


def test_memory_service_is_listed_in_ranges_and_its_log_is_jumped_over(monkeypatch):
    monkeypatch.setattr(survey, "_FILES_WORTH_SPLITTING", 10)
    store = open_store("memory://vacuum/ranges")
    names = [f"d{number % 7}/part-{number:04d}.parquet" for number in range(200)]
    for name in names:
        store.put(name, b"12")
    adds = [
        {"add": {"path": name, "partitionValues": {}, "size": 2, "modificationTime": 0, "dataChange": True}}
        for name in names[::2]
    ]
    put_log(store, adds)
    store.put("inner/_delta_log/00000000000000000000.json", b"{}")
    store.put("inner/0.parquet", b"x")
    store.put("_hidden/x", b"x")
    splits = survey.split_points(load_snapshot(store))
    assert len(splits) == 15
    done = vacuum(store, 4_000_000_000_000)
    assert sorted(done.paths) == sorted(names[1::2])
    assert done.metrics.size_of_data_to_delete == 200
    assert done.metrics.num_vacuumed_directories == 1 + 7 + 1
    assert done.other_tables == ("inner",)
    assert {meta.path for meta in store.list("")} > {*names[::2], "inner/0.parquet", "_hidden/x"}
    assert not {meta.path for meta in store.list("")} & set(names[1::2])
    assert done.version is None, "an unknown store records nothing"


def put_log(store, actions):
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    lines = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata | {"partitionColumns": [], "configuration": {}}},
        *actions,
    ]
    store.put("_delta_log/00000000000000000000.json", "\n".join(map(json.dumps, lines)).encode())


def test_few_files_are_listed_in_one_go(table):
    assert survey.split_points(load_snapshot(open_store(str(table.path)))) == []


def test_protected_paths_know_all_and_nothing_else():
    protected = ProtectedPaths()
    protected.extend(f"part-{number}.parquet" for number in range(10_000))
    assert len(protected.seal()) == 10_000
    assert all(f"part-{number}.parquet" in protected for number in range(10_000))
    assert not any(f"part-{number}.parquet" in protected for number in range(10_000, 20_000))
    assert "x" not in ProtectedPaths().seal()


def test_spool_gives_back_what_it_was_given_even_from_disk(monkeypatch):
    monkeypatch.setattr(spool, "_MEMORY_BYTES", 100)
    monkeypatch.setattr(spool, "_READ_BYTES", 7)
    paths = PathSpool()
    given = [(f"a/b {number}\n😀.parquet", number) for number in range(100)]
    paths.extend(given[:50])
    assert list(paths.items()) == given[:50]
    paths.extend(given[50:])
    assert list(paths.items()) == given
    assert (len(paths), paths.size_in_bytes) == (100, sum(range(100)))
    assert list(paths) == [path for path, _ in given]


class EndlessStore:
    """As many objects as one likes, made while they are listed."""

    url = spark_path = "s3://bucket/table"

    def __init__(self, count):
        self.count = count
        self.deleted = 0

    def list(self, prefix, *, start_after=None, in_order=True):
        for number in range(self.count):
            yield ObjectMeta(f"part=a/part-{number:08d}-{'0' * 60}.parquet", 100, 0)

    def delete_all(self, paths):
        self.deleted += len(paths)
        return {}


def test_memory_does_not_grow_with_the_number_of_objects(monkeypatch):
    """60,000 objects, half of them to be deleted; as a list of paths they alone would take 8 MB."""
    monkeypatch.setattr(spool, "_MEMORY_BYTES", 64 * 1024)
    store = EndlessStore(60_000)
    protected = ProtectedPaths()
    protected.extend(meta.path for number, meta in enumerate(store.list("")) if number % 2)
    protected.seal()
    tracemalloc.start()
    try:
        found = survey.Survey(store, HiddenNames(()), protected, 1).run([])
        deletion = Deletion(store)
        deletion.delete_files(found.files, lambda _: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.num_objects, len(found.files), deletion.num_deleted, store.deleted) == (
        60_000,
        30_000,
        30_000,
        30_000,
    )
    # A megabyte is read back at a time, and sixteen batches of a thousand paths may be under way.
    assert peak < 6_500_000
