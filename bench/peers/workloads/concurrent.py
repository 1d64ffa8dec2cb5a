"""How many deletes a second land when eight deleters work on one table, and how many are turned away?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.data import Rows, fresh_table
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SIX_COLUMNS

TITLE = "Eight deleters of one table at once"
ABOUT = (
    "Eight threads of one process (one session, where there is one) delete five rows each, one per command, from a "
    "table of 8,000 rows in 8 files. Nobody deletes another's row, but every file holds rows of all. A DELETE that the "
    "engine aborts because another was quicker is sent again until it lands. Aborts are those of one run. Afterwards "
    "the rows are counted: an engine that lost one is not measured."
)
ROWS, FILES, DELETERS, DELETES = 8_000, 8, 8, 5


def run(run: Run) -> list[Case]:
    rows = Rows("raced", ROWS, FILES, SIX_COLUMNS)
    # delta-spark turns most of eight away, again and again: two are enough to see that nothing rots.
    deleters, deletes = (2, 1) if run.is_short else (DELETERS, DELETES)

    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, rows, run.data, vectors=engine.vectors)

    def task(path: Path) -> dict[str, Any]:
        sizes = {"rows": ROWS, "files": FILES, "deleters": deleters, "deletes": deletes}
        return {"do": "race", "path": str(path), **sizes}

    label = f"{deleters * deletes} deletes by {deleters} deleters"
    return [measured(run, Work(label, table, task, rows_left=ROWS - deleters * deletes), WRITERS)]
