"""How do several deleters get on with each other on one table?

Each is a thread of one process and deletes rows of its own, one per command; every file holds rows of all of them. A
DELETE that the engine aborts because another was quicker is sent again until it lands.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.peers.adapters.adapter import Adapter

__all__ = ["race", "row_of"]

# A deleter that lost this often will not win any more.
MAX_ABORTS = 1000


def race(adapter: Adapter, task: dict[str, Any]) -> dict[str, int]:
    """How many commands landed and how many were aborted on the way."""
    deleters, deletes = task["deleters"], task["deletes"]

    def deleter(number: int) -> int:
        rows = [row_of(number, turn, task) for turn in range(deletes)]
        return sum(_landed(adapter, task["path"], f"id = {row}") for row in rows)

    with ThreadPoolExecutor(deleters) as pool:
        aborts = sum(pool.map(deleter, range(deleters)))
    return {"landed": deleters * deletes, "aborts": aborts}


def row_of(deleter: int, turn: int, task: dict[str, Any]) -> int:
    """Which row a deleter takes in a turn: the files in another order for each, and never a row of somebody else."""
    files, rows_a_file = task["files"], task["rows"] // task["files"]
    return ((turn + deleter) % files) * rows_a_file + turn * task["deleters"] + deleter


def _landed(adapter: Adapter, path: str, where: str) -> int:
    """How often the command was aborted before it landed."""
    for aborts in range(MAX_ABORTS):
        try:
            adapter.delete(path, where)
            return aborts
        except Exception as error:
            if not adapter.is_conflict(error):
                raise
    raise RuntimeError(f"aborted {MAX_ABORTS} times: {where}")
