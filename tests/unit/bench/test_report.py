"""Do the benchmarks compare what took turns, and does the page say what was measured? No clock is looked at here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import page, report, workloads
from bench.measure import Comparison, Contender, Sample, compare
from bench.peers import page as peers

ROOT = Path(__file__).parents[3]


def ticking(label, seconds, log=None):
    """A contender whose measurements are given."""
    left = iter(seconds)

    def run():
        if log is not None:
            log.append(label)
        return Sample(next(left), 3 * 1024 * 1024)

    return Contender(label, run)


def test_contenders_take_turns_and_the_first_turns_do_not_count():
    log = []
    result = compare(
        "x", [ticking("a", [9, 1, 2], log), ticking("b", [9, 3, 4], log)], repetitions=2, warmups=1, bar=2.5
    )
    assert log == ["a", "b"] * 3
    assert result.seconds == {"a": [1, 2], "b": [3, 4]}


def test_ratio_is_the_median_of_the_turns():
    result = compare("x", [ticking("a", [1, 10, 2]), ticking("b", [2, 15, 5])], repetitions=3, warmups=0, bar=2.0)
    assert result.ratios("b") == [2.0, 1.5, 2.5]
    assert result.ratio("b") == 2.0
    assert result.holds is True


@pytest.mark.parametrize(("bar", "holds"), [(3.0, True), (2.9, False), (None, None)])
def test_bar_is_kept_up_to_itself_and_nothing_is_promised_without_one(bar, holds):
    assert compare("x", [ticking("a", [1]), ticking("b", [3])], repetitions=1, warmups=0, bar=bar).holds is holds


def test_preparation_happens_before_every_run():
    steps = []

    def run():
        steps.append("run")
        return Sample(1)

    compare("x", [Contender("a", run, lambda: steps.append("prepare"))], repetitions=2, warmups=1)
    assert steps == ["prepare", "run"] * 3


def test_page_is_made_from_the_json_alone(tmp_path):
    class Workload:
        TITLE = "Doing things"
        ABOUT = "How things are done."

    comparison = compare("small", [ticking("a", [1.0]), ticking("b", [3.0])], repetitions=1, warmups=0, bar=2.0)
    run = report.environment("python -m bench things")
    page.keep(tmp_path / "r.json", "alone", {"things": report.workload_result(Workload, [comparison], run)})
    text = page.publish(tmp_path / "r.json", tmp_path).read_text(encoding="utf-8")
    assert "### Doing things\n\nHow things are done.\n" in text
    assert "| small | a 1.000 s | b 3.000 s | 3.00  | 3.00 to 3.00 | 2.0 | NO    | 3 MiB / 3 MiB |" in text
    assert "`python -m bench things` (workload `things`)" in text
    assert run["packages"]["pyspark"] in text
    assert (
        Comparison(**json.loads((tmp_path / "r.json").read_text())["alone"]["things"]["comparisons"][0]) == comparison
    )


def test_one_part_leaves_the_results_of_the_other_as_they_are(tmp_path):
    page.keep(tmp_path / "r.json", "alone", {"things": 1})
    page.keep(tmp_path / "r.json", "peers", {"others": 2})
    page.keep(tmp_path / "r.json", "alone", {"things": 3})
    assert page.kept(tmp_path / "r.json") == {"alone": {"things": 3}, "peers": {"others": 2}}


def test_committed_page_is_what_the_committed_results_say():
    committed = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert committed == page.markdown(page.kept(ROOT / "bench" / "results.json"))


def test_committed_plots_are_what_the_committed_results_say():
    found = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "docs" / page.PLOTS).glob("peers-*.svg")}
    assert found == peers.plots(page.kept(ROOT / "bench" / "results.json")["peers"])


def test_every_workload_says_what_it_measures():
    assert {"load_snapshot", "read_marked"} <= set(workloads.names())
    for name in workloads.names():
        module = workloads.load(name)
        assert module.TITLE
        assert module.ABOUT.endswith(".")
        assert callable(module.run)
