"""How do CREATE TABLE, CREATE VIEW and DROP TABLE become requests?"""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from ebbtide.commands.define.create import CreateHow, CreateRequest, create_table
from ebbtide.commands.define.definition import TableDefinition, schema_of
from ebbtide.commands.drop.command import DropCommand, DropRequest
from ebbtide.commands.write.command import WriteCommand
from ebbtide.commands.write.request import WriteMode, WriteRequest
from ebbtide.errors import InvalidSyntaxError
from ebbtide.protocol.identity_columns import identity_metadata
from ebbtide.session_settings import table_defaults
from ebbtide.spark_border import asking_the_analyser, is_case_sensitive, spark_errors
from ebbtide.sql.alter_statements import ColumnDefinition, IdentitySpec
from ebbtide.sql.session import SqlSession
from ebbtide.sql.statements import CreateTable, CreateView, DropTable
from ebbtide.temp_views import ViewSource, create_view, drop_views, refresh_changed

__all__ = ["run_create_table", "run_create_view", "run_drop_table", "spark_field"]


def run_create_table(session: SqlSession, statement: CreateTable) -> None:
    if statement.query is not None:
        _create_from_query(session, statement, statement.query)
    else:
        _create(session, statement)
    refresh_changed(session.spark, session.store(statement.path).url)


def _create(session: SqlSession, statement: CreateTable) -> None:
    fields = [spark_field(column) for column in statement.columns]
    schema = schema_of(T.StructType(fields), keeps_rules=True)
    is_exact = is_case_sensitive(session.spark)
    properties = statement.properties or {}
    definition = TableDefinition(
        schema, statement.partition_by, properties, statement.comment, is_exact, statement.cluster_by
    )
    how: CreateHow = "create"
    if statement.or_replace or statement.if_not_exists:
        how = "create_or_replace" if statement.or_replace else "create_if_not_exists"
    defaults = table_defaults(session.spark)
    request = CreateRequest(
        session.store(statement.path),
        definition,
        how,
        session.options(statement.path, in_transaction=False),
        lambda: defaults,
    )
    create_table(session.spark, request)


def spark_field(column: ColumnDefinition) -> T.StructField:
    with spark_errors(f"reading the type {column.type!r} of the column '{column.name}'"), asking_the_analyser():
        # Not through an empty frame: Spark has no frames with CHAR or VARCHAR columns.
        described = T.DataType.fromDDL(f"c {column.type}")
    assert isinstance(described, T.StructType)
    [read] = described.fields
    entries = {
        "comment": column.comment,
        "CURRENT_DEFAULT": column.default,
        "delta.generationExpression": column.generated_as,
    }
    metadata = {**read.metadata, **{key: value for key, value in entries.items() if value is not None}}
    if column.identity is not None:
        metadata |= _identity_metadata(column, column.identity)
    return T.StructField(column.name, read.dataType, column.nullable, metadata)


def _identity_metadata(column: ColumnDefinition, identity: IdentitySpec) -> dict[str, Any]:
    if identity.step == 0:
        raise InvalidSyntaxError(
            f"INCREMENT BY 0 would give every row the same number ('{column.name}').",
            error_class="IDENTITY_COLUMNS_ILLEGAL_STEP",
        )
    return identity_metadata(identity.start, identity.step, allows_values=identity.by_default)


def _create_from_query(session: SqlSession, statement: CreateTable, query: str) -> None:
    mode: WriteMode = "overwrite" if statement.or_replace else "ignore" if statement.if_not_exists else "error"
    properties = dict(statement.properties or {})
    if statement.comment is not None:
        properties["comment"] = statement.comment
    request = WriteRequest(
        session.store(statement.path),
        session.query(query),
        mode=mode,
        partition_by=statement.partition_by,
        properties=properties,
        overwrite_schema=statement.or_replace,
        policy=session.store_assignment_policy(),
        options=session.options(statement.path),
        default_properties=lambda: table_defaults(session.spark),
    )
    WriteCommand(session.spark, request).run()


def run_create_view(session: SqlSession, statement: CreateView) -> None:
    store, options = session.store(statement.path), session.options_behind(statement.path)
    source = ViewSource(store, statement.columns, options, session.config)
    create_view(session.spark, statement.name, source, or_replace=statement.or_replace)


def run_drop_table(session: SqlSession, statement: DropTable) -> None:
    store = session.store(statement.path)
    DropCommand(DropRequest(store, statement.if_exists, config=session.config)).run()
    drop_views(session.spark, store.url)
