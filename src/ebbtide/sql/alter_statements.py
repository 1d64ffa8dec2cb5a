"""Which ALTER TABLE statements does the SQL door understand, and what are their parts?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["AlterStatement", "DropColumns", "DropConstraint", "DropDefault", "SetProperties", "UnsetProperties"]


@dataclass(frozen=True, slots=True)
class SetProperties:
    path: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    path: str
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    path: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumns:
    """Each column is its names from the outside in."""

    path: str
    columns: tuple[tuple[str, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropDefault:
    path: str
    column: tuple[str, ...]


AlterStatement: TypeAlias = SetProperties | UnsetProperties | DropConstraint | DropColumns | DropDefault
