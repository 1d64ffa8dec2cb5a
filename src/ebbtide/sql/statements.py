"""Which statements does the SQL door understand, and what are their parts?

Values only; `ebbtide.sql.parse` makes them from text. Their conditions, values and queries are the user's own text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ebbtide.protocol.schema_edits import FieldPath
from ebbtide.sql.alter_statements import AlterStatement, ColumnDefinition
from ebbtide.sql.maintenance_statements import KNOWN_MAINTENANCE, MaintenanceStatement
from ebbtide.sql.table_names import TableName, ViewName

__all__ = [
    "KNOWN_STATEMENTS",
    "Assignment",
    "ColumnDefinition",
    "CreateTable",
    "CreateView",
    "Delete",
    "DescribeDetail",
    "DescribeHistory",
    "DescribeTable",
    "DropTable",
    "Explain",
    "Insert",
    "Merge",
    "MergeAction",
    "MergeClause",
    "Query",
    "ShowColumns",
    "ShowPartitions",
    "ShowProperties",
    "Statement",
    "TableName",
    "Truncate",
    "Update",
    "ViewName",
]

KNOWN_STATEMENTS: Final = (
    "DELETE FROM delta.`path` [[AS] alias] [WHERE condition]",
    "TRUNCATE TABLE delta.`path`",
    "UPDATE delta.`path` [[AS] alias] SET column = value, ... [WHERE condition]",
    "MERGE [WITH SCHEMA EVOLUTION] INTO delta.`path` [[AS] alias] USING source [[AS] alias] ON condition WHEN ...",
    "INSERT INTO | OVERWRITE delta.`path` [(columns)] query or VALUES",
    "INSERT INTO delta.`path` REPLACE WHERE condition query",
    "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] delta.`path` (columns) USING delta ...",
    "DROP TABLE [IF EXISTS] delta.`path`",
    "SELECT and WITH queries over delta.`path` [VERSION | TIMESTAMP AS OF ...] and table_changes('path', from[, to])",
    "EXPLAIN DELETE | UPDATE | MERGE ...",
    "CREATE [OR REPLACE] TEMP VIEW name AS SELECT * | column, ... FROM delta.`path`",
    "ALTER TABLE delta.`path` SET TBLPROPERTIES ('key' = 'value', ...)",
    "ALTER TABLE delta.`path` UNSET TBLPROPERTIES [IF EXISTS] ('key', ...)",
    "ALTER TABLE delta.`path` ADD CONSTRAINT name CHECK (condition)",
    "ALTER TABLE delta.`path` DROP CONSTRAINT [IF EXISTS] name",
    "ALTER TABLE delta.`path` ADD COLUMN | COLUMNS column type [COMMENT text] [FIRST | AFTER column], ...",
    "ALTER TABLE delta.`path` DROP COLUMN | COLUMNS [IF EXISTS] column, ...",
    "ALTER TABLE delta.`path` RENAME COLUMN column TO name",
    "ALTER TABLE delta.`path` REPLACE COLUMNS (column type [COMMENT text], ...)",
    "ALTER TABLE delta.`path` ALTER COLUMN column TYPE type | COMMENT text | SET DEFAULT value | DROP DEFAULT",
    "ALTER TABLE delta.`path` ALTER COLUMN column SET NOT NULL | DROP NOT NULL | FIRST | AFTER column",
    "ALTER TABLE delta.`path` CLUSTER BY (column, ...) | NONE",
    "ALTER TABLE delta.`path` DROP FEATURE name [TRUNCATE HISTORY]",
    "DESCRIBE HISTORY delta.`path` [LIMIT n]",
    "DESCRIBE DETAIL delta.`path`",
    "DESCRIBE [TABLE] [EXTENDED | FORMATTED] delta.`path` [column]",
    "SHOW COLUMNS IN delta.`path`",
    "SHOW TBLPROPERTIES delta.`path` [('key')]",
    "SHOW PARTITIONS delta.`path`",
    *KNOWN_MAINTENANCE,
)


# --- changing rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delete:
    """`condition` is the user's text; without WHERE it is the literal `true`, as Spark's own parser has it."""

    path: TableName
    condition: str
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target` is a column, or a field of one with dots, as it was written."""

    target: str
    value: str


@dataclass(frozen=True, slots=True)
class Update:
    path: TableName
    assignments: tuple[Assignment, ...]
    condition: str | None = None
    alias: str | None = None


MergeAction: TypeAlias = Literal["update", "update all", "delete", "insert", "insert all"]


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action. `assignments` are those of UPDATE SET and INSERT."""

    when: Literal["matched", "not matched", "not matched by source"]
    action: MergeAction
    condition: str | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """`source` is a query for the source's rows, `source_alias` its name in conditions and values."""

    path: TableName
    source: str
    condition: str
    clauses: tuple[MergeClause, ...]
    alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False


@dataclass(frozen=True, slots=True)
class Insert:
    """The rows of `query`, matched by position to `columns` (or all columns), or by name with `by_name`."""

    path: TableName
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: bool = False
    replace_where: str | None = None


# --- tables and views -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable:
    """With a `query`, the table gets its columns and rows from it."""

    path: str
    columns: tuple[ColumnDefinition, ...] = ()
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False
    query: str | None = None
    cluster_by: tuple[FieldPath, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateView:
    """A view of the named `columns` of a table, or of all of them; SELECT * FROM (...) may be nested."""

    name: str
    path: TableName
    or_replace: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTable:
    path: str
    if_exists: bool = False


# --- looking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    text: str


@dataclass(frozen=True, slots=True)
class Truncate:
    path: TableName


@dataclass(frozen=True, slots=True)
class Explain:
    statement: Delete | Update | Merge


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    path: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    path: str


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """`is_extended`: EXTENDED or FORMATTED, which are the same for a table."""

    path: str
    column: str | None = None
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class ShowColumns:
    path: str


@dataclass(frozen=True, slots=True)
class ShowProperties:
    path: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    path: str


Statement: TypeAlias = (
    Delete
    | Update
    | Merge
    | Insert
    | Truncate
    | CreateTable
    | CreateView
    | DropTable
    | AlterStatement
    | MaintenanceStatement
    | Query
    | Explain
    | DescribeHistory
    | DescribeDetail
    | DescribeTable
    | ShowColumns
    | ShowProperties
    | ShowPartitions
)
