"""How is a new table described in Python?

The builder that delta-spark users know:

    DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").partitionedBy("day").execute()

It collects the definition, and `commands.define.create` creates the table; `ebbtide.table` decides what `execute`
returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ebbtide import spark_border as border
from ebbtide.arguments import (
    Check,
    checked,
    column_type,
    fields,
    flag,
    integer,
    names,
    optional,
    table_path,
    text,
    text_map,
)
from ebbtide.commands.define.create import CreateHow, CreateRequest, create_table
from ebbtide.commands.define.definition import TableDefinition, schema_of
from ebbtide.config import DEFAULT_CONFIG, EngineConfig
from ebbtide.errors import RequestError
from ebbtide.protocol.identity_columns import identity_metadata
from ebbtide.session_settings import table_defaults, write_options
from ebbtide.sql_text import only_name, tokenize
from ebbtide.storage import ObjectStore, open_store
from ebbtide.temp_views import refresh_changed

__all__ = ["DeltaTableBuilder", "IdentityGenerator"]

Table = TypeVar("Table")


@dataclass(frozen=True)
class IdentityGenerator:
    """How a column numbers its rows: from `start` in steps of `step`. Numbers are never repeated; some are left out."""

    start: int = 1
    step: int = 1

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("step", self.step)):
            integer(name, value)
            if not -(2**63) <= value < 2**63:
                raise RequestError(f"{name}={value} does not fit a BIGINT column, which has 64 bits.")
        if self.step == 0:
            raise RequestError(
                "step=0 would give every row the same number. Column identity generation requires step to be non-zero.",
                error_class="DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP",
            )


_COUNT = "ebbtide.IdentityGenerator(start=1, step=1) numbers the rows."
_GENERATION = Check(
    "SQL text or an IdentityGenerator", lambda value: isinstance(value, str | IdentityGenerator), _COUNT
)
_NUMBERING = Check("an IdentityGenerator", lambda value: isinstance(value, IdentityGenerator), _COUNT)


class DeltaTableBuilder(Generic[Table]):
    """The definition of a table; every method returns the builder, and `execute` creates the table."""

    def __init__(
        self,
        spark: SparkSession,
        how: CreateHow,
        open_table: Callable[[ObjectStore, Mapping[str, str] | None], Table],
        *,
        storage_options: Mapping[str, str] | None = None,
        config: EngineConfig = DEFAULT_CONFIG,
    ) -> None:
        self._spark = spark
        self._how: CreateHow = how
        self._open_table = open_table
        self._storage_options = storage_options
        self._config = config
        self._store: ObjectStore | None = None
        self._fields: list[T.StructField] = []
        self._partition_columns: tuple[str, ...] = ()
        self._cluster_by: tuple[tuple[str, ...], ...] = ()
        self._properties: dict[str, str] = {}
        self._comment: str | None = None

    @checked(location=table_path, storage_options=optional(text_map))
    def location(
        self, location: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
    ) -> DeltaTableBuilder[Table]:
        """The path of the table. A relative one is resolved now, against the current working directory."""
        given = storage_options or self._storage_options
        self._storage_options = border.with_session_storage(self._spark, os.fspath(location), given)
        self._store = open_store(os.fspath(location), self._storage_options)
        return self

    @checked(
        colName=text,
        dataType=column_type,
        nullable=flag,
        generatedAlwaysAs=optional(_GENERATION),
        generatedByDefaultAs=optional(_NUMBERING),
        comment=optional(text),
    )
    def addColumn(  # noqa: PLR0917 (the order is delta-spark's)
        self,
        colName: str,
        dataType: str | T.DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[Table]:
        """One column; the type as SQL text or as a DataType.

        `generatedAlwaysAs` is SQL over other columns, or an `IdentityGenerator`: then every new row gets a number, and
        none can be given. With `generatedByDefaultAs` rows get a number where the column is not given.
        """
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise RequestError(
                f"The column '{colName}' is generated always and by default; name one of the two.",
                error_class="DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
            )
        metadata: dict[str, Any] = {"comment": comment} if comment is not None else {}
        if isinstance(generatedAlwaysAs, str):
            metadata["delta.generationExpression"] = generatedAlwaysAs
        generator = generatedAlwaysAs if isinstance(generatedAlwaysAs, IdentityGenerator) else generatedByDefaultAs
        if generator is not None:
            by_default = generatedByDefaultAs is not None
            metadata |= identity_metadata(generator.start, generator.step, allows_values=by_default)
        self._fields.append(T.StructField(colName, self._type(colName, dataType), nullable, metadata))
        return self

    @checked(cols=fields)
    def addColumns(self, cols: T.StructType | Sequence[T.StructField]) -> DeltaTableBuilder[Table]:
        """The columns of a schema, with their comments and NOT NULLs."""
        self._fields += cols.fields if isinstance(cols, T.StructType) else list(cols)
        return self

    @checked(cols=names)
    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[Table]:
        self._partition_columns = tuple(
            name for item in cols for name in ((item,) if isinstance(item, str) else tuple(item))
        )
        return self

    @checked(cols=names)
    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[Table]:
        """Columns, or fields of structs, by which OPTIMIZE sorts the rows; not beside partition columns."""
        given = [name for item in cols for name in ((item,) if isinstance(item, str) else tuple(item))]
        self._cluster_by = tuple(map(_field_path, given))
        return self

    @checked(key=text, value=text)
    def property(self, key: str, value: str) -> DeltaTableBuilder[Table]:
        """A table property, such as delta.enableDeletionVectors; the properties determine the protocol."""
        self._properties[key] = value
        return self

    @checked(comment=text)
    def comment(self, comment: str) -> DeltaTableBuilder[Table]:
        self._comment = comment
        return self

    def execute(self) -> Table:
        """Create the table, in one commit."""
        if self._store is None:
            raise RequestError("A table needs a place: .location(path) says where it is.")
        store = self._store
        schema = schema_of(T.StructType(self._fields), keeps_rules=True)
        definition = TableDefinition(
            schema,
            self._partition_columns,
            self._properties,
            self._comment,
            border.is_case_sensitive(self._spark),
            self._cluster_by,
        )
        options = write_options(
            self._spark, storage_options=self._storage_options, config=self._config, in_transaction=False
        )
        defaults = table_defaults(self._spark)
        create_table(self._spark, CreateRequest(store, definition, self._how, options, lambda: defaults))
        refresh_changed(self._spark, store.url)
        return self._open_table(store, self._storage_options)

    def _type(self, name: str, given: str | T.DataType) -> T.DataType:
        if isinstance(given, T.DataType):
            return given
        with border.spark_errors(f"reading the type {given!r} of the column '{name}'"), border.asking_the_analyser():
            described = T.DataType.fromDDL(f"c {given}")
        if not isinstance(described, T.StructType) or len(described.fields) != 1:
            raise RequestError(f"{given!r} is not the type of one column ('{name}').")
        return described.fields[0].dataType


def _field_path(name: str) -> tuple[str, ...]:
    found = only_name(tokenize(name) or ())
    if found is None:
        raise RequestError(f"{name!r} is not the name of a column. Write a name with special characters in backquotes.")
    return found.parts
