"""Which id and which commit version has each row of a table, read by hand from the log and the files?

By the rule of the protocol: what the hidden columns of a file say, else what is counted from its entry in the log.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from tests.support.log_reading import data_file, log_state, vector_rows

__all__ = ["tracked_rows"]


def tracked_rows(table: Path, *, key: str = "id") -> dict[object, tuple[int, int]]:
    """The value of a unique column (by its name in the files) to (row id, row commit version)."""
    state = log_state(table)
    names = [
        state.configuration[f"delta.rowTracking.materialized{what}ColumnName"] for what in ("RowId", "RowCommitVersion")
    ]
    found: dict[object, tuple[int, int]] = {}
    for add in state.adds:
        data = pq.ParquetFile(data_file(table, add)).read()
        ids, versions = (
            data[name].to_pylist() if name in data.column_names else [None] * data.num_rows for name in names
        )
        marked = vector_rows(table, add)
        for at, value in enumerate(data[key].to_pylist()):
            if at in marked:
                continue
            assert value not in found, f"{value!r} is there twice"
            row_id = add["baseRowId"] + at if ids[at] is None else ids[at]
            found[value] = (row_id, add["defaultRowCommitVersion"] if versions[at] is None else versions[at])
    assert len({row_id for row_id, _ in found.values()}) == len(found), "two rows share an id"
    return found
