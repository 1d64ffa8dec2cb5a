"""How would an UPDATE go about it?

What EXPLAIN shows: the plan that the condition leads to, the columns that get new values, and the files that would have
to be opened. Only the log is read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from ebbtide.commands.requests import UpdateRequest
from ebbtide.commands.row_level.explanation import plan_lines
from ebbtide.commands.row_level.plan import MarkRows, Plan, RewriteFiles
from ebbtide.commands.update.command import UpdateCommand

__all__ = ["explain_update"]


def explain_update(spark: SparkSession, request: UpdateRequest) -> list[str]:
    """The plan, line by line; raises what the UPDATE itself would raise before it reads data."""
    columns = ", ".join(name for name, _ in request.assignments)
    with UpdateCommand(spark, request).open_plan() as (snapshot, plan):
        return plan_lines(
            "DeltaUpdate", snapshot, plan, how=_describe_method(plan), whole="rewritten", details=[f"+- set: {columns}"]
        )


def _describe_method(plan: Plan) -> str:
    match plan:
        case MarkRows(rewrites_mostly_marked=True):
            return (
                "matching rows are marked and written with their new values; files of which most would be marked are "
                "rewritten"
            )
        case MarkRows():
            return "matching rows are marked in deletion vectors and written with their new values"
        case RewriteFiles():
            return "files with matching rows are rewritten"
    return "every row of the chosen files is rewritten; the log alone chooses them"
