"""Is a table still whole after a DELETE or an UPDATE, whatever it was?

`look` notes what a table is before; `assert_table_invariants` compares it with what the DELETE left: log, vectors, data
files, checksums and the rows of both versions. The log and the vectors are read by hand (`tests/support/log_reading.py`), so a
mistake in replay or in the vector code cannot hide itself. `checked` does both around a call. A DELETE that made a commit
is called a second time: it has nothing left to do.

Spark reads each version once: the new one, and the old one after the fact. What the old one is compared with was read
before by pyarrow (`tests/support/table_rows.py`), for a hundredth of the time.

The numbers in the names of the checks are those of the list of invariants that the suite was written from.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64
from tests.support.comparison import _rows, arrow_table, difference
from tests.support.log_reading import (
    Json,
    LogState,
    actions_of,
    commit_info,
    data_file,
    files_with_vectors,
    log_state,
    newest_version,
    physical_rows,
    read_commit,
    stats_of,
    vector_file,
    vector_id,
    vector_rows,
)
from tests.support.table_rows import rows_of, snapshot_of

import ebbtide
from ebbtide.config import DEFAULT_CONFIG, EngineConfig

__all__ = ["TableImage", "assert_table_invariants", "check_invariants", "look", "look_without_spark"]

DELETED_RECORDS_BINS = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)
# What a file keeps when it gets a new vector.
KEPT_BY_MARKING = ("size", "modificationTime", "partitionValues", "tags", "baseRowId", "defaultRowCommitVersion")

_T = TypeVar("_T")


@dataclass(frozen=True)
class TableImage:
    """A version of a table: what its log says, which rows it shows, and what is in the files it is made of."""

    state: LogState
    rows: pa.Table
    digests: dict[Path, str]


def look(spark: Any, path: Path, *, config: EngineConfig = DEFAULT_CONFIG) -> TableImage:
    """The newest version as Spark shows it."""
    return _image(path, arrow_table(ebbtide.read(spark, str(path), config=config)))


def look_without_spark(path: Path) -> TableImage:
    """The newest version as pyarrow shows it: the same image, for milliseconds."""
    return _image(path, rows_of(path, snapshot_of(path)))


def _image(path: Path, rows: pa.Table) -> TableImage:
    state = log_state(path)
    return TableImage(state, rows, {file: _digest(file) for file in _files_of(path, state)})


def check_invariants(
    spark: Any,
    path: Path,
    delete: Callable[[], _T],
    *,
    again: bool = True,
    config: EngineConfig = DEFAULT_CONFIG,
) -> _T:
    """Run a DELETE or an UPDATE (a call that may give its result) and check the table around it."""
    before = look_without_spark(path)
    result = delete()
    assert_table_invariants(spark, path, before=before, result=result, config=config)
    version = newest_version(path)
    if again and version != before.state.version:
        delete()
        assert newest_version(path) == version, "7: the same DELETE a second time made a commit"
    return result


def assert_table_invariants(
    spark: Any, path: Path, *, before: TableImage, result: Any = None, config: EngineConfig = DEFAULT_CONFIG
) -> TableImage:
    """Fail with the number of the first invariant that does not hold; what the table is now, for the next round.

    `result` may be a `DeleteResult`, an `UpdateResult` or None, and then the commit alone is asked what happened.
    """
    _files_are_never_changed(before)
    _one_live_add_a_path_and_its_vector_loads(path, log_state(path))
    after = look(spark, path, config=config)
    if after.state.version == before.state.version:
        assert getattr(result, "version", None) is None, "a version was reported that does not exist"
        assert not difference(after.rows, before.rows), "rows changed without a commit"
        return after
    assert after.state.version == before.state.version + 1, "one DELETE, one version"
    if hasattr(result, "version"):
        assert result.version == after.state.version
    _logical_rows_are_the_scanned_rows(path, after)
    is_update = commit_info(path, after.state.version)["operation"] == "UPDATE"
    changed = (_updated_rows if is_update else _deleted_rows_are_the_reported_rows)(path, before, after, result)
    _live_vectors_are_not_empty_and_their_files_are_counted(after.state)
    _removes_match_what_was_live(path, before.state, after.state.version)
    _marking_keeps_statistics(path, before.state, after.state.version)
    _new_files_say_what_they_hold(path, before.state, after.state.version)
    (_updates_can_be_told if is_update else _changes_can_be_told)(path, before.state, after.state, changed)
    earlier = arrow_table(ebbtide.read(spark, str(path), version=before.state.version, config=config))
    assert not difference(earlier, before.rows), "9: the version before shows other rows now"
    _checksum_is_right(path, after.state)
    return after


def _one_live_add_a_path_and_its_vector_loads(table: Path, state: LogState) -> None:
    paths = Counter(path for path, _ in state.live)
    assert set(paths.values()) <= {1}, f"1: live more than once: {paths.most_common(1)}"
    for add in files_with_vectors(state):
        rows = vector_rows(table, add)
        assert not rows or rows.max() < physical_rows(table, add), f"1: a mark behind the end of {add['path']}"


def _logical_rows_are_the_scanned_rows(table: Path, image: TableImage) -> None:
    counted = sum(physical_rows(table, add) - len(vector_rows(table, add)) for add in image.state.adds)
    assert counted == image.rows.num_rows, f"2: files hold {counted} rows, the scan shows {image.rows.num_rows}"


def _deleted_rows_are_the_reported_rows(table: Path, before: TableImage, after: TableImage, result: Any) -> int:
    was, now = Counter(_rows(before.rows)), Counter(_rows(after.rows))
    assert not now - was, "3: a DELETE made rows"
    deleted = (was - now).total()
    metrics = commit_info(table, after.state.version)["operationMetrics"]
    assert all(isinstance(value, str) for value in metrics.values()), "metrics are written as strings"
    if "numDeletedRows" in metrics:
        assert int(metrics["numDeletedRows"]) == deleted, "3: numDeletedRows in the commit"
    if hasattr(result, "num_affected_rows"):
        assert result.num_affected_rows in ({deleted} if "numDeletedRows" in metrics else {-1}), "3: num_affected_rows"
    return deleted


def _updated_rows(table: Path, before: TableImage, after: TableImage, result: Any) -> int:
    assert after.rows.num_rows == before.rows.num_rows, "3: an UPDATE changed the number of rows"
    metrics = commit_info(table, after.state.version)["operationMetrics"]
    assert all(isinstance(value, str) for value in metrics.values()), "metrics are written as strings"
    updated = int(metrics["numUpdatedRows"])
    was, now = Counter(_rows(before.rows)), Counter(_rows(after.rows))
    assert (was - now).total() == (now - was).total() <= updated, "3: more rows changed than numUpdatedRows"
    if hasattr(result, "num_affected_rows"):
        assert result.num_affected_rows == updated, "3: num_affected_rows"
    return updated


def _updates_can_be_told(table: Path, before: LogState, after: LogState, updated: int) -> None:
    """8: with a change data feed the change files hold every updated row as it was and as it is."""
    changes = actions_of(table, after.version, "cdc")
    types = Counter(each for change in changes for each in _change_types(table, change))
    has_feed = before.configuration.get("delta.enableChangeDataFeed") == "true"
    kinds = ("update_preimage", "update_postimage") if has_feed and updated else ()
    assert types == Counter({kind: updated for kind in kinds}), "8: the change files do not hold the updated rows"


def _live_vectors_are_not_empty_and_their_files_are_counted(state: LogState) -> None:
    for add in files_with_vectors(state):
        assert add["deletionVector"]["cardinality"] > 0, f"4: an empty vector on {add['path']}"
        assert "numRecords" in stats_of(add), f"4: {add['path']} has a vector and does not say how many rows it has"


def _removes_match_what_was_live(table: Path, before: LogState, version: int) -> None:
    adds, removes = actions_of(table, version, "add"), actions_of(table, version, "remove")
    for name, actions in (("add", adds), ("remove", removes)):
        counts = Counter(action["path"] for action in actions)
        assert set(counts.values()) <= {1}, f"5: more than one {name} of a path"
    for remove in removes:
        key = (remove["path"], vector_id(remove.get("deletionVector")))
        assert key in before.live, f"5: {key} was removed but was not live"
        for name in ("size", "partitionValues"):
            assert remove[name] == before.live[key][name], f"5: {name} of the removed {remove['path']}"
        assert remove["extendedFileMetadata"] is True, "5: extendedFileMetadata of a remove"
        assert remove["dataChange"] is True, "5: dataChange of a remove"
    timestamps = {remove["deletionTimestamp"] for remove in removes}
    assert len(timestamps) <= 1, "5: the removes of one command share one timestamp"


def _marking_keeps_statistics(table: Path, before: LogState, version: int) -> None:
    old_of = {path: add for (path, _), add in before.live.items()}
    removed = {remove["path"] for remove in actions_of(table, version, "remove")}
    for add in actions_of(table, version, "add"):
        old = old_of.get(add["path"])
        if old is None:
            continue
        assert add["path"] in removed, f"5: {add['path']} was added anew without its old state being removed"
        for key in KEPT_BY_MARKING:
            assert add.get(key) == old.get(key), f"6: {key} of {add['path']} changed"
        stats, old_stats = stats_of(add), stats_of(old)
        assert stats["tightBounds"] is False, f"6: bounds of {add['path']} are called tight"
        assert stats["numRecords"] == physical_rows(table, add), f"6: numRecords of {add['path']}"
        if "numRecords" in old_stats:
            for key in ("minValues", "maxValues"):
                assert stats.get(key) == old_stats.get(key), f"6: {key} of {add['path']} changed"
        assert vector_rows(table, add).issuperset(vector_rows(table, old)), "a mark was taken back"


def _new_files_say_what_they_hold(table: Path, before: LogState, version: int) -> None:
    known = {path for path, _ in before.live}
    for add in actions_of(table, version, "add"):
        assert add["dataChange"] is True, "dataChange of an add"
        if add["path"] in known:
            continue
        assert "deletionVector" not in add, f"a new file with a vector: {add['path']}"
        assert add["size"] == data_file(table, add).stat().st_size
        assert stats_of(add)["numRecords"] == physical_rows(table, add) > 0


def _changes_can_be_told(table: Path, before: LogState, after: LogState, deleted: int) -> None:
    """8: change files say every deleted row, or there are none and the difference of the files says it."""
    changes = actions_of(table, after.version, "cdc")
    if changes:
        assert before.configuration["delta.enableChangeDataFeed"] == "true"
        types = [each for change in changes for each in _change_types(table, change)]
        assert types == ["delete"] * deleted, "8: the change files do not hold the deleted rows"
        return
    new_files = {add["path"] for add in actions_of(table, after.version, "add")} - {path for path, _ in before.live}
    if not new_files:
        was, now = _live_positions(table, before), _live_positions(table, after)
        gone = sum(len(rows - now.get(path, BitMap64())) for path, rows in was.items())
        assert gone == deleted, f"8: the files lost {gone} rows, the table {deleted}"
    else:
        assert before.configuration.get("delta.enableChangeDataFeed") != "true", "8: rewritten without change files"


def _change_types(table: Path, change: Json) -> list[str]:
    assert change["path"].startswith("_change_data/")
    assert change["dataChange"] is False
    return pq.ParquetFile(data_file(table, change)).read(columns=["_change_type"])["_change_type"].to_pylist()


def _live_positions(table: Path, state: LogState) -> dict[str, BitMap64]:
    return {add["path"]: BitMap64(range(physical_rows(table, add))) - vector_rows(table, add) for add in state.adds}


def _files_are_never_changed(image: TableImage) -> None:
    for file, digest in image.digests.items():
        assert file.exists(), f"9: {file} is gone"
        assert _digest(file) == digest, f"9: {file} was written again"


def _files_of(table: Path, state: LogState) -> set[Path]:
    """Everything a version is made of: data files, vectors, and the commits up to it."""
    vectors = [vector_file(table, add["deletionVector"]) for add in files_with_vectors(state)]
    commits = [table / "_delta_log" / f"{version:020d}.json" for version in range(state.version + 1)]
    return {data_file(table, add) for add in state.adds} | {file for file in vectors if file} | set(commits)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _checksum_is_right(table: Path, state: LogState) -> None:
    """12: what the checksum file says, if there is one, is what the log says."""
    file = table / "_delta_log" / f"{state.version:020d}.crc"
    if not file.exists():
        return
    checksum = json.loads(file.read_text(encoding="utf-8"))
    vectors = [add["deletionVector"]["cardinality"] for add in files_with_vectors(state)]
    expected = {
        "numFiles": len(state.live),
        "tableSizeBytes": sum(add["size"] for add in state.adds),
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": sum(vectors),
        "numDeletionVectorsOpt": len(vectors),
        "txnId": commit_info(table, state.version)["txnId"],
    }
    found = {key: checksum.get(key, value if key.endswith("Opt") else None) for key, value in expected.items()}
    assert found == expected, "12: the checksum file"
    assert checksum["metadata"]["id"] == state.metadata["id"]
    assert read_commit(table, state.version)[0].keys() == {"commitInfo"}
    if "deletedRecordCountsHistogramOpt" in checksum:
        bins = Counter(bisect_right(DELETED_RECORDS_BINS, cardinality) - 1 for cardinality in vectors)
        bins[0] += len(state.live) - len(vectors)
        counts = checksum["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"]
        assert counts == [bins[number] for number in range(len(DELETED_RECORDS_BINS))], "12: histogram of deleted rows"
