"""Which deletion-vector files do older versions of a table still need?

An engine that does not know deletion vectors would vacuum them as files that nobody names. A `remove` action for each
keeps them for as long as removed data files.
"""

from __future__ import annotations

import pyarrow.compute as pc

from ebbtide.commands.row_level.counters import now_ms
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import RemoveFile
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.paths import encode_path

__all__ = ["vector_tombstones"]


def vector_tombstones(snapshot: Snapshot) -> list[RemoveFile]:
    """One `remove` per vector file below the root that a tombstone names and that has none yet."""
    tombstones = snapshot.tombstones()
    named = set(tombstones.column("path").to_pylist())
    removed_at, found = now_ms(), []
    is_kept = pc.greater(
        tombstones.column("deletion_timestamp"), removed_at - snapshot.properties.deleted_file_retention_ms
    )
    has_vector = pc.is_valid(tombstones.column("deletion_vector"))
    with_vector = tombstones.filter(pc.and_(has_vector, pc.fill_null(is_kept, False)))
    for vector in with_vector.column("deletion_vector").to_pylist():
        descriptor = DeletionVectorDescriptor.from_json(
            {
                "storageType": vector["storage_type"],
                "pathOrInlineDv": vector["path_or_inline_dv"],
                "offset": vector["offset"],
                "sizeInBytes": vector["size_in_bytes"],
                "cardinality": vector["cardinality"],
            }
        )
        if not descriptor.is_relative:
            continue
        path = encode_path(descriptor.relative_path)
        if path not in named:
            named.add(path)
            found.append(RemoveFile(path, removed_at, data_change=False))
    return found
