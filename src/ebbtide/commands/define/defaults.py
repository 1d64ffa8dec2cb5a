"""Can a new default be stored in its column?

It becomes text of the table, so it must be an expression that Ebbtide would run when it comes with a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.commands.define.definition import target_of
from ebbtide.config import EngineConfig
from ebbtide.errors import RequestError, SchemaMismatchError
from ebbtide.log import Snapshot
from ebbtide.protocol.actions import Action, Metadata, Protocol
from ebbtide.protocol.schema import StructField
from ebbtide.write import cast_for_column
from ebbtide.write.columns import same_shape, spark_type
from ebbtide.write.table_expressions import TableExpression, trusted_columns

__all__ = ["check_defaults"]


def check_defaults(
    spark: SparkSession, snapshot: Snapshot, actions: Sequence[Action], columns: Sequence[str], *, config: EngineConfig
) -> None:
    """Check the defaults that these columns have after the actions. SchemaMismatchError for a value of another type."""
    metadata = next((action for action in actions if isinstance(action, Metadata)), snapshot.metadata)
    protocol = next((action for action in actions if isinstance(action, Protocol)), snapshot.protocol)
    target = target_of(snapshot.store, protocol, metadata, config=config)
    for field in target.schema.fields:
        text = field.metadata.get("CURRENT_DEFAULT")
        if field.name not in columns or not isinstance(text, str):
            continue
        doing = f"reading the default {text[:200]!r} of the column '{field.name}'"
        with border.spark_errors(doing), border.asking_the_analyser():
            [value] = trusted_columns([TableExpression("default", field.name, text, is_new=True)], target, spark)
            kind = spark.range(0).select(value.alias("v")).schema.fields[0].dataType
        _check_type(spark, field, text, value, kind)


def _check_type(spark: SparkSession, field: StructField, text: str, value: Column, kind: T.DataType) -> None:
    wanted = spark_type(field.type)
    if same_shape(kind, wanted) or isinstance(kind, T.NullType):
        return
    try:
        if isinstance(kind, T.StringType):
            raise SchemaMismatchError("A string is not read as another type.")
        stored = cast_for_column(value, kind, field)
        # A constant: whether its one value fits can be asked now, and not only by the first row that gets it.
        with border.spark_errors(f"storing the default {text[:200]!r} in the column '{field.name}'"):
            spark.range(1).select(stored.alias("v")).collect()
    except RequestError as error:
        raise SchemaMismatchError(
            f"The column '{field.name}' cannot have the default {text[:200]}: it is {kind.simpleString()} and does not "
            f"fit {wanted.simpleString()}.",
            error_class="INVALID_DEFAULT_VALUE.DATA_TYPE",
        ) from error
