"""How are the rows of a DataFrame written to a table?

`WriteCommand` creates the table if there is none. Otherwise it adds to it (append), replaces all its rows (overwrite),
or replaces the rows for which a condition is true (`replace_where`). In each case:

    columns by name -> values stored as the table's types -> missing columns filled -> rules enforced -> files -> commit

Rows that go are found by the DELETE command in the same transaction, so one commit removes the old ones and adds the
new ones. Everything that can be refused is refused before a file is written, and files whose commit is refused are
deleted again. An append depends on no row of the table, so it never conflicts with other writers of rows; an
overwrite may have read what it replaces, so a concurrent change to that is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from ebbtide.commands.write.rows import (
    bind_replace_where,
    enforce_condition,
    incoming_columns,
    rows_for,
    write_with_changes,
)
from ebbtide.commands.write.work import WriteWork
from ebbtide.errors import DeltaError, RequestError, TableAlreadyExistsError, TableNotFoundError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import SetTransaction
from ebbtide.protocol.features import ensure_writable
from ebbtide.transaction import Operation, Transaction
from ebbtide.write import write_files

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
        applied = set_transaction(request.options)
        if has_landed(transaction, applied):
            return self._result(None, WriteMetrics())
        return self._write(transaction, destination_of(snapshot, request, incoming_columns(request.frame)), applied)

    # --- a new table --------------------------------------------------------------------------------------------------

    def _create(self) -> WriteResult:
        request = self.request
        definition = definition_of(request, incoming_columns(request.frame))
        protocol, metadata = define_table(definition, defaults=request.default_properties())
        transaction = Transaction.create(request.store, metadata, protocol, config=request.options.config)
        target = target_of(request.store, protocol, metadata, config=request.options.config)
        rows = rows_for(request.frame, target, policy=request.policy)
        if request.replace_where is not None:
            rows = enforce_condition(rows, target, request.replace_where)
        self.on_phase("Writing rows")
        written = write_files(self.spark, rows, target)
        return self._commit(transaction, WriteWork(written), set_transaction(request.options))

    # --- a table that exists ------------------------------------------------------------------------------------------

    def _write(self, transaction: Transaction, place: Destination, applied: SetTransaction | None) -> WriteResult:
        request, snapshot, condition = self.request, transaction.snapshot, None
        if request.replace_where is not None:
            condition = bind_replace_where(self.spark, snapshot, request.replace_where)
        rows = rows_for(request.frame, place.target, policy=request.policy)
        if condition is not None and condition.text is not None:
            rows = enforce_condition(rows, place.target, condition.text)
        deletion = self._deletion()
        plan = deletion.plan(snapshot, condition) if request.mode == "overwrite" else None
        self.on_phase("Writing rows")
        # If the deletion writes change data, the new rows must too: readers do not mix written and inferred changes.
        if isinstance(plan, RewriteFiles) and snapshot.properties.enable_change_data_feed:
            written = write_with_changes(self.spark, rows, place.target)
        else:
            written = write_files(self.spark, rows, place.target)
        work = WriteWork(written, place.definition_actions)
        if plan is not None:
            self.on_phase("Looking for rows to replace")
            try:
                work.deletion = deletion.perform_delete(transaction, plan)
            except DeltaError:
                work.discard(self.request.store)
                raise
        return self._commit(transaction, work, applied)

    def _deletion(self) -> DeleteCommand:
        """The DELETE of the old rows: all of them, or those for which the condition is true."""
        request = DeleteRequest(self.request.store, self.request.replace_where, options=self.request.options)
        return DeleteCommand(self.spark, request)

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, transaction: Transaction, work: WriteWork, applied: SetTransaction | None) -> WriteResult:
        self.on_phase("Committing")
        metrics = work.metrics(replaces_rows=self.request.replace_where is not None)
        with discarding(lambda: work.discard(self.request.store)):
            committed = transaction.commit(
                work.actions(),
                self._operation(metrics),
                set_transaction=applied,
                allow_empty=applied is not None,
            )
        if not committed.is_new_version:
            work.discard(self.request.store)
            return self._result(None, WriteMetrics())
        refresh_readers(self.spark, self.request.store)
        run_after_commit(committed, self.request.options)
        return self._result(committed.version, metrics)

    def _operation(self, metrics: WriteMetrics) -> Operation:
        request = self.request
        parameters = {
            "mode": _MODE_NAMES[request.mode],
            "partitionBy": orjson.dumps(list(request.partition_by)).decode(),
        }
        if request.replace_where is not None:
            parameters["predicate"] = request.replace_where
        return Operation("WRITE", parameters, metrics.operation_metrics, request.options.user_metadata)

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
