"""Does nothing that walks or clears a local directory ever follow a link?"""

from __future__ import annotations

import os

import pytest

from ebbtide.errors import PermissionDeniedError, StorageError
from ebbtide.storage import ObjectMeta, open_store
from ebbtide.storage.unlinked import FoundDirectory, FoundLink, look_at_file, remove_directory, walk


@pytest.fixture
def root(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"precious")
    return tmp_path / "t"


@pytest.fixture
def store(root):
    return open_store(str(root))


def fill(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def everything(store, enters=lambda path, names: True):
    found = list(walk(store, enters))
    files = {entry.path: entry.size for entry in found if isinstance(entry, ObjectMeta)}
    links = {entry.path: entry.target for entry in found if isinstance(entry, FoundLink)}
    directories = {
        entry.path: (entry.num_files, entry.num_directories) for entry in found if isinstance(entry, FoundDirectory)
    }
    return files, links, directories


def test_walk_finds_files_links_and_directories_with_what_is_in_them(root, store):
    fill(root, "a", "b/c", "b/d/e")
    (root / "empty").mkdir()
    (root / "out").symlink_to(root.parent / "outside")
    (root / "b" / "in").symlink_to("d/e")
    os.mkfifo(root / "b" / "pipe")
    files, links, directories = everything(store)
    assert files == {"a": 1, "b/c": 3, "b/d/e": 5}
    assert links == {"out": None, "b/in": "b/d/e"}
    assert directories == {"": (2, 2), "b": (3, 1), "b/d": (1, 0), "empty": (0, 0)}


def test_walk_does_not_enter_what_it_is_told_to_leave(root, store):
    fill(root, "a/b", "c/d")
    asked = []

    def enters(path, names):
        asked.append((path, names))
        return path != "a"

    assert everything(store, enters)[0] == {"c/d": 3}
    assert sorted(path for path, _ in asked) == ["a", "c"]
    assert {names for _, names in asked} == {frozenset({"a", "c"})}


def test_walk_of_a_root_that_does_not_exist_finds_nothing(tmp_path):
    assert list(walk(open_store(str(tmp_path / "none")), lambda path, names: True)) == []


def test_walk_does_not_follow_a_directory_that_becomes_a_link(root, store):
    fill(root, "a/b")

    def enters(path, names):
        os.rename(root / "a", root / "z")
        os.symlink(root.parent / "outside", root / "a")
        return True

    assert everything(store, enters)[0] == {}


def test_file_behind_a_link_is_not_looked_at(root, store):
    fill(root, "a/b")
    (root / "link").symlink_to(root.parent / "outside")
    (root / "file").symlink_to(root.parent / "outside" / "x")
    assert look_at_file(store, "a/b").size == 3
    for path in ("link/x", "file", "none", "a", "a/b/c"):
        assert look_at_file(store, path) is None


@pytest.mark.parametrize("path", ["link/x", "file", "pipe"])
def test_link_and_what_is_behind_it_stay_and_are_named(root, store, path):
    fill(root, "a/b")
    (root / "link").symlink_to(root.parent / "outside")
    (root / "file").symlink_to(root.parent / "outside" / "x")
    os.mkfifo(root / "pipe")
    failed = store.delete_all([path, "a/b"])
    assert list(failed) == [path]
    assert isinstance(failed[path], StorageError)
    assert (root.parent / "outside" / "x").read_bytes() == b"precious"
    assert (root / "file").is_symlink()
    assert not (root / "a" / "b").exists()


def test_checksums_of_hadoop_go_with_their_files(root, store):
    fill(root, "a/b", "a/.b.crc", "a/.c.crc")
    assert store.delete_all(["a/b"]) == {}
    assert [path.name for path in (root / "a").iterdir()] == [".c.crc"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete anything")
def test_file_in_a_directory_without_permission_is_named(root, store):
    fill(root, "a/b", "c")
    (root / "a").chmod(0o500)
    failed = store.delete_all(["a/b", "c"])
    (root / "a").chmod(0o700)
    assert isinstance(failed["a/b"], PermissionDeniedError)
    assert not (root / "c").exists()


def test_refusal_of_the_system_is_named_and_the_others_go(root, store, monkeypatch):
    fill(root, "a", "b", "c")
    unlink = os.unlink

    def refuse(name, **options):
        if name == "b":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    failed = store.delete_all(["a", "b", "c"])
    assert list(failed) == ["b"]
    assert isinstance(failed["b"], PermissionDeniedError)
    assert [path.name for path in root.iterdir()] == ["b"]


def test_only_an_empty_directory_is_removed(root, store):
    fill(root, "full/x")
    (root / "empty").mkdir()
    (root / "link").symlink_to(root.parent / "outside")
    assert remove_directory(store, "empty")
    assert remove_directory(store, "empty")
    assert not remove_directory(store, "full")
    assert not remove_directory(store, "link")
    assert not remove_directory(store, "full/x")
    assert sorted(path.name for path in root.iterdir()) == ["full", "link"]
    assert (root.parent / "outside").is_dir()
