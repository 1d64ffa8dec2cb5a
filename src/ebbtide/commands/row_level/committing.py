"""What do all changing commands do before and after their commit?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from pyspark.sql import SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.row_level.counters import now_ms
from ebbtide.errors import CommitOutcomeUnknownError, DeltaError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.protocol.features import ensure_writable
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Committed, Transaction
from ebbtide.transaction.checks import append_only_error

__all__ = [
    "ChangeRequest",
    "assert_not_append_only",
    "begin_transaction",
    "discarding",
    "has_landed",
    "refresh_readers",
    "row_tracking_tags",
    "run_after_commit",
    "set_transaction",
]


class ChangeRequest(Protocol):
    """What the requests of all verbs have."""

    @property
    def store(self) -> ObjectStore: ...

    @property
    def options(self) -> WriteOptions: ...

    @property
    def hint(self) -> Snapshot | None: ...


def begin_transaction(request: ChangeRequest) -> Transaction:
    """A transaction on a table that Ebbtide may write to."""
    transaction = Transaction.begin(request.store, config=request.options.config, hint=request.hint)
    ensure_writable(transaction.snapshot.protocol, transaction.snapshot.metadata)
    return transaction


def set_transaction(options: WriteOptions) -> SetTransaction | None:
    """The application's transaction that the request names, if any."""
    if options.txn_app_id is None or options.txn_version is None:
        return None
    return SetTransaction(options.txn_app_id, options.txn_version, now_ms())


def has_landed(transaction: Transaction, app_transaction: SetTransaction | None) -> bool:
    """Whether the table already has the application's transaction."""
    return app_transaction is not None and transaction.has_been_executed(
        app_transaction.app_id, app_transaction.version
    )


def refresh_readers(spark: SparkSession, store: ObjectStore) -> None:
    """Make cached readers of the table's path forget what they hold.

    The commit has landed, so nothing is raised: a Spark that cannot reach the store holds nothing of it.
    """
    with suppress(DeltaError), border.spark_errors(f"refreshing what Spark holds of {store.url}"):
        spark.catalog.refreshByPath(store.spark_path)


def run_after_commit(committed: Committed, options: WriteOptions) -> None:
    """Do what the door wants done now that the commit has landed."""
    if options.after_commit is not None:
        options.after_commit(committed, options)


@contextmanager
def discarding(discard: Callable[[], None]) -> Iterator[None]:
    """Wrap a commit: if it is refused, delete the files that were written for it."""
    try:
        yield
    except CommitOutcomeUnknownError:
        # The commit may have landed, and then the table needs every file of it.
        raise
    except DeltaError:
        discard()
        raise


def row_tracking_tags(snapshot: Snapshot, *, keeps_row_ids: bool) -> dict[str, str] | None:
    """The tag that says whether rows kept their ids. Rows written before the table tracked them did not."""
    if not snapshot.properties.enable_row_tracking:
        return None
    return {"delta.rowTracking.preserved": "true" if keeps_row_ids else "false"}


def assert_not_append_only(snapshot: Snapshot, done: str = "deleted") -> None:
    """Refuse an append-only table before any work, even if nothing would match. `done` is the verb for the message."""
    if snapshot.properties.append_only:
        raise append_only_error(snapshot.store.url, done)
