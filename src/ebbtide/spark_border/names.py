"""How is a column name quoted for Spark, and which names may our helper columns have?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["HelperNames", "column", "quote_name", "without_helper_names"]

# Every column that the engine adds to a frame starts like this.
_PREFIX = "__ebbtide_"
# Names of our columns and views, as the qualifier of a column and in a list of suggestions.
_AS_QUALIFIER = re.compile(rf"`?\b{_PREFIX}\w*`?\.(?=[`\w])")
_IN_LIST = re.compile(rf"(?<=\[)`{_PREFIX}\w*`(?:, )?|, `{_PREFIX}\w*`")


def quote_name(name: str) -> str:
    """The name of a top-level column, whatever characters it has, as Spark reads it in a select and in SQL."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str, alias: str | None = None) -> Column:
    """The top-level column of exactly this name, whatever characters it has; `alias` is the name it gets.

    As text: on classic Spark `F.col`, and every method of a Column, asks the JVM a dozen times, `F.expr` three times.
    """
    return F.expr(quote_name(name) if alias is None else f"{quote_name(name)} AS {quote_name(alias)}")


class HelperNames:
    """Names for our own columns that differ from all given names in any letter case. No name is given twice.

    Users may call a column whatever they like, so no helper column has a fixed name.
    """

    def __init__(self, *taken: Iterable[str]) -> None:
        self._taken = {name.lower() for names in taken for name in names}

    def pick(self, subject: str) -> str:
        """A name that says what the column holds. It needs no quotes in SQL."""
        name = f"{_PREFIX}{subject}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def without_helper_names(text: str) -> str:
    """Spark's message without the names of columns and views that the user has never seen."""
    return _IN_LIST.sub("", _AS_QUALIFIER.sub("", text))
