"""How do results become a page? `bench/results.json` is the truth; the page is made from it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness import Workload

__all__ = ["load", "save"]

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def load() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(name: str, workload: Workload, about_run: dict[str, str]) -> None:
    """Put one workload's result in place of its last one, and make the page anew."""
    results = load()
    results[name] = {**asdict(workload), "run": about_run}
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(_page(results))


def _page(results: dict[str, Any]) -> str:
    parts = [
        "# Benchmarks\n",
        "Made by `make bench` from `bench/results.json`; do not edit. The machine is small and its clock is noisy, so",
        "what counts are ratios between things measured in turns in one run. Where a bar is missed, it says so.\n",
    ]
    for name in sorted(results):
        parts += _section(results[name])
    return "\n".join(parts)


def _section(result: dict[str, Any]) -> list[str]:
    lines = [f"## {result['title']}\n", f"{result['about']}\n"]
    lines += ["| " + " | ".join(result["columns"]) + " |", "|" + "---|" * len(result["columns"])]
    lines += ["| " + " | ".join(row) + " |" for row in result["rows"]]
    if result["bars"]:
        lines += ["", "| bar | reached | allowed | |", "|---|---|---|---|"]
        lines += [
            f"| {what} | {reached} | {allowed} | {'reached' if reached <= allowed else '**missed**'} |"
            for what, reached, allowed in result["bars"]
        ]
    run = result["run"]
    lines += [
        "",
        f"`{run['command']}` on {run['date']}: {run['machine']}; Python {run['python']}; {run['versions']}.\n",
    ]
    return lines
