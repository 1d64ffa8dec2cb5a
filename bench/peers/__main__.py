"""Run the comparison with other engines: all workloads, or the named ones.

python -m bench.peers            everything; writes bench/results.json, docs/benchmarks.md and its plots
python -m bench.peers merge      one workload; the others keep their results
python -m bench.peers --short    tiny tables and one turn, to see that nothing rots; writes below artifacts
python -m bench.peers --page     measures nothing, makes the page and the plots again from the results
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench import page, report
from bench.peers import workloads
from bench.peers.engines import ROOT
from bench.peers.measure import Case
from bench.peers.run import SHORT_SCALE, Run, opened

RESULTS = ROOT / "bench" / "results.json"
DOCS = ROOT / "docs"
ARTIFACTS = ROOT / "artifacts" / "bench-peers"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    is_real = options.scale == 1 and not options.short
    target = RESULTS if is_real else ARTIFACTS / "results.json"
    docs = DOCS if is_real else ARTIFACTS / "docs"
    if options.page:
        page.publish(target, docs)
        return 0
    command = " ".join(["python -m bench.peers", *arguments])
    results = page.kept(target)["peers"] if is_real else {}
    scale = SHORT_SCALE if options.short else options.scale
    data = options.directory / f"scale-{scale}"
    troubled: list[str] = []
    with opened(data, scale=scale, is_short=options.short, only=tuple(options.engine)) as run:
        for name in options.names or workloads.NAMES:
            results[name], troubles = _workload(run, name, command)
            troubled += troubles
            page.keep(target, "peers", results)
    print(f"\nwritten: {target}, {page.publish(target, docs)}")
    for line in troubled:
        print(f"trouble: {line}", file=sys.stderr)
    # A peer's trouble is a result of a real run; a short run is there to find it.
    return 1 if troubled and options.short else 0


def _workload(run: Run, name: str, command: str) -> tuple[dict[str, Any], list[str]]:
    module = workloads.load(name)
    print(f"\n{module.TITLE} ({name})", flush=True)
    load = run.load()
    cases: list[Case] = module.run(run)
    environment = report.environment(command) | {"load": load, "scale": run.scale}
    result = {
        "title": module.TITLE,
        "about": module.ABOUT,
        "run": environment,
        "engines": dict(run.versions),
        "missing": dict(run.missing),
        "cases": [case.to_json() for case in cases],
    }
    troubles = [
        f"{name}, {case.label}, {each.engine}: {each.trouble.splitlines()[0]}"
        for case in cases
        for each in case.measurements
        if each.trouble
    ]
    return result, troubles


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Ebbtide beside other engines.")
    parser.add_argument("names", nargs="*", metavar="workload", help=f"some of: {', '.join(workloads.NAMES)}")
    parser.add_argument("--short", action="store_true", help="tiny tables, one turn: to see that nothing rots")
    parser.add_argument("--scale", type=int, default=1, help="divide the size of the data by this")
    parser.add_argument("--engine", action="append", default=[], help="only this engine; may be given again")
    parser.add_argument("--page", action="store_true", help="measure nothing, make the page again from the results")
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / "build" / "bench-peers",
        help="where the data is made; it stays there for the next run (default: build/bench-peers)",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(workloads.NAMES))
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(workloads.NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
