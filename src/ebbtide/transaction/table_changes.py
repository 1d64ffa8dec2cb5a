"""May a commit change the protocol or the metadata this way, and what protocol does some metadata need?

Properties and column types need table features: other engines would misread a table with `delta.enableDeletionVectors`
whose protocol does not list `deletionVectors`. `property_changes` stages both together; the checks refuse one without
the other. See "Table Features" in PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow.compute as pc

from ebbtide.errors import InternalError, RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Metadata, Protocol
from ebbtide.protocol.features import (
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    check_deletion_vector_compatibility,
    supported_features,
    upgrade_protocol_for,
)
from ebbtide.protocol.properties import FEATURE_PREFIX, TableProperties
from ebbtide.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructType,
    all_fields,
    parse_schema,
    partition_fields,
)

__all__ = [
    "check_metadata_change",
    "check_protocol_change",
    "property_changes",
    "protocol_for",
    "required_features",
]

_OLDEST_PROTOCOL: Final = Protocol(1, 2)
# These choose the protocol of a new table and are not stored.
_PROTOCOL_PROPERTIES: Final = frozenset({"delta.minreaderversion", "delta.minwriterversion"})
_FIELD_FEATURES: Final = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
    "CURRENT_DEFAULT": "allowColumnDefaults",
}
_TYPE_FEATURES: Final = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_PREVIEWS: Final = {
    "inCommitTimestamp": "inCommitTimestamp-preview",
    "typeWidening": "typeWidening-preview",
    "variantType": "variantType-preview",
}


def required_features(metadata: Metadata) -> frozenset[str]:
    """The features that the properties and the schema of a table need."""
    properties = TableProperties.parse(metadata.configuration)
    wanted = {
        "appendOnly": properties.append_only,
        "deletionVectors": properties.enable_deletion_vectors,
        "changeDataFeed": properties.enable_change_data_feed,
        "columnMapping": properties.column_mapping_mode != "none",
        "rowTracking": properties.enable_row_tracking,
        "inCommitTimestamp": properties.enable_in_commit_timestamps,
        "v2Checkpoint": properties.checkpoint_policy == "v2",
        "typeWidening": properties.enable_type_widening,
        "checkConstraints": bool(properties.constraints),
    }
    by_schema = _schema_features(parse_schema(metadata.schema_string))
    return frozenset({name for name, is_wanted in wanted.items() if is_wanted}) | frozenset(by_schema)


def protocol_for(metadata: Metadata, features: Iterable[str] = ()) -> Protocol:
    """The smallest protocol for a new table with this metadata and these further features."""
    return upgrade_protocol_for(_OLDEST_PROTOCOL, {*required_features(metadata), *features})


def property_changes(
    protocol: Protocol, metadata: Metadata, *, set: Mapping[str, str] | None = None, unset: Iterable[str] = ()
) -> list[Action]:
    """The actions that set and unset properties, with the protocol raised where the new ones need it.

    `delta.feature.<name> = supported` adds a feature and is not stored. No actions when nothing would change.
    """
    changed = dict(set or {})
    TableProperties.check(changed)
    marks = {key: value for key, value in changed.items() if key.lower().startswith(FEATURE_PREFIX)}
    dropped = {key.lower() for key in unset}
    configuration = {key: value for key, value in metadata.configuration.items() if key.lower() not in dropped}
    for key, value in changed.items():
        if key in marks or key.lower() in _PROTOCOL_PROPERTIES:
            continue
        # One property has one spelling: the table's, if it has the property already.
        known = next((name for name in configuration if name.lower() == key.lower()), key)
        configuration[known] = value
    new_metadata = replace(metadata, configuration=configuration)
    needed = _missing(protocol, required_features(new_metadata))
    new_protocol = upgrade_protocol_for(protocol, {*needed, *_marked_features(marks)})
    actions: list[Action] = []
    if new_protocol != protocol:
        actions.append(new_protocol)
    if configuration != dict(metadata.configuration):
        actions.append(new_metadata)
    return actions


def check_protocol_change(before: Protocol | None, after: Protocol, *, may_drop: bool = False) -> None:
    """A protocol is well formed and only ever gains features, except where one is dropped on purpose."""
    has_reader_list = after.reader_features is not None
    has_writer_list = after.writer_features is not None
    if has_reader_list != (after.min_reader_version == MAX_READER_VERSION) or has_writer_list != (
        after.min_writer_version == MAX_WRITER_VERSION
    ):
        raise InternalError(
            f"the protocol {after.min_reader_version},{after.min_writer_version} must list reader features exactly at "
            f"reader version {MAX_READER_VERSION} and writer features exactly at writer version {MAX_WRITER_VERSION}"
        )
    if has_reader_list and not (after.reader_features or frozenset()) <= (after.writer_features or frozenset()):
        raise InternalError("every reader feature of a protocol must be listed as a writer feature too")
    lost = frozenset() if before is None else supported_features(before) - supported_features(after)
    if lost and not may_drop:
        raise RequestError(
            f"a commit may not take features from the protocol ({', '.join(sorted(lost))}); use DROP FEATURE",
            error_class="DELTA_INVALID_PROTOCOL_DOWNGRADE",
        )


def check_metadata_change(metadata: Metadata, protocol: Protocol, base: Snapshot | None) -> None:
    """The properties parse, the schema holds the partition columns, and the protocol has every feature they need."""
    TableProperties.check(metadata.configuration)
    partition_fields(parse_schema(metadata.schema_string), metadata.partition_columns)
    missing = _missing(protocol, required_features(metadata))
    if missing:
        raise RequestError(
            f"the table's properties or columns need features that its protocol does not list: "
            f"{', '.join(sorted(missing))}. Change protocol and metadata in one commit.",
            error_class="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH",
        )
    has_manifests = TableProperties.parse(metadata.configuration).symlink_format_manifest
    check_deletion_vector_compatibility(
        metadata, protocol, has_deletion_vectors=has_manifests and base is not None and _has_deletion_vectors(base)
    )


def _missing(protocol: Protocol, features: frozenset[str]) -> frozenset[str]:
    supported = supported_features(protocol)
    return frozenset(name for name in features if name not in supported and _PREVIEWS.get(name) not in supported)


def _marked_features(marks: Mapping[str, str]) -> Iterator[str]:
    for key, value in marks.items():
        if value.strip().lower() not in {"supported", "enabled"}:
            raise RequestError(
                f"the property {key} must be 'supported', not '{value[:80]}'",
                error_class="DELTA_UNSUPPORTED_FEATURE_STATUS",
            )
        yield key[len(FEATURE_PREFIX) :]


def _has_deletion_vectors(base: Snapshot) -> bool:
    return bool(pc.any(pc.is_valid(base.files.column("deletion_vector")), min_count=0).as_py())


def _schema_features(schema: StructType) -> Iterator[str]:
    for field in all_fields(schema):
        yield from (feature for key, feature in _FIELD_FEATURES.items() if key in field.metadata)
    for data_type in _all_types(schema):
        if isinstance(data_type, PrimitiveType) and data_type.name in _TYPE_FEATURES:
            yield _TYPE_FEATURES[data_type.name]


def _all_types(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _all_types(field.type)
    elif isinstance(data_type, ArrayType):
        yield from _all_types(data_type.element_type)
    elif isinstance(data_type, MapType):
        yield from _all_types(data_type.key_type)
        yield from _all_types(data_type.value_type)
