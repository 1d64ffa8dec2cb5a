"""Which protocol, metadata and domains does a table have after it went back to an older version?

Schema, partitioning and properties are those of that version. What must never go back stays: the marks of identity
columns, of column ids and of row ids, the record of when in-commit timestamps began, the version before which
checkpoints are protected; and the protocol, unless the session allows it, because versions in between may need its
features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ebbtide.log import Snapshot
from ebbtide.log.commit_times import in_commit_times
from ebbtide.protocol.actions import Action, DomainMetadata, Metadata, Protocol
from ebbtide.protocol.features import is_feature_supported, supported_features, upgrade_protocol_for
from ebbtide.protocol.identity_columns import keep_marks
from ebbtide.protocol.json_fields import load_json_object

__all__ = ["definition_changes", "merge_protocols", "restored_metadata"]

_CLUSTERING: Final = "delta.clustering"
_NO_CLUSTERING: Final = '{"clusteringColumns":[]}'
_ENABLEMENT: Final = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
_PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"
_MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"
_ROW_ID_COLUMNS: Final = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)


def definition_changes(wanted: Snapshot, current: Snapshot, *, may_downgrade: bool) -> list[Action]:
    """The actions that give `current` the definition of `wanted`; none where it has it already."""
    changes: list[Action] = []
    protocol = wanted.protocol if may_downgrade else merge_protocols(wanted.protocol, current.protocol)
    if protocol != current.protocol:
        changes.append(protocol)
    metadata = restored_metadata(wanted, current)
    if metadata != current.metadata:
        changes.append(metadata)
    return [*changes, *_clustering_changes(wanted, current)]


def merge_protocols(one: Protocol, other: Protocol) -> Protocol:
    """The smallest protocol that supports everything that either of the two does."""
    ones, others = supported_features(one), supported_features(other)
    if ones <= others:
        return other
    return one if others <= ones else upgrade_protocol_for(other, ones)


def restored_metadata(wanted: Snapshot, current: Snapshot) -> Metadata:
    """The metadata of `wanted`, with what never goes back taken from `current`."""
    return replace(keep_marks(wanted.metadata, current.metadata), configuration=_configuration(wanted, current))


def _configuration(wanted: Snapshot, current: Snapshot) -> dict[str, str]:
    configuration = dict(wanted.metadata.configuration)
    newest = current.metadata.configuration
    if in_commit_times(current.protocol, current.metadata) is not None:
        # Versions in between may have none; the record of `current` says from where on all have them.
        for key in _ENABLEMENT if wanted.properties.enable_in_commit_timestamps else ():
            configuration.pop(key, None)
            if key in newest:
                configuration[key] = newest[key]
    # Files of newer versions keep row ids under these names, and may be restored later.
    configuration.update({key: newest[key] for key in (*_ROW_ID_COLUMNS, _PROTECTED_BEFORE) if key in newest})
    if _MAX_COLUMN_ID in configuration and _MAX_COLUMN_ID in newest:
        configuration[_MAX_COLUMN_ID] = max(configuration[_MAX_COLUMN_ID], newest[_MAX_COLUMN_ID], key=_number)
    return configuration


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


# --- domains ----------------------------------------------------------------------------------------------------------


def _clustering_changes(wanted: Snapshot, current: Snapshot) -> list[Action]:
    """The columns that the table is clustered by go back too. Other domains stay as they are, as in the reference."""
    now, then = current.domain_metadata.get(_CLUSTERING), wanted.domain_metadata.get(_CLUSTERING)
    is_clustered = then is not None and is_feature_supported(wanted.protocol, "clustering")
    if not is_clustered and now is None:
        return []
    configuration = then.configuration if is_clustered and then is not None else _NO_CLUSTERING
    if now is not None and _parse_clustering(now.configuration) == _parse_clustering(configuration):
        return []
    return [DomainMetadata(_CLUSTERING, configuration, removed=False)]


def _parse_clustering(configuration: str) -> Mapping[str, Any]:
    return load_json_object(configuration, source=f"the domain {_CLUSTERING}")
