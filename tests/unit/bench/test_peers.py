"""Does the comparison with other engines measure what it says, and does its page say what was measured? No engine runs."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.peers import data, engines, on_s3, page, plot, upkept, workloads
from bench.peers.client import EngineError, Memory
from bench.peers.engines import EBBTIDE, named
from bench.peers.measure import Case, Measurement, Work, measured
from bench.peers.race import race, row_of
from bench.peers.run import Run
from bench.peers.worker import answer
from bench.peers.workloads import open_table, vacuum

from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

ROOT = Path(__file__).parents[3]


class Scripted:
    """A process whose answers are given: seconds of each run, and what a count says."""

    start_seconds = 4.0

    def __init__(self, engine, seconds, count):
        self.engine, self.seconds, self.count = engine, iter(seconds), count

    def ask(self, task):
        if task["do"] == "query":
            return {"seconds": 0.0, "result": [self.count]}
        Path(task["path"], "new").write_bytes(b"12345")
        return {"seconds": next(self.seconds), "result": None}

    def memory(self):
        return Memory(10, 20)

    def close(self):
        pass


def run_with(tmp_path, seconds, *, count=99, monkeypatch):
    """A run in which Ebbtide alone takes part, with these times."""
    run = Run(tmp_path, tmp_path)
    monkeypatch.setattr(Run, "start", lambda self, engine: Scripted(engine, seconds, count))
    work = Work("x", lambda path, engine: path.mkdir(), lambda path: {"do": "delete", "path": str(path)}, rows_left=99)
    [result] = measured(run, work, [EBBTIDE]).measurements
    return result


def test_first_run_is_cold_and_the_others_are_warm(tmp_path, monkeypatch):
    result = run_with(tmp_path, [9, 1, 2, 3, 2, 2], monkeypatch=monkeypatch)
    assert (result.start_seconds, result.cold_seconds, result.warm_seconds) == (4.0, 9, [1, 2, 3, 2, 2])
    assert result.median == 2
    assert (result.driver_bytes, result.worker_bytes, result.written_bytes) == (10, 20, 5)


def test_engine_that_takes_long_has_fewer_turns(tmp_path, monkeypatch):
    assert len(run_with(tmp_path, [50] * 6, monkeypatch=monkeypatch).warm_seconds) == 1


def test_engine_that_miscounts_is_not_measured(tmp_path, monkeypatch):
    result = run_with(tmp_path, [1] * 6, count=100, monkeypatch=monkeypatch)
    assert result.trouble == "100 rows are left instead of 99"
    assert result.median is None


def test_every_run_has_a_path_of_its_own(tmp_path):
    run, seen = Run(tmp_path, tmp_path), set()
    for _ in range(3):
        with run.place("same") as path:
            seen.add(path)
    assert len(seen) == 3


def test_load_is_a_number_of_cores(tmp_path):
    assert 0 <= Run(tmp_path, tmp_path).load() <= os.cpu_count()


def test_missing_engine_is_named_once_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engines, "jars", list)
    run = Run(tmp_path, tmp_path)
    assert run.present([named("delta-spark")]) == run.present([named("delta-spark")]) == []
    assert capsys.readouterr().out == (
        "NOT HERE: delta-spark: its JARs are not in build/reference: `make bench-peers` fetches them with Maven\n"
    )


def test_peer_does_the_same_kind_of_task_once_in_a_short_run_and_always_in_a_real_one(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "jars", lambda: ["a.jar"])
    asked = [EBBTIDE, named("delta-spark"), named("delta-spark without vectors"), named("deltalake")]
    short, real = Run(tmp_path, tmp_path, is_short=True), Run(tmp_path, tmp_path)
    assert short.choose(asked, "delete") == [EBBTIDE, named("delta-spark"), named("deltalake")]
    assert short.choose(asked, "delete") == [EBBTIDE]
    assert short.choose(asked, "merge") == [EBBTIDE, named("delta-spark"), named("deltalake")]
    assert real.choose(asked, "delete") == real.choose(asked, "delete") == asked


# --- worker -----------------------------------------------------------------------------------------------------------


class Conflicted:
    """Aborts every second DELETE."""

    def __init__(self):
        self.calls, self.rows = 0, []

    def delete(self, path, where):
        self.calls += 1
        if self.calls % 2:
            raise EngineError("quicker")
        self.rows.append(where)

    def is_conflict(self, error):
        return str(error) == "quicker"

    def jobs(self):
        return self.calls


def test_worker_answers_an_engines_failure_in_its_own_words():
    told = answer(Conflicted(), {"do": "delete", "path": "p", "where": "w"})
    assert told == {"error": "EngineError: quicker"}


def test_worker_counts_the_jobs_of_one_command():
    adapter = Conflicted()
    adapter.calls = 1
    assert answer(adapter, {"do": "delete", "path": "p", "where": "w", "count_jobs": True})["jobs"] == 1


def test_aborted_deletes_are_sent_again_until_they_land():
    adapter = Conflicted()
    task = {"path": "p", "rows": 800, "files": 8, "deleters": 1, "deletes": 10}
    assert race(adapter, task) == {"landed": 10, "aborts": 10}
    assert len(set(adapter.rows)) == 10


def test_deleters_never_want_the_same_row_and_meet_in_every_file():
    task = {"rows": 8000, "files": 8, "deleters": 8, "deletes": 10}
    rows = {(deleter, turn): row_of(deleter, turn, task) for deleter in range(8) for turn in range(10)}
    assert len(set(rows.values())) == 80
    assert max(rows.values()) < 8000
    assert {row // 1000 for (deleter, _), row in rows.items() if deleter == 3} == set(range(8))


# --- data -------------------------------------------------------------------------------------------------------------


def test_fresh_table_links_the_files_and_has_their_bounds(tmp_path):
    rows = data.Rows("r", 3, 1, data.NARROW)
    (tmp_path / rows.directory_name).mkdir()
    file = tmp_path / rows.directory_name / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2, 3]), "data": ["a", "b", "c"]}), file)
    table = data.fresh_table(tmp_path / "t", rows, tmp_path, vectors=True)
    assert (table / "part-0.parquet").samefile(file)
    snapshot = load_snapshot(open_store(str(table)))
    [stats] = snapshot.files.column("stats").to_pylist()
    assert json.loads(stats) == {
        "numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0},
    }  # fmt: skip
    assert snapshot.metadata.configuration == {"delta.enableDeletionVectors": "true"}


def test_log_of_many_files_is_one_that_can_be_read(tmp_path):
    log = open_table._write_log(tmp_path / "log", 10)
    open_table._link(log, tmp_path / "t", EBBTIDE)
    assert load_snapshot(open_store(str(tmp_path / "t"))).files.num_rows == 10 + open_table.MORE
    assert deltalake.DeltaTable(tmp_path / "t").get_add_actions().num_rows == 10 + open_table.MORE


def rows_on_disk(tmp_path, files):
    """What Spark would have made: two rows in each file."""
    rows = data.Rows("r", 2 * files, files, data.NARROW)
    (tmp_path / rows.directory_name).mkdir()
    for number in range(files):
        table = pa.table({"id": pa.array([2 * number, 2 * number + 1]), "data": ["a", "b"]})
        pq.write_table(table, tmp_path / rows.directory_name / f"part-{number}.parquet")
    return rows


def test_orphans_are_old_enough_for_a_vacuum_and_the_tables_files_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(upkept, "LINKS_OF_A_FILE", 5)
    monkeypatch.setattr(upkept, "ORPHANS_IN_A_DIRECTORY", 4)
    upkept.littered(tmp_path / "t", rows_on_disk(tmp_path, 3), tmp_path, orphans=12, vectors=True)
    assert vacuum._left(tmp_path / "t") == "it left 12 orphans"
    done = VacuumCommand(VacuumRequest(open_store(str(tmp_path / "t")))).run()
    assert done.metrics.num_deleted_files == 12
    assert vacuum._left(tmp_path / "t") is None
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 3


def test_overwritten_table_can_be_restored_by_every_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(upkept, "LINKS_OF_A_FILE", 5)
    rows = rows_on_disk(tmp_path, 1)
    for name in ("ours", "theirs"):
        upkept.overwritten(tmp_path / name, rows, tmp_path, files=12, vectors=False)
    assert restore_table(RestoreRequest(open_store(str(tmp_path / "ours")), version=0)).metrics.num_restored_files == 12
    assert deltalake.DeltaTable(tmp_path / "theirs").restore(0)["numRestoredFile"] == 12
    assert load_snapshot(open_store(str(tmp_path / "theirs"))).num_files == 12


def test_worn_table_has_marked_rows_in_every_file(tmp_path):
    upkept.worn(tmp_path / "t", rows_on_disk(tmp_path, 3), tmp_path, share=0.5)
    vectors = load_snapshot(open_store(str(tmp_path / "t"))).files["deletion_vector"].to_pylist()
    assert [vector["cardinality"] for vector in vectors] == [1, 1, 1]


def test_requests_of_a_table_in_a_bucket_are_counted(tmp_path):
    upkept.littered(tmp_path / "t", rows_on_disk(tmp_path, 1), tmp_path, orphans=3, vectors=True)
    with on_s3.bucket() as bucket:
        url = bucket.put(tmp_path / "t", "t")
        assert bucket.requests == 0
        done = VacuumCommand(VacuumRequest(open_store(url, bucket.options))).run()
        assert done.metrics.num_deleted_files == 3
        assert 3 < bucket.requests < 20


def test_engine_that_leaves_what_it_should_delete_is_not_measured(tmp_path, monkeypatch):
    run = Run(tmp_path, tmp_path)
    monkeypatch.setattr(Run, "start", lambda self, engine: Scripted(engine, [1] * 6, 99))
    work = Work(
        "x", lambda path, engine: path.mkdir(), lambda path: {"do": "x", "path": str(path)}, left=lambda _: "no"
    )
    [result] = measured(run, work, [EBBTIDE]).measurements
    assert result.trouble == "no"


# --- page and plots ---------------------------------------------------------------------------------------------------


def case_of(**seconds):
    return Case(
        "case", [Measurement(name, cold_seconds=9.0, warm_seconds=list(values)) for name, values in seconds.items()]
    )


def results_of(case):
    run = {
        "cpu": "c",
        "cores": 2,
        "memory_gib": 1,
        "system": "s",
        "python": "3",
        "command": "cmd",
        "date": "d",
        "load": 0.1,
        "scale": 1,
    }
    told = {
        "title": "T",
        "about": "A.",
        "run": run,
        "engines": {"Ebbtide": {"ebbtide": "1"}},
        "missing": {"Sail": "gone"},
    }
    return {"merge": told | {"cases": [case.to_json()]}}


def test_page_says_where_others_are_quicker_and_by_what_factor():
    text = page.markdown(results_of(case_of(Ebbtide=[2.0, 4.0, 3.0], deltalake=[1.0], Sail=[5.0])), plots_at="p")
    assert "- T; case: Ebbtide 3.000 s; deltalake 1.000 s, 3.00 times\n" in text
    assert "| case | Ebbtide   | 9.000 | 3.000 | 2.000 to 4.000 (3) | 1.00  |" in text
    assert "| case | deltalake | 9.000 | 1.000 | 1.000 to 1.000 (1) | 0.33  |" in text


def test_page_names_what_is_missing_and_what_was_not_measured():
    text = page.markdown(results_of(case_of(Ebbtide=[1.0])), plots_at="p")
    assert "- **Sail** took no part: gone." in text
    assert "no result yet: notebook, point_delete" in text
    assert "- nowhere." in text


@pytest.mark.parametrize(("load", "is_told"), [(0.4, False), (7.5, True)])
def test_page_says_when_the_machine_was_not_quiet(load, is_told):
    results = results_of(case_of(Ebbtide=[1.0]))
    results["merge"]["run"]["load"] = load
    assert (f"({load} cores were busy when it began)" in page.markdown(results, plots_at="p")) is is_told


def test_page_without_results_claims_nothing():
    text = page.markdown({}, plots_at="p")
    assert "nowhere" not in text
    assert f"no result yet: {', '.join(workloads.NAMES)}." in text


def test_engine_with_trouble_is_shown_without_numbers_of_its_own():
    case = case_of(Ebbtide=[1.0], Sail=[0.1])
    case.measurements[1].trouble = "it lost rows\nand more"
    text = page.markdown(results_of(case), plots_at="p")
    assert "- case, Sail: it lost rows\n" in text
    assert "could not" in text
    assert "0.100" not in text


def test_plot_is_well_formed_and_has_colours_for_a_dark_page():
    text = plot.svg("A & B", [case_of(Ebbtide=[0.5, 0.7], deltalake=[0.01])])
    root = ET.fromstring(text)
    assert root.attrib["aria-label"] == "A & B"
    assert "prefers-color-scheme: dark" in text
    assert set(plot.COLOURS) == {engine.name for engine in engines.ALL}


@pytest.mark.parametrize("name", workloads.NAMES)
def test_every_workload_says_what_it_measures(name):
    module = workloads.load(name)
    assert module.TITLE
    assert module.ABOUT.endswith(".")
    assert callable(module.run)


def test_no_workload_is_left_out_of_the_list():
    found = {file.stem for file in (ROOT / "bench" / "peers" / "workloads").glob("*.py")} - {"__init__"}
    assert found == set(workloads.NAMES)
