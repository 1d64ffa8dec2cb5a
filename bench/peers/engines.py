"""Which engines take part, what does each need, and is it here?

An engine that is missing is named in one line, with what to do about it; it is never left out in silence.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.reference_session import jars

__all__ = ["ALL", "EBBTIDE", "READERS", "WRITERS", "Engine", "missing", "named", "sail_command"]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Engine:
    """`vectors`: whether the tables it changes have deletion vectors turned on. `about` is printed on the page."""

    name: str
    adapter: str
    vectors: bool
    about: str

    @property
    def slug(self) -> str:
        return self.name.lower().replace(" ", "-")


EBBTIDE = Engine("Ebbtide", "ebbtide", vectors=True, about="on plain PySpark, without a JAR")
WRITERS = (
    EBBTIDE,
    Engine("delta-spark", "delta_spark", vectors=True, about="the reference, with deletion vectors"),
    Engine(
        "delta-spark without vectors", "delta_spark", vectors=False, about="the reference, which then rewrites files"
    ),
    Engine("deltalake", "delta_rs", vectors=False, about="delta-rs, which rewrites files; no Spark"),
    Engine("Sail", "sail", vectors=True, about="pysail, its own server, used through Spark Connect"),
)
READERS = (
    Engine("DuckDB", "duckdb_reader", vectors=True, about="reads only"),
    Engine("Polars", "polars_reader", vectors=True, about="reads only"),
)
ALL = (*WRITERS, *READERS)
_PACKAGES = {"delta_rs": "deltalake", "duckdb_reader": "duckdb_extension_delta", "polars_reader": "polars"}


def named(name: str) -> Engine:
    return next(engine for engine in ALL if engine.name == name)


def missing(engine: Engine) -> str | None:
    """Why the engine cannot take part; None when it can."""
    if engine.adapter == "delta_spark" and not jars():
        return "its JARs are not in build/reference: `make bench-peers` fetches them with Maven"
    if engine.adapter == "sail" and sail_command() is None:
        return "pysail is not installed: `make bench-peers` runs where it is"
    package = _PACKAGES.get(engine.adapter)
    if package is not None and find_spec(package) is None:
        return f"the package {package} is not installed"
    return None


def sail_command() -> Path | None:
    """Installed beside this Python."""
    command = Path(sys.executable).parent / "sail"
    return command if command.exists() else None
