"""Are files that another program wrote durable under their new names, and is no name ever taken from anyone?"""

from __future__ import annotations

import errno
import os

import pytest

from ebbtide.errors import ObjectExistsError, StorageError
from ebbtide.storage import adoption, open_store
from ebbtide.storage.adoption import local_directory


@pytest.fixture
def root(tmp_path):
    (tmp_path / "new").mkdir()
    for name in "ab":
        (tmp_path / "new" / name).write_text(name)
    return tmp_path


def directory_of(root):
    found = local_directory(open_store(str(root)))
    assert found is not None
    return found


def test_store_of_a_service_is_no_local_directory():
    assert local_directory(open_store("memory://somewhere/t")) is None


def test_root_with_special_characters_is_found_again(tmp_path):
    odd = tmp_path / "a b%20#[é]"
    directory_of(odd).create()
    assert odd.is_dir()


def test_every_file_and_directory_is_synced_before_the_call_returns(root, monkeypatch):
    synced = []
    real = os.fsync

    def fsync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    directory_of(root).adopt({"new/a": "p=1/x", "new/b": "y"})
    assert (root / "p=1" / "x").read_text() == "a"
    assert set(synced) == {str(root / "new" / "a"), str(root / "new" / "b"), str(root), str(root / "p=1")}
    assert synced.index(str(root / "new" / "a")) < synced.index(str(root / "p=1"))


def test_taken_name_is_refused_and_the_others_are_given_back(root):
    (root / "y").write_text("live")
    with pytest.raises(ObjectExistsError):
        directory_of(root).adopt({"new/a": "x", "new/b": "y"})
    assert (root / "y").read_text() == "live"
    assert not (root / "x").exists()


@pytest.mark.parametrize("is_taken", [False, True])
def test_disk_without_hard_links_moves_files_and_still_replaces_none(root, monkeypatch, is_taken):
    def link(*_):
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", link)
    if is_taken:
        (root / "x").write_text("live")
        with pytest.raises(ObjectExistsError):
            directory_of(root).adopt({"new/a": "x"})
        assert (root / "x").read_text() == "live"
    else:
        directory_of(root).adopt({"new/a": "x"})
        assert (root / "x").read_text() == "a"


def test_disk_that_fails_to_sync_fails_the_call_and_no_new_name_stays(root, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(adoption, "sync_directory", fail)
    with pytest.raises(StorageError, match="broken disk"):
        directory_of(root).adopt({"new/a": "x"})
    assert not (root / "x").exists()


def test_removing_a_tree_that_is_not_there_is_fine(root):
    directory = directory_of(root)
    directory.remove_tree("new")
    directory.remove_tree("new")
    assert list(root.iterdir()) == []
