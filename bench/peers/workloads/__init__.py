"""Which workloads are there, in the order of the page?

Each is a module of this package, named as on the command line. It has

- `TITLE`: what is measured, in a few words,
- `ABOUT`: how, in a few sentences; they are printed on the page,
- `run(run: bench.peers.run.Run) -> list[bench.peers.measure.Case]`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["NAMES", "load"]

NAMES = (
    "notebook",
    "point_delete",
    "random_delete",
    "read_after",
    "small_table",
    "merge",
    "open_table",
    "concurrent",
    "compaction",
    "purge",
    "vacuum",
    "restore",
)


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
