"""How do `optimize` and `purge` show what they did, or would do?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.cli.output import output_console, pluralize, print_json, print_note, print_pairs, size_text
from ebbtide.commands.optimize.forecast import LayoutForecast
from ebbtide.commands.optimize.results import OptimizeResult

__all__ = ["print_forecast", "print_result"]


def print_result(result: OptimizeResult, *, as_json: bool, **more: Any) -> None:
    """`more` are further fields of the JSON object."""
    metrics = result.metrics
    if as_json:
        counters = {
            **result.operation_metrics,
            "numDeletionVectorRowsRemoved": metrics.num_deletion_vector_rows_removed,
            "numCarriedRows": metrics.num_carried_rows,
            "numDroppedGroups": metrics.num_dropped_groups,
        }
        print_json([{"version": result.version, "versions": list(result.versions), **counters, **more}])
        return
    if result.version is None:
        print_note(output_console(), "Nothing to do; no new version.")
        return
    print_pairs(list(_result_lines(result)))


def _result_lines(result: OptimizeResult) -> Iterator[tuple[str, str]]:
    metrics = result.metrics
    if len(result.versions) > 1:
        yield "versions", f"{result.versions[0]:,} to {result.versions[-1]:,}"
    else:
        yield "version", f"{result.version:,}"
    yield "removed", f"{pluralize(metrics.num_removed_files, 'file')} ({size_text(sum(metrics.removed_sizes))})"
    yield "added", f"{pluralize(metrics.num_added_files, 'file')} ({size_text(sum(metrics.added_sizes))})"
    if metrics.num_deletion_vector_rows_removed:
        yield "left out", f"{pluralize(metrics.num_deletion_vector_rows_removed, 'deleted row')}"
    if metrics.num_carried_rows:
        yield "deleted meanwhile", f"{pluralize(metrics.num_carried_rows, 'row')}, marked in the new files"
    if metrics.num_dropped_groups:
        yield "given up", f"{pluralize(metrics.num_dropped_groups, 'group')} that others kept changing; run it again"


def print_forecast(forecast: LayoutForecast, *, as_json: bool) -> None:
    if as_json:
        print_json([_forecast_json(forecast)])
        return
    num_files = pluralize(forecast.num_considered_files, "file")
    lines = [("looked at", f"{num_files} ({size_text(forecast.num_considered_bytes)}) of version {forecast.version}")]
    if forecast.num_groups:
        rewritten = f"{pluralize(forecast.num_rewritten_files, 'file')} ({size_text(forecast.num_rewritten_bytes)})"
        lines.append(("would rewrite", f"{rewritten} in {pluralize(forecast.num_groups, 'group')}"))
        lines.append(("would leave out", pluralize(forecast.num_marked_rows, "deleted row")))
    else:
        lines.append(("would rewrite", "nothing"))
    print_pairs(lines)
    print_note(output_console(), "A dry run: nothing was written.")


def _forecast_json(forecast: LayoutForecast) -> dict[str, Any]:
    return {
        "dryRun": True,
        "version": forecast.version,
        "numConsideredFiles": forecast.num_considered_files,
        "numConsideredBytes": forecast.num_considered_bytes,
        "numGroups": forecast.num_groups,
        "numPartitions": forecast.num_partitions,
        "numRewrittenFiles": forecast.num_rewritten_files,
        "numRewrittenBytes": forecast.num_rewritten_bytes,
        "numMarkedRows": forecast.num_marked_rows,
    }
