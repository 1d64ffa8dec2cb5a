"""Can rows be made for the columns of a new table?

Spark's analyser is asked about generated columns, defaults and constraints, before the table exists. No row is read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.errors import RequestError
from ebbtide.protocol.identity_columns import check_identity_fields
from ebbtide.write import WriteTarget, cast_for_column, complete_rows, enforce_rules, generated_columns
from ebbtide.write.columns import spark_type
from ebbtide.write.identity import identity_columns
from ebbtide.write.table_expressions import TableExpression, trusted_columns

__all__ = ["check_columns"]


def check_columns(spark: SparkSession, target: WriteTarget) -> None:
    """Check that rows can be numbered, and that every expression resolves over the table's columns.

    Generated columns may read only those that are not generated.
    """
    check_identity_fields(target.schema, target.partition_columns)
    if not target.schema.fields:
        return
    generated = generated_columns(target)
    fields = [T.StructField(item.name, spark_type(item.type)) for item in target.schema.fields]
    plain = spark.createDataFrame([], T.StructType([item for item in fields if item.name not in generated]))
    for item in target.schema.fields:
        if item.name not in generated:
            continue
        if not item.nullable:
            raise RequestError(f"The generated column '{item.name}' cannot be NOT NULL; put a CHECK on it instead.")
        doing = f"reading the expression {generated[item.name]!r} of the generated column '{item.name}'"
        with border.spark_errors(doing), border.asking_the_analyser():
            [value] = trusted_columns([TableExpression("generated", item.name, generated[item.name])], target, spark)
            given = plain.select(value.alias("v")).schema.fields[0].dataType
        cast_for_column(value, given, item)
    enforce_rules(spark.createDataFrame([], T.StructType(fields)), target)
    # Nothing else is given, so every default is checked.
    counted = frozenset(item.name.lower() for item in identity_columns(target))
    border.analyse(complete_rows(plain, target, given=counted))
