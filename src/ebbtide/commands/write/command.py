"""How are the rows of a DataFrame written to a table?

`WriteCommand` makes the table where there is none, and else adds to it (append), puts the rows in the place of all that
was there (overwrite), or in the place of the rows for which a condition is true (`replace_where`). In each case:

    columns by name -> values stored as the table's types -> missing columns filled -> rules enforced -> files -> commit

Rows that go are found by the DELETE command in the same transaction, so one commit takes the old ones away and brings
the new ones. Everything that can be refused is refused before a file is written, and files whose commit is refused are
deleted again. An append depends on nothing that is in the table, so it never conflicts with other writers of rows; an
overwrite may have read what it replaces, so a concurrent change of that is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import orjson
from pyspark.sql import DataFrame, SparkSession

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import (
    TableDefinition,
    check_column_names,
    defined,
    refuse_nested_void,
    schema_of,
    target_of,
)
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.results import DeleteMetrics
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.committing import (
    assert_not_append_only,
    discarding,
    has_landed,
    refresh_readers,
    set_transaction,
)
from ebbtide.commands.row_level.conditions import BoundCondition, bind_condition
from ebbtide.commands.row_level.new_rows import with_insert_changes
from ebbtide.commands.row_level.plan import RewriteFiles
from ebbtide.commands.row_level.work import Work
from ebbtide.commands.write.request import WriteMetrics, WriteRequest, WriteResult
from ebbtide.errors import (
    DeltaError,
    RequestError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Metadata, Protocol, SetTransaction
from ebbtide.protocol.change_columns import refuse_change_columns
from ebbtide.protocol.features import ensure_writable, upgrade_protocol_for
from ebbtide.protocol.properties import FEATURE_PREFIX
from ebbtide.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from ebbtide.protocol.schema_evolution import evolved_metadata
from ebbtide.transaction import Operation, Transaction
from ebbtide.transaction.table_changes import required_features
from ebbtide.write import WriteTarget, WrittenFiles, completed, enforced, stored, write_files
from ebbtide.write.abandoned import discard
from ebbtide.write.rules import conforming, identity_columns

__all__ = ["WriteCommand"]

_VOID = PrimitiveType("void")
_MODE_NAMES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}


@dataclass(frozen=True, slots=True)
class _Destination:
    """The table as it will be after the commit, and the actions that make it so."""

    target: WriteTarget
    changes: tuple[Action, ...] = ()


@dataclass(slots=True)
class WriteCommand:
    """One write of a frame's rows."""

    spark: SparkSession
    request: WriteRequest
    # Told what is being done, for whoever shows progress.
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
        return self._write(transaction, self._destination(snapshot), applied)

    # --- a new table --------------------------------------------------------------------------------------------------

    def _create(self) -> WriteResult:
        request = self.request
        definition = TableDefinition(self._incoming(), request.partition_by, request.properties)
        protocol, metadata = defined(definition, defaults=request.default_properties())
        transaction = Transaction.create(request.store, metadata, protocol, config=request.options.config)
        target = target_of(request.store, protocol, metadata)
        rows = self._rows(target)
        if request.replace_where is not None:
            rows = conforming(rows, target, request.replace_where)
        self.on_phase("Writing rows")
        written = write_files(self.spark, rows, target)
        return self._commit(transaction, _Work(written), set_transaction(request.options))

    # --- a table that exists ------------------------------------------------------------------------------------------

    def _write(self, transaction: Transaction, place: _Destination, applied: SetTransaction | None) -> WriteResult:
        snapshot = transaction.snapshot
        condition = self._condition(snapshot)
        rows = self._rows(place.target)
        if condition is not None and condition.text is not None:
            rows = conforming(rows, place.target, condition.text)
        deletion = self._deletion()
        plan = deletion.plan(snapshot, condition) if self.request.mode == "overwrite" else None
        self.on_phase("Writing rows")
        # Where the deletion writes change data the new rows must, too, since readers mix nothing.
        if isinstance(plan, RewriteFiles) and snapshot.properties.enable_change_data_feed:
            written = _write_with_changes(self.spark, rows, place.target)
        else:
            written = write_files(self.spark, rows, place.target)
        work = _Work(written, place.changes)
        if plan is not None:
            self.on_phase("Looking for rows to replace")
            try:
                work.deletion = deletion.perform_delete(transaction, plan)
            except DeltaError:
                work.discard(self.request)
                raise
        return self._commit(transaction, work, applied)

    def _deletion(self) -> DeleteCommand:
        """What takes the old rows away: all of them, or those for which the condition is true."""
        request = DeleteRequest(self.request.store, self.request.replace_where, options=self.request.options)
        return DeleteCommand(self.spark, request)

    def _condition(self, snapshot: Snapshot) -> BoundCondition | None:
        if self.request.replace_where is None:
            return None
        condition = bind_condition(self.spark, snapshot, self.request.replace_where)
        if not condition.is_row_local:
            raise RequestError(
                f"replace_where={self.request.replace_where!r} has a subquery; it must speak of the row alone.",
                error_class="DELTA_UNSUPPORTED_SUBQUERY",
            )
        return condition

    def _destination(self, snapshot: Snapshot) -> _Destination:
        incoming = self._incoming()
        request = self.request
        if request.overwrite_schema:
            definition = TableDefinition(
                incoming, request.partition_by, request.properties, snapshot.metadata.description
            )
            protocol, metadata = defined(definition, replaced=snapshot, keeps_properties=True)
            return _destination(snapshot, protocol, metadata)
        _check_agreement(snapshot, request)
        added = _new_names(snapshot.schema, incoming)
        if not added:
            return _Destination(WriteTarget.of(snapshot))
        if not request.merge_schema:
            raise RequestError(
                f"The rows have columns that the table at {snapshot.store.url} does not have: {', '.join(added)}. It "
                f"has {', '.join(snapshot.schema.names)}. Leave them out, or write with merge_schema=True to add them.",
                error_class="DELTA_METADATA_MISMATCH",
            )
        return _evolved(snapshot, incoming)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _incoming(self) -> StructType:
        """The columns of the frame as a table would have them."""
        with border.spark_errors("reading the columns of the DataFrame"):
            schema = self.request.frame.schema
        return schema_of(schema)

    def _rows(self, target: WriteTarget) -> DataFrame:
        """The frame's rows as rows of the table, complete and under its rules."""
        frame = self.request.frame
        given = {field.name.lower(): field for field in frame.schema.fields}
        _refuse_given_identities(target, given)
        columns = []
        for field in target.schema.fields:
            found = given.get(field.name.lower())
            if found is not None:
                value = stored(border.column(found.name), found.dataType, field, policy=self.request.policy)
                columns.append(value.alias(field.name))
        rows = completed(frame.select(*columns), target, given=frozenset(given))
        return enforced(rows, target)

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, transaction: Transaction, work: _Work, applied: SetTransaction | None) -> WriteResult:
        self.on_phase("Committing")
        metrics = work.metrics(replaces_rows=self.request.replace_where is not None)
        with discarding(lambda: work.discard(self.request)):
            committed = transaction.commit(
                work.actions(),
                self._operation(metrics),
                set_transaction=applied,
                allow_empty=applied is not None,
            )
        if not committed.is_new_version:
            work.discard(self.request)
            return self._result(None, WriteMetrics())
        refresh_readers(self.spark, self.request.store)
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


@dataclass(slots=True)
class _Work:
    """What was written for one commit."""

    written: WrittenFiles
    changes: tuple[Action, ...] = ()
    deletion: Work[DeleteMetrics] | None = None

    def actions(self) -> tuple[Action, ...]:
        removed = () if self.deletion is None else self.deletion.actions()
        return (*self.changes, *removed, *self.written.adds, *self.written.changes)

    def metrics(self, *, replaces_rows: bool) -> WriteMetrics:
        metrics = WriteMetrics(
            num_files=len(self.written.adds),
            num_output_rows=self.written.num_rows,
            num_output_bytes=self.written.num_bytes,
            num_added_change_files=len(self.written.changes),
            replaces_rows=replaces_rows,
        )
        if self.deletion is None:
            return metrics
        removed = self.deletion.metrics()
        return replace(
            metrics,
            removes=True,
            num_removed_files=removed.num_removed_files,
            num_removed_bytes=removed.num_removed_bytes,
            num_added_change_files=metrics.num_added_change_files + removed.num_added_change_files,
            num_deleted_rows=removed.num_affected_rows,
            num_copied_rows=removed.num_copied_rows,
        )

    def discard(self, request: WriteRequest) -> None:
        """Delete the files; no commit names them, and none will."""
        discard(request.store, [self.written])
        if self.deletion is not None:
            self.deletion.discard()


def _write_with_changes(spark: SparkSession, rows: DataFrame, target: WriteTarget) -> WrittenFiles:
    """Every row twice, once as data and once as an insertion in the change data, from one evaluation."""
    change_type = border.HelperNames(rows.columns).pick("change_type")
    both = with_insert_changes(rows, change_type=change_type)
    return write_files(spark, both, target, change_type_column=change_type)


def _destination(snapshot: Snapshot, protocol: Protocol, metadata: Metadata) -> _Destination:
    changes: list[Action] = [] if protocol == snapshot.protocol else [protocol]
    if metadata != snapshot.metadata:
        changes.append(metadata)
    return _Destination(target_of(snapshot.store, protocol, metadata), tuple(changes))


def _evolved(snapshot: Snapshot, incoming: StructType) -> _Destination:
    """The table with the new columns of the rows; one that holds nothing but nulls of no type is not added."""
    useful = StructType(
        tuple(field for field in incoming.fields if field.type != _VOID or snapshot.schema.get(field.name) is not None)
    )
    added = _new_names(snapshot.schema, useful)
    mode = snapshot.properties.column_mapping_mode
    if mode == "none":
        check_column_names(name.rpartition(".")[2] for name in added)
    if snapshot.properties.enable_change_data_feed:
        refuse_change_columns(added)
    refuse_nested_void(useful)
    metadata = evolved_metadata(snapshot.metadata, useful, column_mapping_mode=mode)
    missing = required_features(metadata) - required_features(snapshot.metadata)
    return _destination(snapshot, upgrade_protocol_for(snapshot.protocol, missing), metadata)


def _new_names(schema: StructType, incoming: StructType, prefix: str = "") -> list[str]:
    """The columns and nested fields of the rows that the table lacks, as dotted names."""
    found: list[str] = []
    for field in incoming.fields:
        known = schema.get(field.name)
        if known is None:
            found.append(f"{prefix}{field.name}")
        else:
            found += _new_names_inside(known.type, field.type, f"{prefix}{known.name}.")
    return found


def _new_names_inside(known: DataType, incoming: DataType, prefix: str) -> list[str]:
    match known, incoming:
        case StructType(), StructType():
            return _new_names(known, incoming, prefix)
        case ArrayType(), ArrayType():
            return _new_names_inside(known.element_type, incoming.element_type, f"{prefix}element.")
        case MapType(), MapType():
            return [
                *_new_names_inside(known.key_type, incoming.key_type, f"{prefix}key."),
                *_new_names_inside(known.value_type, incoming.value_type, f"{prefix}value."),
            ]
    return []


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


def _check_agreement(snapshot: Snapshot, request: WriteRequest) -> None:
    """What the request says of the table must be so already; a write does not repartition or reconfigure it."""
    partitioned = snapshot.metadata.partition_columns
    if request.partition_by and _lowered(request.partition_by) != _lowered(partitioned):
        raise RequestError(
            f"partition_by={list(request.partition_by)} is not how the table at {snapshot.store.url} is partitioned: "
            f"{list(partitioned)}. Leave it out, or replace the table with mode='overwrite', overwrite_schema=True.",
            error_class="DELTA_PARTITIONING_MISMATCH",
        )
    for key, value in request.properties.items():
        if key.lower().startswith(FEATURE_PREFIX):
            continue
        now = snapshot.metadata.description if key == "comment" else snapshot.properties.raw(key)
        if now != value:
            raise RequestError(
                f"The property {key} of the table at {snapshot.store.url} is {now!r}, not {value!r}. A write does not "
                "change it: use ALTER TABLE ... SET TBLPROPERTIES.",
                error_class="DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
            )


def _lowered(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _refuse_given_identities(target: WriteTarget, given: Collection[str]) -> None:
    for field in identity_columns(target):
        if field.name.lower() in given and field.metadata.get("delta.identity.allowExplicitInsert") is not True:
            raise RequestError(
                f"The column '{field.name}' of the table at {target.store.url} is GENERATED ALWAYS AS IDENTITY, so its "
                "values cannot be given, and Ebbtide does not number new rows. Write them with the engine that made "
                "the table.",
                error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
            )
