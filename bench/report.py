"""How are the results of `make bench` shown? The second part of `docs/benchmarks.md`."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.measure import Comparison

__all__ = ["environment", "markdown", "table", "workload_result"]

MIB = 1024 * 1024
PACKAGES = ("ebbtide", "pyspark", "pyarrow", "deltalake", "pyroaring", "obstore")
HEADING = """## What Ebbtide is held to

Every ratio compares two ways that took turns in one run on one machine, and is the median over the turns; the range
beside it is the smallest and the largest. Seconds are medians.
"""


def environment(command: str) -> dict[str, Any]:
    """Where and with what a run was made; nothing that names the machine's owner."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def workload_result(module: ModuleType, comparisons: list[Comparison], run: dict[str, Any]) -> dict[str, Any]:
    return {
        "title": module.TITLE,
        "about": module.ABOUT,
        "run": run,
        "comparisons": [comparison.to_json() for comparison in comparisons],
    }


def table(comparisons: list[Comparison]) -> list[str]:
    """The comparisons as the lines of a Markdown table: one line a contender that is not the baseline."""
    has_memory = any(comparison.peak_bytes for comparison in comparisons)
    head = ["what", "baseline", "contender", "ratio", "range", "bar", "holds"] + (["peak memory"] if has_memory else [])
    rows = [_row(comparison, name, has_memory) for comparison in comparisons for name in comparison.contenders[1:]]
    widths = [max(len(line[at]) for line in (head, *rows)) for at in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]


def _row(comparison: Comparison, name: str, has_memory: bool) -> list[str]:
    ratios = comparison.ratios(name)
    is_promised = comparison.bar is not None and name == comparison.contenders[1]
    cells = [
        comparison.label,
        _timed(comparison, comparison.baseline),
        _timed(comparison, name),
        f"{comparison.ratio(name):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{comparison.bar}" if is_promised else "",
        ("yes" if comparison.holds else "NO") if is_promised else "",
    ]
    if has_memory:
        peaks = [f"{max(comparison.peak_bytes[each]) / MIB:.0f} MiB" for each in (comparison.baseline, name)]
        cells.append(" / ".join(peaks))
    return cells


def _timed(comparison: Comparison, name: str) -> str:
    return f"{name} {statistics.median(comparison.seconds[name]):.3f} s"


def markdown(results: dict[str, Any]) -> str:
    """This part of the page, from the results alone."""
    sections = [HEADING]
    for name, result in sorted(results.items()):
        comparisons = [Comparison(**comparison) for comparison in result["comparisons"]]
        turns = {len(seconds) for comparison in comparisons for seconds in comparison.seconds.values()}
        run = result["run"]
        packages = ", ".join(f"{package} {found}" for package, found in run["packages"].items())
        place = f"{run['cpu']}, {run['cores']} cores, {run['memory_gib']} GiB, {run['system']}"
        made = f"`{run['command']}` (workload `{name}`), {run['date']}, {'/'.join(map(str, sorted(turns)))} turns"
        made += ", with a twentieth of the data" if "--quick" in run["command"] else ""
        source = f"{made}, on {place}, Python {run['python']}, {packages}."
        sections.append(
            "\n\n".join([f"### {result['title']}", result["about"], "\n".join(table(comparisons)), source]) + "\n"
        )
    return "\n".join(sections)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gib() -> int:
    if sys.platform == "win32":
        return 0
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3)
