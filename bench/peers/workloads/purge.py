"""What does it cost to take deleted rows out of the files?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.data import Rows
from bench.peers.engines import Engine, named
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.peers.upkept import worn
from bench.tables import SIX_COLUMNS

TITLE = "PURGE of 4 million rows, 5 % of them deleted"
ABOUT = (
    "8 files of 500,000 rows and six columns, in each of which deletion vectors mark 5 % of the rows at random; "
    "`REORG TABLE ... APPLY (PURGE)`. deltalake and Sail have no such command."
)
ROWS, FILES, SHARE = 4_000_000, 8, 0.05
ENGINES = tuple(named(name) for name in ("Ebbtide", "delta-spark"))


def run(run: Run) -> list[Case]:
    rows = Rows("purged", run.sized(ROWS, at_least=FILES * 100) // FILES * FILES, FILES, SIX_COLUMNS)
    marked = FILES * round(rows.rows // FILES * SHARE)

    def table(path: Path, engine: Engine) -> None:
        del engine
        worn(path, rows, run.data, share=SHARE)

    work = Work("5 % deleted", table, _task, rows_left=rows.rows - marked, counts_jobs=True)
    return [measured(run, work, ENGINES)]


def _task(path: Path) -> dict[str, Any]:
    return {"do": "purge", "path": str(path)}
