"""How does a column that is bound to the source, as in `source["id"]`, apply to the rows that a merge keeps of it?

On classic Spark such a column means the source's rows wherever they go. On Connect it means the plan that it
was taken from, and a merge does not read that plan again: it has computed the source once. So the Column's printed form
is turned into SQL over the columns of the source. That is a guess, and it counts only when Spark says that both mean
the same, in a place where the source's names are unambiguous. Without that proof the merge is refused before any work.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ebbtide import spark_border as border
from ebbtide.commands.merge.source import Source
from ebbtide.errors import UnknownColumnError
from ebbtide.scan.conditions import column_text

__all__ = ["Rebinder"]


@dataclass(frozen=True, slots=True)
class Rebinder:
    """`target` has the table's columns and no rows, under the name `alias`."""

    spark: SparkSession
    target: DataFrame
    alias: str
    source: Source

    def rebind(self, column: Column) -> Column:
        """The same column; over the columns of `Source.frame` if it was bound to the source itself."""
        if not border.is_connect(self.spark) or not self._is_bound(column):
            return column
        fields = {key: field.name for key, field in self.source.fields.items()}
        guess = column_text(column, {name: border.quote_name(name) for name in fields.values()}, qualified=True)
        own = column_text(column, {name: self.source.copies[key] for key, name in fields.items()}, qualified=True)
        if guess is None or own is None or not self._means_the_same(column, guess):
            raise UnknownColumnError(
                f"The expression {column} has columns that are bound to the source's DataFrame, as in source['id'], "
                "and cannot be read back on Spark Connect. Nothing was done. Give the source a name with alias('s') "
                "and write F.col('s.id'), or write SQL text.",
                error_class="CANNOT_RESOLVE_DATAFRAME_COLUMN",
            )
        return F.expr(own)

    def _is_bound(self, column: Column) -> bool:
        """Whether the column means nothing without the plan it was taken from."""
        try:
            border.analyse(self.spark.range(0).select(column))
        except PySparkException as error:
            return border.condition_of(error) == "CANNOT_RESOLVE_DATAFRAME_COLUMN"
        return False

    def _means_the_same(self, column: Column, guess: str) -> bool:
        """Asked where the source's columns are the only ones of their names: the table is one struct called `alias`."""
        taken = {name.lower() for name in self.source.columns}
        others = [border.column(name) for name in self.target.columns if name.lower() not in taken]
        scope = self.target.select(F.struct("*").alias(self.alias), *others).crossJoin(self.source.given)
        try:
            return scope.select(F.expr(guess).alias("c")).sameSemantics(scope.select(column.alias("c")))
        except PySparkException:
            return False
