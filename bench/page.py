"""How are results kept, and how do they become a page? `bench/results.json`, and `docs/benchmarks.md` made from it.

Both kinds of benchmarks keep their results in the one file, under their own name, and neither touches those of the
other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from bench import report
from bench.peers import page as peers

__all__ = ["PAGE", "PLOTS", "Part", "kept", "keep", "markdown", "publish"]

Part = Literal["peers", "alone"]

PAGE = "benchmarks.md"
PLOTS = "benchmarks"
HEADING = """# Benchmarks

This page and its plots are made from `bench/results.json` by `make bench-peers` (the first part) and `make bench` (the
second); edit none of them. Everything was measured on the one machine that each section names. Compare ratios between
machines, not seconds.
"""


def kept(path: Path) -> dict[Part, dict[str, Any]]:
    """The results by part and workload."""
    found: dict[Part, dict[str, Any]] = {"peers": {}, "alone": {}}
    return found | (json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})


def keep(path: Path, part: Part, results: dict[str, Any]) -> None:
    """Exchange the results of one part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = kept(path) | {part: results}
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def publish(path: Path, docs: Path) -> Path:
    """Make the page and the plots from the file, as the next reader will find it; where the page is."""
    results = kept(path)
    (docs / PLOTS).mkdir(parents=True, exist_ok=True)
    for name, text in peers.plots(results["peers"]).items():
        (docs / PLOTS / name).write_text(text, encoding="utf-8")
    (docs / PAGE).write_text(markdown(results), encoding="utf-8")
    return docs / PAGE


def markdown(results: dict[Part, dict[str, Any]]) -> str:
    return "\n".join([HEADING, peers.markdown(results["peers"], plots_at=PLOTS), report.markdown(results["alone"])])
