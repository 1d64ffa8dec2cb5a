"""Does a writer notice that its table was dropped, or made anew at the same place, before it puts a commit there?"""

from __future__ import annotations

import pytest
from tests.support.log_builder import MemoryStore
from tests.support.transactions import DV_TABLE, add_file, begin, commit, make_table, operation

from ebbtide.errors import MetadataChangedException, TableNotFoundError
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store

LOG = "_delta_log/"


def store_with(commits, tmp_path=None):
    store = make_table(MemoryStore() if tmp_path is None else open_store(str(tmp_path / "t")), add_file("old"))
    for number in range(commits):
        commit(store, add_file(f"old{number}"))
    return store


def drop(store):
    for item in [*store.list("_delta_log")]:
        store.delete(item.path)


def make_anew(store, commits):
    """Another table at the same place."""
    drop(store)
    make_table(store, add_file("new"), id="another")
    for number in range(commits):
        commit(store, add_file(f"new{number}"))


def names(store):
    return [item.path for item in store.list("_delta_log") if item.path.endswith(".json")]


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 5])
def test_table_that_was_made_anew_gets_no_commit_of_the_old_one(tmp_path, place, commits):
    """Fewer versions than ours: the put would leave a gap. As many: it would mix two tables. More: it loses the race."""
    store = store_with(2, tmp_path if place == "disk" else None)
    transaction = begin(store)
    make_anew(store, commits)
    before = names(store)
    with pytest.raises(MetadataChangedException, match="replaced by another one"):
        transaction.commit([add_file("ours")], operation())
    assert names(store) == before
    assert load_snapshot(store).metadata.id == "another"


def test_table_that_was_dropped_gets_no_commit():
    store = store_with(2)
    transaction = begin(store)
    drop(store)
    with pytest.raises(TableNotFoundError):
        transaction.commit([add_file("ours")], operation())
    assert names(store) == []


def test_log_that_was_rewritten_under_the_same_id_is_not_continued():
    """Put back from an old copy, for example: what we read is not what is there."""
    store = store_with(2)
    transaction = begin(store)
    store.put(f"{LOG}{2:020d}.json", store.read(f"{LOG}{2:020d}.json") + b"\n")
    with pytest.raises(MetadataChangedException, match="replaced"):
        transaction.commit([add_file("ours")], operation())


def test_commit_that_a_cleanup_removed_meanwhile_is_no_reason_to_give_up():
    store = store_with(2)
    write_checkpoint(load_snapshot(store))
    transaction = begin(store)
    for version in range(3):
        store.delete(f"{LOG}{version:020d}.json")
    assert transaction.commit([add_file("ours")], operation()).version == 3
    again = begin(store)
    assert again.snapshot.version == 3


def test_version_that_only_a_checkpoint_tells_is_continued():
    store = store_with(2)
    write_checkpoint(load_snapshot(store))
    for version in range(3):
        store.delete(f"{LOG}{version:020d}.json")
    assert begin(store).commit([add_file("ours")], operation()).version == 3


def test_question_before_the_put_costs_one_request():
    store = make_table(MemoryStore(), **DV_TABLE)
    transaction = begin(store)
    listings = len(store.listings)
    transaction.commit([add_file("a")], operation())
    # One before the put, one to read the new version back.
    assert len(store.listings) - listings == 2
