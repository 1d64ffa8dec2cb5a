"""Does a disk that is full or read-only leave nothing half written, and say so in those words?

The disk is real: a file system of 64 KiB in memory, which only root may mount.
"""

from __future__ import annotations

import os
import subprocess
import time

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

from ebbtide.deletion_vectors import NewMarks, RowIndexSet, write_deletion_vectors
from ebbtide.errors import StorageError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.storage import open_store

NOW_MS = int(time.time() * 1000)


def mount(*arguments):
    return subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)


@pytest.fixture
def small_disk(tmp_path):
    directory = tmp_path / "disk"
    directory.mkdir()
    done = mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)) if os.geteuid() == 0 else None
    if done is None or done.returncode:
        pytest.skip("only root, outside of a strict container, can mount a small disk")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def builder(small_disk):
    return TableBuilder(small_disk / "t", pa.schema({"id": pa.int64()})).deletion_vectors().file([{"id": 1}]).commit()


def files_below(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def put_commit(store, _snapshot):
    store.put_if_absent(f"_delta_log/{1:020d}.json", os.urandom(100_000))


def put_vectors(store, _snapshot):
    list(write_deletion_vectors(store, [NewMarks("a", RowIndexSet(number * 7919 for number in range(50_000)))]))


def put_checkpoint(_store, snapshot):
    write_checkpoint(snapshot, now_ms=NOW_MS)


@pytest.mark.parametrize("write", [put_commit, put_vectors, put_checkpoint], ids=lambda write: write.__name__)
def test_full_disk_leaves_nothing_half_written(builder, small_disk, write):
    store = open_store(str(builder.path))
    snapshot = load_snapshot(store)
    (small_disk / "ballast").write_bytes(os.urandom(48 * 1024) if write is put_checkpoint else b"")
    before = files_below(small_disk)
    with pytest.raises(StorageError, match=r"no space left on device\. Free some space"):
        write(store, snapshot)
    assert files_below(small_disk) == before
    assert load_snapshot(store).version == 0


@pytest.mark.parametrize("write", [put_commit, put_vectors, put_checkpoint], ids=lambda write: write.__name__)
def test_read_only_disk_is_named(builder, small_disk, write):
    store = open_store(str(builder.path))
    snapshot = load_snapshot(store)
    assert mount("-o", "remount,ro", str(small_disk)).returncode == 0
    with pytest.raises(StorageError, match=r"read-only file system\. Mount it for writing"):
        write(store, snapshot)
    assert load_snapshot(store).version == 0
