"""What would an OPTIMIZE or a PURGE do? Nothing is written, and no data file is opened, only footers."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.row_level.counters import total_bytes

__all__ = ["LayoutForecast", "forecast_layout"]


@dataclass(frozen=True, slots=True)
class LayoutForecast:
    """What the plan for one version says."""

    version: int
    num_considered_files: int
    num_considered_bytes: int
    num_groups: int
    num_partitions: int
    num_rewritten_files: int
    num_rewritten_bytes: int
    # Marked rows that would be left out.
    num_marked_rows: int


def forecast_layout(command: OptimizeCommand) -> LayoutForecast:
    with command.open_plan() as (snapshot, plan):
        files = [add for group in plan.groups for add in group.files]
        return LayoutForecast(
            version=snapshot.version,
            num_considered_files=plan.considered.num_rows,
            num_considered_bytes=total_bytes(plan.considered),
            num_groups=len(plan.groups),
            num_partitions=len({group.partition for group in plan.groups}),
            num_rewritten_files=len(files),
            num_rewritten_bytes=sum(add.size for add in files),
            num_marked_rows=sum(add.num_marked_rows for add in files),
        )
