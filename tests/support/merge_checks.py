"""Is a table still whole after a MERGE, and does the commit say what happened?

`checked_merge` runs a merge (a call that gives a `MergeResult`) and looks at the table before and after, by hand where
the log and the vectors are concerned. The numbers in the messages are those of the list of invariants that
`tests/support/invariants.py` was written from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.comparison import _rows, arrow_table, difference
from tests.support.invariants import (
    TableImage,
    _checksum_is_right,
    _files_are_never_changed,
    _live_vectors_are_not_empty_and_their_files_are_counted,
    _logical_rows_are_the_scanned_rows,
    _marking_keeps_statistics,
    _new_files_say_what_they_hold,
    _one_live_add_a_path_and_its_vector_loads,
    look,
    look_without_spark,
)
from tests.support.log_reading import actions_of, commit_info, data_file, log_state, vector_id

import ebbtide

__all__ = ["assert_merged", "checked_merge", "told_changes"]


def checked_merge(spark: Any, path: Path, merge: Callable[[], Any]) -> Any:
    before = look_without_spark(path)
    result = merge()
    assert_merged(spark, path, before, result)
    return result


def assert_merged(spark: Any, path: Path, before: TableImage, result: Any) -> None:
    _files_are_never_changed(before)
    _one_live_add_a_path_and_its_vector_loads(path, log_state(path))
    after = look(spark, path)
    if result.version is None:
        assert after.state.version == before.state.version
        assert result.num_affected_rows == 0
        return
    assert result.version == after.state.version == before.state.version + 1
    _logical_rows_are_the_scanned_rows(path, after)
    _live_vectors_are_not_empty_and_their_files_are_counted(after.state)
    _removes_match_what_was_live(path, before, result.version)
    _marking_keeps_statistics(path, before.state, result.version)
    _new_files_say_what_they_hold(path, before.state, result.version)
    earlier = arrow_table(ebbtide.read(spark, str(path), version=before.state.version))
    assert not difference(earlier, before.rows), "9: the version before shows other rows now"
    _checksum_is_right(path, after.state)
    _rows_are_counted(path, before, after, result)
    _changes_are_told(path, before, after, result)


def _removes_match_what_was_live(path: Path, before: TableImage, version: int) -> None:
    for remove in actions_of(path, version, "remove"):
        key = (remove["path"], vector_id(remove.get("deletionVector")))
        assert key in before.state.live, f"5: {key} was removed but was not live"
        assert remove["dataChange"] is True
    for kind in ("add", "remove"):
        counts = Counter(action["path"] for action in actions_of(path, version, kind))
        assert set(counts.values()) <= {1}, f"5: more than one {kind} of a path"


def _rows_are_counted(path: Path, before: TableImage, after: TableImage, result: Any) -> None:
    grown = after.rows.num_rows - before.rows.num_rows
    assert grown == result.num_inserted_rows - result.num_deleted_rows, "3: rows after = before + inserted - deleted"
    logged = {name: int(value) for name, value in commit_info(path, result.version)["operationMetrics"].items()}
    assert _without_times(logged) == _without_times(result.operation_metrics)
    known = {live for live, _ in before.state.live}
    new = [add for add in actions_of(path, result.version, "add") if add["path"] not in known]
    written = sum(_num_rows(path, add) for add in new)
    assert logged["numOutputRows"] == written, "rows written are rows inserted, updated or copied"
    assert logged["numTargetFilesAdded"] == len(new)


def _changes_are_told(path: Path, before: TableImage, after: TableImage, result: Any) -> None:
    """8: with a feed, taking the change rows away from the old rows and adding them gives the new rows."""
    changes = told_changes(path, result.version)
    if before.state.configuration.get("delta.enableChangeDataFeed") != "true":
        assert not changes
        return
    if not changes:
        # Inferable: nothing but new rows.
        assert result.num_affected_rows == result.num_inserted_rows
        return
    by_type = Counter(change["_change_type"] for change in changes)
    assert by_type["update_preimage"] == by_type["update_postimage"] == result.num_updated_rows
    assert by_type["delete"] == result.num_deleted_rows
    assert by_type["insert"] == result.num_inserted_rows
    names = after.rows.column_names
    table = pa.Table.from_pylist([{name: change.get(name) for name in names} for change in changes], after.rows.schema)
    kinds = [change["_change_type"] for change in changes]
    old = pa.Table.from_pylist([{**dict.fromkeys(names), **row} for row in before.rows.to_pylist()], after.rows.schema)
    rows = Counter(_rows(old))
    for row, kind in zip(_rows(table), kinds, strict=True):
        if kind in {"delete", "update_preimage"}:
            assert rows[row] > 0, f"8: a change speaks of a row that was not there: {row}"
            rows[row] -= 1
        else:
            rows[row] += 1
    assert +rows == Counter(_rows(after.rows)), "8: the change data does not lead from the old rows to the new"


def told_changes(path: Path, version: int) -> list[dict[str, Any]]:
    """The rows of the change files of a version, with partition values as the table's rows have them (strings, ints)."""
    told = []
    for change in actions_of(path, version, "cdc"):
        for row in pq.ParquetFile(data_file(path, change)).read().to_pylist():
            told.append({**row, **{name: _parse_value(text) for name, text in change["partitionValues"].items()}})
    return told


def _parse_value(text: str | None) -> Any:
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def _without_times(metrics: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in metrics.items() if not name.endswith("TimeMs")}


def _num_rows(path: Path, add: dict[str, Any]) -> int:
    return pq.ParquetFile(data_file(path, add)).metadata.num_rows
