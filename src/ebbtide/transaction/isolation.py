"""How strictly is a commit isolated from others?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ebbtide.protocol.actions import Action, AddCDCFile, AddFile, DomainMetadata, Metadata, RemoveFile
from ebbtide.protocol.properties import TableProperties
from ebbtide.transaction.reads import Reads

__all__ = [
    "ROW_TRACKING_DOMAIN",
    "SERIALIZABLE",
    "SNAPSHOT_ISOLATION",
    "WRITE_SERIALIZABLE",
    "is_blind_append",
    "isolation_level",
]

SERIALIZABLE: Final = "Serializable"
WRITE_SERIALIZABLE: Final = "WriteSerializable"
SNAPSHOT_ISOLATION: Final = "SnapshotIsolation"
ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"


def isolation_level(actions: Iterable[Action], metadata: Metadata) -> str:
    """The table's level, or SnapshotIsolation when the commit only moves rows between files."""
    if all(_changes_no_data(action) for action in actions):
        return SNAPSHOT_ISOLATION
    level = TableProperties.parse(metadata.configuration).isolation_level
    # SnapshotIsolation is not a level for a table: it would let a DELETE miss rows.
    return level if level == WRITE_SERIALIZABLE else SERIALIZABLE


def is_blind_append(actions: Iterable[Action], reads: Reads) -> bool:
    """Whether the commit only adds files and nothing in the table could have influenced them."""
    return reads.is_blind and not any(isinstance(action, RemoveFile | AddCDCFile) for action in actions)


def _changes_no_data(action: Action) -> bool:
    if isinstance(action, AddFile | RemoveFile):
        return not action.data_change
    if isinstance(action, DomainMetadata):
        return action.domain == ROW_TRACKING_DOMAIN
    return isinstance(action, AddCDCFile)
