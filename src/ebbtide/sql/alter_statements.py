"""Which ALTER TABLE statements does the SQL door understand, and what are their parts?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.protocol.schema_edits import Place

__all__ = [
    "AddColumns",
    "AddConstraint",
    "AddedColumn",
    "AlterStatement",
    "ChangeColumns",
    "ChangedColumn",
    "ClusterBy",
    "ColumnDefinition",
    "DropColumns",
    "DropConstraint",
    "DropFeature",
    "IdentitySpec",
    "RenameColumn",
    "ReplaceColumns",
    "SetProperties",
    "SyncIdentity",
    "UnsetProperties",
]


@dataclass(frozen=True, slots=True)
class IdentitySpec:
    """GENERATED ALWAYS or BY DEFAULT AS IDENTITY (START WITH start INCREMENT BY step)."""

    by_default: bool = False
    start: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """`type` is the user's text, and so are the expressions."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    generated_as: str | None = None
    identity: IdentitySpec | None = None


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
class AddConstraint:
    path: str
    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column, or a field of the struct `parent`; `place` is None for the last place."""

    definition: ColumnDefinition
    parent: tuple[str, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    path: str
    columns: tuple[AddedColumn, ...]


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    """All columns of the table, said anew."""

    path: str
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: str
    column: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """What ALTER COLUMN says of one column; None where it says nothing. `drops_default`: DROP DEFAULT."""

    column: tuple[str, ...]
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: str | None = None
    drops_default: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    path: str
    columns: tuple[ChangedColumn, ...]


@dataclass(frozen=True, slots=True)
class SyncIdentity:
    path: str
    column: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterBy:
    """No columns: CLUSTER BY NONE."""

    path: str
    columns: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DropFeature:
    path: str
    name: str
    truncate_history: bool = False


AlterStatement: TypeAlias = (
    SetProperties
    | UnsetProperties
    | AddConstraint
    | DropConstraint
    | AddColumns
    | DropColumns
    | RenameColumn
    | ReplaceColumns
    | ChangeColumns
    | SyncIdentity
    | ClusterBy
    | DropFeature
)
