from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import stat
import subprocess
from pathlib import Path

import pytest

from ebbtide.errors import ObjectExistsError, ObjectNotFoundError, PermissionDeniedError, StorageError
from ebbtide.storage import PutOutcomeUnknownError, durable, open_store


@pytest.fixture
def root(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def store(root):
    return open_store(str(root))


def paths(listing):
    return [meta.path for meta in listing]


def every_name(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def fail(code):
    def raising(*arguments, **options):
        raise OSError(code, os.strerror(code))

    return raising


def put_in_process(url, number, start, results):
    start.wait()
    try:
        open_store(url).put_if_absent("_delta_log/1.json", b"%d" % number * 100_000)
    except ObjectExistsError:
        results.put(None)
    else:
        results.put(number)


# --- put_if_absent ----------------------------------------------------------------------------------------------------


def test_of_many_processes_exactly_one_creates_the_file(store, root):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    workers = [context.Process(target=put_in_process, args=(str(root), n, start, results)) for n in range(4)]
    for worker in workers:
        worker.start()
    start.set()
    outcomes = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    (winner,) = [number for number in outcomes if number is not None]
    assert store.read("_delta_log/1.json") == b"%d" % winner * 100_000
    assert every_name(root) == ["_delta_log/1.json"]


def test_the_bytes_and_every_directory_entry_are_synced_before_put_returns(store, root, monkeypatch):
    synced = []
    real = os.fsync

    def recording(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    store.put_if_absent("_delta_log/0.json", b"x")
    assert synced[:2] == [root.parent, root]
    assert synced[2].name.startswith(".0.json.")
    assert synced[2].name.endswith(".tmp")
    assert synced[3:] == [root / "_delta_log"]


def test_a_created_file_has_the_mode_that_the_umask_leaves(store, root):
    previous = os.umask(0o027)
    try:
        store.put_if_absent("a", b"")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("operation", "owner", "call"),
    [
        ("put_if_absent", os, "write"),
        ("put_if_absent", os, "fsync"),
        ("put_if_absent", os, "link"),
        ("put", os, "write"),
        ("put", os, "fsync"),
        ("put", Path, "replace"),
    ],
)
def test_a_disk_that_fails_leaves_neither_file_nor_temporary(store, root, monkeypatch, operation, owner, call):
    store.put_if_absent("a/other", b"")
    monkeypatch.setattr(owner, call, fail(errno.EIO))
    with pytest.raises(StorageError, match="Input/output error") as caught:
        getattr(store, operation)("a/x", b"bytes")
    assert not isinstance(caught.value, (PutOutcomeUnknownError, ObjectExistsError))
    assert every_name(root) == ["a/other"]


@pytest.mark.parametrize("operation", ["put", "put_if_absent"])
def test_a_directory_that_cannot_be_synced_leaves_the_outcome_unknown(store, root, monkeypatch, operation):
    store.put_if_absent("a/other", b"")
    monkeypatch.setattr(durable, "sync_directory", fail(errno.EIO))
    with pytest.raises(PutOutcomeUnknownError, match="could not be synced"):
        getattr(store, operation)("a/x", b"bytes")
    assert every_name(root) == ["a/other", "a/x"]


def test_a_file_system_that_cannot_sync_directories_is_no_error(store, root, monkeypatch):
    real = os.fsync

    def no_directories(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", no_directories)
    store.put_if_absent("a/x", b"bytes")
    assert store.read("a/x") == b"bytes"


def test_a_link_that_succeeded_although_nfs_said_it_exists_is_a_win(store, root, monkeypatch):
    real = os.link

    def answered_twice(source, target):
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", answered_twice)
    store.put_if_absent("x", b"bytes")
    assert store.read("x") == b"bytes"
    assert every_name(root) == ["x"]


def test_a_name_taken_while_the_temporary_was_written_is_lost(store, root, monkeypatch):
    real = os.link

    def beaten(source, target):
        Path(target).write_bytes(b"theirs")
        real(source, target)

    monkeypatch.setattr(os, "link", beaten)
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("x", b"ours")
    assert store.read("x") == b"theirs"
    assert every_name(root) == ["x"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_without_hard_links_one_writer_still_wins_and_the_log_says_what_is_weaker(
    store, root, monkeypatch, caplog, code
):
    monkeypatch.setattr(os, "link", fail(code))
    with caplog.at_level(logging.WARNING, logger="ebbtide"):
        store.put_if_absent("x", b"first")
    assert "no hard links" in caplog.text
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("x", b"second")
    assert store.read("x") == b"first"
    assert every_name(root) == ["x"]


def test_without_hard_links_a_failed_write_leaves_no_half_file(store, root, monkeypatch):
    monkeypatch.setattr(os, "link", fail(errno.EPERM))
    real, calls = os.fsync, []

    def second_file_fails(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            calls.append(descriptor)
            if len(calls) == 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", second_file_fails)
    with pytest.raises(StorageError, match="no space left on device"):
        store.put_if_absent("x", b"bytes")
    assert every_name(root) == []


def test_a_name_as_long_as_the_file_system_allows_is_created(store):
    name = "é" * 127
    store.put_if_absent(name, b"x")
    assert paths(store.list("")) == [name]


def test_a_name_longer_than_the_file_system_allows_is_a_storage_error(store):
    with pytest.raises(StorageError, match="File name too long"):
        store.put_if_absent("a" * 300, b"x")
    with pytest.raises(ObjectNotFoundError):
        store.read("a" * 300)


@pytest.mark.parametrize("operation", ["put", "put_if_absent"])
def test_a_file_where_a_directory_should_be_is_not_called_an_existing_object(store, operation):
    store.put_if_absent("a", b"file")
    with pytest.raises(StorageError, match="Not a directory") as caught:
        getattr(store, operation)("a/b/c", b"")
    assert not isinstance(caught.value, ObjectExistsError)


def test_put_over_a_directory_is_a_storage_error_and_leaves_no_temporary(store, root):
    store.put_if_absent("a/b", b"")
    with pytest.raises(StorageError):
        store.put("a", b"x")
    assert every_name(root) == ["a/b"]


def test_a_refused_system_call_is_permission_denied(store, monkeypatch):
    store.put_if_absent("x", b"")
    monkeypatch.setattr(os, "open", fail(errno.EACCES))
    for operation in (lambda: store.read("x"), lambda: store.put("x", b""), lambda: store.put_if_absent("y", b"")):
        with pytest.raises(PermissionDeniedError, match="Permission denied"):
            operation()


# --- Hadoop's checksum files ------------------------------------------------------------------------------------------


def test_replacing_a_file_that_hadoop_wrote_drops_its_checksum(store, root):
    store.put("_last_checkpoint", b"from Spark")
    (root / "._last_checkpoint.crc").write_bytes(b"crc\0")
    store.put("_last_checkpoint", b"ours")
    assert every_name(root) == ["_last_checkpoint"]


def test_deleting_a_file_that_hadoop_wrote_deletes_its_checksum(store, root):
    store.put("x.parquet", b"from Spark")
    (root / ".x.parquet.crc").write_bytes(b"crc\0")
    store.delete("x.parquet")
    assert every_name(root) == []


# --- listing and reading what others put there ------------------------------------------------------------------------


def test_listing_does_not_follow_links_to_directories(store, root, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"x")
    store.put_if_absent("a", b"12")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to("loop")
    (root / "nowhere").symlink_to("missing")
    (root / "same").symlink_to("a")
    assert [(meta.path, meta.size) for meta in store.list("")] == [("a", 2), ("same", 2)]


def test_a_named_pipe_is_neither_listed_nor_waited_for(store, root):
    root.mkdir()
    os.mkfifo(root / "pipe")
    assert paths(store.list("")) == []
    with pytest.raises(ObjectNotFoundError):
        store.read("pipe")


def test_a_name_that_is_not_utf8_is_not_listed(store, root):
    store.put_if_absent("a", b"")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_bytes(b"")
    assert paths(store.list("")) == ["a"]


def test_a_file_deleted_during_the_listing_is_left_out(store, root):
    for name in "abc":
        store.put_if_absent(name, b"")
    listing = store.list("")
    assert next(listing).path == "a"
    (root / "b").unlink()
    assert paths(listing) == ["c"]


@pytest.fixture
def deep_root(root):
    """A directory of 1200 levels, taken away again with rm: pytest's own clean-up recurses in Python."""
    root.mkdir()
    previous = os.open(".", os.O_RDONLY)
    try:
        os.chdir(root)
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        Path("leaf").write_bytes(b"x")
    finally:
        os.fchdir(previous)
        os.close(previous)
    yield root
    subprocess.run(["rm", "-rf", str(root)], check=True)


def test_a_tree_deeper_than_pythons_stack_is_listed(store, deep_root):
    assert paths(store.list("")) == ["d/" * 1200 + "leaf"]


def test_leftover_temporaries_are_listed_like_any_object(store, root):
    store.put_if_absent("_delta_log/0.json", b"")
    (root / "_delta_log/.1.json.0123.tmp").write_bytes(b"half")
    assert paths(store.list_directory("_delta_log")) == ["_delta_log/.1.json.0123.tmp", "_delta_log/0.json"]


def test_a_length_larger_than_memory_reads_only_the_file(store):
    store.put_if_absent("x", b"abc")
    assert store.read_range("x", 1, 2**50) == b"bc"


def test_repr_names_the_url(store, root):
    assert repr(store) == f"LocalStore(url='file://{root}')"


def plant_dangling_link(target):
    target.symlink_to(target.parent / "nowhere")


def plant_directory(target):
    target.mkdir()


def plant_pipe(target):
    os.mkfifo(target)


@pytest.mark.parametrize("plant", [plant_dangling_link, plant_directory, plant_pipe], ids=lambda plant: plant.__name__)
def test_what_is_no_file_under_the_name_of_the_next_commit_is_no_winner(store, root, plant):
    """Whoever looked for the winner would not find one, and try for ever."""
    (root / "_delta_log").mkdir(parents=True)
    plant(root / "_delta_log" / "1.json")
    with pytest.raises(StorageError, match=r"not a file has this name.*Delete it") as caught:
        store.put_if_absent("_delta_log/1.json", b"{}")
    assert not isinstance(caught.value, ObjectExistsError)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "no space left on device. Free some space"),
        (errno.EDQUOT, "disk quota exceeded. Free some space"),
        (errno.EROFS, "read-only file system. Mount it for writing"),
    ],
)
@pytest.mark.parametrize("call", ["put", "put_if_absent"])
def test_disk_that_takes_no_more_is_named_with_the_next_step(store, root, monkeypatch, call, code, words):
    monkeypatch.setattr(os, "fsync", fail(code))
    with pytest.raises(StorageError, match=words):
        getattr(store, call)("x", b"data")
    assert not root.exists() or every_name(root) == []
