"""Which workloads are there?

Every module of this package is one, named as on the command line. It has

- `TITLE`: what is measured, in a few words,
- `ABOUT`: how, in a few sentences; they are printed in `docs/benchmarks.md`,
- `run(setup: bench.setup.Setup) -> list[bench.measure.Comparison]`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

__all__ = ["load", "names"]


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
