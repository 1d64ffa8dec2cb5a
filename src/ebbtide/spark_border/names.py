"""How must the name of a column be written so that Spark reads exactly this name?"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["column", "name_not_in", "quoted"]


def quoted(name: str) -> str:
    """The name of a top-level column, whatever characters it has, as Spark reads it in a select and in SQL."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str, alias: str | None = None) -> Column:
    """The top-level column of exactly this name, whatever characters it has; `alias` is the name it gets.

    As text: on classic Spark `F.col`, and every method of a Column, asks the JVM a dozen times, `F.expr` three times.
    """
    return F.expr(quoted(name) if alias is None else f"{quoted(name)} AS {quoted(alias)}")


def name_not_in(taken: Iterable[str], wanted: str) -> str:
    """`wanted`, or a longer name, that no column in `taken` has (Spark compares names without case)."""
    used = {name.lower() for name in taken}
    while wanted.lower() in used:
        wanted += "_"
    return wanted
