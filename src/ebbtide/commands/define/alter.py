"""How do a table's properties and features change?

`ALTER TABLE ... SET TBLPROPERTIES`, `UNSET TBLPROPERTIES`, and `addFeatureSupport`. A property that needs a table
feature adds it in the same commit, so a table never promises what its protocol does not say; what the older protocol
implied becomes explicit. Only the log is read and written: no Spark.

This module says what a caller may set. `ebbtide.transaction` says which features that takes, and whether the result is
valid. See "Table Features" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError, UnsupportedFeatureError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Metadata
from ebbtide.protocol.change_columns import refuse_change_feed
from ebbtide.protocol.features import FEATURES, is_feature_supported
from ebbtide.protocol.properties import CONSTRAINT_PREFIX, FEATURE_PREFIX, TableProperties
from ebbtide.protocol.schema_evolution import mapped_metadata
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation
from ebbtide.transaction.table_changes import property_changes

__all__ = ["AlterResult", "add_feature_support", "properties_of_new_table", "set_properties", "unset_properties"]

_ENABLEMENT: Final = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")

# Properties of Delta that Ebbtide does not act on, and that others may rely on.
_KNOWN_ELSEWHERE: Final = (
    "delta.autoOptimize",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.castIcebergTimeType",
    "delta.checkpointRetentionDuration",
    "delta.enableFullRetentionRollback",
    "delta.ignoreIcebergBucketPartition",
    "delta.parquet.format.version",
    "delta.sampleRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
)
_SPELLINGS: Final = {
    **{name.lower(): name for name in _KNOWN_ELSEWHERE},
    **{declared.name.lower(): declared.name for declared in TableProperties.declarations()},
}
# Kept by the engine itself.
_MANAGED: Final = frozenset(
    {
        "delta.columnMapping.maxColumnId",
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        *_ENABLEMENT,
    }
)
_MAPPING: Final = "delta.columnMapping.mode"
# Properties that may stay but not change, and why.
_FIXED: Final = {
    _MAPPING: "a table without column mapping can get it in the mode 'name', and one with it can lose it, as 'none', "
    "by ALTER TABLE in SQL; otherwise its files would have to be rewritten",
    "delta.enableRowTracking": "every file would have to get row ids first, which Ebbtide does not do yet",
    "delta.rowTrackingSuspended": "files without row ids would have to be found and completed later",
    "delta.enableIcebergCompatV1": "Ebbtide does not write Iceberg metadata",
    "delta.enableIcebergCompatV2": "Ebbtide does not write Iceberg metadata",
    "delta.enableIcebergCompatV3": "Ebbtide does not write Iceberg metadata",
    "delta.universalFormat.enabledFormats": "Ebbtide does not write the metadata of other formats",
    "delta.enableVariantShredding": "Ebbtide writes variants unshredded",
}

# Those of them that a new table may have.
_FREE_AT_FIRST: Final = frozenset({_MAPPING, "delta.enableRowTracking"})


def set_properties(
    store: ObjectStore, properties: Mapping[str, str], *, options: WriteOptions, hint: Snapshot | None = None
) -> AlterResult:
    """Set table properties. `delta.feature.<name> = supported` adds a feature and is not stored.

    Always commits, even if the values are those the table has: a job can wait for the version it made.
    """
    if not properties:
        raise RequestError("SET TBLPROPERTIES needs at least one property.")
    spelled = _spell_keys(properties)
    operation = Operation(
        "SET TBLPROPERTIES",
        {"properties": orjson.dumps(spelled).decode()},
        user_metadata=options.user_metadata,
    )

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        return _actions_to_set(snapshot, spelled) or [snapshot.metadata], operation

    return commit_change(store, change, options, hint)


def unset_properties(
    store: ObjectStore,
    keys: Iterable[str],
    *,
    if_exists: bool = False,
    options: WriteOptions,
    hint: Snapshot | None = None,
) -> AlterResult:
    """Remove properties, so that their defaults apply again. Features that they added to the protocol stay."""
    spelled = [_spell_key(key) for key in keys]
    if not spelled:
        raise RequestError("UNSET TBLPROPERTIES needs at least one property.")
    operation = Operation(
        "UNSET TBLPROPERTIES",
        {"properties": orjson.dumps(spelled).decode(), "ifExists": if_exists},
        user_metadata=options.user_metadata,
    )

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        return _actions_to_unset(snapshot, spelled, if_exists=if_exists) or [snapshot.metadata], operation

    return commit_change(store, change, options, hint)


def add_feature_support(
    store: ObjectStore, name: str, *, options: WriteOptions, hint: Snapshot | None = None
) -> AlterResult:
    """Make the protocol support a feature, without enabling anything. Nothing happens if it already does."""
    feature = _feature_name(name)
    operation = Operation(
        "SET TBLPROPERTIES",
        {"properties": orjson.dumps({f"{FEATURE_PREFIX}{feature}": "supported"}).decode()},
        user_metadata=options.user_metadata,
    )

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        return _actions_to_set(snapshot, {f"{FEATURE_PREFIX}{feature}": "supported"}), operation

    return commit_change(store, change, options, hint)


# --- what may be set --------------------------------------------------------------------------------------------------


def properties_of_new_table(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a new table may have, in Delta's spelling; RequestError for others.

    A new table may have constraints, column mapping and row tracking, which an existing one cannot get this way.
    """
    spelled = _spell_keys(properties, is_new=True)
    TableProperties.check(spelled)
    for declared in TableProperties.declarations():
        refused = declared.name in _FIXED and declared.name not in _FREE_AT_FIRST and declared.name in spelled
        if refused and declared.parse(spelled[declared.name]) != declared.default:
            raise UnsupportedFeatureError(
                f"A table with {declared.name} = '{spelled[declared.name][:80]}' cannot be made: "
                f"{_FIXED[declared.name]}.",
                error_class="",
            )
    return spelled


def _spell_keys(properties: Mapping[str, str], *, is_new: bool = False) -> dict[str, str]:
    """The properties in Delta's spelling; RequestError for one that nobody may set."""
    spelled: dict[str, str] = {}
    for key, value in properties.items():
        name = _spell_key(key, is_new=is_new)
        if name in spelled:
            raise RequestError(f"The property {name} is given twice.")
        spelled[name] = value
    return spelled


def _spell_key(key: str, *, is_new: bool = False) -> str:
    lowered = key.lower()
    if not lowered.startswith("delta."):
        return _refuse_reserved(key)
    if lowered.startswith(CONSTRAINT_PREFIX) and is_new:
        return CONSTRAINT_PREFIX + key[len(CONSTRAINT_PREFIX) :]
    if lowered.startswith(CONSTRAINT_PREFIX):
        raise RequestError(
            f"{key} is a CHECK constraint. Constraints are added and dropped by ALTER TABLE ... CONSTRAINT.",
            error_class="DELTA_ADD_CONSTRAINTS",
        )
    if lowered.startswith(FEATURE_PREFIX):
        return f"{FEATURE_PREFIX}{_feature_name(key[len(FEATURE_PREFIX) :])}"
    if lowered in {"delta.minreaderversion", "delta.minwriterversion", "delta.ignoreprotocoldefaults"}:
        raise RequestError(
            f"{key} names protocol versions, which stand for a bundle of features. Name the feature you want instead: "
            "'delta.feature.<name>' = 'supported'.",
            error_class="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        )
    name = _SPELLINGS.get(lowered)
    if name is None:
        raise RequestError(
            f"{key} is not a property of Delta. Properties of your own may have any name that does not begin with "
            "'delta.'.",
            error_class="DELTA_UNKNOWN_CONFIGURATION",
        )
    if name in _MANAGED:
        raise RequestError(
            f"{name} is kept by the engine and cannot be set by hand.",
            error_class="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        )
    return name


def _refuse_reserved(key: str) -> str:
    if key.lower() in {"location", "provider", "external", "owner", "is_managed_location"}:
        raise RequestError(
            f"The property {key!r} is reserved: Spark keeps a table's place, format and owner under such names.",
            error_class="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        )
    return key


def _feature_name(name: str) -> str:
    """The feature's own spelling; one that Ebbtide could not write afterwards is refused."""
    feature = next((known for known in FEATURES.values() if known.name.lower() == name.strip().lower()), None)
    if feature is None:
        raise RequestError(
            f"{name!r} is not a table feature that Ebbtide knows.", error_class="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
        )
    if not feature.writable:
        raise UnsupportedFeatureError(
            f"The feature {feature.name} cannot be added, since Ebbtide could not write the table afterwards: "
            f"{feature.note}.",
            error_class="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        )
    if feature.name == "clustering":
        raise RequestError(
            "The feature clustering cannot be added by hand: it comes with the columns to cluster by.",
            error_class="DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED",
        )
    return feature.name


def _actions_to_set(snapshot: Snapshot, properties: Mapping[str, str]) -> list[Action]:
    """The actions that set the properties, or RequestError; none when nothing would change."""
    TableProperties.check(properties)
    for name, reason in _FIXED.items():
        if name in properties:
            _refuse_change(snapshot, name, properties[name], reason)
    comment = properties.get("comment")
    stored = {key: value for key, value in properties.items() if key != "comment"}
    metadata = _with_mapping(snapshot, properties)
    actions = property_changes(snapshot.protocol, metadata, set=stored, unset=_stale(snapshot, properties))
    if comment is not None:
        actions = _set_comment(snapshot, actions, comment)
    after = next((action for action in actions if isinstance(action, Metadata)), snapshot.metadata)
    _check_retention(after, properties)
    _check_change_feed(snapshot, after)
    return actions


def _actions_to_unset(snapshot: Snapshot, keys: Sequence[str], *, if_exists: bool) -> list[Action]:
    present = {key.lower() for key in snapshot.metadata.configuration}
    for key in keys:
        if key.startswith(FEATURE_PREFIX):
            raise RequestError(f"{key} is not a property of the table but a feature; DROP FEATURE removes it.")
        if key in _FIXED and key.lower() in present:
            _refuse_change(snapshot, key, "", _FIXED[key])
        if not if_exists and key != "comment" and key.lower() not in present:
            raise RequestError(
                f"The table at {snapshot.store.url} has no property {key}. Use UNSET TBLPROPERTIES IF EXISTS to leave "
                "out what is not there.",
                error_class="DELTA_UNSET_NON_EXISTENT_PROPERTY",
            )
    unset = [*keys, *(_ENABLEMENT if "delta.enableInCommitTimestamps" in keys else ())]
    actions = property_changes(snapshot.protocol, snapshot.metadata, unset=unset)
    return _set_comment(snapshot, actions, None) if "comment" in keys else actions


def _refuse_change(snapshot: Snapshot, name: str, value: str, reason: str) -> None:
    """Refuse a changed value. One that means the same as the present value is no change."""
    declared = next(declared for declared in TableProperties.declarations() if declared.name == name)
    current = snapshot.properties.raw(name)
    before = declared.default if current is None else declared.parse(current)
    after = declared.default if not value else declared.parse(value)
    if before != after and not (name == _MAPPING and (before, after) == ("none", "name")):
        raise UnsupportedFeatureError(
            f"{name} cannot be changed from '{before}' to '{after}': {reason}. Use an engine that can.",
            error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE" if name == _MAPPING else "",
        )


def _with_mapping(snapshot: Snapshot, properties: Mapping[str, str]) -> Metadata:
    """The metadata; with ids and physical names for the columns if the properties turn column mapping on."""
    turns_on = properties.get(_MAPPING, "none").strip().lower() != "none"
    if not turns_on or snapshot.properties.column_mapping_mode != "none":
        return snapshot.metadata
    return mapped_metadata(snapshot.metadata)


def _stale(snapshot: Snapshot, properties: Mapping[str, str]) -> tuple[str, ...]:
    """The properties that say when in-commit timestamps began; removed when those are turned off."""
    ends = properties.get("delta.enableInCommitTimestamps", "true").strip().lower() == "false"
    return _ENABLEMENT if ends and snapshot.properties.enable_in_commit_timestamps else ()


def _set_comment(snapshot: Snapshot, actions: Sequence[Action], comment: str | None) -> list[Action]:
    metadata = next((action for action in actions if isinstance(action, Metadata)), snapshot.metadata)
    others: list[Action] = [action for action in actions if not isinstance(action, Metadata)]
    if metadata is snapshot.metadata and metadata.description == comment:
        return others
    return [*others, replace(metadata, description=comment)]


def _check_retention(metadata: Metadata, properties: Mapping[str, str]) -> None:
    names = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
    after = TableProperties.parse(metadata.configuration)
    if any(name in properties for name in names) and after.log_retention_ms < after.deleted_file_retention_ms:
        raise RequestError(
            "delta.logRetentionDuration must be at least as long as delta.deletedFileRetentionDuration: the log must "
            "remember a removed file for as long as the file is kept."
        )


def _check_change_feed(snapshot: Snapshot, after: Metadata) -> None:
    is_new = not is_feature_supported(snapshot.protocol, "changeDataFeed") or (
        not snapshot.properties.enable_change_data_feed
    )
    if not is_new or not TableProperties.parse(after.configuration).enable_change_data_feed:
        return
    refuse_change_feed(snapshot.schema.names, "delta.enableChangeDataFeed cannot be set")
