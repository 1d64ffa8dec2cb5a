"""Is the shared material there, and how many golden tables and behaviour cases passed?

What the cases leave behind is read by other engines, too.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest
from tests.support.peer_fixture import peers_see_our_rows
from tests.support.shared_material import SharedMaterialMissingError, shared_directory

__all__ = ["peers_see_our_rows", "record_golden"]

GOLDEN_MODULE = "test_golden_tables.py"
CASE_MODULES = {
    "test_delete_cases.py": "delete cases",
    "test_dml_cases.py": "update, merge, metrics and cdf cases",
    "test_maintenance_cases.py": "maintenance cases",
}
CASE_OUTCOMES = ("passed", "waiting for another command", "failed")
OUTCOME = "golden outcome"
REFUSAL = "golden refusal"
OUTCOMES = ("passed", "refused as expected", "refused (optional)", "failed")


def pytest_sessionstart(session):
    """One sentence instead of a collection error for every module."""
    try:
        shared_directory()
    except SharedMaterialMissingError as missing:
        raise pytest.UsageError(str(missing)) from None


def pytest_unconfigure(config):
    """Print the summaries after everything else, so that they are the last lines of the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        for module, title in CASE_MODULES.items():
            _write_case_summary(reporter, module, title)
        _write_summary(reporter)


def _write_case_summary(terminalreporter, module, title):
    """A case counts as passed when it passed under every variant, partitioning and door."""
    outcomes, reasons, runs = {}, {}, 0
    for key, outcome in (
        ("passed", "passed"),
        ("skipped", CASE_OUTCOMES[1]),
        ("failed", "failed"),
        ("error", "failed"),
    ):
        for report in terminalreporter.stats.get(key, ()):
            if module not in report.nodeid or "[" not in report.nodeid:
                continue
            runs += 1
            case = re.split(r"-dv_(?:on|off)-", report.nodeid.partition("[")[2])[0]
            outcomes[case] = max(outcomes.get(case, "passed"), outcome, key=CASE_OUTCOMES.index)
            if key == "skipped":
                reasons[case] = report.longrepr[2].removeprefix("Skipped: ")
    if not outcomes:
        return
    for case, reason in reasons.items():
        terminalreporter.write_line(f"{case} {reason}")
    counts = Counter(outcomes.values())
    counted = ", ".join(f"{counts[outcome]} {outcome}" for outcome in CASE_OUTCOMES)
    terminalreporter.write_line(f"{title}: {counted} ({runs} runs)")


def _write_summary(terminalreporter):
    outcomes, refusals = _golden_outcomes(terminalreporter.stats)
    if not outcomes:
        return
    for name, refusal in refusals.items():
        terminalreporter.write_line(f"refused (optional) {name}: {refusal}")
    counts = Counter(outcomes.values())
    terminalreporter.write_line("golden tables: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES))


def _golden_outcomes(stats):
    """What came of each table, and the words of the optional refusals. A failure in set-up or teardown is a failure."""
    outcomes, refusals = {}, {}
    for report in (report for key in ("passed", "failed", "error") for report in stats.get(key, ())):
        if GOLDEN_MODULE not in report.nodeid:
            continue
        name = report.nodeid.partition("[")[2].removesuffix("]")
        if report.failed:
            outcomes[name] = "failed"
        elif report.when == "call":
            properties = dict(report.user_properties)
            outcomes[name] = properties[OUTCOME]
            if properties[OUTCOME] == "refused (optional)":
                refusals[name] = properties[REFUSAL]
    return outcomes, refusals


@pytest.fixture
def record_golden(record_property):
    """Record what came of a table: `passed`, `refused as expected`, or `refused (optional)` with the refusal."""

    def record(outcome, refusal=""):
        assert outcome in OUTCOMES
        record_property(OUTCOME, outcome)
        record_property(REFUSAL, str(refusal).splitlines()[0] if str(refusal) else type(refusal).__name__)

    return record
