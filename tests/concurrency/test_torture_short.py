"""Does a short torture end with no row lost, none back, no file live twice, and nobody stopped?

`make torture` runs the same for minutes, with more processes and with Spark. Here are simulations, whose interleavings a
seed decides, and a few seconds of real processes on disk and on an S3 endpoint.
"""

from __future__ import annotations

import pytest
from tests.support import races
from tests.torture.model import check
from tests.torture.run import Plan, simulate, torture

from ebbtide.storage import open_store


def checked(directory, records):
    return check(directory / "table", records, seed="any", graveyard=directory / "graveyard")


def assert_clean(summary):
    assert summary.problems == []
    assert summary.aborts == []
    assert summary.landed == summary.report.commits > 0
    assert summary.report.reopened + summary.report.gone > summary.report.commits


@pytest.mark.parametrize("seed", ["ebb", "tide", "moon"])
def test_interleaving_that_the_seed_chose_loses_nothing(seed, tmp_path):
    summary, _ = simulate(Plan(seed, processes=6, rounds=8), tmp_path)
    assert_clean(summary)
    assert summary.total("rebases") > 0
    assert summary.total("rescanned") > 0
    assert summary.report.met_compactions > 0, "no DELETE raced a compaction"


def test_vacuums_between_compactions_and_deletes_delete_nothing_that_is_needed(tmp_path):
    summary, _ = simulate(Plan("sand", processes=3, rounds=16), tmp_path)
    assert_clean(summary)
    assert summary.report.met_compactions > 0, "no DELETE raced a compaction"
    assert summary.total("carried") > 0, "no compaction followed a DELETE"
    assert summary.total("vacuumed") > 0, "no VACUUM found anything to delete"
    assert summary.report.gone > 0


def test_compactions_by_deltalake_stop_no_delete(tmp_path):
    summary, _ = simulate(Plan("tide", processes=3, rounds=10, compactions="deltalake"), tmp_path)
    assert_clean(summary)
    assert summary.report.met_compactions > 0


def test_same_seed_gives_the_same_interleaving(tmp_path):
    plan = Plan("again", processes=4, rounds=4, vacuums=False)
    (first, trace), (second, trace_again) = (simulate(plan, tmp_path / name) for name in ("first", "second"))
    assert trace == trace_again
    assert len({worker for worker, _ in trace}) == 4

    def told(summary):
        return [{key: value for key, value in record.items() if key != "seconds"} for record in summary.records]

    assert told(first) == told(second)


@pytest.mark.parametrize(("store", "rounds"), [("local", 15), ("s3", 6)])
def test_processes_on_one_table_lose_nothing(store, rounds, tmp_path):
    summary = torture(Plan("short", processes=3, rounds=rounds, store=store), tmp_path)
    assert_clean(summary)
    assert summary.report.observed == summary.count("read")
    assert len(summary.records) == 3 * rounds


def test_model_notices_a_lost_row_a_row_that_came_back_and_a_commit_of_nobody(tmp_path):
    """The comparison itself: a model that cannot fail proves nothing."""
    summary, _ = simulate(Plan("broken", processes=2, rounds=6), tmp_path)
    assert_clean(summary)
    deleted = next(record for record in summary.records if record["op"] == "delete" and record["version"] is not None)
    others = [record for record in summary.records if record is not deleted]
    forgotten = checked(tmp_path, others).problems
    assert any(f"version {deleted['version']} is nobody's" in problem for problem in forgotten)
    misjudged = [*others, deleted | {"condition": ["between", [0, 10**9]]}]
    assert any("shows again" in problem for problem in checked(tmp_path, misjudged).problems)
    unseen = [*others, deleted | {"condition": ["in", [-1]]}]
    assert any("lost" in problem for problem in checked(tmp_path, unseen).problems)


def test_model_notices_a_file_that_is_live_twice(tmp_path):
    summary, _ = simulate(Plan("twice", processes=2, rounds=4), tmp_path)
    store = open_store(str(tmp_path / "table"))
    ids = races.ids_at(tmp_path / "table")[:3]
    committed = races.commit(store, [races.new_data_file(store, ids)], user_metadata="rogue")
    rogue = {"op": "compact", "name": "rogue", "version": committed.version}
    problems = checked(tmp_path, [*summary.records, rogue]).problems
    assert any("shows more than once 3 rows" in problem for problem in problems)


def test_model_notices_a_live_file_that_a_vacuum_deleted(tmp_path):
    summary, _ = simulate(Plan("gone", processes=2, rounds=6), tmp_path)
    table, graveyard = tmp_path / "table", tmp_path / "graveyard"
    live = races.live_paths(table)[0]
    graveyard.mkdir(exist_ok=True)
    (table / live).rename(graveyard / live)
    assert f"{live} was deleted, and is needed" in checked(tmp_path, summary.records).problems
