"""Does delta-spark itself do with every behaviour case what Ebbtide does?

The cases of `tests/conformance` say what must come out; here the reference engine runs the same statements on a copy of the
table, in the same Spark session, and both must have the same answer, rows, counters, history and change feed, or refuse with
the same class of error. So the reference judges us, and the cases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.support.case_running import VIEW, Run, RunningCase, is_query, runs_of, verb
from tests.support.comparison import assert_same_rows
from tests.support.log_reading import commit_info, log_state, newest_version
from tests.support.session_settings import session_settings
from tests.support.shared_material import SharedMaterialMissingError, load_cases

import ebbtide
from ebbtide.errors import DeltaError

pytestmark = [pytest.mark.reference, pytest.mark.spark]

AREAS = ("delete", "update", "merge", "metrics", "cdf", "maintenance")
# Of maintenance, the cases that only change and read rows.
VERBS = {"DELETE", "UPDATE", "MERGE", "INSERT", "SELECT"}
# How Spark divides rows into files, and how it packs them, is not the engine's to say.
NOT_COMPARED = ("Bytes", "TimeMs", "FilesAdded", "AddedFiles", "numAddedChangeFiles", "numFiles")


def runs() -> list[Any]:
    try:
        cases = [case for area in AREAS for case in load_cases(area) if is_asked(case)]
    except SharedMaterialMissingError:
        return []
    return [pytest.param(run, id=run.id) for case in cases for run in runs_of(case)]


def is_asked(case: dict[str, Any]) -> bool:
    if case["area"] not in {"dv", "time-travel"}:
        return case["area"] in AREAS and "steps" in case
    return "commit_times" not in case and {verb(step) for step in case["steps"]} <= VERBS


# What delta-spark refuses and Ebbtide does, by decision 005.
OURS_ALONE = {
    "DELTA_UNSUPPORTED_SUBQUERY",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
}
# Two names of the reference for one mistake, by the same decision; we always use the name that the cases use.
TWO_NAMES = {"DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE": "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"}


@dataclass
class Played:
    """What came of a case in one engine: the answer of each step, and the class of the error that ended it."""

    path: Path
    answers: list[list[dict[str, Any]]] = field(default_factory=list)
    refusal: str | None = None
    message: str = ""


def played(run: Run, spark: Any, directory: Path, *, by_reference: bool) -> Played:
    case = RunningCase(run, spark, directory / run.target.get("path_suffix", "target"))
    directory.mkdir()
    case.set_up()
    result = Played(case.path)
    try:
        for step in run.steps:
            words = case.with_path(step)
            frame = spark.sql(as_reference_says(words)) if by_reference else ebbtide.sql(spark, words)
            rows = [row.asDict(recursive=True) for row in frame.collect()]
            result.answers.append(sorted(rows, key=str) if is_query(step) else rows)
    except (DeltaError, PySparkException, Py4JError) as error:
        result.refusal, result.message = refused_by(error)
    finally:
        case.views = [name for step in run.steps for name in VIEW.findall(step)]
        case.drop_views()
    return result


def refused_by(error: Exception) -> tuple[str, str]:
    """The class of the error and its words."""
    if isinstance(error, DeltaError):
        return error.error_class, str(error)
    if isinstance(error, PySparkException):
        return error.getCondition() or "", str(error)
    # PySpark has no class for it, or failed to look its words up where there are none of Delta's: then they are in the
    # exception before this one.
    words = f"{error.__context__}\n{error}"
    named = re.search(r"Exception: \[([\w.]+)\]", words)
    assert named, words
    return named[1], named[0]


def as_reference_says(words: str) -> str:
    """Its own function for the change feed takes a path under another name."""
    return words.replace("table_changes('", "table_changes_by_path('")


@pytest.mark.parametrize("run", runs())
def test_both_engines_end_alike(run, spark, spark_kind, tmp_path):
    if spark_kind != "reference":
        pytest.skip("asks delta-spark in the same session: --spark=reference")
    settings = {"spark.sql.storeAssignmentPolicy": run.case.get("session", {}).get("store_assignment", "ANSI")}
    settings["spark.sql.caseSensitive"] = run.case.get("session", {}).get("case_sensitive", "false")
    with session_settings(spark, settings):
        ours = played(run, spark, tmp_path / "ours", by_reference=False)
        theirs = played(run, spark, tmp_path / "theirs", by_reference=True)
    # Where the reference refuses what plain SQL has an answer for, the case says it, and `tests/conformance` checks it.
    is_ours_alone = "if_supported" in run.expect or theirs.refusal in OURS_ALONE
    if not (is_ours_alone and theirs.refusal is not None and ours.refusal is None):
        assert_same_end(spark, ours, theirs, alike=run.expect.get("error", {}).get("class", ""))


def assert_same_end(spark: Any, ours: Played, theirs: Played, *, alike: str) -> None:
    """Refusals are the same by their class, or both among those that the case calls `alike`, with bars between."""
    said = f"we: {ours.message or ours.answers}\ndelta-spark: {theirs.message or theirs.answers}"
    assert (ours.refusal is None) == (theirs.refusal is None), said
    refusals = {first_part(ours.refusal), first_part(theirs.refusal)}
    assert len(refusals) == 1 or refusals <= {first_part(name) for name in alike.split("|")}, said
    assert len(ours.answers) == len(theirs.answers), said
    if not (ours.path / "_delta_log").exists():
        return
    assert newest_version(ours.path) == newest_version(theirs.path) - copied_for_nothing(theirs.path)
    assert_same_rows(spark.read.format("delta").load(str(ours.path)), spark.read.format("delta").load(str(theirs.path)))
    for version in range(1, newest_version(ours.path) + 1):
        assert_same_history(ours.path, theirs.path, version)
    has_feed = log_state(ours.path).configuration.get("delta.enableChangeDataFeed") == "true"
    if has_feed and newest_version(ours.path):
        assert_same_rows(changes(spark, ours.path), changes(spark, theirs.path))


def copied_for_nothing(table: Path) -> bool:
    """Whether the last commit is a MERGE that changed no row: the reference's alone, by decision 005."""
    info = commit_info(table, newest_version(table))
    counts = info.get("operationMetrics", {})
    changed = sum(int(counts.get(f"numTargetRows{what}", 0)) for what in ("Inserted", "Updated", "Deleted"))
    return info["operation"] == "MERGE" and not changed and int(counts["numTargetRowsCopied"]) > 0


def first_part(error_class: str | None) -> str | None:
    if error_class is None:
        return None
    first = error_class.split(".")[0]
    return TWO_NAMES.get(first, first)


def is_compared(metric: str) -> bool:
    """Bytes are those of two writers, and times are times."""
    return not metric.endswith(NOT_COMPARED) and "Bytes" not in metric


def assert_same_history(ours: Path, theirs: Path, version: int) -> None:
    one, other = commit_info(ours, version), commit_info(theirs, version)
    assert one["operation"] == other["operation"]
    counted, expected = (
        {name: value for name, value in info.get("operationMetrics", {}).items() if is_compared(name)}
        for info in (one, other)
    )
    assert counted == {name: expected.get(name) for name in counted}, f"version {version}"
    assert not expected.keys() - counted.keys()


def changes(spark: Any, path: Path) -> Any:
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "1")
    return reader.load(str(path)).drop("_commit_timestamp")
