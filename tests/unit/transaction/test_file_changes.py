"""Which files do others seem to have changed between two versions?"""

from __future__ import annotations

import pyarrow.compute as pc
from tests.support.transactions import (
    DV_TABLE,
    add_file,
    append,
    begin,
    commit,
    make_table,
    mark_actions,
    operation,
    remove_of,
)

from ebbtide.log import load_snapshot
from ebbtide.transaction import find_file_changes

A, B, C = add_file("a"), add_file("b"), add_file("c")


def names(table):
    return table.column("path").to_pylist()


def changes_by(*commits, files=(A, B, C)):
    """What a reader of version 0 sees changed after the commits (operation name and actions)."""
    store = make_table(None, *files, **DV_TABLE)
    read = load_snapshot(store)
    for name, actions in commits:
        commit(store, *actions, name=name)
    return find_file_changes(read, load_snapshot(store, hint=read)), read


def test_nothing_changed_when_nobody_committed():
    changes, _ = changes_by()
    assert changes.is_empty
    assert changes.leaves_alone(["a", "b", "c"])


def test_each_kind_of_change_is_told_apart():
    changes, read = changes_by(
        ("WRITE", [add_file("new")]),
        ("DELETE", [remove_of(A)]),
        ("DELETE", mark_actions(B, 1)),
        ("COMPUTE STATS", [add_file("c", rows=11, data_change=False)]),
    )
    assert names(changes.added) == ["new"]
    assert names(changes.gone) == ["a"]
    assert names(changes.vector_changed) == ["b"]
    assert names(changes.restated) == ["c"]
    assert not changes.is_empty
    assert not any(changes.leaves_alone([path]) for path in read.files["path"].to_pylist())


def test_changed_files_are_given_as_they_are_now_and_gone_ones_as_they_were():
    changes, _ = changes_by(("DELETE", mark_actions(B, 1)), ("DELETE", [remove_of(A)]))
    assert changes.vector_changed.column("deletion_vector")[0].as_py()["cardinality"] == 1
    assert changes.gone.column("stats")[0].as_py() == A.stats


def test_untouched_files_are_unchanged():
    changes, _ = changes_by(("DELETE", [remove_of(A)]))
    assert changes.leaves_alone(["b", "c"])
    assert not changes.leaves_alone(["b", "a"])


def test_unseen_files_are_those_candidates_in_which_rows_may_have_come():
    store = make_table(None, A, B, C, **DV_TABLE)
    read = load_snapshot(store)
    commit(store, add_file("new"), add_file("elsewhere"), name="WRITE")
    commit(store, *mark_actions(B, 1), name="DELETE")
    now = load_snapshot(store, hint=read)
    candidates = now.files.filter(pc.not_equal(now.files["path"], "elsewhere"))
    assert sorted(names(find_file_changes(read, now).unseen(candidates))) == ["b", "new"]


def test_only_the_end_counts_however_many_commits_lie_between():
    changes, _ = changes_by(
        ("WRITE", [add_file("passing")]),
        ("DELETE", [remove_of(add_file("passing"))]),
        ("DELETE", mark_actions(B, 1)),
        ("DELETE", mark_actions(add_file("b", vector=mark_actions(B, 1)[0].deletion_vector), 1, 2)),
        ("DELETE", [remove_of(A)]),
        ("RESTORE", [A]),
    )
    assert names(changes.added) == []
    assert names(changes.gone) == []
    assert names(changes.vector_changed) == ["b"]
    assert changes.vector_changed.column("deletion_vector")[0].as_py()["cardinality"] == 2
    # Removed and brought back the same: nothing but restated.
    assert names(changes.restated) == ["a"]


def test_vector_that_was_taken_off_counts_as_changed():
    with_vector = mark_actions(A, 1)[0]
    changes, _ = changes_by(("RESTORE", [A, remove_of(with_vector)]), files=(with_vector,))
    assert names(changes.vector_changed) == ["a"]
    assert changes.vector_changed.column("deletion_vector")[0].as_py() is None


def test_paths_are_compared_by_meaning():
    changes, _ = changes_by(("DELETE", [remove_of(add_file("%61"))]))
    assert names(changes.gone) == ["a"]
    assert changes.leaves_alone(["b", "c"])
    assert not changes.leaves_alone(["%61"])


def test_commits_that_are_at_hand_are_not_read_again():
    store = make_table(None, A)
    loser = begin(store)
    append(store, "new")
    seen = []

    def rebase(lost):
        reads = len(store.reads)
        seen.append((names(lost.file_changes().added), len(store.reads) - reads))

    loser.commit([remove_of(A)], operation("DELETE"), rebase=rebase)
    assert seen == [(["new"], 0)]
