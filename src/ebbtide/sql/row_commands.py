"""How do DELETE, TRUNCATE, UPDATE, MERGE and INSERT become requests?

Each function runs one statement and returns its result row. Afterwards the views of the table show the change.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.delete.explanation import explain_delete
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.explanation import explain_merge
from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause, ValuesOf
from ebbtide.commands.requests import DeleteRequest, UpdateRequest
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.commands.update.explanation import explain_update
from ebbtide.commands.write.command import WriteCommand
from ebbtide.commands.write.request import WriteRequest
from ebbtide.errors import RequestError, UnknownColumnError
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.schema_edits import shown_names
from ebbtide.session_settings import MERGE_WITH_VECTORS, UPDATE_WITH_VECTORS, merges_schema, overwrites_dynamically
from ebbtide.spark_border import is_case_sensitive
from ebbtide.sql.session import SqlSession, conditions_alias
from ebbtide.sql.statements import Assignment, Delete, Insert, Merge, MergeClause, Truncate, Update
from ebbtide.table_views import rows_frame
from ebbtide.temp_views import refresh_changed

__all__ = ["run_delete", "run_explain", "run_insert", "run_merge", "run_truncate", "run_update"]

_PLAN: Final = pa.schema({"plan": pa.string()})
_AFFECTED: Final = pa.schema({"num_affected_rows": pa.int64()})
_INSERTED: Final = pa.schema({"num_affected_rows": pa.int64(), "num_inserted_rows": pa.int64()})
_MERGED: Final = pa.schema(
    {
        "num_affected_rows": pa.int64(),
        "num_updated_rows": pa.int64(),
        "num_deleted_rows": pa.int64(),
        "num_inserted_rows": pa.int64(),
    }
)


def run_delete(session: SqlSession, statement: Delete) -> DataFrame:
    request = _delete_request(session, statement)
    deleted = DeleteCommand(session.spark, request).run()
    refresh_changed(session.spark, request.store.url)
    return rows_frame(session.spark, [(deleted.num_affected_rows,)], _AFFECTED)


def _delete_request(session: SqlSession, statement: Delete) -> DeleteRequest:
    session.ensure_shown(statement.path, [statement.condition], alias=statement.alias)
    store, alias = session.store(statement.path), conditions_alias(statement.path, statement.alias)
    return DeleteRequest(store, statement.condition, alias, session.options(statement.path))


def run_truncate(session: SqlSession, statement: Truncate) -> DataFrame:
    store = session.store(statement.path)
    request = DeleteRequest(store, None, None, session.options(statement.path), operation="TRUNCATE")
    DeleteCommand(session.spark, request).run()
    refresh_changed(session.spark, store.url)
    return session.spark.createDataFrame([], "key STRING, value STRING")


def run_update(session: SqlSession, statement: Update) -> DataFrame:
    request = _update_request(session, statement)
    updated = UpdateCommand(session.spark, request).run()
    refresh_changed(session.spark, request.store.url)
    return rows_frame(session.spark, [(updated.num_affected_rows,)], _AFFECTED)


def _update_request(session: SqlSession, statement: Update) -> UpdateRequest:
    texts = [text for assignment in statement.assignments for text in (assignment.target, assignment.value)]
    texts += [] if statement.condition is None else [statement.condition]
    session.ensure_shown(statement.path, texts, alias=statement.alias)
    store, alias = session.store(statement.path), conditions_alias(statement.path, statement.alias)
    options = session.options(statement.path, UPDATE_WITH_VECTORS)
    return UpdateRequest(store, statement.condition, _pairs(statement.assignments), alias, options)


def run_merge(session: SqlSession, statement: Merge) -> DataFrame:
    request = _merge_request(session, statement)
    merged = MergeCommand(session.spark, request).run()
    refresh_changed(session.spark, request.store.url)
    metrics = merged.metrics
    counts = (
        merged.num_affected_rows,
        metrics.num_target_rows_updated,
        metrics.num_target_rows_deleted,
        metrics.num_target_rows_inserted,
    )
    return rows_frame(session.spark, [counts], _MERGED)


def _merge_request(session: SqlSession, statement: Merge) -> MergeRequest:
    clauses = statement.clauses
    return MergeRequest(
        session.store(statement.path),
        session.query(statement.source),
        statement.condition,
        tuple(_change(clause) for clause in clauses if clause.when == "matched"),
        tuple(_insertion(clause) for clause in clauses if clause.when == "not matched"),
        tuple(_change(clause) for clause in clauses if clause.when == "not matched by source"),
        target_alias=conditions_alias(statement.path, statement.alias),
        source_alias=statement.source_alias,
        schema_evolution=statement.schema_evolution or merges_schema(session.spark),
        options=session.options(statement.path, MERGE_WITH_VECTORS),
    )


def _change(clause: MergeClause) -> UpdateClause | DeleteClause:
    if clause.action == "delete":
        return DeleteClause(clause.condition)
    return UpdateClause(_values(clause), clause.condition)


def _insertion(clause: MergeClause) -> InsertClause:
    return InsertClause(_values(clause), clause.condition)


def _values(clause: MergeClause) -> ValuesOf:
    """None stands for `*`."""
    return _pairs(clause.assignments) if clause.assignments else None


def _pairs(assignments: tuple[Assignment, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((assignment.target, assignment.value) for assignment in assignments)


# --- EXPLAIN ---------------------------------------------------------------------------------------------------------


def run_explain(session: SqlSession, statement: Delete | Update | Merge) -> DataFrame:
    """One row per line of the plan; nothing is changed."""
    match statement:
        case Delete():
            lines = explain_delete(session.spark, _delete_request(session, statement))
        case Update():
            lines = explain_update(session.spark, _update_request(session, statement))
        case Merge():
            lines = explain_merge(session.spark, _merge_request(session, statement))
    return rows_frame(session.spark, [(line,) for line in lines], _PLAN)


# --- INSERT -----------------------------------------------------------------------------------------------------------


def run_insert(session: SqlSession, statement: Insert) -> DataFrame:
    store = session.store(statement.path)
    snapshot = load_snapshot(store, config=session.config)
    rows = session.query(statement.query)
    is_exact = is_case_sensitive(session.spark)
    request = WriteRequest(
        store,
        rows if statement.by_name else _in_columns(rows, statement, snapshot, is_exact=is_exact),
        mode="append" if not statement.overwrite and statement.replace_where is None else "overwrite",
        replace_where=statement.replace_where,
        merge_schema=merges_schema(session.spark),
        policy=session.store_assignment_policy(),
        options=session.options(statement.path),
        hint=snapshot,
        rows_are_local=any(field.is_identity for field in snapshot.schema.fields) and rows.isLocal(),
        means_partitions=overwrites_dynamically(session.spark),
    )
    written = WriteCommand(session.spark, request).run()
    refresh_changed(session.spark, store.url)
    counts = (written.num_affected_rows, written.metrics.num_output_rows)
    return rows_frame(session.spark, [counts], _INSERTED)


def _in_columns(rows: DataFrame, statement: Insert, snapshot: Snapshot, *, is_exact: bool) -> DataFrame:
    """The rows, renamed in order to the table's columns or to those that the statement names.

    `is_exact`: letter case counts in the names.
    """
    known = {name.lower(): name for name in snapshot.schema.names}
    wanted = statement.columns or snapshot.schema.names
    unknown = [name for name in wanted if name.lower() not in known or (is_exact and known[name.lower()] != name)]
    if unknown:
        raise UnknownColumnError(
            f"INSERT names the column '{unknown[0]}', which the table does not have. It has "
            f"{shown_names(snapshot.schema.names)}.",
            error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION",
        )
    if len(rows.columns) != len(wanted):
        raise RequestError(
            f"INSERT gives {len(rows.columns)} columns ({', '.join(rows.columns)}) for {len(wanted)} of the table: "
            f"{', '.join(wanted)}. Name the columns that get values: INSERT INTO ... (column, ...).",
            error_class="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        )
    return rows.toDF(*(known[name.lower()] for name in wanted))
