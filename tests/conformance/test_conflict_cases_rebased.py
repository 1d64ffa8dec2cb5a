"""Which of the shared conflict cases end well when the loser follows the winner, and why do the others still raise?

The cases are those of the reference, which stops the second committer. A command of ours that rebases looks at the table
as the winner left it and goes on. Cases given as actions are run with a command that does what they say: adds its
files, and removes those of its files that are still there. Cases given as SQL are run through the SQL door, on Spark,
the winner's statement just before the loser's commit; a statement that we do not have yet is skipped and says so.
"""

from __future__ import annotations

import re

import pytest
from tests.conformance.test_conflict_cases import ACTION_CASES, CASES, SQL_CASES, record_reads
from tests.support.case_tables import build_table
from tests.support.conflict_cases import DV_VARIANTS, actions_of, files_of, table_options
from tests.support.races import RacingStore, live_paths
from tests.support.transactions import begin, make_table, operation
from tests.support.transactions import live_paths as live_paths_in_memory

import ebbtide
from ebbtide import errors, table
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import RemoveFile
from ebbtide.sql.parse import parse_statement
from ebbtide.transaction import Rebased

STILL_RAISES = {
    "conflict-append-vs-metadata-change": "what was made for other columns or rules may not fit the table any more",
    "conflict-protocol-upgrade-twice": "each chose the features for the protocol it read, and one choice would be lost",
    "conflict-compaction-vs-delete": "the compacted file holds rows that the winner removed; it must be made anew",
}
WITH_REBASE = [case for case in ACTION_CASES if case["id"] not in STILL_RAISES]


class Follower:
    """A loser that keeps its new files and removes what is still there of its old ones."""

    def __init__(self, store, spec, initial, options):
        self.spec = spec
        self.transaction = begin(store)
        self.actions = tuple(actions_of(spec, initial, options))
        record_reads(self.transaction, spec["reads"])

    def rebase(self, lost):
        if not self.spec.get("data_change", True):
            # A compaction's file holds the rows of its inputs, so it cannot go on without them.
            conflict = lost.conflict()
            if conflict is not None:
                raise conflict
        live = {file.path: file for file in lost.newest.add_files()}
        kept = tuple(action for action in self.actions if not isinstance(action, RemoveFile) or action.path in live)
        return Rebased(kept, operation("TEST"))

    def commit(self):
        return self.transaction.commit(self.actions, operation("TEST"), rebase=self.rebase, allow_empty=True)


def run_case(case, variant):
    """Both transactions begin, the winner commits; the store, and the loser that has not committed yet."""
    options, features = table_options(case, variant)
    initial = files_of(case["tables"]["target"]["data_files"])
    store = make_table(None, *initial.values(), features=features, **options)
    runs = {name: Follower(store, case[name], initial, options) for name in ("txn_a", "txn_b")}
    runs.pop(case["winner"]).commit()
    (loser,) = runs.values()
    return store, loser


@pytest.mark.parametrize("variant", sorted(DV_VARIANTS))
@pytest.mark.parametrize("case", WITH_REBASE, ids=lambda case: case["id"])
def test_loser_that_follows_the_winner_commits(case, variant):
    if variant not in case["variants"]:
        pytest.skip(f"the case is not about {variant}")
    store, loser = run_case(case, variant)
    added = {entry["file"] for name in ("txn_a", "txn_b") for entry in case[name]["adds"]}
    removed = {name for run in ("txn_a", "txn_b") for name in case[run]["removes"]}
    before = {entry["file"] for entry in case["tables"]["target"]["data_files"]}
    loser.commit()
    assert live_paths_in_memory(store) == (before | added) - removed
    if "expect_live_files" in case:
        assert live_paths_in_memory(store) == set(case["expect_live_files"])


@pytest.mark.parametrize("variant", sorted(DV_VARIANTS))
@pytest.mark.parametrize("name", STILL_RAISES)
def test_conflict_that_no_rebase_can_repair_is_still_raised(name, variant):
    (case,) = [case for case in ACTION_CASES if case["id"] == name]
    store, loser = run_case(case, variant)
    with pytest.raises(getattr(errors, case["expect"])) as caught:
        loser.commit()
    assert "Nothing was changed" in str(caught.value), STILL_RAISES[name]
    assert load_snapshot(store).version == 1


# --- SQL --------------------------------------------------------------------------------------------------------------

OURS = re.compile(r"\s*(DELETE FROM|ALTER TABLE \w+ (UN)?SET TBLPROPERTIES)\b", re.IGNORECASE)


def statement_for(sql, path):
    return re.sub(r"\btarget\b", f"delta.`{path}`", sql)


@pytest.mark.spark
@pytest.mark.parametrize("conflicts", ["rebase", "abort"])
@pytest.mark.parametrize("variant", sorted(DV_VARIANTS))
@pytest.mark.parametrize("case", SQL_CASES, ids=lambda case: case["id"])
def test_sql_case_ends_as_it_says(spark, tmp_path, monkeypatch, case, variant, conflicts):
    if variant not in case["variants"]:
        pytest.skip(f"the case is not about {variant}")
    waiting = [case[name]["sql"] for name in ("txn_a", "txn_b") if not OURS.match(case[name]["sql"])]
    if waiting:
        pytest.skip(f"waiting for another command: {waiting[0]}")
    path = build_table(tmp_path / "t", case["tables"]["target"], partition_by=[], vectors=variant == "dv_on").path
    winner = statement_for(case[case["winner"]]["sql"], path)
    (loser,) = {"txn_a", "txn_b"} - {case["winner"]}
    opened, stores = table.open_store, []

    def open_racing(url, options=None):
        """The loser opens its table first, and only its store is raced with."""
        inner = opened(url, options)
        if stores:
            return inner
        stores.append(RacingStore(inner, lambda: ebbtide.sql(spark, winner), first=1))
        return stores[0]

    monkeypatch.setattr(table, "open_store", open_racing)
    statement = parse_statement(statement_for(case[loser]["sql"], path))

    def run():
        return ebbtide.DeltaTable.forPath(spark, str(path)).delete(statement.condition, conflicts=conflicts)

    if case["expect"] != "both" and conflicts == "abort":
        with pytest.raises(getattr(errors, case["expect"])):
            run()
    else:
        assert run().version == 2
    assert stores[0].rivals == {}, "the winner never ran"
    if "expect_row_count" in case:
        assert ebbtide.read(spark, str(path)).count() == case["expect_row_count"]
    if "expect_live_files" in case:
        assert set(live_paths(path)) == set(case["expect_live_files"])


def test_every_case_is_followed_explained_or_run_as_sql():
    assert len(WITH_REBASE) + len(STILL_RAISES) + len(SQL_CASES) == len(CASES)
    assert STILL_RAISES.keys() <= {case["id"] for case in ACTION_CASES if case["expect"] != "both"}
