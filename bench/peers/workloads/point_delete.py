"""How quickly is one row deleted, when statistics lead to its file and when they do not?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.data import WITH_CODE, Rows, fresh_table
from bench.peers.engines import WRITERS, Engine
from bench.peers.measure import Case, Work, measured
from bench.peers.run import Run

TITLE = "One row of 5 million in 10 files"
ABOUT = (
    "With skipping, the row is named by `id`, and the log's statistics leave one file of ten. Without, it is named by "
    "`code`, which is as unique, but every file holds codes from one end to the other."
)
ROWS, FILES = 5_000_000, 10


def run(run: Run) -> list[Case]:
    source = Rows("with-code", run.sized(ROWS, at_least=FILES * 10), FILES, WITH_CODE)
    # A code that one row has, in the middle of the seventh file.
    row = source.rows * 65 // 100
    code = (row * 7919 + 13) % source.rows
    works = {"with skipping": f"id = {row}", "without skipping": f"code = {code}"}
    return [measured(run, _work(run, source, label, where), WRITERS) for label, where in works.items()]


def _work(run: Run, source: Rows, label: str, where: str) -> Work:
    def table(path: Path, engine: Engine) -> None:
        fresh_table(path, source, run.data, vectors=engine.vectors)

    return Work(label, table, partial(_task, where), rows_left=source.rows - 1)


def _task(where: str, path: Path) -> dict[str, Any]:
    return {"do": "delete", "path": str(path), "where": where}
