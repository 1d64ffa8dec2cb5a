"""What does it cost to put files together, and to sort their rows on the way?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.data import Rows, fresh_table
from bench.peers.engines import Engine, named
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SIX_COLUMNS

TITLE = "OPTIMIZE: 1,000 small files, 8 larger ones, and Z-ORDER"
ABOUT = (
    "1,000 files of 1,000 rows, and 8 files of 150,000, each with six columns, become one file; `Z-ORDER` sorts the "
    "rows of the 8 files by two columns. Ebbtide keeps the order of the rows in a compaction and knows where each row "
    "went, so that a delete which comes in between is carried over; delta-spark reads the files in an order of its "
    "own. Sail has no OPTIMIZE."
)
MANY, FEW = (1_000, 1_000), (8, 150_000)
ENGINES = tuple(named(name) for name in ("Ebbtide", "delta-spark", "deltalake"))
SORTED_BY = ["number", "price"]


def run(run: Run) -> list[Case]:
    files, rows_a_file = MANY
    files = run.sized(files, at_least=4)
    many = Rows("small-files", files * rows_a_file, files, SIX_COLUMNS)
    files, rows_a_file = FEW
    few = Rows("few-files", files * run.sized(rows_a_file, at_least=100), files, SIX_COLUMNS)
    works = [
        _work(run, f"{many.files:,} files", many, []),
        _work(run, f"{few.files:,} files", few, []),
        _work(run, f"{few.files:,} files, Z-ORDER", few, SORTED_BY),
    ]
    return [measured(run, work, ENGINES) for work in works]


def _work(run: Run, label: str, rows: Rows, zorder: list[str]) -> Work:
    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, rows, run.data, vectors=engine.vectors)

    return Work(label, table, partial(_task, zorder), rows_left=rows.rows, counts_jobs=True)


def _task(zorder: list[str], path: Path) -> dict[str, Any]:
    return {"do": "optimize", "path": str(path), "zorder": zorder}
