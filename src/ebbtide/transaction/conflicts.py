"""Does a commit that won conflict with ours?

Each rule of the reference is a function of two values, our side (`Contender`) and one winning commit. It returns the
exception to raise, or None. `LASTING_RULES` hold for every command: no rebase can repair what they find.
`FILE_RULES` compare files and apply only to a command that does not rebase. Files are compared by path, never by
deletion vector: that makes the reference strict, and is what a rebase improves on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ebbtide.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from ebbtide.protocol.features import supported_features
from ebbtide.protocol.identity_columns import moves_only_marks
from ebbtide.protocol.paths import canonical_path
from ebbtide.transaction.isolation import (
    ROW_TRACKING_DOMAIN,
    SNAPSHOT_ISOLATION,
    WRITE_SERIALIZABLE,
    is_blind_append,
    isolation_level,
)
from ebbtide.transaction.metadata_conflicts import intolerable_changes
from ebbtide.transaction.reads import Reads
from ebbtide.transaction.winners import WinningCommit

__all__ = [
    "FILE_RULES",
    "LASTING_RULES",
    "Contender",
    "first_conflict",
    "first_conflict_of_files",
    "first_lasting_conflict",
]

_AGAIN: Final = "Nothing was changed. Run the operation again on the table as it is now."


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """Our side: what was read at which version, and what is to be committed."""

    snapshot: Snapshot
    reads: Reads
    actions: tuple[Action, ...]
    operation_name: str
    set_transaction: SetTransaction | None = None
    # The command makes its metadata anew from what the winners left, so it loses nothing that they changed.
    follows: bool = False
    # As the winners so far have left them; None until one of them made a change.
    new_protocol: Protocol | None = None
    new_metadata: Metadata | None = None

    @property
    def protocol(self) -> Protocol:
        return self.new_protocol or self.snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        return self.new_metadata or self.snapshot.metadata

    @property
    def table_url(self) -> str:
        return self.snapshot.store.url

    def stages(self, kind: type[Action]) -> bool:
        return any(isinstance(action, kind) for action in self.actions)

    @property
    def changes_definition(self) -> bool:
        """Whether the metadata changes in more than how far identity columns have counted."""
        own = (action for action in self.actions if isinstance(action, Metadata))
        return any(not moves_only_marks(self.snapshot.metadata, metadata) for metadata in own)

    def after(self, winner: WinningCommit) -> Contender:
        """Our side on top of a winner that does not conflict."""
        return replace(
            self,
            new_protocol=winner.protocol or self.new_protocol,
            new_metadata=winner.metadata or self.new_metadata,
        )


Rule = Callable[[Contender, WinningCommit], DeltaConcurrentModificationException | None]


def first_conflict(ours: Contender, winners: Iterable[WinningCommit]) -> DeltaConcurrentModificationException | None:
    """What the reference would raise: the first rule that the oldest incompatible winner breaks."""
    return _first(ours, winners, (*LASTING_RULES, *FILE_RULES))


def first_lasting_conflict(
    ours: Contender, winners: Iterable[WinningCommit]
) -> DeltaConcurrentModificationException | None:
    """What stops even a command that rebases.

    Its own application's progress does not: it is checked again after the rebase, and a transaction that has already
    landed is not done twice.
    """
    ours = replace(ours, follows=True)
    own = ours.set_transaction
    if own is not None:
        ours = replace(ours, reads=replace(ours.reads, app_ids=ours.reads.app_ids - {own.app_id}))
    return _first(ours, winners, LASTING_RULES)


def first_conflict_of_files(
    ours: Contender, winners: Iterable[WinningCommit]
) -> DeltaConcurrentModificationException | None:
    """What the reference would raise for the files alone."""
    return _first(ours, winners, FILE_RULES)


def protocol_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """Both change the protocol, or the winner takes features away.

    A protocol that we do not support at all was refused earlier, when the new snapshot was loaded.
    """
    if winner.protocol is None:
        return None
    if ours.stages(Protocol):
        return ProtocolChangedException(
            f"{ours.operation_name} changes the protocol of {ours.table_url}, and so did {winner.description}. {_AGAIN}"
        )
    lost = supported_features(ours.protocol) - supported_features(winner.protocol)
    if lost:
        return ProtocolChangedException(
            f"{winner.description} took the features {', '.join(sorted(lost))} from the protocol of {ours.table_url} "
            f"while {ours.operation_name} ran. {_AGAIN}"
        )
    return None


def feature_drop_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """We take a feature away, and the winner may have used it once more."""
    after = next((action for action in ours.actions if isinstance(action, Protocol)), None)
    lost = frozenset() if after is None else supported_features(ours.protocol) - supported_features(after)
    if not lost or not (winner.adds or winner.removes or winner.metadata or winner.domains):
        return None
    return ProtocolChangedException(
        f"{ours.operation_name} takes the features {', '.join(sorted(lost))} from {ours.table_url}, but "
        f"{winner.description} changed the table meanwhile and may have used them. {_AGAIN}",
        error_class="DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
    )


def metadata_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """Both change the metadata, or the winner's change does more than switch on a harmless feature.

    Counting on in an identity column is harmless. If one of the two does only that, a command that follows can do both.
    """
    if winner.metadata is None:
        return None
    counts_only = not ours.changes_definition or moves_only_marks(ours.metadata, winner.metadata)
    if ours.stages(Metadata) and not (ours.follows and counts_only):
        return MetadataChangedException(
            f"{ours.operation_name} changes the metadata of {ours.table_url}, and so did {winner.description}. {_AGAIN}"
        )
    changes = intolerable_changes(ours.metadata, winner.metadata, winner.protocol or ours.protocol)
    if changes:
        return MetadataChangedException(
            f"{winner.description} changed the metadata of {ours.table_url} while {ours.operation_name} ran: "
            f"{', '.join(changes[:10])}. {_AGAIN}"
        )
    return None


def domain_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """Both set the same domain. Row tracking is exempt: its mark continues from the winner's."""
    own = {action.domain for action in ours.actions if isinstance(action, DomainMetadata)} - {ROW_TRACKING_DOMAIN}
    both = sorted(own & {domain.domain for domain in winner.domains})
    if both:
        return ConcurrentTransactionException(
            f"{ours.operation_name} states the metadata domain '{both[0]}' of {ours.table_url}, and so did "
            f"{winner.description}. {_AGAIN}"
        )
    return None


def application_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """The winner advanced an application whose progress we read."""
    for transaction in winner.transactions:
        if transaction.app_id in ours.reads.app_ids:
            return ConcurrentTransactionException(
                f"{winner.description} moved the application '{transaction.app_id}' to transaction "
                f"{transaction.version} on {ours.table_url} while {ours.operation_name} ran for the same application. "
                "Nothing was changed. If it is the same work sent twice, nothing is left to do; otherwise stop one of "
                "the two writers."
            )
    return None


def append_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """The winner added a file that one of our reads would have seen."""
    adds = _adds_that_count(ours, winner)
    if not adds or is_blind_append(ours.actions, ours.reads):
        return None
    found = ours.reads.first_matching(adds, ours.snapshot)
    if found is None:
        return None
    return ConcurrentAppendException(
        f"{winner.description} added the file '{found.path}' to {_partition(found)} of {ours.table_url}, which "
        f"{ours.operation_name} had read without it. {_AGAIN} Conditions on partition columns keep operations on "
        "different partitions apart."
    )


def delete_read_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """The winner removed a file that we read."""
    path = ours.reads.first_read_path((remove.path for remove in winner.removes), ours.table_url)
    if path is None:
        return None
    return ConcurrentDeleteReadException(
        f"{winner.description} removed or rewrote the file '{path}' of {ours.table_url}, which {ours.operation_name} "
        f"had read. {_AGAIN}"
    )


def delete_delete_conflict(ours: Contender, winner: WinningCommit) -> DeltaConcurrentModificationException | None:
    """The winner removed a file that we remove as well."""
    own = {canonical_path(action.path, ours.table_url) for action in ours.actions if isinstance(action, RemoveFile)}
    for remove in winner.removes if own else ():
        if canonical_path(remove.path, ours.table_url) in own:
            return ConcurrentDeleteDeleteException(
                f"{winner.description} removed or rewrote the file '{remove.path}' of {ours.table_url}, which "
                f"{ours.operation_name} removes too. {_AGAIN}"
            )
    return None


LASTING_RULES: Final[tuple[Rule, ...]] = (
    protocol_conflict,
    feature_drop_conflict,
    metadata_conflict,
    domain_conflict,
    application_conflict,
)
FILE_RULES: Final[tuple[Rule, ...]] = (append_conflict, delete_read_conflict, delete_delete_conflict)


def _first(
    ours: Contender, winners: Iterable[WinningCommit], rules: Sequence[Rule]
) -> DeltaConcurrentModificationException | None:
    for winner in winners:
        for rule in rules:
            conflict = rule(ours, winner)
            if conflict is not None:
                return conflict
        ours = ours.after(winner)
    return None


def _adds_that_count(ours: Contender, winner: WinningCommit) -> tuple[AddFile, ...]:
    """New files of the winner that our isolation level does not let us ignore."""
    level = isolation_level(ours.actions, ours.metadata)
    if level == SNAPSHOT_ISOLATION:
        return ()
    is_blind = winner.commit_info is not None and winner.commit_info.is_blind_append is True
    if level == WRITE_SERIALIZABLE and is_blind and not ours.changes_definition:
        return ()
    return winner.adds


def _partition(add: AddFile) -> str:
    if not add.partition_values:
        return "the unpartitioned data"
    shown = ", ".join(f"{name}={value}" for name, value in list(add.partition_values.items())[:10])
    return f"partition [{shown[:200]}]"
