"""Which versions does a request for changes cover?"""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError, VersionNotFoundError
from ebbtide.log.commit_times import first_version_since, version_at_timestamp
from ebbtide.storage.store import ObjectStore

__all__ = ["ChangeBounds", "resolve_bounds"]

_TOO_LATE = "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"


@dataclass(frozen=True, slots=True)
class ChangeBounds:
    """A start (a version or a time), and an end or None for the newest version. Both belong to the range.

    With `allow_out_of_range`, a start after the newest version means no changes, and an end after it means the newest.
    With `enforces_retention`, a start that is older than the table's retention of removed files is refused.
    """

    start_version: int | None = None
    start_timestamp_ms: int | None = None
    end_version: int | None = None
    end_timestamp_ms: int | None = None
    allow_out_of_range: bool = False
    enforces_retention: bool = False


def resolve_bounds(store: ObjectStore, bounds: ChangeBounds, newest: int, config: EngineConfig) -> range:
    """The versions in the range. It is empty when both ends are times with no commit between them."""
    _ensure_one_each(bounds)
    start = _start(store, bounds, newest, config)
    if start > newest:
        if bounds.allow_out_of_range:
            return range(0)
        raise RequestError(
            f"Changes are asked for from version {start} on, but the newest version of the table at {store.url} is "
            f"{newest}.",
            error_class="DELTA_CDC_START_VERSION_AFTER_LATEST",
        )
    end = _end(store, bounds, newest, config)
    if _are_times_in_order(bounds) and end == start - 1:
        return range(0)
    if end < start or _are_times_in_order(bounds) is False:
        raise RequestError(
            f"The range of changes ends at version {end}, before it starts at version {start}. Exchange the bounds.",
            error_class="DELTA_INVALID_CDC_RANGE",
        )
    return range(start, min(end, newest) + 1)


def _ensure_one_each(bounds: ChangeBounds) -> None:
    if bounds.start_version is None and bounds.start_timestamp_ms is None:
        raise RequestError(
            "Changes need a start: give start_version or start_timestamp.", error_class="DELTA_NO_START_FOR_CDC_READ"
        )
    for name, version, timestamp in (
        ("start", bounds.start_version, bounds.start_timestamp_ms),
        ("end", bounds.end_version, bounds.end_timestamp_ms),
    ):
        if version is not None and timestamp is not None:
            raise RequestError(
                f"Give either {name}_version or {name}_timestamp, not both.",
                error_class="DELTA_MULTIPLE_CDC_BOUNDARY",
            )
        if version is not None and version < 0:
            raise RequestError(f"{name}_version is {version}; versions count from 0.")


def _start(store: ObjectStore, bounds: ChangeBounds, newest: int, config: EngineConfig) -> int:
    if bounds.start_timestamp_ms is None:
        return bounds.start_version or 0
    try:
        return first_version_since(store, bounds.start_timestamp_ms, config=config)
    except VersionNotFoundError as error:
        if bounds.allow_out_of_range and error.error_class == _TOO_LATE:
            return newest + 1
        raise


def _end(store: ObjectStore, bounds: ChangeBounds, newest: int, config: EngineConfig) -> int:
    if bounds.end_timestamp_ms is None:
        return newest if bounds.end_version is None else bounds.end_version
    try:
        return version_at_timestamp(store, bounds.end_timestamp_ms, config=config)
    except VersionNotFoundError as error:
        if bounds.allow_out_of_range and error.error_class == _TOO_LATE:
            return newest
        raise


def _are_times_in_order(bounds: ChangeBounds) -> bool | None:
    """None when not both bounds are times."""
    if bounds.start_timestamp_ms is None or bounds.end_timestamp_ms is None:
        return None
    return bounds.start_timestamp_ms <= bounds.end_timestamp_ms
