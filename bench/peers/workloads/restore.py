"""How quickly is an overwritten table as it was?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.data import Rows
from bench.peers.engines import Engine, named
from bench.peers.measure import Case, Work, measured
from bench.peers.on_s3 import count_requests
from bench.peers.run import Run
from bench.peers.upkept import overwritten
from bench.tables import SIX_COLUMNS

TITLE = "RESTORE over 10,000 files"
ABOUT = (
    "Version 0 has 10,000 files of 100 rows, version 1 has one instead. `RESTORE ... TO VERSION AS OF 0`: all three "
    "engines look first whether the files are there. **Requests** are those of the same on an S3 endpoint of this "
    "machine with a tenth of the files; delta-spark would need more JARs for that. Sail has no RESTORE."
)
FILES, ON_S3 = 10_000, 1_000
ENGINES = tuple(named(name) for name in ("Ebbtide", "delta-spark", "deltalake"))
ROWS = Rows("overwritten", 100, 1, SIX_COLUMNS)


def run(run: Run) -> list[Case]:
    files = run.sized(FILES)

    def table(path: Path, engine: Engine) -> None:
        overwritten(path, ROWS, run.data, files=files, vectors=engine.vectors)

    case = measured(run, Work(f"{files:,} files", table, _task, files * ROWS.rows), ENGINES)

    def smaller(path: Path, engine: Engine) -> None:
        overwritten(path, ROWS, run.data, files=run.sized(ON_S3), vectors=engine.vectors)

    count_requests(run, case, smaller, {"do": "restore", "version": 0})
    return [case]


def _task(path: Path) -> dict[str, Any]:
    return {"do": "restore", "path": str(path), "version": 0}
