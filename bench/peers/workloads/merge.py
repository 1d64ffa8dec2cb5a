"""What does it cost to merge a few rows, and many, into a large table?"""

from __future__ import annotations

from pathlib import Path

from bench.peers.data import Rows, fresh_table, made
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run
from bench.tables import SIX_COLUMNS

TITLE = "MERGE of 0.1 %, 1 % and 20 % into 10 million rows"
ABOUT = (
    "Six columns in 8 files. The source is a Parquet file, which each engine reads as part of the work; nine of its "
    "ten rows are known and are updated, one is inserted. They are spread over all files, so statistics rule out "
    "none."
)
ROWS, FILES = 10_000_000, 8
SHARES = {"0.1 %": 1000, "1 %": 100, "20 %": 5}


def run(run: Run) -> list[Case]:
    rows = Rows("six-columns", run.sized(ROWS, at_least=20_000), FILES, SIX_COLUMNS)
    shares = {"1 %": 100} if run.is_short else SHARES
    return [measured(run, _work(run, rows, share, step), WRITERS) for share, step in shares.items()]


def _work(run: Run, rows: Rows, share: str, step: int) -> Work:
    # Every `step`-th id; the first of each ten is beyond the last id of the table, hence new.
    ids = f"n * {step} + 3 + IF(n % 10 = 0, {rows.rows}, 0)"
    size = rows.rows // step
    changed = (("number", "CAST(id % 7 AS INT)"), ("name", "'merged'"))
    source = Rows(f"source-{step}", size, 1, SIX_COLUMNS, ids=ids, instead=changed)
    [parquet] = made(source, run.data)

    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, rows, run.data, vectors=engine.vectors)

    return Work(
        label=share,
        table=table,
        task=lambda path: {"do": "merge", "path": str(path), "source": str(parquet)},
        rows_left=rows.rows + -(-size // 10),
    )
