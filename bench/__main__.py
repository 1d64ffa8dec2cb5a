"""`python -m bench [--quick] [names ...]`"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import commits, delete, large, report, scan, small, snapshot
from bench.harness import Context, Workload, machine

WORKLOADS = {"snapshot": snapshot, "commits": commits, "scan": scan, "delete": delete, "small": small, "large": large}
ONLY_BY_NAME = {"large"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []], help="workloads; all but 'large' by default")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the data; nothing is written down")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    names = arguments.names or [name for name in WORKLOADS if name not in ONLY_BY_NAME]
    directory = Path(tempfile.mkdtemp(prefix="ebbtide-bench-"))
    context = Context(directory, arguments.quick, 2 if arguments.quick else arguments.repetitions)
    about = {**machine(), "date": dt.date.today().isoformat(), "command": f"python -m bench {' '.join(names)}"}
    console = Console()
    try:
        for name in names:
            with console.status(f"{name} ..."):
                workload = WORKLOADS[name].run(context)
            _show(console, workload)
            if not arguments.quick:
                report.save(name, workload, {**about, "command": f"python -m bench {name}"})
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _show(console: Console, workload: Workload) -> None:
    table = Table(*workload.columns, title=workload.title, title_justify="left")
    for row in workload.rows:
        table.add_row(*row)
    console.print(table)
    for what, reached, allowed in workload.bars:
        verdict = "[green]reached[/green]" if reached <= allowed else "[red]missed[/red]"
        console.print(f"  {what}: {reached} (at most {allowed}) {verdict}")


if __name__ == "__main__":
    raise SystemExit(main())
