"""What is the table's state? Listing, segment, replay, snapshot; history, detail and checkpoints."""

from ebbtide.log.checkpoint_writer import CheckpointResult, write_checkpoint
from ebbtide.log.detail import TableDetail, clustering_columns, table_detail
from ebbtide.log.file_tables import (
    LIVE_FILES_SCHEMA,
    add_files,
)
from ebbtide.log.history import CommitRecord, read_commit, read_history
from ebbtide.log.outside_files import count_outside_files
from ebbtide.log.snapshot import Snapshot, load_snapshot

__all__ = [
    "LIVE_FILES_SCHEMA",
    "CheckpointResult",
    "CommitRecord",
    "Snapshot",
    "TableDetail",
    "add_files",
    "clustering_columns",
    "count_outside_files",
    "load_snapshot",
    "read_commit",
    "read_history",
    "table_detail",
    "write_checkpoint",
]
