"""Is a result made under the old metadata still right under the new?

After most changes it is not: a new column, a new constraint, another partitioning. A few changes only switch a feature
on for later commits, and a result made without the feature is as good as one made with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ebbtide.protocol.actions import Metadata, Protocol
from ebbtide.protocol.features import is_feature_supported, supported_features
from ebbtide.protocol.identity_columns import MARK
from ebbtide.protocol.schema import parse_schema

__all__ = ["intolerable_changes"]

_MAPPING_MODE: Final = "delta.columnMapping.mode"
_ROW_TRACKING: Final = "delta.enableRowTracking"
# Each switch, and the features of which the protocol must then have one.
_SWITCHES: Final = {
    "delta.enableDeletionVectors": ("deletionVectors",),
    _ROW_TRACKING: ("rowTracking",),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp", "inCommitTimestamp-preview"),
}
_ROW_TRACKING_COLUMNS: Final = frozenset(
    {"delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName"}
)
# Properties that accompany one of the changes above, or say nothing about rows.
_NOTES: Final = frozenset(
    {
        "delta.columnMapping.maxColumnId",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "io.unitycatalog.tableId",
        "ucTableId",
    }
)
_MAPPING_FIELD_KEYS: Final = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.columnMapping.nested.ids",
    }
)
_IDENTITY_FIELD_KEYS: Final = frozenset({MARK})


def intolerable_changes(before: Metadata, after: Metadata, protocol: Protocol) -> list[str]:
    """The changes that cannot be tolerated, in words for a message; `protocol` is the current one."""
    changes = [
        name
        for name in ("id", "name", "description", "format_provider", "format_options", "partition_columns")
        if getattr(before, name) != getattr(after, name)
    ]
    changes += _configuration_changes(before.configuration, after.configuration, protocol)
    if not _is_schema_tolerable(before, after):
        changes.append("the schema")
    return changes


def _configuration_changes(before: Mapping[str, str], after: Mapping[str, str], protocol: Protocol) -> list[str]:
    removed = [f"{key[:80]} unset" for key in before if key not in after]
    changed = [key for key, value in after.items() if before.get(key) != value]
    return removed + [
        f"{key[:80]} = {after[key][:80]!r}"
        for key in changed
        if not _is_property_tolerable(key, before, after, protocol)
    ]


def _is_property_tolerable(key: str, before: Mapping[str, str], after: Mapping[str, str], protocol: Protocol) -> bool:
    value = after[key].strip().lower()
    if key in _SWITCHES:
        return value == "true" and not supported_features(protocol).isdisjoint(_SWITCHES[key])
    if key == _MAPPING_MODE:
        was_off = before.get(key, "none").strip().lower() == "none"
        return was_off and value == "name" and is_feature_supported(protocol, "columnMapping")
    if key == "delta.checkpointPolicy":
        return value == "v2" and is_feature_supported(protocol, "v2Checkpoint")
    if key in _ROW_TRACKING_COLUMNS:
        return after.get(_ROW_TRACKING, "false").strip().lower() == "true"
    return key in _NOTES


def _is_schema_tolerable(before: Metadata, after: Metadata) -> bool:
    if before.schema_string == after.schema_string:
        return True
    ignored = _IDENTITY_FIELD_KEYS
    mapping_switched_on = (
        before.configuration.get(_MAPPING_MODE, "none").lower() == "none"
        and after.configuration.get(_MAPPING_MODE, "none").lower() == "name"
    )
    if mapping_switched_on:
        ignored |= _MAPPING_FIELD_KEYS
    old, new = (parse_schema(metadata.schema_string).to_json() for metadata in (before, after))
    return bool(_without(old, ignored) == _without(new, ignored))


def _without(value: Any, ignored: frozenset[str]) -> Any:
    """The JSON of a schema without the given entries of field metadata."""
    if isinstance(value, Mapping):
        return {
            key: {name: entry for name, entry in item.items() if name not in ignored}
            if key == "metadata" and isinstance(item, Mapping)
            else _without(item, ignored)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without(item, ignored) for item in value]
    return value
