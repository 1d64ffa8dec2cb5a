"""Does DROP TABLE delete a table, all of it, and nothing else?"""

from __future__ import annotations

import os

import pytest
from tests.support.races import ID_SCHEMA, append, commit, new_data_file
from tests.support.table_builder import TableBuilder

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.errors import (
    ConcurrentWriteException,
    CorruptTableError,
    RequestError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.protocol.actions import Metadata
from ebbtide.storage import open_store
from ebbtide.transaction import Transaction


@pytest.fixture
def table(tmp_path):
    """Data, vectors with and without a prefix, change data, a checkpoint, orphans, and empty directories."""
    builder = TableBuilder(tmp_path / "db" / "t", ID_SCHEMA).deletion_vectors()
    builder.file([{"id": number} for number in range(4)], deleted=[0], vector_prefix="ab").commit()
    builder.mark(builder.files[0], [1]).commit()
    path = builder.path
    write_checkpoint(load_snapshot(open_store(str(path))))
    for name in ("_change_data/cdc-1.parquet", "deep/part=a/orphan.parquet", "_p=1/x.parquet", "_SUCCESS", ".x.crc"):
        put(path, name)
    (path / "empty" / "er").mkdir(parents=True)
    return path


def put(path, name):
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(b"x")


def drop(path, store=None, **request):
    return DropCommand(DropRequest(store or open_store(str(path)), **request)).run()


def everything(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def test_nothing_is_left_but_what_was_beside_the_table(table):
    put(table.parent, "other/file.txt")
    files = [file for file in table.rglob("*") if file.is_file()]
    log = [file for file in files if "_delta_log" in file.parts]
    size = sum(file.stat().st_size for file in files)
    result = drop(table)
    assert (result.num_files, result.num_log_files) == (len(files) - len(log), len(log))
    assert (result.size_in_bytes, result.num_versions, result.is_found) == (size, 2, True)
    assert everything(table.parent) == ["other", "other/file.txt"]


def test_dry_run_says_the_same_and_deletes_nothing(table):
    before = everything(table)
    looked = drop(table, dry_run=True)
    assert everything(table) == before
    assert "would be deleted" in repr(looked) and "shallow clone" in repr(looked)
    done = drop(table)
    assert (looked.num_files, looked.size_in_bytes) == (done.num_files, done.size_in_bytes)


def test_no_table_is_an_error_unless_that_is_fine(tmp_path):
    put(tmp_path, "data/part-1.parquet")
    with pytest.raises(TableNotFoundError, match="IF EXISTS"):
        drop(tmp_path / "data")
    assert not drop(tmp_path / "data", if_exists=True).is_found
    assert not drop(tmp_path / "nowhere", if_exists=True).is_found
    assert everything(tmp_path) == ["data", "data/part-1.parquet"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notes.txt", "notes.txt"),
        (".git/config", ".git/config"),
        ("_spark_metadata/0", "_spark_metadata/0"),
        ("deep/data.csv", "deep/data.csv"),
        ("sub/_delta_log/00000000000000000000.json", "sub/ (another table)"),
        ("part=a/sub/_delta_log/x", "part=a/sub/ (another table)"),
    ],
)
def test_what_is_not_the_tables_is_named_and_keeps_everything(table, name, said):
    put(table, name)
    before = everything(table)
    with pytest.raises(RequestError) as refused:
        drop(table)
    assert said in str(refused.value) and everything(table) == before


@pytest.mark.parametrize("place", ["link", "part=a/link", "_delta_log/link"])
def test_links_are_neither_followed_nor_deleted(table, tmp_path, place):
    put(tmp_path, "elsewhere/file.parquet")
    (table / place).parent.mkdir(exist_ok=True)
    (table / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RequestError, match="symbolic link"):
        drop(table)
    (table / place).unlink()
    drop(table)
    assert everything(tmp_path) == ["db", "elsewhere", "elsewhere/file.parquet"]


def test_root_may_be_a_link_which_stays(table, tmp_path):
    (tmp_path / "name").symlink_to(table)
    drop(tmp_path / "name")
    assert not table.exists() or everything(table) == []
    assert (tmp_path / "name").is_symlink()


def test_pipe_is_no_file_of_the_table(table):
    os.mkfifo(table / "pipe")
    with pytest.raises(RequestError, match="no file"):
        drop(table)


def test_file_that_a_version_names_is_the_tables_whatever_its_name(tmp_path):
    """CONVERT takes over files as they are called."""
    store = open_store(str(tmp_path / "t"))
    TableBuilder(tmp_path / "t", ID_SCHEMA).file([{"id": 1}]).commit()
    add = new_data_file(store, [2])
    (tmp_path / "t" / add.path).rename(tmp_path / "t" / "rows no 2")
    commit(store, [type(add)("rows%20no%202", {}, add.size, add.modification_time, True)])
    assert drop(tmp_path / "t").num_files == 2
    assert everything(tmp_path) == []


def test_broken_table_can_be_dropped(table):
    for name in ("00000000000000000000.json", "00000000000000000001.checkpoint.parquet"):
        (table / "_delta_log" / name).write_bytes(b"broken")
    drop(table)
    assert not table.exists()


def test_table_that_ebbtide_may_not_write_is_left_alone(tmp_path):
    path = TableBuilder(tmp_path / "t", ID_SCHEMA).feature("coordinatedCommits-preview").file([{"id": 1}]).commit().path
    before = everything(path)
    with pytest.raises(UnsupportedFeatureError, match="coordinatedCommits"):
        drop(path)
    assert everything(path) == before


def test_files_that_cannot_be_deleted_are_named_and_another_run_goes_on(table):
    class Refusing(type(open_store(str(table)))):
        def delete_all(self, paths):
            kept = {path: StorageError(f"no permission: {path}") for path in paths if "orphan" in path}
            return {**super().delete_all([path for path in paths if path not in kept]), **kept}

    refusing = Refusing(open_store(str(table))._location)
    with pytest.raises(StorageError, match=r"no permission: deep/part=a/orphan\.parquet"):
        drop(table, refusing)
    with pytest.raises(CorruptTableError, match="DROP TABLE did not finish"):
        load_snapshot(open_store(str(table)))
    assert (table / "deep" / "part=a" / "orphan.parquet").exists()
    drop(table)
    assert not table.exists()


def test_nobody_can_create_a_table_in_the_place_of_one_that_is_half_dropped(table):
    """All that is left is the note."""
    for file in (table / "_delta_log").iterdir():
        file.unlink()
    put(table, "_delta_log/_ebbtide_drop")
    store = open_store(str(table))
    with pytest.raises(TableAlreadyExistsError):
        Transaction.create(store, Metadata("id", '{"type":"struct","fields":[]}', (), {}))
    with pytest.raises(CorruptTableError, match="DROP TABLE did not finish"):
        load_snapshot(store)
    drop(table)
    assert not table.exists()


def test_table_that_somebody_makes_meanwhile_is_left_alone(table):
    class Slow(type(open_store(str(table)))):
        """Another engine, which does not know our note, creates a table while the data goes."""

        def delete_all(self, paths):
            done = super().delete_all(paths)
            if any("orphan" in path for path in paths):
                put(table, "_delta_log/00000000000000000000.json")
            return done

    with pytest.raises(ConcurrentWriteException, match="left alone"):
        drop(table, Slow(open_store(str(table))._location))
    assert (table / "_delta_log" / "00000000000000000000.json").exists()


def test_writer_that_was_still_at_work_does_not_bring_the_table_back(table):
    class Slow(type(open_store(str(table)))):
        """A writer that had read the table before commits and writes a checkpoint while the data goes."""

        snapshot = load_snapshot(open_store(str(table)))

        def delete_all(self, paths):
            if any("orphan" in path for path in paths):
                plain = open_store(str(table))
                plain.put_if_absent("_delta_log/00000000000000000002.json", b"{}")
                plain.put_if_absent("_delta_log/00000000000000000002.checkpoint.parquet", b"late")
            return super().delete_all(paths)

    drop(table, Slow(open_store(str(table))._location))
    assert not table.exists()


def test_data_of_a_shallow_clone_stays_where_it_is(table, tmp_path):
    clone = tmp_path / "clone"
    clone_table(CloneRequest(open_store(str(table)), open_store(str(clone))))
    append(open_store(str(clone)), [9])
    before = everything(table)
    drop(clone)
    assert everything(table) == before and not clone.exists()
