"""What exactly would the next commit file say?

`prepare` turns staged actions into the bytes of one attempt on top of one snapshot: checks first, then everything that
depends on the version and the time (row ids, commit versions, timestamps, provenance). It is called again for each
attempt with what the command staged, so nothing of a lost attempt can leak into the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ebbtide.config import EngineConfig
from ebbtide.errors import InternalError, RequestError
from ebbtide.log import Snapshot
from ebbtide.log.commit_times import in_commit_times
from ebbtide.protocol.actions import Action, Metadata, SetTransaction, serialize_actions
from ebbtide.protocol.identity_columns import moves_only_marks
from ebbtide.transaction.checks import check
from ebbtide.transaction.clock import Clock
from ebbtide.transaction.isolation import is_blind_append, isolation_level
from ebbtide.transaction.operation import Operation, commit_info
from ebbtide.transaction.proposal import Proposal
from ebbtide.transaction.read_back import ensure_readable_commit
from ebbtide.transaction.reads import Reads
from ebbtide.transaction.rebase import Lost
from ebbtide.transaction.row_tracking import with_row_ids

__all__ = ["Prepared", "Staged", "prepare"]

_ROW_TRACKING_PRESERVED = "delta.rowTracking.preserved"
_IDENTITY_ONLY = "delta.identity.schemaUpdate"


@dataclass(frozen=True, slots=True)
class Staged:
    """What a command wants to commit."""

    actions: tuple[Action, ...]
    operation: Operation
    set_transaction: SetTransaction | None = None

    @property
    def all_actions(self) -> tuple[Action, ...]:
        return self.actions if self.set_transaction is None else (self.set_transaction, *self.actions)

    def after(self, lost: Lost) -> Staged:
        """The same on top of winners that do not conflict."""
        if lost.read.properties.enable_row_tracking or not lost.newest.properties.enable_row_tracking:
            return self
        # Rows that were rewritten before row tracking was switched on did not keep their ids.
        tags = {**(self.operation.tags or {}), _ROW_TRACKING_PRESERVED: "false"}
        return replace(self, operation=replace(self.operation, tags=tags))


@dataclass(frozen=True, slots=True)
class Prepared:
    version: int
    # commitInfo first.
    actions: tuple[Action, ...]
    data: bytes


def prepare(
    staged: Staged,
    base: Snapshot | None,
    *,
    reads: Reads,
    txn_id: str,
    table_url: str,
    config: EngineConfig,
    clock: Clock,
) -> Prepared:
    """The attempt at the version after `base`, or at version 0 without one. Refuses what must not be committed."""
    version = 0 if base is None else base.version + 1
    now_ms = clock.now_ms()
    actions = tuple(_fill_in_date(action, now_ms) for action in staged.all_actions)
    proposal = Proposal.of(actions, staged.operation, base, table_url)
    check(proposal)
    timestamp_ms = _in_commit_timestamp(proposal, now_ms)
    if timestamp_ms is not None:
        actions = _with_enablement(actions, proposal, version, timestamp_ms)
    actions = with_row_ids(actions, proposal, version)
    info = commit_info(
        _with_count_noted(staged.operation, proposal),
        timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms,
        in_commit_timestamp=timestamp_ms,
        read_version=None if base is None else base.version,
        isolation_level=isolation_level(staged.all_actions, proposal.metadata),
        is_blind_append=is_blind_append(staged.all_actions, reads),
        txn_id=txn_id,
    )
    written: tuple[Action, ...] = (info, *actions)
    data = serialize_actions(written)
    _check_size(data, config)
    source = f"version {version} of {table_url}"
    ensure_readable_commit(data, written, proposal, source=source, config=config)
    return Prepared(version, written, data)


def _with_count_noted(operation: Operation, proposal: Proposal) -> Operation:
    """Note that the metadata changed in nothing but identity columns that counted on.

    The reference's writers, which compare no schemas, see by this that they need not give up.
    """
    base = proposal.base
    if base is None or not proposal.changes_metadata or not moves_only_marks(base.metadata, proposal.metadata):
        return operation
    return replace(operation, tags={**(operation.tags or {}), _IDENTITY_ONLY: "true"})


def _fill_in_date(action: Action, now_ms: int) -> Action:
    if isinstance(action, SetTransaction) and action.last_updated is None:
        return replace(action, last_updated=now_ms)
    return action


def _in_commit_timestamp(proposal: Proposal, now_ms: int) -> int | None:
    """The in-commit timestamp, always later than that of the commit before; None when the table has none."""
    if in_commit_times(proposal.protocol, proposal.metadata) is None:
        return None
    return now_ms if proposal.base is None else max(now_ms, proposal.base.timestamp_ms + 1)


def _with_enablement(
    actions: tuple[Action, ...], proposal: Proposal, version: int, timestamp_ms: int
) -> tuple[Action, ...]:
    """Records in the metadata when in-commit timestamps began, if this is the commit that starts them."""
    base = proposal.base
    if base is None or in_commit_times(base.protocol, base.metadata) is not None:
        return actions
    if not any(isinstance(action, Metadata) for action in actions):
        raise InternalError("In-commit timestamps were switched on by a protocol action alone; stage the metadata too.")
    enabled_at = {
        "delta.inCommitTimestampEnablementVersion": str(version),
        "delta.inCommitTimestampEnablementTimestamp": str(timestamp_ms),
    }
    return tuple(
        replace(action, configuration={**action.configuration, **enabled_at})
        if isinstance(action, Metadata)
        else action
        for action in actions
    )


def _check_size(data: bytes, config: EngineConfig) -> None:
    """Refuse a commit that this engine itself would refuse to read."""
    longest = max(map(len, data.split(b"\n"))) if len(data) > config.max_log_line_bytes else 0
    if len(data) > config.max_commit_bytes or longest > config.max_log_line_bytes:
        raise RequestError(
            f"the commit would be {len(data)} bytes long, with a line of {longest}; the limits are "
            f"{config.max_commit_bytes} and {config.max_log_line_bytes} (EngineConfig.max_commit_bytes, "
            "max_log_line_bytes). Split the operation into several."
        )
