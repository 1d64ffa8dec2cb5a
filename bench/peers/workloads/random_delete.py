"""What does it cost to delete rows that are everywhere?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.data import Rows, fresh_table
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SIX_COLUMNS

TITLE = "1 %, 20 % and 50 % of 20 million rows at random"
ABOUT = (
    "Six columns (bigint, int, double, string, timestamp, decimal) in 8 files. The rows are chosen by a column that "
    "is a hash of the id, so they lie at random and in every file: `DELETE ... WHERE number < 1000`, 20000, 50000."
)
ROWS, FILES = 20_000_000, 8
# Of the 100,000 values that `number` has.
SHARES = {"1 %": 1_000, "20 %": 20_000, "50 %": 50_000}


def rows_of(run: Run) -> Rows:
    return Rows("six-columns", run.sized(ROWS, at_least=FILES * 100), FILES, SIX_COLUMNS)


def run(run: Run) -> list[Case]:
    source = rows_of(run)
    shares = {"1 %": SHARES["1 %"]} if run.is_short else SHARES
    return [measured(run, _work(run, source, label, below), WRITERS) for label, below in shares.items()]


def _work(run: Run, source: Rows, label: str, below: int) -> Work:
    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, source, run.data, vectors=engine.vectors)

    return Work(label, table, partial(_task, below), rows_left=left_of(source, run, below))


def left_of(source: Rows, run: Run, below: int) -> int:
    """How many rows stay, counted in the files themselves by somebody who takes no part."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from bench.peers.data import made

    numbers = (pq.read_table(file, columns=["number"])["number"] for file in made(source, run.data))
    return sum(pc.sum(pc.greater_equal(each, below)).as_py() for each in numbers)


def _task(below: int, path: Path) -> dict[str, Any]:
    return {"do": "delete", "path": str(path), "where": f"number < {below}"}
