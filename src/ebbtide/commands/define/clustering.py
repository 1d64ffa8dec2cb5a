"""How does a table get the columns that it is clustered by?

They are kept in the metadata domain `delta.clustering`, by physical names. Files are not rearranged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import SchemaMismatchError, UnknownColumnError
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_columns
from ebbtide.protocol.actions import Action, DomainMetadata
from ebbtide.protocol.features import upgrade_protocol_for
from ebbtide.protocol.schema import PrimitiveType, StructField, find_field, physical_name
from ebbtide.protocol.schema_edits import FieldPath, shown_path
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation

__all__ = ["cluster_by"]

_DOMAIN: Final = "delta.clustering"
_MAX_COLUMNS: Final = 4
# Types whose values have no lowest and highest in the statistics.
_UNORDERED: Final = frozenset({"boolean", "binary", "variant", "void"})


def cluster_by(store: ObjectStore, columns: Sequence[FieldPath], *, options: WriteOptions) -> AlterResult:
    """Set the clustering columns; none end the clustering, and the feature stays."""

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        chains = _clustering_chains(snapshot, columns, is_exact=options.is_case_sensitive)
        is_mapped = snapshot.properties.column_mapping_mode != "none"
        paths = [[physical_name(field) if is_mapped else field.name for field in chain] for chain in chains]
        text = orjson.dumps({"clusteringColumns": paths, "domainName": _DOMAIN}).decode()
        actions: list[Action] = [DomainMetadata(_DOMAIN, text, removed=False)]
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


def _clustering_chains(
    snapshot: Snapshot, columns: Sequence[FieldPath], *, is_exact: bool
) -> list[tuple[StructField, ...]]:
    if snapshot.metadata.partition_columns:
        raise SchemaMismatchError(
            f"The table at {snapshot.store.url} is partitioned, so it cannot be clustered too.",
            error_class="DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        )
    if len(columns) > _MAX_COLUMNS:
        raise SchemaMismatchError(
            f"A table is clustered by at most {_MAX_COLUMNS} columns, not by {len(columns)}.",
            error_class="DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        )
    found: list[tuple[StructField, ...]] = []
    for path in columns:
        chain = find_field(snapshot.schema, path)
        if chain is None or (is_exact and tuple(field.name for field in chain) != path):
            raise UnknownColumnError(
                f"There is no column '{shown_path(path)}' to cluster by. The columns are "
                f"{', '.join(snapshot.schema.names[:50])}.",
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
