"""Does the table promise that a version's files are still there?

`delta.deletedFileRetentionDuration` says for how long VACUUM keeps what a version no longer needs. An older version can
be whole today and lose a file tomorrow. The reference refuses it; Ebbtide does so where the caller asks (024). The
newest version is always allowed. Nothing is looked at but the time of the version.
"""

from __future__ import annotations

import time
from typing import Final

from ebbtide.errors import VersionNotFoundError
from ebbtide.log.commit_times import snapshot_timestamp_ms
from ebbtide.log.snapshot import Snapshot
from ebbtide.log.table_state import TableHead, read_head
from ebbtide.protocol.properties import TableProperties

__all__ = ["FILE_RETENTION_SETTING", "ensure_files_retained", "ensure_start_retained"]

# delta-spark's switch for the same rule.
FILE_RETENTION_SETTING: Final = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
_HOUR_MS: Final = 3_600_000


def ensure_files_retained(
    wanted: Snapshot, *, newest: Snapshot | TableHead | None = None, now_ms: int | None = None
) -> None:
    """VersionNotFoundError when the version is older than the time for which the table, as it is now, keeps files.

    Without `newest` the newest version's definition is read from the log.
    """
    if newest is None:
        newest = read_head(wanted.store, version=None, config=wanted.config)
    _ensure(wanted.version, wanted.timestamp_ms, wanted.store.url, newest, now_ms)


def ensure_start_retained(start: TableHead, newest: Snapshot) -> None:
    """The same of the version with which a change feed begins."""
    start_ms = snapshot_timestamp_ms(newest.store, start, newest.config)
    _ensure(start.segment.version, start_ms, newest.store.url, newest, None)


def _ensure(version: int, timestamp_ms: int, url: str, newest: Snapshot | TableHead, now_ms: int | None) -> None:
    if version == newest.segment.version:
        return
    retention_ms = TableProperties(newest.metadata.configuration).deleted_file_retention_ms
    age_ms = (int(time.time() * 1000) if now_ms is None else now_ms) - timestamp_ms
    if age_ms <= retention_ms:
        return
    raise VersionNotFoundError(
        f"Version {version} of the table at {url} is {age_ms // _HOUR_MS} hours old, and "
        f"delta.deletedFileRetentionDuration keeps the files of older versions for {retention_ms // _HOUR_MS} hours: "
        "VACUUM may have deleted some of them. Choose a younger version, let the property be longer before it is "
        f"needed, or take the version as it is: the session refuses it because of {FILE_RETENTION_SETTING} = true.",
        error_class="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    )
