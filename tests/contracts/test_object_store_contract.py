"""What every object store owes the rest of the house. `conftest.py` says which stores run it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import unquote

import pytest

from ebbtide.errors import CorruptTableError, ObjectExistsError, ObjectNotFoundError, RequestError

ODD_NAMES = [
    "a b.parquet",
    " leading and trailing ",
    "100%.parquet",
    "a%20b.parquet",
    "a%2Fb.parquet",
    "a%",
    "x#y",
    "x?y=z&w",
    "[0-9]*.json",
    "{a,b}",
    "c+d=e",
    "back\\slash",
    "'single' \"double\" `tick`",
    "~tilde",
    "ümlaut.parquet",
    "日本語",
    "emoji😀",
    "e\u0301 combining",
    "part=a%3Ab/f.parquet",
    ".hidden",
    "name#1",
    "…",
]


def paths(listing):
    return [meta.path for meta in listing]


def fill(store, *names):
    for name in names:
        store.put_if_absent(name, name.encode())


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD_NAMES)
def test_an_object_with_an_odd_name_is_found_under_exactly_that_name(store, name):
    path = f"dir/{name}"
    store.put_if_absent(path, b"payload")

    assert store.read(path) == b"payload"
    assert store.read_range(path, 3, 2) == b"lo"
    assert store.head(path).path == path
    assert paths(store.list("")) == [path]
    assert paths(store.list("dir")) == [path]
    with pytest.raises(ObjectExistsError):
        store.put_if_absent(path, b"other")
    store.delete(path)
    assert paths(store.list("")) == []


def test_odd_names_stay_apart_and_list_in_order(store):
    fill(store, *[f"dir/{name}" for name in ODD_NAMES])
    expected = sorted((f"dir/{name}" for name in ODD_NAMES), key=str.encode)
    assert paths(store.list("dir")) == expected
    assert [store.read(path) for path in expected] == [path.encode() for path in expected]


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "./a", "a\0b", "a\ud800b"])
def test_a_path_that_no_object_can_have_is_refused_by_every_operation(store, path):
    for operation in (
        lambda: store.head(path),
        lambda: store.read(path),
        lambda: store.read_range(path, 0, 1),
        lambda: store.put(path, b""),
        lambda: store.put_if_absent(path, b""),
        lambda: store.delete(path),
    ):
        with pytest.raises(RequestError):
            operation()


@pytest.mark.parametrize("prefix", ["..", "a/../..", "/etc"])
def test_a_listing_cannot_leave_the_root(store, prefix):
    with pytest.raises(RequestError):
        list(store.list(prefix))
    with pytest.raises(RequestError):
        list(store.list_directory(prefix))


def test_url_decodes_to_the_path_that_spark_is_given(store):
    scheme, _, rest = store.url.partition("://")
    assert " " not in store.url
    assert not store.url.endswith("/")
    spark_rest = store.spark_path.partition(":")[2].lstrip("/")
    decoded = unquote(rest).lstrip("/")
    assert spark_rest == (f"contract@ebbtide.dfs.core.windows.net{decoded[8:]}" if scheme == "az" else decoded)


# --- listing ----------------------------------------------------------------------------------------------------------


def test_listing_ascends_by_utf8_bytes_of_the_whole_path(store):
    # "-" and "." sort before "/", "0" after it; U+FFEE sorts before an emoji in UTF-8, after it in UTF-16.
    expected = ["d/a-b", "d/a.b", "d/a/b", "d/a/z/z", "d/a0", "d/aB", "d/ab", "d/é", "d/\uffee", "d/\U0001f600"]
    fill(store, *reversed(expected))
    assert paths(store.list("d")) == expected
    assert paths(store.list("d/")) == expected
    assert paths(store.list("")) == expected


def test_listing_takes_only_whole_directory_names(store):
    fill(store, "_delta_log/0.json", "_delta_log_backup/0.json", "_delta", "_delta_log.txt")
    assert paths(store.list("_delta_log")) == ["_delta_log/0.json"]
    assert paths(store.list_directory("_delta_log")) == ["_delta_log/0.json"]


def test_listing_directly_leaves_out_what_lies_deeper(store):
    fill(store, "log/0.json", "log/1.json", "log/_sidecars/a", "log/_sidecars/b", "log/_last", "log/a/b/c", "log/z")
    assert paths(store.list_directory("log")) == ["log/0.json", "log/1.json", "log/_last", "log/z"]
    assert paths(store.list_directory("")) == []


@pytest.mark.parametrize(
    ("start_after", "expected"),
    [
        ("log/0.json", ["log/1.json", "log/_last", "log/z"]),
        ("log/0", ["log/0.json", "log/1.json", "log/_last", "log/z"]),
        ("log/1.json", ["log/_last", "log/z"]),
        ("log/_commits/", ["log/_last", "log/z"]),
        ("log/_last", ["log/z"]),
        ("log/z", []),
        ("a", ["log/0.json", "log/1.json", "log/_last", "log/z"]),
        ("z", []),
    ],
)
def test_listing_directly_from_a_path_on_excludes_that_path_and_what_lies_deeper(store, start_after, expected):
    fill(
        store,
        "log/0.json",
        "log/1.json",
        "log/_commits/1",
        "log/_commits/2",
        "log/_commits/3",
        "log/_commits/\U0010ffff4",
        "log/_last",
        "log/_sidecars/x",
        "log/z",
    )
    assert paths(store.list_directory("log", start_after=start_after)) == expected


def test_listing_from_a_path_on_excludes_that_path_and_all_before_it(store):
    names = ["d/a", "d/b-b", "d/b/1", "d/b/2", "d/b/3", "d/b0", "d/c"]
    fill(store, *names)
    for position, name in enumerate(names):
        assert paths(store.list("d", start_after=name)) == names[position + 1 :]
    assert paths(store.list("d", start_after="d/b")) == names[1:]
    assert paths(store.list("d", start_after="d/b/")) == names[2:]
    assert paths(store.list("", start_after="d/b/2")) == names[4:]


def test_listing_below_a_name_that_does_not_exist_yields_nothing(store):
    assert paths(store.list("_delta_log")) == []
    assert paths(store.list_directory("_delta_log")) == []
    assert paths(store.list("")) == []


def test_listing_below_an_object_yields_nothing(store):
    fill(store, "a/file")
    assert paths(store.list("a/file")) == []
    assert paths(store.list_directory("a/file")) == []


def test_listing_and_head_agree_on_size_and_time(store):
    store.put_if_absent("a/x", b"12345")
    (listed,) = store.list("a")
    (child,) = store.list_directory("a")
    assert listed == child
    assert listed.size == store.head("a/x").size == 5
    # HTTP dates have seconds only.
    assert abs(listed.last_modified_ms - store.head("a/x").last_modified_ms) < 1000
    assert 1_600_000_000_000 < listed.last_modified_ms < time.time() * 1000 + 60_000


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (0, 10, b"0123456789"),
        (3, 4, b"3456"),
        (9, 1, b"9"),
        (8, 100, b"89"),
        (0, 2**62, b"0123456789"),
        (10, 1, b""),
        (2**40, 5, b""),
        (5, 0, b""),
    ],
)
def test_a_ranged_read_ends_where_the_object_ends(store, offset, length, expected):
    store.put_if_absent("x", b"0123456789")
    assert store.read_range("x", offset, length) == expected


def test_a_ranged_read_of_an_empty_object_gives_nothing(store):
    store.put_if_absent("empty", b"")
    assert store.read_range("empty", 0, 4) == b""
    assert store.read("empty") == b""
    assert store.head("empty").size == 0


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1), (2**64, 1), (0, 2**64)])
def test_a_range_out_of_bounds_is_refused(store, offset, length):
    store.put_if_absent("x", b"0123456789")
    with pytest.raises(RequestError):
        store.read_range("x", offset, length)


def test_an_object_larger_than_allowed_is_corrupt(store):
    store.put_if_absent("x", b"0123456789")
    assert store.read("x", max_bytes=10) == b"0123456789"
    with pytest.raises(CorruptTableError, match="10 bytes long; at most 9"):
        store.read("x", max_bytes=9)


@pytest.mark.parametrize("path", ["missing", "dir/missing", "dir", "dir/file/below"])
def test_reading_what_does_not_exist_says_not_found(store, path):
    fill(store, "dir/file")
    for operation in (store.head, store.read, lambda name: store.read_range(name, 0, 1)):
        with pytest.raises(ObjectNotFoundError, match="does not exist") as caught:
            operation(path)
        assert isinstance(caught.value, FileNotFoundError)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_put_if_absent_never_changes_an_object_that_exists(store):
    store.put_if_absent("_delta_log/0.json", b"first")
    with pytest.raises(ObjectExistsError, match="exists already") as caught:
        store.put_if_absent("_delta_log/0.json", b"second")
    assert isinstance(caught.value, FileExistsError)
    assert store.read("_delta_log/0.json") == b"first"


def test_of_many_writers_of_one_name_exactly_one_wins_and_its_bytes_stay(open_again):
    writers = 8
    barrier = Barrier(writers)

    def write(number):
        mine = open_again()
        barrier.wait(30)
        try:
            mine.put_if_absent("_delta_log/7.json", b"%d" % number * 1000)
        except ObjectExistsError:
            return None
        return number

    with ThreadPoolExecutor(writers) as pool:
        outcomes = list(pool.map(write, range(writers)))
    winners = [number for number in outcomes if number is not None]
    assert len(winners) == 1
    assert open_again().read("_delta_log/7.json") == b"%d" % winners[0] * 1000
    assert paths(open_again().list("")) == ["_delta_log/7.json"]


def test_a_large_object_is_put_and_read_whole(store):
    # Above the 5 MiB at which obstore would cut a put into parts, which cannot be conditional.
    data = bytes(range(256)) * (6 * 4096)
    store.put_if_absent("large", data)
    assert store.read("large") == data
    assert store.read_range("large", len(data) - 3, 10) == data[-3:]
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("large", data)
    store.put("large", data[:-1])
    assert store.head("large").size == len(data) - 1


def test_put_replaces_and_creates(store):
    store.put("_delta_log/_last_checkpoint", b"one")
    store.put("_delta_log/_last_checkpoint", b"two")
    assert store.read("_delta_log/_last_checkpoint") == b"two"
    assert paths(store.list("")) == ["_delta_log/_last_checkpoint"]


def test_delete_takes_one_object_and_does_not_mind_a_missing_one(store):
    fill(store, "a/x", "a/y", "a/x/deeper" if not store.url.startswith("file:") else "b")
    store.delete("a/x")
    assert "a/x" not in paths(store.list(""))
    assert "a/y" in paths(store.list(""))
    store.delete("a/x")
    store.delete("never/was")
    store.put_if_absent("a/x", b"again")
    assert store.read("a/x") == b"again"


def test_deleting_a_directory_name_deletes_nothing(store):
    fill(store, "a/x")
    store.delete("a")
    store.delete("a/x/below")
    assert paths(store.list("")) == ["a/x"]


def test_many_are_deleted_at_once_and_missing_ones_do_not_matter(store):
    kept = ["a/kept", "b"]
    gone = [f"dir/{name}" for name in ODD_NAMES] + [f"many/{number:02d}" for number in range(40)]
    fill(store, *kept, *gone)
    assert store.delete_all([*gone[:3], "never/was", "a/kept/below", *gone[3:], "dir"]) == {}
    assert paths(store.list("")) == kept
    assert store.delete_all(gone) == {}
    assert store.delete_all([]) == {}


@pytest.mark.parametrize("path", ["../x", "", "a//b"])
def test_a_path_that_no_object_can_have_is_refused_before_any_is_deleted(store, path):
    fill(store, "a")
    with pytest.raises(RequestError):
        store.delete_all(["a", path])
    assert paths(store.list("")) == ["a"]


def test_listing_in_no_order_finds_the_same_objects(store):
    fill(store, "b/2", "a", "b/1", "c/d/e", "_x")
    assert sorted(paths(store.list("", in_order=False))) == sorted(paths(store.list("")))
    assert sorted(paths(store.list("b", in_order=False))) == ["b/1", "b/2"]


def test_what_one_handle_writes_another_sees(open_again):
    open_again().put_if_absent("a", b"bytes")
    assert open_again().read("a") == b"bytes"
    assert open_again().url == open_again().url
