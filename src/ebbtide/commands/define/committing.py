"""How does a change of a table's definition become a commit?

A change is a function from a snapshot to actions. When another writer wins, it is called again with the newer snapshot,
because the rows may be others by then. A winner that changed the metadata itself is a conflict, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ebbtide.commands.requests import WriteOptions
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Protocol
from ebbtide.protocol.features import ensure_writable
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["AlterResult", "commit_change"]


@dataclass(frozen=True, slots=True)
class AlterResult:
    """What an ALTER TABLE did; `version` is None when there was nothing to change."""

    version: int | None
    protocol: Protocol
    configuration: Mapping[str, str]
    table_url: str


def commit_change(
    store: ObjectStore,
    change: Callable[[Snapshot], tuple[list[Action], Operation]],
    options: WriteOptions,
    hint: Snapshot | None = None,
    *,
    reads_rows: bool = False,
) -> AlterResult:
    """Commit what `change` returns for the newest version; nothing without actions.

    `reads_rows`: the change holds for the rows that it looked at, so it is computed again after every winner.
    """
    transaction = Transaction.begin(store, config=options.config, hint=hint)
    snapshot = transaction.snapshot
    ensure_writable(snapshot.protocol, snapshot.metadata)

    def follow(lost: Lost, /) -> Rebased | None:
        actions, operation = change(lost.newest)
        return Rebased(tuple(actions), operation) if actions else None

    if reads_rows:
        transaction.record_read_whole_table()
    actions, operation = change(snapshot)
    committed = transaction.commit(actions, operation, rebase=follow)
    after = committed.snapshot
    version = committed.version if committed.is_new_version else None
    return AlterResult(version, after.protocol, after.metadata.configuration, store.url)
