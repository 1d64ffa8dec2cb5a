"""May these actions be committed to this table?

Every rule is a function that raises when it is broken; `check` runs them all, before each attempt and again after each
rebase. What only a mistake of ours can cause is an InternalError, and stops before it becomes part of a table. What the
caller or the table's settings cause is a RequestError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from ebbtide.errors import CorruptTableError, InternalError, RequestError
from ebbtide.protocol.actions import (
    AddCDCFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.protocol.features import (
    column_mapping_mode,
    deletion_vectors_readable,
    deletion_vectors_writable,
    ensure_writable,
    is_feature_supported,
)
from ebbtide.protocol.identity_columns import keep_marks
from ebbtide.protocol.schema import partition_fields, physical_name
from ebbtide.protocol.statistics import FileStatistics, num_records
from ebbtide.transaction.proposal import Proposal
from ebbtide.transaction.table_changes import check_metadata_change, check_protocol_change

__all__ = ["check"]

_DUPLICATE: Final = "DELTA_DUPLICATE_ACTIONS_FOUND"
# These add existing files again, with the vectors they already have.
_IN_PLACE_OPERATIONS: Final = frozenset({"COMPUTE STATS", "ROW TRACKING BACKFILL", "FSCK"})
# These name files as they are, or were, in some version: with tight bounds, smaller vectors, even without statistics.
_COPYING_OPERATIONS: Final = frozenset({"RESTORE", "CLONE"})
# These may take features from the protocol; a caller has to ask for it.
_DROPPING_OPERATIONS: Final = frozenset({"DROP FEATURE", "RESTORE", "CLONE"})
_REPLACING_OPERATIONS: Final = frozenset({"REPLACE TABLE", "CREATE OR REPLACE TABLE"})
# This writes tombstones for deletion-vector files, which were never live.
_TOMBSTONE_OPERATIONS: Final = frozenset({"Deletion Vector Tombstones"})
_ROW_KEEPING_OPERATIONS: Final = frozenset({"UPDATE", "OPTIMIZE", "REORG"})


def check(proposal: Proposal) -> None:
    """Raise for the first rule that the proposal breaks."""
    for rule in _RULES:
        rule(proposal)


def check_action_kinds(proposal: Proposal) -> None:
    for action in proposal.actions:
        if isinstance(action, CommitInfo | CheckpointMetadata | Sidecar):
            raise InternalError(f"a command must not stage a {type(action).__name__}")


def check_table_is_writable(proposal: Proposal) -> None:
    if proposal.base is not None:
        # We must be able to write to the table as it is, even if the commit itself would remove the obstacle.
        ensure_writable(proposal.base.protocol, proposal.base.metadata)
    if proposal.base is None or proposal.changes_protocol or proposal.changes_metadata:
        ensure_writable(proposal.protocol, proposal.metadata)


def check_table_changes(proposal: Proposal) -> None:
    if proposal.changes_protocol:
        before = None if proposal.base is None else proposal.base.protocol
        check_protocol_change(before, proposal.protocol, may_drop=proposal.operation.name in _DROPPING_OPERATIONS)
    if proposal.changes_metadata or proposal.changes_protocol:
        check_metadata_change(proposal.metadata, proposal.protocol, proposal.base)


def check_marks(proposal: Proposal) -> None:
    """No identity column counts again what it has counted, except in a table that takes the place of the old one."""
    base, metadata = proposal.base, proposal.metadata
    if base is None or not proposal.changes_metadata or proposal.operation.name in _REPLACING_OPERATIONS:
        return
    if keep_marks(metadata, base.metadata) != metadata:
        raise InternalError(
            f"{proposal.operation.name} would set back how far an identity column of {base.store.url} has counted, and "
            "numbers would come twice; nothing was committed"
        )


def append_only_error(table_url: str, done: str) -> RequestError:
    """The one refusal of all commands that change rows; `done` is what rows cannot be."""
    return RequestError(
        f"The table at {table_url} is append-only (delta.appendOnly=true), so no row can be {done}. Set the property "
        "to false first if that is really meant.",
        error_class="DELTA_CANNOT_MODIFY_APPEND_ONLY",
    )


def check_append_only(proposal: Proposal) -> None:
    base = proposal.base
    if base is None or not base.properties.append_only or not is_feature_supported(base.protocol, "appendOnly"):
        return
    if any(remove.data_change for remove in proposal.removes):
        raise append_only_error(base.store.url, "removed")


def check_partition_values(proposal: Proposal) -> None:
    """Every new file names exactly the partition columns, by their physical names."""
    mode = column_mapping_mode(proposal.protocol, proposal.metadata)
    fields = partition_fields(proposal.schema, proposal.metadata.partition_columns)
    expected = {field.name if mode == "none" else physical_name(field) for field in fields}
    for action in proposal.actions:
        if isinstance(action, AddFile | AddCDCFile) and set(action.partition_values) != expected:
            # A file that is named as it is, or was, brings the mistake along.
            is_known = proposal.operation.name in _COPYING_OPERATIONS or (
                isinstance(action, AddFile) and proposal.live_at(action) is not None
            )
            raise (CorruptTableError if is_known else InternalError)(
                f"the file '{action.path}' has partition values for {sorted(action.partition_values)}, but the table "
                f"is partitioned by {sorted(expected)}",
                error_class="DELTA_INVALID_PARTITIONING_SCHEMA",
            )


def check_duplicates(proposal: Proposal) -> None:
    """One action per path, application and domain; the order inside a commit means nothing."""
    _refuse_repeats((proposal.canonical[add.path] for add in proposal.adds), "adds the file '{}' twice")
    # A path with two vectors is refused with the files that are not live, unless the table is broken just so.
    removed = ((proposal.canonical[remove.path], remove.dv_id) for remove in proposal.removes)
    _refuse_repeats(removed, "removes the file '{0[0]}' twice")
    added = {(proposal.canonical[add.path], add.dv_id) for add in proposal.adds}
    for remove in proposal.removes:
        if (proposal.canonical[remove.path], remove.dv_id) in added:
            raise InternalError(
                f"the commit both adds and removes the file '{remove.path}' with the same deletion vector",
                error_class=_DUPLICATE,
            )
    apps = (action.app_id for action in proposal.actions if isinstance(action, SetTransaction))
    _refuse_repeats(apps, "sets the application transaction '{}' twice")
    domains = (action.domain for action in proposal.actions if isinstance(action, DomainMetadata))
    _refuse_repeats(domains, "states the domain '{}' twice")


def check_domains_are_supported(proposal: Proposal) -> None:
    domain = next((action.domain for action in proposal.actions if isinstance(action, DomainMetadata)), None)
    if domain is not None and not is_feature_supported(proposal.protocol, "domainMetadata"):
        raise RequestError(
            f"the domain '{domain}' cannot be stored: the table's protocol lacks the feature domainMetadata",
            error_class="DELTA_DOMAIN_METADATA_NOT_SUPPORTED",
        )


def check_files_are_live(proposal: Proposal) -> None:
    """A `remove` names a live file with its current vector, and no path ends up live twice.

    A wrong vector in a `remove` would leave the old file alive beside the new one: rows twice, or not deleted.
    """
    if proposal.operation.name not in _TOMBSTONE_OPERATIONS:
        for remove in proposal.removes:
            live = proposal.live_at(remove)
            if (proposal.canonical[remove.path], remove.dv_id) not in proposal.live_pairs:
                found = "is not live" if live is None else f"is live with the deletion vector {live.dv_id}"
                raise InternalError(
                    f"the commit removes the file '{remove.path}' with the deletion vector {remove.dv_id}, "
                    f"but it {found}"
                )
    removed = {proposal.canonical[remove.path] for remove in proposal.removes}
    for add in proposal.adds:
        live = proposal.live_at(add)
        if live is not None and live.dv_id != add.dv_id and proposal.canonical[add.path] not in removed:
            raise InternalError(
                f"the commit changes the deletion vector of '{add.path}' without removing the old one ({live.dv_id}); "
                "the file would be live twice",
                error_class=_DUPLICATE,
            )


def check_deletion_vectors(proposal: Proposal) -> None:
    """The table allows files with a vector, and their statistics are still right for readers."""
    with_vector = [(add, add.deletion_vector) for add in proposal.adds if add.deletion_vector is not None]
    if not with_vector:
        return
    name = proposal.operation.name
    is_readable = deletion_vectors_readable(proposal.protocol, proposal.metadata)
    is_writable = deletion_vectors_writable(proposal.protocol, proposal.metadata)
    # Vectors that exist already may come back even where no new ones are made any more.
    if not (is_readable and (is_writable or name in _IN_PLACE_OPERATIONS | _COPYING_OPERATIONS)):
        raise RequestError(
            f"{name} would add deletion vectors, which this table does not allow. Set the table property "
            "delta.enableDeletionVectors to true, or run the operation without them.",
            error_class="DELTA_ADDING_DELETION_VECTORS_DISALLOWED",
        )
    if name in _COPYING_OPERATIONS:
        return
    removed = {proposal.canonical[remove.path]: remove for remove in proposal.removes}
    for add, vector in with_vector:
        _check_vector(add, vector, may_be_tight=name in _IN_PLACE_OPERATIONS)
        _check_growth(add, vector, removed.get(proposal.canonical[add.path]))


def check_row_counts(proposal: Proposal) -> None:
    """When all files say how many rows they hold, the counts must fit the operation."""
    name = proposal.operation.name
    is_relevant = name in _ROW_KEEPING_OPERATIONS or name in {"DELETE", "MERGE"}
    added = _logical_rows(proposal.adds) if is_relevant else None
    removed = _logical_rows(proposal.removes) if added is not None else None
    if added is None or removed is None:
        return
    metrics = proposal.operation.metrics
    expected: int | None = None
    if name in _ROW_KEEPING_OPERATIONS:
        expected = removed
    elif name == "DELETE":
        expected = min(added, removed)
    elif {"numTargetRowsInserted", "numTargetRowsDeleted"} <= metrics.keys():
        expected = removed + int(metrics["numTargetRowsInserted"]) - int(metrics["numTargetRowsDeleted"])
    if expected is not None and added != expected:
        raise InternalError(
            f"{name} takes away files with {removed} rows and adds files with {added}, where {expected} were expected; "
            "nothing was committed",
            error_class="DELTA_NUM_RECORDS_MISMATCH",
        )


_RULES: Final[tuple[Callable[[Proposal], None], ...]] = (
    check_action_kinds,
    check_table_is_writable,
    check_table_changes,
    check_marks,
    check_append_only,
    check_duplicates,
    check_domains_are_supported,
    check_partition_values,
    check_files_are_live,
    check_deletion_vectors,
    check_row_counts,
)


def _refuse_repeats(items: Iterable[Hashable], sentence: str) -> None:
    repeated = next((item for item, count in Counter(items).items() if count > 1), None)
    if repeated is not None:
        raise InternalError(f"the commit {sentence.format(repeated)}", error_class=_DUPLICATE)


def _check_vector(add: AddFile, vector: DeletionVectorDescriptor, *, may_be_tight: bool) -> None:
    statistics = FileStatistics.parse(add.stats)
    if statistics is None or statistics.num_records is None:
        raise InternalError(
            f"the file '{add.path}' gets a deletion vector, but its statistics do not say how many rows it has",
            error_class="DELTA_DELETION_VECTOR_MISSING_NUM_RECORDS",
        )
    if statistics.tight_bounds is not False and not may_be_tight:
        raise InternalError(
            f"the file '{add.path}' gets a deletion vector, but its statistics still claim tight bounds",
            error_class="DELTA_ADDING_DELETION_VECTORS_WITH_TIGHT_BOUNDS_DISALLOWED",
        )
    last = vector.max_row_index
    if vector.cardinality > statistics.num_records or (last is not None and last >= statistics.num_records):
        raise InternalError(
            f"the deletion vector of '{add.path}' marks rows beyond the {statistics.num_records} of the file",
            error_class="DELTA_DELETION_VECTOR_INVALID_ROW_INDEX",
        )
    if vector.is_empty and not may_be_tight:
        raise InternalError(f"the file '{add.path}' gets a deletion vector that marks no row")


def _check_growth(add: AddFile, vector: DeletionVectorDescriptor, remove: RemoveFile | None) -> None:
    old = None if remove is None else remove.deletion_vector
    if old is not None and vector.cardinality < old.cardinality:
        raise InternalError(
            f"the deletion vector of '{add.path}' would shrink from {old.cardinality} to {vector.cardinality} rows; "
            "deleted rows would come back",
            error_class="DELTA_DELETION_VECTOR_SIZE_MISMATCH",
        )


def _logical_rows(files: Iterable[AddFile | RemoveFile]) -> int | None:
    total = 0
    for file in files:
        physical = num_records(file.stats)
        if physical is None:
            return None
        total += physical - file.num_marked_rows
    return total
