"""What does EXPLAIN show of a command that changes rows?"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ebbtide.commands.row_level.counters import total_bytes
from ebbtide.commands.row_level.plan import Plan, WholeFiles, WholeTable
from ebbtide.log import Snapshot

__all__ = ["heading_lines", "plan_lines", "share_of_table"]


def plan_lines(
    name: str, snapshot: Snapshot, plan: Plan, *, how: str, whole: str, details: Sequence[str] = ()
) -> list[str]:
    """A plan for people. `whole` says what happens to files that the log alone chooses."""
    condition = "none, every row" if plan.matcher is None else plan.matcher.display_text
    done = whole if isinstance(plan, WholeTable | WholeFiles) else "scanned"
    return [
        *heading_lines(name, snapshot),
        f"+- condition: {condition}",
        *details,
        f"+- how: {how}",
        f"+- {done}: {share_of_table(plan.files, snapshot)}",
    ]


def heading_lines(name: str, snapshot: Snapshot) -> list[str]:
    return ["== Plan of Ebbtide ==", f"{name} {snapshot.store.url}, version {snapshot.version}"]


def share_of_table(files: pa.Table, snapshot: Snapshot) -> str:
    return (
        f"{files.num_rows:,} of {snapshot.num_files:,} files, "
        f"{total_bytes(files):,} of {snapshot.size_in_bytes:,} bytes"
    )
