"""How is a table created without rows, or replaced by an empty one?

    create                  a table where there is none
    create_if_not_exists    the same; an existing table is left alone
    replace                 a new definition for an existing table: its rows go, its id and history stay
    create_or_replace       whichever of the two is possible

No data file is read or written. Spark is asked only whether the expressions of generated columns and constraints can
be evaluated over the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import orjson
from pyspark.sql import SparkSession

from ebbtide.commands.define.clustering import cluster_new_table, shown_clustering
from ebbtide.commands.define.column_checks import check_columns
from ebbtide.commands.define.definition import TableDefinition, define_table, target_of
from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.commands.row_level.committing import assert_not_append_only, refresh_readers
from ebbtide.errors import TableAlreadyExistsError, TableNotFoundError
from ebbtide.protocol.actions import Action, Metadata
from ebbtide.protocol.features import ensure_writable
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation, Transaction

__all__ = ["CreateHow", "CreateRequest", "CreateResult", "create_table"]

CreateHow = Literal["create", "create_if_not_exists", "replace", "create_or_replace"]
_NAMES: Final = {
    "create": "CREATE TABLE",
    "create_if_not_exists": "CREATE TABLE",
    "replace": "REPLACE TABLE",
    "create_or_replace": "CREATE OR REPLACE TABLE",
}


@dataclass(frozen=True, slots=True)
class CreateRequest:
    store: ObjectStore
    definition: TableDefinition
    how: CreateHow = "create"
    options: WriteOptions = field(default_factory=WriteOptions)
    # What the session wants new tables to have.
    default_properties: Callable[[], Mapping[str, str]] = dict


@dataclass(frozen=True, slots=True)
class CreateResult:
    """`version` is the version that was made; None: the table existed and was left alone."""

    version: int | None
    table_url: str


def create_table(spark: SparkSession, request: CreateRequest) -> CreateResult:
    options = request.options
    try:
        transaction = Transaction.begin(request.store, config=options.config)
    except TableNotFoundError:
        if request.how == "replace":
            raise TableNotFoundError(
                f"There is no Delta table at {request.store.url} to replace. Use createOrReplace to make one.",
                error_class="DELTA_CANNOT_REPLACE_MISSING_TABLE",
            ) from None
        return _create(spark, request)
    if request.how == "create_if_not_exists":
        return CreateResult(None, request.store.url)
    if request.how == "create":
        raise TableAlreadyExistsError(
            f"There is a Delta table at {request.store.url} already. Use createIfNotExists to leave it as it is, or "
            "createOrReplace to put another in its place."
        )
    return _replace(spark, request, transaction)


def _create(spark: SparkSession, request: CreateRequest) -> CreateResult:
    protocol, metadata = define_table(request.definition, defaults=request.default_properties())
    protocol, clustering = cluster_new_table(request.definition, protocol, metadata)
    check_columns(spark, target_of(request.store, protocol, metadata, config=request.options.config))
    transaction = Transaction.create(request.store, metadata, protocol, config=request.options.config)
    committed = transaction.commit(clustering, _operation(request, metadata))
    return CreateResult(committed.version, request.store.url)


def _replace(spark: SparkSession, request: CreateRequest, transaction: Transaction) -> CreateResult:
    snapshot = transaction.snapshot
    ensure_writable(snapshot.protocol, snapshot.metadata)
    assert_not_append_only(snapshot)
    protocol, metadata = define_table(request.definition, replaced=snapshot, defaults=request.default_properties())
    protocol, clustering = cluster_new_table(request.definition, protocol, metadata)
    check_columns(spark, target_of(request.store, protocol, metadata, config=request.options.config))
    changes: list[Action] = [metadata] if protocol == snapshot.protocol else [protocol, metadata]
    removed = _all_rows(spark, request, transaction)
    committed = transaction.commit((*changes, *clustering, *removed), _operation(request, metadata))
    refresh_readers(spark, request.store)
    return CreateResult(committed.version, request.store.url)


def _all_rows(spark: SparkSession, request: CreateRequest, transaction: Transaction) -> tuple[Action, ...]:
    deletion = DeleteCommand(spark, DeleteRequest(request.store, None, options=request.options))
    return deletion.perform_delete(transaction, deletion.plan(transaction.snapshot, None)).actions()


def _operation(request: CreateRequest, metadata: Metadata) -> Operation:
    properties = dict(sorted(metadata.configuration.items()))
    return Operation(
        _NAMES[request.how],
        {
            "partitionBy": orjson.dumps(list(metadata.partition_columns)).decode(),
            "clusterBy": shown_clustering(request.definition),
            "description": metadata.description,
            "isManaged": "false",
            "properties": orjson.dumps(properties).decode(),
        },
        user_metadata=request.options.user_metadata,
    )
