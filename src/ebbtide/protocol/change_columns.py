"""Which column names does a change data feed reserve?

A table with a feed cannot have columns with these names, and a feed cannot be read from a table that has them. As in
the reference, the error depends on which came first: the feed or the column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ebbtide.errors import RequestError

__all__ = ["CHANGE_TYPE", "COMMIT_TIMESTAMP", "COMMIT_VERSION", "refuse_change_columns", "refuse_change_feed"]

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
_RESERVED: Final = frozenset({CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP})


def refuse_change_columns(names: Iterable[str]) -> None:
    """RequestError for a column that would be written to a table with a change data feed."""
    if (taken := _first_reserved(names)) is not None:
        raise RequestError(
            f"The column '{taken}' has a name that the change data feed keeps for itself. Rename the column.",
            error_class="RESERVED_CDC_COLUMNS_ON_WRITE",
        )


def refuse_change_feed(names: Iterable[str], wanted: str) -> None:
    """RequestError for a table that has such a column already; `wanted` says what that prevents."""
    if (taken := _first_reserved(names)) is not None:
        raise RequestError(
            f"{wanted}: the table has the column '{taken}', and the change data feed needs that name for itself. "
            "Rename the column first.",
            error_class="DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS",
        )


def _first_reserved(names: Iterable[str]) -> str | None:
    return next((name for name in names if name.lower() in _RESERVED), None)
