"""How are the rows of a DataFrame written to a table?

`WriteCommand` creates the table if there is none. Otherwise it adds to it (append), replaces all its rows (overwrite),
or replaces the rows for which a condition is true (`replace_where`). In each case:

    columns by name -> values stored as the table's types -> missing columns filled -> rules enforced -> files -> commit

Rows that go are found by the DELETE command in the same transaction, so one commit removes the old ones and adds the
new ones. Everything that can be refused is refused before a file is written, and files whose commit is refused are
deleted again. An append depends on no row of the table, so it never conflicts with other writers of rows; an
overwrite may have read what it replaces, so a concurrent change to that is a conflict. Rows that were numbered are
written again when another writer used the same numbers (`write.work`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import orjson
from pyspark.sql import SparkSession

from ebbtide.commands.define.definition import define_table, target_of
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.committing import (
    assert_not_append_only,
    discarding,
    has_landed,
    refresh_readers,
    run_after_commit,
    set_transaction,
)
from ebbtide.commands.row_level.plan import RewriteFiles
from ebbtide.commands.write.destination import Destination, definition_of, destination_of
from ebbtide.commands.write.request import WriteMetrics, WriteRequest, WriteResult
from ebbtide.commands.write.rows import WrittenRows, bind_replace_where, incoming_columns, rows_for, write_rows
from ebbtide.commands.write.work import WriteWork
from ebbtide.errors import DeltaError, RequestError, TableAlreadyExistsError, TableNotFoundError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.protocol.features import ensure_writable
from ebbtide.transaction import Lost, Operation, Rebased, Transaction

__all__ = ["WriteCommand"]

_MODE_NAMES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}


@dataclass(slots=True)
class WriteCommand:
    """One write of a frame's rows."""

    spark: SparkSession
    request: WriteRequest
    # Called with the current step, to show progress.
    on_phase: Callable[[str], None] = lambda _: None

    def run(self) -> WriteResult:
        request = self.request
        self.on_phase("Reading the log")
        try:
            transaction = Transaction.begin(request.store, config=request.options.config, hint=request.hint)
        except TableNotFoundError:
            return self._create()
        snapshot = transaction.snapshot
        if request.mode == "ignore":
            return self._result(None, WriteMetrics())
        if request.mode == "error":
            raise TableAlreadyExistsError(
                f"There is a Delta table at {request.store.url} already. Use mode='append' or 'overwrite' to write to "
                "it, or 'ignore' to leave it as it is.",
                error_class="DELTA_PATH_EXISTS",
            )
        ensure_writable(snapshot.protocol, snapshot.metadata)
        if request.mode == "overwrite":
            assert_not_append_only(snapshot)
            _refuse_dynamic_overwrite(request, snapshot)
        app_transaction = set_transaction(request.options)
        if has_landed(transaction, app_transaction):
            return self._result(None, WriteMetrics())
        return self._write(
            transaction, destination_of(snapshot, request, incoming_columns(request.frame)), app_transaction
        )

    # --- a new table --------------------------------------------------------------------------------------------------

    def _create(self) -> WriteResult:
        request = self.request
        definition = definition_of(request, incoming_columns(request.frame))
        protocol, metadata = define_table(definition, defaults=request.default_properties())
        transaction = Transaction.create(request.store, metadata, protocol, config=request.options.config)
        target = target_of(request.store, protocol, metadata, config=request.options.config)
        write = self._row_writer(request.replace_where)
        place = Destination(target, metadata)
        return self._commit(transaction, WriteWork(write(place), place, write), set_transaction(request.options))

    # --- a table that exists ------------------------------------------------------------------------------------------

    def _write(
        self, transaction: Transaction, place: Destination, app_transaction: SetTransaction | None
    ) -> WriteResult:
        request, snapshot, condition = self.request, transaction.snapshot, None
        if request.replace_where is not None:
            condition = bind_replace_where(self.spark, snapshot, request.replace_where)
        deletion = self._deletion()
        plan = deletion.plan(snapshot, condition) if request.mode == "overwrite" else None
        # If the deletion writes change data, the new rows must too: readers do not mix written and inferred changes.
        with_changes = isinstance(plan, RewriteFiles) and snapshot.properties.enable_change_data_feed
        write = self._row_writer(None if condition is None else condition.text, with_changes=with_changes)
        work = WriteWork(write(place), place, write)
        if plan is not None:
            self.on_phase("Looking for rows to replace")
            try:
                work.deletion = deletion.perform_delete(transaction, plan)
            except DeltaError:
                work.discard(self.request.store)
                raise
        return self._commit(transaction, work, app_transaction)

    def _row_writer(self, condition: str | None, *, with_changes: bool = False) -> Callable[..., WrittenRows]:
        """A function that writes the rows of the request; every row must satisfy the condition."""

        def write(place: Destination, skipped: int = 0) -> WrittenRows:
            rows = rows_for(self.request, place.target, skipped=skipped)
            if condition is not None:
                rows = rows.require(condition, place.target)
            self.on_phase("Writing rows")
            return write_rows(self.spark, rows, place.target, with_changes=with_changes)

        return write

    def _deletion(self) -> DeleteCommand:
        """The DELETE of the old rows: all of them, or those for which the condition is true."""
        request = DeleteRequest(self.request.store, self.request.replace_where, options=self.request.options)
        return DeleteCommand(self.spark, request)

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, transaction: Transaction, work: WriteWork, app_transaction: SetTransaction | None) -> WriteResult:
        self.on_phase("Committing")
        follows = work.hands_out_numbers and self.request.options.conflicts == "rebase"
        with discarding(lambda: work.discard(self.request.store)):
            committed = transaction.commit(
                work.actions(),
                self._operation(work),
                rebase=partial(self._follow, work) if follows else None,
                set_transaction=app_transaction,
                allow_empty=app_transaction is not None,
            )
        if not committed.is_new_version:
            work.discard(self.request.store)
            return self._result(None, WriteMetrics())
        refresh_readers(self.spark, self.request.store)
        run_after_commit(committed, self.request.options)
        return self._result(committed.version, self._metrics(work))

    def _follow(self, work: WriteWork, lost: Lost, /) -> Rebased:
        """The numbers of identity columns depend on the winners; everything else does not, or conflicts with them."""
        conflict = lost.conflict_of_files()
        if conflict is not None:
            raise conflict
        work.follow(destination_of(lost.newest, self.request, incoming_columns(self.request.frame)))
        return Rebased(work.actions(), self._operation(work))

    def _metrics(self, work: WriteWork) -> WriteMetrics:
        return work.metrics(replaces_rows=self.request.replace_where is not None)

    def _operation(self, work: WriteWork) -> Operation:
        request = self.request
        parameters = {
            "mode": _MODE_NAMES[request.mode],
            "partitionBy": orjson.dumps(list(request.partition_by)).decode(),
        }
        if request.replace_where is not None:
            parameters["predicate"] = request.replace_where
        metrics = self._metrics(work).operation_metrics
        return Operation("WRITE", parameters, metrics, request.options.user_metadata)

    def _result(self, version: int | None, metrics: WriteMetrics) -> WriteResult:
        return WriteResult(version, metrics, self.request.store.url)


def _refuse_dynamic_overwrite(request: WriteRequest, snapshot: Snapshot) -> None:
    """A session that means "replace only these partitions" must not lose the others."""
    replaces_all = request.replace_where is None and not request.overwrite_schema
    if request.means_partitions and replaces_all and snapshot.metadata.partition_columns:
        raise RequestError(
            "The session overwrites partitions dynamically (spark.sql.sources.partitionOverwriteMode), and here an "
            f"overwrite of the table at {snapshot.store.url} would replace all of its rows. Nothing was changed. Name "
            "what to replace (replace_where, in SQL: INSERT INTO ... REPLACE WHERE condition), or set the mode to "
            "STATIC."
        )
