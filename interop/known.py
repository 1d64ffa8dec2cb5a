"""What is known to go wrong, or to be refused, in another engine?

One explicit list, seen with the versions in `constraints.txt`. An entry says which engine, which tables, whether it
reads or writes, and which words of the error identify it. Anything else fails the run and counts as our bug until
somebody has looked. An entry that did not show in a run is reported, and should be removed. `example` is the smallest
one, for the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["KNOWN", "Known", "find", "ruins"]

When = Literal["reads", "writes"]
# An engine that says no is safe; one that shows or writes other rows is not.
Verdict = Literal["refuses", "differs"]


@dataclass(frozen=True)
class Known:
    engine: str
    when: When
    verdict: Verdict
    features: tuple[str, ...]
    words: str
    reason: str
    example: str
    step: str = ""
    # Nobody can read the table afterwards: histories, which go on, leave the step out.
    ruins: bool = False

    def explains(self, engine: str, when: str, feature: str, objection: str, step: str) -> bool:
        concerns = (engine, when) == (self.engine, self.when) and feature in self.features
        return concerns and self.step in ("", step) and self.words in objection


_MAPPED = ("column mapping by name", "column mapping by id", "column mapping and partitions")
_PARTED = ("partitions", "empty partition value", "deletion vectors in partitions", "column mapping and partitions")
_FEEDS = ("change data feed", "change data feed and vectors")
_VECTORED = ("deletion vectors", "deletion vectors in partitions", "column mapping by name", _FEEDS[1])
_MAINTAINED = ("plain", *_VECTORED, "row tracking")
_CLONE = "an add with the path file:///data/source/part-....parquet in the log of the table /data/clone\n"

KNOWN: tuple[Known, ...] = (
    # --- deltalake ----------------------------------------------------------------------------------------------------
    Known(
        "deltalake", "writes", "refuses", ("row tracking", "in-commit timestamps"), "Error parsing property",
        "does not make tables with row tracking or in-commit timestamps.",
        "DeltaTable.create(path, schema, configuration={'delta.enableRowTracking': 'true'})\n"
        "DeltaError: Kernel: Generic delta kernel error: Error parsing property 'delta.enableRowTracking':'true'",
        "create",
    ),
    Known(
        "deltalake", "writes", "refuses", ("row tracking", "in-commit timestamps"), "Unsupported table features",
        "does not write to tables with row tracking or in-commit timestamps.",
        "write_deltalake(path, rows, mode='append')\n"
        "CommitFailedError: Unsupported table features required: [RowTracking, DomainMetadata]",
    ),
    Known(
        "deltalake", "writes", "differs", ("V2 checkpoint",), "but V2Checkpoint is not",
        "panics when a table is to have both V2 checkpoints and deletion vectors: the feature is missing among those "
        "for writers.",
        "DeltaTable.create(path, schema, configuration={\n"
        "    'delta.checkpointPolicy': 'v2', 'delta.enableDeletionVectors': 'true'})\n"
        "PanicException: Failed to convert Protocol to a kernel implementation: ... Reader features must contain only\n"
        "ReaderWriter features that are also listed in writer features, but V2Checkpoint is not",
        "create",
    ),
    Known(
        "deltalake", "writes", "differs", ("column mapping by name",), "does not list the feature columnMapping",
        "makes a table that no other engine may read when it is to have both column mapping and deletion vectors: the "
        "protocol does not list column mapping.",
        "DeltaTable.create(path, schema, configuration={\n"
        "    'delta.columnMapping.mode': 'name', 'delta.enableDeletionVectors': 'true'})\n"
        "the log's protocol is 3,7 with deletionVectors and without columnMapping",
    ),
    Known(
        "deltalake", "writes", "refuses", ("column mapping by name",), "Column mapping is not supported for write",
        "does not compact tables with column mapping.",
        "DeltaTable(path).optimize.compact()\n"
        "DeltaError: Column mapping is not supported for write operation 'OPTIMIZE' yet",
        "optimize",
    ),
    Known(
        "deltalake", "writes", "refuses", ("column mapping by name",), "Column mapping is not supported for write",
        "does not Z-ORDER tables with column mapping.",
        "DeltaTable(path).optimize.z_order(['id'])\n"
        "DeltaError: Column mapping is not supported for write operation 'OPTIMIZE' yet",
        "zorder",
    ),
    Known(
        "deltalake", "writes", "differs", ("deletion vectors in partitions",), "p='ü",
        "removes the files that its OPTIMIZE replaces under another spelling of their paths, when these have letters "
        "beyond ASCII. delta-spark then shows their rows as well as those of the new file, deleted ones included; "
        "Ebbtide takes both spellings for the same file. Nothing is raised.",
        "the partition p = 'ü' has two files, of which vectors mark rows: the log says add p=ü/part-....parquet\n"
        "DeltaTable(path).optimize.compact(): the log says remove p=%C3%BC/part-....parquet",
        "optimize",
    ),
    Known(
        "deltalake", "writes", "differs", _VECTORED, "deletion_vector_",
        "deletes the files of live deletion vectors in a full VACUUM. Nobody can read the table afterwards; the rows "
        "that were deleted are known to nobody. Its default VACUUM, which lists nothing, leaves them alone.",
        "a table with one file, of which a deletion vector marks a row\n"
        "DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)\n"
        "the answer names deletion_vector_....bin, and every reader misses that file",
        "vacuum",
        ruins=True,
    ),
    Known(
        "deltalake", "writes", "refuses", ("row tracking",), "should be less then last available version",
        "does not restore a table to the version that it is at.",
        "DeltaTable(path).restore(5), where 5 is the newest version\n"
        "DeltaError: Generic error: Version to restore 5 should be less then last available version 5.",
        "restore",
    ),
    Known(
        "deltalake", "writes", "differs", ("generated column",), "rows failed validation check",
        "does not recompute generated columns in UPDATE, and then rejects its own rows.",
        "columns n BIGINT, g BIGINT GENERATED ALWAYS AS (n * 2), one row (1, 2)\n"
        "DeltaTable(path).update(updates={'n': 'n + 100'})\n"
        "DeltaError: Invalid data found: 1 rows failed validation check.",
        "update",
    ),
    Known(
        "deltalake", "reads", "differs", ("empty partition value",), "p=''",
        "writes an empty string as a partition value and reads it back as an empty string; by the protocol it is "
        "null, and null is what other engines read.",
        "write_deltalake(path, pa.table({'id': [1], 'p': ['']}), partition_by=['p'])\n"
        "the log has \"partitionValues\":{\"p\":\"\"}; deltalake shows '', DuckDB and Ebbtide show null",
    ),
    Known(
        "deltalake", "reads", "differs", ("partitions",), "p='ü",
        "removes a file under another spelling of its path than the one it was added with, when the path has letters "
        "beyond ASCII, which Spark does not encode. deltalake and delta-spark then show deleted rows, and the "
        "rewritten rows twice; Ebbtide takes both spellings for the same file. Nothing is raised.",
        "delta-spark writes the rows 1 and 2 to the partition p = 'ü': the log says add p=ü/part-....parquet\n"
        "DeltaTable(path).delete('id = 1'): the log says remove p=%C3%BC/part-....parquet, and adds a file with row 2\n"
        "deltalake and delta-spark show 1, 2, 2; Ebbtide shows 2",
    ),
    # --- Polars -------------------------------------------------------------------------------------------------------
    Known(
        "Polars", "reads", "refuses", _MAPPED, "polars does not support",
        "does not read tables with column mapping.",
        "pl.read_delta(path)\n"
        "DeltaProtocolError: delta table requires reader version 2 (column mapping), which polars does not support",
    ),
    Known(
        "Polars", "reads", "refuses", ("V2 checkpoint",), "polars does not support",
        "does not read tables with V2 checkpoints.",
        "pl.read_delta(path)\n"
        "DeltaProtocolError: delta table requires reader features ['v2Checkpoint'], which polars does not support",
    ),
    Known(
        "Polars", "reads", "differs", ("deletion vectors in partitions",), "missing: 0",
        "shows deleted rows where the path of a data file needs encoding, whoever wrote the table: it looks for the "
        "file's vector under the encoded name and forgets it under the decoded one. Nothing is raised.",
        "a file `a b.parquet` of the rows 1 and 2, of which a vector marks 1; in the log its path is `a%20b.parquet`\n"
        "pl.read_delta(path) shows 1 and 2",
    ),
    Known(
        "Polars", "writes", "refuses", ("row tracking", "in-commit timestamps"), "Error parsing property",
        "does not make tables with row tracking or in-commit timestamps; deltalake writes for it.",
        "DataFrame.write_delta(path, delta_write_options={'configuration': {'delta.enableRowTracking': 'true'}})\n"
        "DeltaError: Kernel: Generic delta kernel error: Error parsing property 'delta.enableRowTracking':'true'",
        "create",
    ),
    Known(
        "Polars", "writes", "refuses", ("row tracking", "in-commit timestamps"), "Unsupported table features",
        "does not write to tables with row tracking or in-commit timestamps; deltalake writes for it.",
        "DataFrame.write_delta(path, mode='append')\n"
        "CommitFailedError: Unsupported table features required: [RowTracking, DomainMetadata]",
    ),
    Known(
        "Polars", "writes", "differs", ("V2 checkpoint",), "but V2Checkpoint is not",
        "panics as deltalake does, which writes for it.",
        "DataFrame.write_delta(path, delta_write_options={'configuration': {\n"
        "    'delta.checkpointPolicy': 'v2', 'delta.enableDeletionVectors': 'true'}})",
        "create",
    ),
    Known(
        "Polars", "writes", "differs", ("column mapping by name",), "does not list the feature columnMapping",
        "makes a table that no other engine may read, as deltalake does, which writes for it.",
        "DataFrame.write_delta(path, delta_write_options={'configuration': {\n"
        "    'delta.columnMapping.mode': 'name', 'delta.enableDeletionVectors': 'true'}})",
    ),
    Known(
        "Polars", "writes", "refuses", ("CHECK constraint", "generated column"), "has no words for",
        "makes no tables with CHECK constraints or generated columns.",
        "",
        "create",
    ),
    Known(
        "Polars", "reads", "differs", ("empty partition value",), "p=''",
        "reads an empty partition value as an empty string; by the protocol it is null.",
        "pl.DataFrame({'id': [1], 'p': ['']}).write_delta(path, delta_write_options={'partition_by': ['p']})\n"
        "pl.read_delta(path) shows ''",
    ),
    Known(
        "Polars", "reads", "differs", ("partitions",), "p='ü",
        "loses track of files whose path has letters beyond ASCII when it merges, as deltalake does, which writes for "
        "it.",
        "see the entry of deltalake; here with DataFrame.write_delta(path, mode='merge', ...)",
    ),
    Known(
        "Polars", "reads", "differs", _MAINTAINED, "No such file or directory",
        "does not read shallow clones: it takes the absolute path of a file for one below the table.",
        _CLONE + "pl.read_delta('/data/clone')\n"
        "FileNotFoundError: No such file or directory: /data/clone/file:/data/source/part-....parquet",
        "clone",
    ),
    # --- DuckDB -------------------------------------------------------------------------------------------------------
    Known(
        "DuckDB", "reads", "differs", ("column mapping and partitions",), "missing:",
        "gives partition columns of mapped tables null or each other's values, whoever wrote the table. Nothing is "
        "raised.",
        "a table with `delta.columnMapping.mode` = 'name', partitioned by p, with the row (id = 1, p = 'a')\n"
        "SELECT * FROM delta_scan(path) shows (1, NULL)",
    ),
    Known(
        "DuckDB", "writes", "differs", ("column mapping by name", "column mapping by id"), "id=None",
        "writes the columns of a mapped table under their logical names, where no reader looks for them. Its own "
        "reader shows nulls as well. Nothing is raised: the rows are lost.",
        "a table with `delta.columnMapping.mode` = 'name' and the column id\n"
        "ATTACH path AS t (TYPE delta); INSERT INTO t VALUES (1);\n"
        "SELECT * FROM t shows NULL",
    ),
    Known(
        "DuckDB", "writes", "differs", _PARTED, "DeltaInsert::Sink expects a single row",
        "cannot insert rows of more than one partition at once.",
        "a table partitioned by p\n"
        "ATTACH path AS t (TYPE delta); INSERT INTO t VALUES (1, 'a'), (2, 'b');\n"
        "INTERNAL Error: DeltaInsert::Sink expects a single row containing output of the PhysicalCopy",
        "append",
    ),
    Known(
        "DuckDB", "writes", "differs", ("nested types",), "can't be cast to the destination type MAP",
        "cannot insert into a column of maps.",
        "a table with the column m MAP<STRING, BIGINT>\n"
        "ATTACH path AS t (TYPE delta); INSERT INTO t VALUES (MAP{'k': 1});\n"
        "Failed to cast value: Type VARCHAR with value '1' can't be cast to the destination type MAP(VARCHAR, BIGINT)",
        "append",
    ),
    Known(
        "DuckDB", "writes", "refuses", ("CHECK constraint", "generated column"), "is not supported",
        "does not write to tables with CHECK constraints or generated columns.",
        "INSERT INTO t VALUES (1)\n"
        "DeltaKernel UnsupportedError (35): Unsupported: Feature 'checkConstraints' is not supported",
        "append",
    ),
    Known(
        "DuckDB", "writes", "differs", ("partitions",), "No such file or directory",
        "writes a partition whose value needs encoding where no reader finds it, its own included: the directory on "
        "the disk has the name that only the log should have.",
        "a table partitioned by p\n"
        "ATTACH path AS t (TYPE delta); INSERT INTO t VALUES (1, 'x y');\n"
        "the log says p=x%20y/..., which is the directory `p=x y`; the file is in the directory `p=x%20y`",
    ),
    Known(
        "DuckDB", "reads", "differs", _MAINTAINED, "clone/file:/",
        "does not read shallow clones: it takes the absolute path of a file for one below the table.",
        _CLONE + "SELECT * FROM delta_scan('/data/clone')\n"
        'IO Error: Cannot open file "/data/clone/file:///data/source/part-....parquet"',
        "clone",
    ),
    # --- ClickHouse ---------------------------------------------------------------------------------------------------
    Known(
        "ClickHouse", "reads", "differs", ("nested types",), "missing:",
        "has no null arrays, maps or tuples: it shows empty ones, and a struct of nulls. Nothing is raised.",
        "a table with one row: l ARRAY<BIGINT> is null, m MAP<STRING, BIGINT> is null, s STRUCT<a: BIGINT> is null\n"
        "SELECT * FROM deltaLakeLocal(path) shows [], {}, (NULL)",
    ),
    Known(
        "ClickHouse", "writes", "differs", ("nested types",), "missing:",
        "writes empty arrays and maps, and structs of nulls, where null was to be written. Nothing is raised.",
        "INSERT INTO FUNCTION deltaLakeLocal(path) SELECT * FROM file('nulls.parquet'), the row of the entry before",
    ),
    Known(
        "ClickHouse", "writes", "refuses", _MAPPED, "column mapping enabled is not supported",
        "does not write to tables with column mapping.",
        "INSERT INTO FUNCTION deltaLakeLocal(path) VALUES (1)\n"
        "DB::Exception: Writing to DeltaLake tables with column mapping enabled is not supported.",
        "append",
    ),
    Known(
        "ClickHouse", "writes", "refuses", ("CHECK constraint", "generated column"), "is not supported",
        "does not write to tables with CHECK constraints or generated columns.",
        "INSERT INTO FUNCTION deltaLakeLocal(path) VALUES (1)\n"
        "DeltaLake kernel error UnsupportedError: Unsupported: Feature 'checkConstraints' is not supported",
        "append",
    ),
    Known(
        "ClickHouse", "writes", "differs", ("row tracking",), "stats.numRecords not found",
        "cannot write to tables with row tracking, because its commits do not record the number of rows.",
        "INSERT INTO FUNCTION deltaLakeLocal(path) VALUES (1)\n"
        "DeltaLake kernel error MissingColumnError: Column stats.numRecords not found in the data (in commit).",
        "append",
    ),
    Known(
        "ClickHouse", "reads", "differs", _MAINTAINED, "clone/file:/",
        "does not read shallow clones: it takes the absolute path of a file for one below the table.",
        _CLONE + "SELECT * FROM deltaLakeLocal('/data/clone')\n"
        "DB::Exception: Cannot get metadata of file /data/clone/file:/data/source/part-....parquet",
        "clone",
    ),
    # --- Sail ---------------------------------------------------------------------------------------------------------
    Known(
        "Sail", "writes", "refuses", (*_FEEDS, "row tracking"), "able features",
        "makes no tables with a change data feed or row tracking, and does not write to them.",
        "CREATE TABLE t (id BIGINT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')\n"
        "Delta transaction error: Table features must be specified, please specify: ChangeDataFeed\n"
        "and for a table that is there: Unsupported table features required: [ChangeDataFeed]",
    ),
    Known(
        "Sail", "writes", "differs", ("partitions",), "p='ü",
        "removes a file under another spelling of its path than the one it was added with, when the path has letters "
        "beyond ASCII, which Spark does not encode. To Sail itself the file stays live, and its next DELETE or UPDATE "
        "writes the rows that were deleted into a new file, which all engines see. Nothing is raised.",
        "delta-spark or Ebbtide writes the row 1 to the partition p = 'ü': the log says add p=ü/part-....parquet\n"
        "DELETE FROM delta.`path` WHERE id = 1: the log says remove p=%C3%BC/part-....parquet\n"
        "DELETE FROM delta.`path` WHERE id = 7: the log adds a file with row 1",
    ),
    Known(
        "Sail", "reads", "differs", _MAINTAINED, "/file:/",
        "does not read shallow clones: it takes the absolute path of a file for one below the table.",
        _CLONE + "SELECT * FROM delta.`/data/clone`\n"
        "Object at location /file:/data/source/part-....parquet not found: No such file or directory",
        "clone",
    ),
)  # fmt: skip


def find(engine: str, when: str, feature: str, objection: str, *, step: str = "") -> int | None:
    """The place in the list of the entry that explains an objection; None when nothing does."""
    for place, known in enumerate(KNOWN):
        if known.explains(engine, when, feature, objection, step):
            return place
    return None


def ruins(engine: str, feature: str, step: str) -> bool:
    """Whether a step of the engine is known to ruin tables of this kind."""
    return any(
        known.ruins and (known.engine, known.step) == (engine, step) and feature in known.features for known in KNOWN
    )
