"""How does a statement become a call?

`ebbtide.sql(spark, "DELETE FROM delta.`/data/people` WHERE id = 7")`: the text is parsed into the same request
that the Python call makes, and the answer is a DataFrame, as from `spark.sql`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ebbtide.arguments import checked, engine_config, optional, session, text, text_map
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.session_settings import reset_txn_version
from ebbtide.spark_border import with_session_storage
from ebbtide.sql.alter_commands import run_alter
from ebbtide.sql.alter_statements import AlterStatement
from ebbtide.sql.describe_commands import run_describe
from ebbtide.sql.maintenance_commands import run_maintenance
from ebbtide.sql.maintenance_statements import Clone, Convert, Fsck, Generate, Optimize, Reorg, Restore, Vacuum
from ebbtide.sql.parse import parse_statement
from ebbtide.sql.row_commands import run_delete, run_explain, run_insert, run_merge, run_truncate, run_update
from ebbtide.sql.session import SqlSession
from ebbtide.sql.statements import (
    CreateTable,
    CreateView,
    Delete,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    DropTable,
    Explain,
    Insert,
    Merge,
    Query,
    ShowColumns,
    ShowPartitions,
    ShowProperties,
    Statement,
    Truncate,
    Update,
)
from ebbtide.sql.table_commands import run_create_table, run_create_view, run_drop_table
from ebbtide.sql_text import text_has_subquery
from ebbtide.table import suggest_parent_table
from ebbtide.temp_views import refresh_all

__all__ = ["sql"]

# Statements for which Spark may read views.
_READERS: Final = (Query, Merge, Insert, CreateTable, Explain)
_CHANGES_ROWS: Final = (Delete, Truncate, Update, Merge, Insert)


@checked(spark=session, statement=text, storage_options=optional(text_map), config=engine_config)
def sql(
    spark: SparkSession,
    statement: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    config: EngineConfig = DEFAULT_CONFIG,
) -> DataFrame:
    """Run one statement on Delta tables written as delta.`path`.

    Queries return their rows; DELETE, UPDATE, INSERT and MERGE one row that counts the rows they changed; EXPLAIN one
    row per line of the plan; DESCRIBE and SHOW their rows; OPTIMIZE, REORG, RESTORE and CLONE their counters; VACUUM
    paths; FSCK its findings; CREATE, DROP, ALTER, TRUNCATE, CONVERT and GENERATE none. RequestError for any other
    statement.
    """
    parsed = parse_statement(statement)
    storage_options = with_session_storage(spark, statement, storage_options)
    if isinstance(parsed, _READERS) or text_has_subquery(statement):
        refresh_all(spark, statement)
    target = getattr(parsed, "path", None)
    with (
        suggest_parent_table(target, storage_options) if isinstance(target, str) else nullcontext(),
        reset_txn_version(spark) if _changes_rows(parsed) else nullcontext(),
    ):
        return _run(SqlSession(spark, storage_options, config), parsed)


def _changes_rows(statement: Statement) -> bool:
    """Whether the statement is part of an application's transaction. CREATE TABLE is one if a query fills the table."""
    return isinstance(statement, _CHANGES_ROWS) or (isinstance(statement, CreateTable) and statement.query is not None)


def _run(session: SqlSession, statement: Statement) -> DataFrame:
    match statement:
        case Query():
            return session.query(statement.text)
        case Delete():
            return run_delete(session, statement)
        case Truncate():
            return run_truncate(session, statement)
        case Update():
            return run_update(session, statement)
        case Merge():
            return run_merge(session, statement)
        case Insert():
            return run_insert(session, statement)
        case Explain():
            return run_explain(session, statement.statement)
        case DescribeHistory():
            return session.table(statement.path).history(statement.limit)
        case DescribeDetail():
            return session.table(statement.path).detail()
        case Optimize() | Reorg() | Restore() | Clone() | Convert() | Generate() | Fsck() | Vacuum():
            return run_maintenance(session, statement)
        case DescribeTable() | ShowColumns() | ShowProperties() | ShowPartitions():
            return run_describe(session, statement)
        case _:
            _define(session, statement)
            return session.spark.createDataFrame([], "key STRING, value STRING")


def _define(session: SqlSession, statement: CreateTable | CreateView | DropTable | AlterStatement) -> None:
    match statement:
        case CreateTable():
            run_create_table(session, statement)
        case CreateView():
            run_create_view(session, statement)
        case DropTable():
            run_drop_table(session, statement)
        case _:
            run_alter(session, statement)
