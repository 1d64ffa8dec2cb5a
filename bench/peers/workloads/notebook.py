"""What does it cost to delete one row in each of more and more files?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.data import NARROW, Rows, fresh_table
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run

TITLE = "One row in each of 1, 15, 45 and 100 files, of 100 million rows"
ABOUT = (
    "The shape of the notebook on deletion vectors in delta-io/delta-examples: 100 million rows of an id and a string "
    "of 32 characters in 100 files; `DELETE ... WHERE id IN (...)` with the last id of each of the first files."
)
ROWS, FILES = 100_000_000, 100
TOUCHED = (1, 15, 45, 100)


def run(run: Run) -> list[Case]:
    source = Rows("narrow", run.sized(ROWS, at_least=FILES * 10), FILES, NARROW)
    numbers = (TOUCHED[0], TOUCHED[-1]) if run.is_short else TOUCHED
    return [measured(run, _work(run, source, touched), WRITERS) for touched in numbers]


def _work(run: Run, source: Rows, touched: int) -> Work:
    rows_a_file = source.rows // FILES
    ids = ", ".join(str((file + 1) * rows_a_file - 1) for file in range(touched))
    return Work(
        label=f"{touched} file{'s' if touched > 1 else ''}",
        table=partial(_table, run, source),
        task=partial(_task, f"id IN ({ids})"),
        rows_left=source.rows - touched,
    )


def _table(run: Run, source: Rows, path: Path, engine: Engine) -> None:
    fresh_table(path, source, run.data, vectors=engine.vectors)


def _task(where: str, path: Path) -> dict[str, Any]:
    return {"do": "delete", "path": str(path), "where": where}
