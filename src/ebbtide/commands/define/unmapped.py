"""What does the log say of a table that loses its column mapping? Its files must have been rewritten."""

from __future__ import annotations

from typing import Final

import orjson

from ebbtide.commands.define.definition import check_column_names
from ebbtide.errors import RequestError
from ebbtide.log import Snapshot
from ebbtide.log.detail import clustering_paths
from ebbtide.protocol.actions import DomainMetadata, Metadata
from ebbtide.protocol.schema import all_fields
from ebbtide.protocol.schema_evolution import unmapped_metadata

__all__ = ["define_without_mapping"]

_CLUSTERING: Final = "delta.clustering"


def define_without_mapping(
    snapshot: Snapshot, *, keeps_mode: bool
) -> tuple[Metadata] | tuple[Metadata, DomainMetadata]:
    """The metadata, and the clustering by the names that files have from then on.

    `keeps_mode`: the property stays, as 'none'. RequestError for a column name that files cannot have.
    """
    try:
        check_column_names(column.name for column in all_fields(snapshot.schema))
    except RequestError as error:
        raise RequestError(
            f"The table at {snapshot.store.url} needs its column mapping: {error.args[0]}",
            error_class="DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING",
        ) from error
    metadata = unmapped_metadata(snapshot.metadata, keeps_mode=keeps_mode)
    if _CLUSTERING not in snapshot.domain_metadata:
        return (metadata,)
    columns = [list(path) for path in clustering_paths(snapshot)]
    text = orjson.dumps({"clusteringColumns": columns, "domainName": _CLUSTERING}).decode()
    return metadata, DomainMetadata(_CLUSTERING, text, removed=False)
