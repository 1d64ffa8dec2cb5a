"""What may a VACUUM be asked for, and how long must removed files stay?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.properties import TableProperties
from ebbtide.storage import ObjectStore

__all__ = ["Retention", "VacuumRequest", "choose_retention"]

_HOUR_MS: Final = 3_600_000
_CHECK_SETTING: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """Delete what no version in retention needs.

    `retention_hours`: None takes the table's `delta.deletedFileRetentionDuration`. `lite` looks for files in the log
    alone instead of listing the table. Every file of a version in `keep_versions` stays. `retention_check` refuses a
    retention shorter than the table's. `is_logged`: whether the history gets a VACUUM START and a VACUUM END; None
    decides by the kind of storage.
    """

    store: ObjectStore
    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool = False
    keep_versions: tuple[int, ...] = ()
    retention_check: bool = True
    is_logged: bool | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    hint: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """`specified_ms` is what the request asked for; without it the table's own counts."""

    default_ms: int
    specified_ms: int | None

    @property
    def ms(self) -> int:
        return self.default_ms if self.specified_ms is None else self.specified_ms


def choose_retention(request: VacuumRequest, properties: TableProperties) -> Retention:
    """RequestError for a retention that is negative, or shorter than the table's while that is checked."""
    default_ms = properties.deleted_file_retention_ms
    hours = request.retention_hours
    if hours is None:
        return Retention(default_ms, None)
    if not math.isfinite(hours):
        raise RequestError(f"A retention of {hours} hours is not a length of time. Give a number such as 168.")
    if hours < 0:
        raise RequestError(
            f"The retention of a VACUUM cannot be {hours:g} hours: it must be 0 or more.",
            error_class="DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE",
        )
    # Upwards: a file must never go before its time.
    specified_ms = math.ceil(hours * _HOUR_MS)
    if request.retention_check and specified_ms < default_ms:
        least = math.ceil(default_ms / _HOUR_MS)
        raise RequestError(
            f"A retention of {hours:g} hours is shorter than the table's delta.deletedFileRetentionDuration, {least} "
            "hours: files of writers that are still running, and of versions that readers still use, could be deleted. "
            f"Retain at least {least} hours. If nobody reads or writes the table, switch the check off with "
            f"retention_check=False, --no-retention-check, or {_CHECK_SETTING} = false.",
            error_class="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
        )
    return Retention(default_ms, specified_ms)
