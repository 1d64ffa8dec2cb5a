"""What does a command cost when there is next to nothing to do?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.peers.data import Rows, fresh_table, made
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SIX_COLUMNS

TITLE = "DELETE, UPDATE and MERGE in a table of 1,000 rows"
ABOUT = (
    "One file of six columns. DELETE and UPDATE name one row by its id; MERGE has ten rows, of which five are known. "
    "Spark jobs are those of one more command, which is not timed."
)
ROWS = 1_000


def run(run: Run) -> list[Case]:
    table = Rows("small", ROWS, 1, SIX_COLUMNS)
    source = Rows("small-source", 10, 1, SIX_COLUMNS, ids=f"n * 100 + IF(n % 2 = 0, 0, {ROWS})")
    [parquet] = made(source, run.data)
    works = [
        _work(run, table, "DELETE", ROWS - 1, lambda path: {"do": "delete", "path": path, "where": "id = 500"}),
        _work(
            run,
            table,
            "UPDATE",
            ROWS,
            lambda path: {"do": "update", "path": path, "set": {"name": "'other'"}, "where": "id = 500"},
        ),
        _work(run, table, "MERGE", ROWS + 5, lambda path: {"do": "merge", "path": path, "source": str(parquet)}),
    ]
    return [measured(run, work, WRITERS) for work in works]


def _work(run: Run, rows: Rows, label: str, left: int, task: Callable[[str], dict[str, Any]]) -> Work:
    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, rows, run.data, vectors=engine.vectors)

    return Work(label, table, lambda path: task(str(path)), rows_left=left, counts_jobs=True)
