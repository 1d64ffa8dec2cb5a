"""How does a statement name a table?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["TableName", "ViewName"]


@dataclass(frozen=True, slots=True)
class ViewName:
    """A temporary view, in the place of a table."""

    name: str


# A path, as in delta.`path`, or a view of a whole table.
TableName: TypeAlias = str | ViewName
