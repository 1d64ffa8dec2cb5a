"""How does a table get a higher protocol, and how does it lose a feature?

A feature can go when nothing in the newest version uses it. Older versions still do, and a reader who does not know the
feature would misread them. So, as in the reference, three checkpoints are written first, the feature is exchanged for
`checkpointProtection`, and log cleanup must not come nearer than those checkpoints. Features that only writers need are
simply taken out of the protocol.

What takes rewritten files is not done here: marked rows are for REORG ... APPLY (PURGE), and so on. The error says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import orjson
import pyarrow.compute as pc

from ebbtide.commands.define.alter import set_properties, unset_properties
from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.vector_tombstones import vector_tombstones
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ProtocolChangedException, RequestError, UnsupportedFeatureError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.protocol.actions import Action, Protocol
from ebbtide.protocol.features import FEATURES, implied_features, supported_features, weakest_protocol
from ebbtide.protocol.schema import all_fields
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["drop_feature_support", "upgrade_table_protocol"]

_PROTECTION: Final = "checkpointProtection"
_PROTECTED_BEFORE: Final = "delta.requireCheckpointProtectionBeforeVersion"
_BARRIERS: Final = 3
# What old versions of the table may hold, and what they may not.
_IN_HISTORY: Final = frozenset(
    {"deletionVectors", "columnMapping", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)
_FOR_WRITERS: Final = frozenset(
    {
        "checkConstraints",
        "domainMetadata",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "materializePartitionColumns",
    }
)
_SWITCHES: Final = {
    "deletionVectors": "delta.enableDeletionVectors",
    "typeWidening": "delta.enableTypeWidening",
    "typeWidening-preview": "delta.enableTypeWidening",
    "inCommitTimestamp": "delta.enableInCommitTimestamps",
    "inCommitTimestamp-preview": "delta.enableInCommitTimestamps",
}


def upgrade_table_protocol(
    store: ObjectStore, reader_version: int, writer_version: int, *, options: WriteOptions, hint: Snapshot | None = None
) -> AlterResult:
    """Support everything that these protocol versions stand for. A protocol never gets less."""
    if not 1 <= reader_version <= 3 or not 1 <= writer_version <= 7:
        raise RequestError(
            f"There are no protocol versions ({reader_version}, {writer_version}): reader versions are 1 to 3, writer "
            "versions 1 to 7."
        )
    if reader_version == 3 and writer_version < 7:
        raise RequestError(
            f"Reader version 3 needs writer version 7, not {writer_version}.",
            error_class="DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE",
        )
    versions = {"delta.minReaderVersion": str(reader_version), "delta.minWriterVersion": str(writer_version)}
    operation = Operation(
        "SET TBLPROPERTIES", {"properties": orjson.dumps(versions).decode()}, user_metadata=options.user_metadata
    )

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        before = snapshot.protocol
        # Versions 3 and 7 stand for lists of features, so they imply none.
        wanted = implied_features(Protocol(reader_version, writer_version))
        missing = wanted - supported_features(before)
        after = weakest_protocol(supported_features(before) | wanted) if missing else before
        return [snapshot.metadata] if after == before else [after, snapshot.metadata], operation

    return commit_change(store, change, options, hint)


def drop_feature_support(
    store: ObjectStore,
    name: str,
    *,
    truncate_history: bool = False,
    options: WriteOptions,
    hint: Snapshot | None = None,
) -> AlterResult:
    """Take a feature out of the protocol, after everything that uses it was switched off."""
    snapshot = load_snapshot(store, config=options.config, hint=hint)
    feature = _removable_feature(snapshot, name, truncate_history=truncate_history)
    _refuse_uses(snapshot, feature)
    _switch_off(store, snapshot, feature, options)
    if feature == "deletionVectors":
        _commit_vector_tombstones(store, options)
    if feature in _IN_HISTORY:
        for _ in range(_BARRIERS):
            committed = Transaction.begin(store, config=options.config).commit(
                (), Operation("Empty Commit"), allow_empty=True
            )
            write_checkpoint(committed.snapshot)
    dropped = commit_change(store, lambda newest: _exchange(newest, feature, options), options)
    if feature in _IN_HISTORY:
        write_checkpoint(load_snapshot(store, config=options.config))
    return dropped


def _removable_feature(snapshot: Snapshot, name: str, *, truncate_history: bool) -> str:
    """The feature's own spelling; RequestError for one that cannot be dropped."""
    feature = next((known for known in FEATURES if known.lower() == name.strip().lower()), None)
    if feature is None:
        raise RequestError(
            f"{name!r} is not a table feature that Ebbtide knows, so it cannot be dropped.",
            error_class="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
        )
    if feature not in _IN_HISTORY | _FOR_WRITERS:
        droppable = ", ".join(sorted(_IN_HISTORY | _FOR_WRITERS))
        raise RequestError(
            f"The feature {feature} cannot be dropped. Features that can: {droppable}.",
            error_class="DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        )
    supported = supported_features(snapshot.protocol)
    if feature not in supported:
        raise RequestError(
            f"The table at {snapshot.store.url} does not have the feature {feature}.",
            error_class="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
        )
    if truncate_history and feature in _FOR_WRITERS:
        raise RequestError(
            f"The feature {feature} leaves nothing in the history that would have to go. Leave TRUNCATE HISTORY out.",
            error_class="DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED",
        )
    if truncate_history:
        raise UnsupportedFeatureError(
            "Ebbtide drops a feature without truncating the history: older versions stay readable for engines that "
            f"know the feature, and {_PROTECTION} takes its place. Leave TRUNCATE HISTORY out.",
            error_class="",
        )
    dependents = sorted(one for one in supported if one in FEATURES and feature in FEATURES[one].requires)
    if dependents:
        raise RequestError(
            f"The feature {feature} cannot be dropped while the table has {', '.join(dependents)}, which needs it.",
            error_class="DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
        )
    return feature


def _refuse_uses(snapshot: Snapshot, feature: str) -> None:
    """UnsupportedFeatureError for a use that this command does not end itself."""
    uses = list(_lasting_uses(snapshot, feature))
    if uses:
        error_class = "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE" if feature == "checkConstraints" else ""
        raise UnsupportedFeatureError(
            f"The feature {feature} cannot be dropped from the table at {snapshot.store.url}: {uses[0]}",
            error_class=error_class,
        )


def _lasting_uses(snapshot: Snapshot, feature: str) -> Iterator[str]:
    """What in the table still uses the feature, and what to do about it."""
    if feature == "deletionVectors":
        vectors = pc.sum(pc.is_valid(snapshot.files.column("deletion_vector"))).as_py() or 0
        if vectors:
            yield f"{vectors} of its files have marked rows. Run REORG TABLE ... APPLY (PURGE) first."
    elif feature == "columnMapping" and snapshot.properties.column_mapping_mode != "none":
        yield (
            "its files know columns by physical names and would have to be rewritten. Use an engine that can set "
            "delta.columnMapping.mode to 'none'."
        )
    elif feature.startswith("typeWidening"):
        changed = [field.name for field in all_fields(snapshot.schema) if "delta.typeChanges" in field.metadata]
        if changed:
            yield f"files may have the column {changed[0]} with an older type. Use an engine that can rewrite them."
    elif feature == "checkConstraints" and snapshot.properties.constraints:
        yield f"it has constraints. Drop them first: {', '.join(snapshot.properties.constraints)}."
    elif feature == "domainMetadata" and snapshot.domain_metadata:
        yield f"it keeps the domain {min(snapshot.domain_metadata)}."


def _switch_off(store: ObjectStore, snapshot: Snapshot, feature: str, options: WriteOptions) -> None:
    """Unset the property that switches the feature on, in a commit of its own."""
    name = _SWITCHES.get(feature)
    if name is not None and any(key.lower() == name.lower() for key in snapshot.metadata.configuration):
        unset_properties(store, [name], if_exists=True, options=options)
    if feature == "v2Checkpoint" and snapshot.properties.checkpoint_policy == "v2":
        set_properties(store, {"delta.checkpointPolicy": "classic"}, options=options)


def _commit_vector_tombstones(store: ObjectStore, options: WriteOptions) -> None:
    """Name the vector files that older versions need, so that an engine without the feature keeps them as long."""
    transaction = Transaction.begin(store, config=options.config)
    actions = vector_tombstones(transaction.snapshot)
    transaction.commit(actions, Operation("Deletion Vector Tombstones"), allow_empty=True)


def _exchange(snapshot: Snapshot, feature: str, options: WriteOptions) -> tuple[list[Action], Operation]:
    uses = list(_lasting_uses(snapshot, feature))
    switch = _SWITCHES.get(feature, "")
    if uses or (snapshot.properties.raw(switch) or "").strip().lower() == "true":
        raise ProtocolChangedException(
            f"Another writer used the feature {feature} of {snapshot.store.url} while it was being dropped. Run DROP "
            "FEATURE again.",
            error_class="DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
        )
    kept, metadata = supported_features(snapshot.protocol) - {feature}, snapshot.metadata
    if feature in _IN_HISTORY:
        kept |= {_PROTECTION}
        configuration = {**metadata.configuration, _PROTECTED_BEFORE: str(snapshot.version + 1)}
        metadata = replace(metadata, configuration=configuration)
    parameters = {"featureName": feature, "truncateHistory": False}
    operation = Operation("DROP FEATURE", parameters, user_metadata=options.user_metadata)
    return [weakest_protocol(kept), metadata], operation
