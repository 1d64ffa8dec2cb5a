"""Is the page of `make interop` the committed results, and do the results hold no failure? No engine is started here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from interop.cells import AGREES, FAILS, READS_OURS, Cell, objection_to, verdict_on
from interop.engines import ENGINES, conformed
from interop.features import FEATURES

from interop import cells, known, report

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "interop" / "results.json"
KNOWN = known.Known("Other", "reads", "refuses", ("plain",), "not yet", "does not read it.", "SELECT 1")
NAMES = {feature.name for feature in FEATURES}


@pytest.fixture
def committed():
    return report.read_results(RESULTS)


def test_page_is_what_the_results_say(committed):
    assert (ROOT / "docs" / "interop.md").read_text(encoding="utf-8") == report.markdown(committed)


def test_results_are_of_a_whole_run_without_failures(committed):
    found = {(cell["table"], cell["feature"], cell["engine"]) for cell in committed["cells"]}
    assert list(committed["engines"]) == list(ENGINES)
    assert found >= {(READS_OURS, feature, engine) for feature in NAMES for engine in ENGINES}
    assert [cell for cell in committed["cells"] if cell["verdict"] == FAILS] == []


def test_results_were_made_with_what_is_known_now(committed):
    fresh = report.results([], {})["known"]
    assert committed["known"] == fresh
    assert {place for cell in committed["cells"] for place in cell["known"]} == set(range(len(fresh)))


def test_known_entries_name_engines_and_features_that_there_are():
    for entry in known.KNOWN:
        assert entry.engine in ENGINES
        assert set(entry.features) <= NAMES
        assert entry.reason.endswith(".")
        assert entry.words


def test_cell_points_at_what_explains_it():
    content = report.results([Cell(READS_OURS, "plain", "Other", "refuses", known=[0])], {"Other": "1.0"})
    content["known"] = [{"engine": "Other", "verdict": "refuses", "reason": "does not read it.", "example": "SELECT 1"}]
    page = report.markdown(content)
    assert "| plain | refuses [1](#1) |" in page
    assert "### 1\n\n**Other** refuses: does not read it.\n\n```text\nSELECT 1\n```" in page


def test_objection_that_nothing_explains_fails_and_a_known_one_does_not(monkeypatch):
    monkeypatch.setattr(known, "KNOWN", (KNOWN,))
    assert verdict_on(Cell(READS_OURS, "plain", "Other"), "reads", "").verdict == AGREES
    assert verdict_on(Cell(READS_OURS, "plain", "Other"), "reads", "not yet done").verdict == "refuses"
    for cell, when, words in (
        (Cell(READS_OURS, "plain", "Other"), "reads", "other rows"),
        (Cell(READS_OURS, "plain", "Other"), "writes", "not yet done"),
        (Cell(READS_OURS, "nested types", "Other"), "reads", "not yet done"),
        (Cell(READS_OURS, "plain", "Another"), "reads", "not yet done"),
    ):
        assert verdict_on(cell, when, words).verdict == FAILS


def test_other_rows_and_errors_are_objections_and_equal_rows_are_not():
    expected = pa.table({"id": [1, 2]})
    assert objection_to(lambda: pa.table({"id": [2, 1]}), expected) == ""
    assert "missing" in objection_to(lambda: pa.table({"id": [2]}), expected)
    assert objection_to(lambda: 1 // 0, expected).startswith("ZeroDivisionError")
    assert cells.words_of(ValueError("x" * 9999)).endswith("x")


def test_lists_of_pairs_become_maps_and_views_strings():
    schema = pa.schema({"m": pa.map_(pa.string(), pa.int64()), "s": pa.struct({"a": pa.string()})})
    pairs = pa.array([[{"key": "a", "value": 1}], None], pa.list_(pa.struct({"key": pa.string(), "value": pa.int32()})))
    structs = pa.array([None, {"a": "x"}], pa.struct({"a": pa.large_string()}))
    found = conformed(pa.table({"s": structs, "m": pairs}), schema)
    assert found.schema == schema
    assert found.to_pylist() == [{"m": [("a", 1)], "s": None}, {"m": None, "s": {"a": "x"}}]


def test_cells_that_were_not_asked_again_keep_their_results_and_follow_their_explanations():
    old = report.results(
        [Cell(READS_OURS, "plain", "Sail", "refuses", known=[0]), Cell(READS_OURS, "plain", "Polars")],
        {"Sail": "1", "Polars": "1"},
    )
    new = report.results([Cell(READS_OURS, "plain", "Polars", "differs", known=[0])], {"Polars": "2"})
    entries = [{"engine": name, "verdict": "refuses", "reason": name, "example": ""} for name in ("Polars", "Sail")]
    found = report.merged(old | {"known": entries[1:]}, new | {"known": entries})
    assert [(cell["engine"], cell["known"]) for cell in found["cells"]] == [("Polars", [0]), ("Sail", [1])]
    assert found["engines"] == {"Polars": "2", "Sail": "1"}
    assert report.merged(old | {"known": entries[1:]}, new | {"known": entries[:1]})["cells"] == new["cells"]
