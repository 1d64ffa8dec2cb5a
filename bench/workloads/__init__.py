"""Which workloads are there?

Every module of this package is one, named as on the command line. It has

- `TITLE`: what is measured, in a few words,
- `ABOUT`: how, in a few sentences; they are printed in `docs/benchmarks.md`,
- `run(setup: bench.setup.Setup) -> list[bench.measure.Comparison]`,
- `BY_NAME_ONLY = True`, if it takes so long that it runs only when asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

__all__ = ["by_default", "load", "names"]


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def by_default() -> list[str]:
    return [name for name in names() if not getattr(load(name), "BY_NAME_ONLY", False)]
