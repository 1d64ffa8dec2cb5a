"""Do two transactions of the shared conflict cases end as the cases say?

Cases whose transactions are given as actions are run here, without Spark, under the reference's rules (no rebase). Cases
given as SQL need the commands; `SQL_CASES` is the hook that `tests/spark` picks up.
"""

from __future__ import annotations

import re

import pytest
from tests.support.conflict_cases import (
    DV_VARIANTS,
    actions_of,
    conflict_cases,
    files_of,
    is_of_actions,
    table_options,
)
from tests.support.transactions import begin, live_paths, make_table, operation

from ebbtide import errors
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.pruning import prune
from ebbtide.transaction import ReadPredicate

CASES = conflict_cases()
ACTION_CASES = [case for case in CASES if is_of_actions(case)]
SQL_CASES = [case for case in CASES if case not in ACTION_CASES]


def as_text(condition):
    """The cases compare text columns with bare digits; pruning leaves the casts of Spark alone and would keep everything."""
    return re.sub(r"\b(\d+)\b", r"'\1'", condition)


def record_reads(transaction, reads):
    snapshot = transaction.snapshot
    for read in reads:
        if read == "whole_table":
            transaction.record_read_whole_table()
            continue
        read = as_text(read)
        kept = prune(
            snapshot.files, read, schema=snapshot.schema, partition_columns=snapshot.metadata.partition_columns
        )
        transaction.record_read(ReadPredicate(read), kept)


class Run:
    """One of the two transactions, begun on the setup snapshot."""

    def __init__(self, store, spec, initial, options):
        self.spec = spec
        self.transaction = begin(store)
        self.actions = actions_of(spec, initial, options)
        if not spec.get("reads_after_winner"):
            record_reads(self.transaction, spec["reads"])
        if "app_id_read" in spec:
            self.transaction.record_app_id(spec["app_id_read"])

    def commit(self):
        if self.spec.get("reads_after_winner"):
            record_reads(self.transaction, self.spec["reads"])
        sent = self.spec.get("set_txn")
        actions = self.actions if sent is None else [SetTransaction(sent["app_id"], sent["version"]), *self.actions]
        # The cases try to commit even where nothing is staged.
        return self.transaction.commit(actions, operation("TEST"), allow_empty=True)


@pytest.mark.parametrize("variant", sorted(DV_VARIANTS))
@pytest.mark.parametrize("case", ACTION_CASES, ids=lambda case: case["id"])
def test_conflict_case_ends_as_the_reference_does(case, variant):
    if variant not in case["variants"]:
        pytest.skip(f"the case is not about {variant}")
    options, features = table_options(case, variant)
    initial = files_of(case["tables"]["target"]["data_files"])
    store = make_table(None, *initial.values(), features=features, **options)
    runs = {name: Run(store, case[name], initial, options) for name in ("txn_a", "txn_b")}
    winner = runs.pop(case["winner"])
    (loser,) = runs.values()
    winner.commit()
    if case["expect"] == "both":
        committed = loser.commit()
        assert committed.version == 2
        assert committed.actions[0].isolation_level in {case["isolation"], "SnapshotIsolation"}
    else:
        with pytest.raises(getattr(errors, case["expect"])) as caught:
            loser.commit()
        assert type(caught.value).__name__ == case["expect"]
        assert load_snapshot(store).version == 1
    if "expect_live_files" in case:
        assert live_paths(store) == set(case["expect_live_files"])


def test_every_case_is_run_here_or_handed_on():
    assert len(ACTION_CASES) + len(SQL_CASES) == len(CASES)
    assert len(ACTION_CASES) >= 14
