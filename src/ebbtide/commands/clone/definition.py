"""Which protocol, metadata and domains does a clone have?

Those of its source, as a table of its own: with its own id and its own columns for row ids, and without what belongs to
the history of the source. Properties may be overridden. A table that is replaced keeps its id and what must never go
back (see `commands.restore.definition`), and its protocol only grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from ebbtide.commands.define.alter import properties_of_new_table
from ebbtide.commands.define.definition import with_row_tracking_columns
from ebbtide.commands.restore.definition import merge_protocols
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import DomainMetadata, Metadata, Protocol
from ebbtide.protocol.features import upgrade_protocol_for
from ebbtide.protocol.identity_columns import keep_marks
from ebbtide.protocol.properties import FEATURE_PREFIX, TableProperties
from ebbtide.transaction import required_features

__all__ = ["CloneDefinition", "define_clone"]

_CLUSTERING: Final = "delta.clustering"
# These say something about the history or the catalog of the source.
_OF_THE_SOURCE: Final = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_OF_A_CATALOG: Final = ("delta.coordinatedCommits.", "io.unitycatalog.", "ucTableId")


@dataclass(frozen=True, slots=True)
class CloneDefinition:
    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...]


def define_clone(
    source: Snapshot, replaced: Snapshot | None, properties: Mapping[str, str], *, may_downgrade: bool
) -> CloneDefinition:
    """What the log of the clone must say. `properties` take precedence over those of the source."""
    given = properties_of_new_table(properties)
    marks = [key[len(FEATURE_PREFIX) :] for key in given if key.startswith(FEATURE_PREFIX)]
    overrides = {key: value for key, value in given.items() if not key.startswith(FEATURE_PREFIX)}
    configuration = {**_inherited_properties(source), **overrides}
    _refuse_other_mapping(source, replaced, configuration)
    configuration = with_row_tracking_columns(configuration, replaced)
    metadata = replace(
        source.metadata,
        id=str(uuid4()),
        name=None,
        description=None,
        configuration=configuration,
    )
    protocol = source.protocol
    if replaced is not None:
        metadata = _in_place_of(replaced, metadata)
        protocol = protocol if may_downgrade else merge_protocols(protocol, replaced.protocol)
    protocol = upgrade_protocol_for(protocol, {*required_features(metadata), *marks})
    return CloneDefinition(protocol, metadata, tuple(_domains(source, replaced)))


def _inherited_properties(source: Snapshot) -> dict[str, str]:
    return {
        key: value
        for key, value in source.metadata.configuration.items()
        if key not in _OF_THE_SOURCE and not key.startswith(_OF_A_CATALOG)
    }


def _in_place_of(replaced: Snapshot, metadata: Metadata) -> Metadata:
    before = replaced.metadata
    kept = {key: before.configuration[key] for key in _OF_THE_SOURCE if key in before.configuration}
    return replace(
        metadata,
        id=before.id,
        name=before.name,
        description=before.description,
        schema_string=keep_marks(metadata, before).schema_string,
        configuration={**metadata.configuration, **kept},
    )


def _refuse_other_mapping(source: Snapshot, replaced: Snapshot | None, configuration: Mapping[str, str]) -> None:
    """The files know their columns by the source's names: another mode would not find them."""
    wanted = TableProperties.parse(configuration).column_mapping_mode
    for table in (source, replaced):
        if table is not None and table.properties.column_mapping_mode != wanted:
            raise RequestError(
                f"delta.columnMapping.mode is '{table.properties.column_mapping_mode}' in {table.store.url}, and a "
                f"clone cannot change it to '{wanted}'. Leave the property out, or clone into a new place.",
                error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
            )


def _domains(source: Snapshot, replaced: Snapshot | None) -> list[DomainMetadata]:
    """The columns that the source is clustered by; as in the reference, no other domain is copied."""
    clustering = source.domain_metadata.get(_CLUSTERING)
    if clustering is not None:
        return [clustering]
    before = None if replaced is None else replaced.domain_metadata.get(_CLUSTERING)
    return [] if before is None else [replace(before, removed=True)]
