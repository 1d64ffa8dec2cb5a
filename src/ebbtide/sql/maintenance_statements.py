"""Which maintenance statements does the SQL door understand, and what are their parts?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ebbtide.commands.clone.command import CloneHow
from ebbtide.sql.table_names import TableName

__all__ = [
    "KNOWN_MAINTENANCE",
    "Clone",
    "Convert",
    "Fsck",
    "Generate",
    "MaintenanceStatement",
    "Optimize",
    "Reorg",
    "Restore",
    "Vacuum",
]

KNOWN_MAINTENANCE: Final = (
    "OPTIMIZE delta.`path` [FULL] [WHERE partition condition] [ZORDER BY (column, ...)]",
    "REORG TABLE delta.`path` [WHERE partition condition] APPLY (PURGE)",
    "VACUUM delta.`path` [LITE | FULL] [RETAIN n HOURS] [DRY RUN]",
    "FSCK REPAIR TABLE delta.`path` [DRY RUN]",
    "RESTORE [TABLE] delta.`path` TO VERSION AS OF n | TIMESTAMP AS OF 'time'",
    "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] delta.`path` SHALLOW CLONE delta.`source` [VERSION AS OF n] ...",
    "CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (column type, ...)]",
    "GENERATE symlink_format_manifest FOR TABLE delta.`path`",
)


@dataclass(frozen=True, slots=True)
class Optimize:
    """`zorder_by` are columns as they were written; fields of structs have dots."""

    path: TableName
    where: str | None = None
    zorder_by: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True, slots=True)
class Reorg:
    """APPLY (PURGE)."""

    path: TableName
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Vacuum:
    """`lite` is None when the statement says neither LITE nor FULL."""

    path: str
    lite: bool | None = None
    retain_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Fsck:
    path: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """To a version, or to a time as SQL text."""

    path: str
    version: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Clone:
    """Of the source as it is now, at a version, or at a time as SQL text."""

    path: str
    source: str
    how: CloneHow
    version: int | None = None
    timestamp: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Convert:
    """A folder of Parquet files; `partition_columns` are the user's text."""

    identifier: str
    partition_columns: str | None = None
    collects_statistics: bool = True


@dataclass(frozen=True, slots=True)
class Generate:
    path: str
    mode: str


MaintenanceStatement: TypeAlias = Optimize | Reorg | Vacuum | Fsck | Restore | Clone | Convert | Generate
