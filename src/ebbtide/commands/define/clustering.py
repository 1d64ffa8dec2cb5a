"""How does a table get the columns that it is clustered by?

They are kept in the metadata domain `delta.clustering`, by physical names. Files are not rearranged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.definition import TableDefinition
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import RequestError, SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_columns
from ebbtide.log.statistics_columns import indexed_columns
from ebbtide.protocol.actions import Action, DomainMetadata, Metadata, Protocol
from ebbtide.protocol.features import upgrade_protocol_for
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType, find_field, parse_schema, physical_name
from ebbtide.protocol.schema_edits import FieldPath, known_columns, shown_path
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["cluster_by", "cluster_new_table", "shown_clustering"]

_DOMAIN: Final = "delta.clustering"
_MAX_COLUMNS: Final = 4
# Types whose values have no lowest and highest in the statistics.
_UNORDERED: Final = frozenset({"boolean", "binary", "variant", "void"})


def cluster_by(store: ObjectStore, columns: Sequence[FieldPath], *, options: WriteOptions) -> AlterResult:
    """Set the clustering columns; none end the clustering, and the feature stays."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        if snapshot.metadata.partition_columns:
            raise SchemaMismatchError(
                f"The table at {snapshot.store.url} is partitioned, so it cannot be clustered too.",
                error_class="DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
            )
        actions: list[Action] = [
            _clustering_domain(snapshot.metadata, snapshot.protocol, columns, is_exact=options.is_case_sensitive)
        ]
        protocol = upgrade_protocol_for(snapshot.protocol, ["clustering"])
        if protocol != snapshot.protocol:
            actions = [protocol, *actions]
        parameters = {
            "oldClusteringColumns": ",".join(clustering_columns(snapshot)),
            # As it was written, case included: so does the reference.
            "newClusteringColumns": ",".join(map(shown_path, columns)),
        }
        return actions, Operation("CLUSTER BY", parameters, user_metadata=options.user_metadata)

    return commit_change(store, change, options)


def cluster_new_table(
    definition: TableDefinition, protocol: Protocol, metadata: Metadata
) -> tuple[Protocol, tuple[DomainMetadata, ...]]:
    """The protocol with what clustering takes, and what the first commit says of the columns."""
    if not definition.cluster_by:
        return protocol, ()
    if definition.partition_columns:
        raise RequestError(
            "A table is partitioned or clustered, not both. Leave PARTITIONED BY or CLUSTER BY out.",
            error_class="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    domain = _clustering_domain(metadata, protocol, definition.cluster_by, is_exact=definition.is_exact)
    return upgrade_protocol_for(protocol, ["clustering"]), (domain,)


def shown_clustering(definition: TableDefinition) -> str:
    """The columns for the history: as they were written, as the reference does it."""
    return orjson.dumps([shown_path(path) for path in definition.cluster_by]).decode()


def _clustering_domain(
    metadata: Metadata, protocol: Protocol, columns: Sequence[FieldPath], *, is_exact: bool
) -> DomainMetadata:
    """What the log says of these columns; SchemaMismatchError when a table cannot be clustered by them."""
    chains = _clustering_chains(parse_schema(metadata.schema_string), columns, is_exact=is_exact)
    is_mapped = TableProperties.parse(metadata.configuration).column_mapping_mode != "none"
    paths = [[physical_name(field) if is_mapped else field.name for field in chain] for chain in chains]
    _require_statistics(metadata, protocol, columns, paths)
    text = orjson.dumps({"clusteringColumns": paths, "domainName": _DOMAIN}).decode()
    return DomainMetadata(_DOMAIN, text, removed=False)


def _require_statistics(
    metadata: Metadata, protocol: Protocol, columns: Sequence[FieldPath], physical_paths: Sequence[Sequence[str]]
) -> None:
    """Readers skip files by statistics: without any, the files would be sorted for nobody."""
    indexed = {tuple(field.name for field in chain) for chain in indexed_columns(metadata, protocol)}
    without = [
        shown_path(path)
        for path, physical in zip(columns, physical_paths, strict=True)
        if tuple(physical) not in indexed
    ]
    if without:
        raise SchemaMismatchError(
            f"The table keeps no statistics of {', '.join(without)}, so clustering by it would help no reader. Raise "
            "delta.dataSkippingNumIndexedCols, or name the columns in delta.dataSkippingStatsColumns, first.",
            error_class="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
        )


def _clustering_chains(
    schema: StructType, columns: Sequence[FieldPath], *, is_exact: bool
) -> list[tuple[StructField, ...]]:
    if len(columns) > _MAX_COLUMNS:
        raise SchemaMismatchError(
            f"A table is clustered by at most {_MAX_COLUMNS} columns, not by {len(columns)}.",
            error_class="DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        )
    found: list[tuple[StructField, ...]] = []
    for path in columns:
        chain = find_field(schema, path)
        if chain is None or (is_exact and tuple(field.name for field in chain) != path):
            raise UnknownColumnError(
                f"There is no column '{shown_path(path)}' to cluster by. {known_columns(schema.names)}",
                error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        if chain in found:
            raise SchemaMismatchError(
                f"The column '{shown_path(path)}' is named twice in CLUSTER BY.",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY",
            )
        kind = chain[-1].type
        if not isinstance(kind, PrimitiveType) or kind.name in _UNORDERED:
            raise SchemaMismatchError(
                f"A table cannot be clustered by '{shown_path(path)}': values of its type have no order in statistics.",
                error_class="DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            )
        found.append(chain)
    return found
