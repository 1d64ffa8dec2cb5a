"""What in a table uses a feature: in its newest version, and in the versions before it?"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from ebbtide.config import EngineConfig
from ebbtide.log import Snapshot, load_snapshot, read_commit
from ebbtide.log.listing import LogListing, list_log
from ebbtide.protocol.actions import Action, AddFile, Metadata, RemoveFile
from ebbtide.protocol.log_names import V2CheckpointName, parse_log_name
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import all_fields, parse_schema
from ebbtide.protocol.type_changes import TYPE_CHANGES

__all__ = ["commit_using", "live_uses", "version_using"]


def live_uses(snapshot: Snapshot, feature: str) -> Iterator[str]:
    """What the newest version uses of the feature, as parts of sentences: `it has ...`."""
    if feature == "deletionVectors":
        vectors = pc.sum(pc.is_valid(snapshot.files.column("deletion_vector"))).as_py() or 0
        if vectors:
            yield f"it has {vectors} files with marked rows"
    if _metadata_uses(snapshot.metadata, feature):
        yield "its properties or columns use it"
    if feature.startswith("typeWidening") and snapshot.properties.enable_type_widening:
        yield "it has delta.enableTypeWidening"
    if feature == "checkConstraints" and snapshot.properties.constraints:
        yield f"it has constraints. Drop them first: {', '.join(snapshot.properties.constraints)}"
    if feature == "domainMetadata" and snapshot.domain_metadata:
        yield f"it keeps the domain {min(snapshot.domain_metadata)}, which another engine may need"
    if feature.startswith("inCommitTimestamp") and snapshot.properties.enable_in_commit_timestamps:
        yield "it has delta.enableInCommitTimestamps"


def version_using(snapshot: Snapshot, feature: str, *, config: EngineConfig) -> int | None:
    """The newest version, of those that the log can still show, in which the feature is used; None when none does.

    Tombstones of the oldest state do not count, as in the reference: readers look at no file that they name.
    """
    store = snapshot.store
    listing = list_log(store)
    newest = commit_using(snapshot, feature, sorted(listing.commits), config=config)
    if newest is not None:
        return newest
    if feature == "v2Checkpoint":
        return next((files.version for files in listing.checkpoints if _is_v2(files.files[0].path)), None)
    oldest = _oldest_state(listing)
    if oldest is None:
        return None
    state = load_snapshot(store, version=oldest, config=config)
    return oldest if any(live_uses(state, feature)) else None


def commit_using(snapshot: Snapshot, feature: str, versions: list[int], *, config: EngineConfig) -> int | None:
    """The newest of these commits that uses the feature."""
    for version in reversed(versions):
        if version <= snapshot.version and any(
            _action_uses(action, feature) for action in read_commit(snapshot.store, version, config=config)
        ):
            return version
    return None


def _oldest_state(listing: LogListing) -> int | None:
    """The oldest checkpoint, where commits alone do not lead back to the beginning."""
    if 0 in listing.commits or not listing.checkpoints:
        return None
    return listing.checkpoints[-1].version


def _is_v2(path: str) -> bool:
    return isinstance(parse_log_name(path.rpartition("/")[2]), V2CheckpointName)


def _action_uses(action: Action, feature: str) -> bool:
    match action:
        case Metadata():
            return _metadata_uses(action, feature)
        case AddFile() | RemoveFile():
            return feature == "deletionVectors" and action.deletion_vector is not None
        case _:
            return False


def _metadata_uses(metadata: Metadata, feature: str) -> bool:
    properties = TableProperties.parse(metadata.configuration)
    match feature:
        case "deletionVectors":
            return properties.enable_deletion_vectors
        case "columnMapping":
            return properties.column_mapping_mode != "none"
        case "typeWidening" | "typeWidening-preview":
            fields = all_fields(parse_schema(metadata.schema_string))
            return any(TYPE_CHANGES in field.metadata for field in fields)
        case "v2Checkpoint":
            return properties.checkpoint_policy == "v2"
    return False
