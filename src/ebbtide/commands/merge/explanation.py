"""How would a MERGE go about it?

What EXPLAIN shows: the clauses, whether rows are marked or files rewritten, and the files that ON alone cannot rule
out. The source is not computed, so what its keys rule out is not known yet, and the real merge may open fewer files.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from ebbtide.commands.merge.clauses import BoundMerge
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.pruning import Scopes, candidates, key_ranges
from ebbtide.commands.merge.request import MergeRequest
from ebbtide.commands.row_level.explanation import heading_lines, share_of_table
from ebbtide.commands.row_level.plan import should_write_persistent_deletion_vectors

__all__ = ["explain_merge"]


def explain_merge(spark: SparkSession, request: MergeRequest) -> list[str]:
    """The plan, line by line; raises what the MERGE itself would raise before it reads data."""
    command = MergeCommand(spark, request)
    with command.open_snapshot() as snapshot:
        merge, source = command.bind(snapshot)
        scopes = Scopes.of(spark, snapshot, merge, source)
        keys = [item.column for item in key_ranges(merge, scopes)]
        files = candidates(merge, scopes, ()).files(spark, snapshot)
        marks = should_write_persistent_deletion_vectors(snapshot, request.options.deletion_vectors)
    narrowed = f"; the keys of the source ({', '.join(keys)}) may rule out more" if keys and files.num_rows else ""
    return [
        *heading_lines("DeltaMergeInto", snapshot),
        f"+- on: {merge.display_text}",
        *(f"+- {line}" for line in _clause_lines(merge)),
        f"+- how: {_describe_method(request, marks=marks)}",
        f"+- scanned: {share_of_table(files, snapshot)}{narrowed}",
    ]


def _describe_method(request: MergeRequest, *, marks: bool) -> str:
    if request.is_insert_only:
        return "rows of the source without a partner are written; no file is changed"
    if marks:
        return "changed rows are marked in deletion vectors; new and updated rows are written"
    return "files with a matched row are rewritten; new rows are written beside them"


def _clause_lines(merge: BoundMerge) -> Iterator[str]:
    groups = (
        ("when matched", merge.matched),
        ("when not matched", merge.not_matched),
        ("when not matched by source", merge.by_source),
    )
    for name, clauses in groups:
        for clause in clauses:
            condition = "" if clause.display_text is None else f" and {clause.display_text}"
            yield f"{name}{condition}: {clause.kind}"
