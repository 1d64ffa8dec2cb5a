"""How would a DELETE go about it?

What EXPLAIN shows: the plan that the condition leads to, and the files that it would have to open. Only the log is
read. A dry run (`delete.dry_run`) opens the files and counts the rows that would go.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.requests import DeleteRequest
from ebbtide.commands.row_level.explanation import plan_lines
from ebbtide.commands.row_level.plan import MarkRows, Plan, RewriteFiles

__all__ = ["explain_delete"]


def explain_delete(spark: SparkSession, request: DeleteRequest) -> list[str]:
    """The plan, line by line; raises what the DELETE itself would raise before it reads data."""
    with DeleteCommand(spark, request).open_plan() as (snapshot, plan):
        return plan_lines("DeltaDelete", snapshot, plan, how=_describe_method(plan), whole="removed")


def _describe_method(plan: Plan) -> str:
    match plan:
        case MarkRows(rewrites_mostly_marked=True):
            return "matching rows are marked; files of which most would be marked are rewritten"
        case MarkRows():
            return "matching rows are marked in deletion vectors"
        case RewriteFiles():
            return "files with matching rows are rewritten without them"
    return "whole files are removed; the log alone decides"
