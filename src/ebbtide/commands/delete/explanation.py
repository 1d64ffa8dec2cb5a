"""How would a DELETE go about it?

What EXPLAIN shows: the branch that the condition leads to, and the files that it would have to open. Only the log is
asked. How many rows would go is what a dry run counts (`dry_run`), which opens the files.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from ebbtide.commands.delete.rows import vector_mode
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.committing import assert_not_append_only
from ebbtide.commands.row_level.conditions import Matcher, bind_matcher
from ebbtide.commands.row_level.subqueries import condition_tables
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.protocol.features import ensure_writable

__all__ = ["explain_delete"]

_WAYS = {
    "on": "matching rows are marked in deletion vectors",
    "off": "files with matching rows are rewritten without them",
    "auto": "matching rows are marked; files of which most would be marked are rewritten",
}


def explain_delete(spark: SparkSession, request: DeleteRequest) -> str:
    """The plan as a few lines of text; raises what the DELETE itself would raise before it reads data."""
    snapshot = load_snapshot(request.store, config=request.options.config, hint=request.hint)
    ensure_writable(snapshot.protocol, snapshot.metadata)
    assert_not_append_only(snapshot)
    with condition_tables(spark, snapshot, request) as rewritten:
        matcher = bind_matcher(spark, snapshot, rewritten)
        files = snapshot.files if matcher is None else matcher.candidates(spark, snapshot)
        mode = vector_mode(snapshot, request.options.deletion_vectors)
    is_log_alone = matcher is None or matcher.is_partition_only
    way = "whole files are removed; the log alone decides" if is_log_alone else _WAYS[mode]
    return "\n".join(
        [
            "== Plan of Ebbtide ==",
            f"DeltaDelete {snapshot.store.url}, version {snapshot.version}",
            f"+- condition: {_condition(matcher)}",
            f"+- how: {way}",
            f"+- {'removed' if is_log_alone else 'scanned'}: {_share(files, snapshot)}",
        ]
    )


def _condition(matcher: Matcher | None) -> str:
    return "none, every row" if matcher is None else matcher.shown


def _share(files: pa.Table, snapshot: Snapshot) -> str:
    size = sum(files.column("size").to_pylist())
    return f"{files.num_rows:,} of {snapshot.num_files:,} files, {size:,} of {snapshot.size_in_bytes:,} bytes"
