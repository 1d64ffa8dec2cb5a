"""How are CHECK constraints added and dropped?

A constraint is a table property with an expression. A new one must hold for every row that is there, and be an
expression that Ebbtide would run when it comes with a table. Dropping one reads only the log and never evaluates the
expression, so it also works for one that Ebbtide refuses to run. The feature stays in the protocol.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.define.committing import AlterResult, commit_change
from ebbtide.commands.define.definition import target_of
from ebbtide.commands.requests import WriteOptions
from ebbtide.errors import ConstraintViolationError, SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action
from ebbtide.protocol.properties import CONSTRAINT_PREFIX
from ebbtide.scan.reading import read_rows
from ebbtide.sql_text import tokenize
from ebbtide.storage import ObjectStore
from ebbtide.transaction import Operation
from ebbtide.transaction.table_changes import property_changes
from ebbtide.write.rules import breaks_check
from ebbtide.write.table_expressions import TableExpression, trusted_columns

__all__ = ["add_constraint", "drop_constraint"]


def add_constraint(
    spark: SparkSession, store: ObjectStore, name: str, expression: str, *, options: WriteOptions
) -> AlterResult:
    """Add a CHECK constraint. ConstraintViolationError, with an example, when a row breaks it."""
    # As the reference stores it: what is between the tokens does not matter.
    tokens = tokenize(expression, is_substituted=False) or ()
    text = " ".join(expression[token.start : token.end] for token in tokens)
    key = f"{CONSTRAINT_PREFIX}{name.lower()}"

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        known = {key.lower(): text for key, text in snapshot.properties.constraints.items()}
        if name.lower() in known:
            raise SchemaMismatchError(
                f"The table at {store.url} has a constraint {name} already: {known[name.lower()][:200]}. Drop it "
                "first, or choose another name.",
                error_class="DELTA_CONSTRAINT_ALREADY_EXISTS",
            )
        _check_rows(spark, snapshot, name, text, options)
        operation = Operation("ADD CONSTRAINT", {"name": name, "expr": text}, user_metadata=options.user_metadata)
        return property_changes(snapshot.protocol, snapshot.metadata, set={key: text}), operation

    return commit_change(store, change, options, reads_rows=True)


def _check_rows(spark: SparkSession, snapshot: Snapshot, name: str, text: str, options: WriteOptions) -> None:
    target = target_of(snapshot.store, snapshot.protocol, snapshot.metadata, config=options.config)
    rows = read_rows(spark, snapshot, storage_options=options.storage_options)
    with border.spark_errors(f"reading the CHECK constraint {name} ({text[:200]})"):
        with border.asking_the_analyser():
            expression = TableExpression("check", name, text, is_new=True)
            [value] = trusted_columns([expression], target, spark)
            _refuse_other_types(expression, rows.select(value.alias("v")).schema.fields[0].dataType)
            broken, message = breaks_check(target, expression, value)
            found = rows.where(broken).agg(F.count(F.lit(1)), F.first(message))
            border.analyse(found)
        [(count, example)] = found.collect()
    if count:
        raise ConstraintViolationError(
            f"{count} rows of the table at {snapshot.store.url} break the new CHECK constraint {name} ({text[:500]}), "
            f"so it was not added. One of them: {example}",
            error_class="DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
        )


def _refuse_other_types(expression: TableExpression, kind: T.DataType) -> None:
    if not isinstance(kind, T.BooleanType):
        raise SchemaMismatchError(
            f"The CHECK constraint {expression.name} ({expression.text[:200]}) is {kind.simpleString()}, not a "
            "condition.",
            error_class="DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        )


def drop_constraint(store: ObjectStore, name: str, *, if_exists: bool = False, options: WriteOptions) -> AlterResult:
    """Drop the CHECK constraint of that name, ignoring case. Commits even if there is none and `if_exists` is given."""
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()

    def change(snapshot: Snapshot) -> tuple[list[Action], Operation]:
        configuration = snapshot.metadata.configuration
        dropped = [text for key, text in configuration.items() if key.lower() == wanted]
        if not dropped and not if_exists:
            known = ", ".join(snapshot.properties.constraints) or "none"
            raise SchemaMismatchError(
                f"The table at {store.url} has no constraint {name}; its constraints: {known}. Use DROP CONSTRAINT IF "
                "EXISTS if it may be missing.",
                error_class="DELTA_CONSTRAINT_DOES_NOT_EXIST",
            )
        kept = {key: text for key, text in configuration.items() if key.lower() != wanted}
        parameters = {"name": name, **({"expr": dropped[-1]} if dropped else {}), "existed": str(bool(dropped)).lower()}
        operation = Operation("DROP CONSTRAINT", parameters, user_metadata=options.user_metadata)
        return [replace(snapshot.metadata, configuration=kept)], operation

    return commit_change(store, change, options)
