"""How quickly are files found and deleted that no table needs?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.data import Rows
from bench.peers.engines import Engine, named
from bench.peers.measure import Case, Work, measured
from bench.peers.on_s3 import count_requests
from bench.peers.run import Run
from bench.peers.upkept import littered
from bench.tables import SIX_COLUMNS

TITLE = "VACUUM of 100,000 orphans"
ABOUT = (
    "A table of 10 files, and 100,000 empty files in 50 directories that no commit names, all weeks old. `VACUUM` "
    "with the default retention (deltalake: with `full`, without which it looks for no orphans). **Requests** are "
    "those of the same on an S3 endpoint of this machine with a tenth of the orphans; delta-spark would need more "
    "JARs for that. Sail has no VACUUM."
)
ORPHANS, ON_S3 = 100_000, 10_000
ENGINES = tuple(named(name) for name in ("Ebbtide", "delta-spark", "deltalake"))
ROWS = Rows("littered", 10_000, 10, SIX_COLUMNS)


def run(run: Run) -> list[Case]:
    orphans = run.sized(ORPHANS)

    def table(path: Path, engine: Engine) -> None:
        littered(path, ROWS, run.data, orphans=orphans, vectors=engine.vectors)

    case = measured(run, Work(f"{orphans:,} orphans", table, _task, ROWS.rows, left=_left), ENGINES)

    def smaller(path: Path, engine: Engine) -> None:
        littered(path, ROWS, run.data, orphans=run.sized(ON_S3), vectors=engine.vectors)

    count_requests(run, case, smaller, {"do": "vacuum"})
    return [case]


def _left(path: Path) -> str | None:
    """An engine that is quick because it deletes nothing is not measured."""
    orphans = sum(1 for file in path.rglob("orphan-*"))
    return f"it left {orphans:,} orphans" if orphans else None


def _task(path: Path) -> dict[str, Any]:
    return {"do": "vacuum", "path": str(path)}
