"""Run the benchmarks: all of them, or the named ones.

python -m bench                 everything; writes bench/results.json and docs/benchmarks.md
python -m bench read_marked     one workload; the others keep their results
python -m bench --quick         a twentieth of the data, to see that it works; writes below artifacts/bench
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench import page, report, setup, workloads

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    command = " ".join(["python -m bench", *arguments])
    target = ROOT / "artifacts" / "bench" if options.quick else ROOT / "bench"
    docs = target if options.quick else ROOT / "docs"
    results = page.kept(target / "results.json")["alone"]
    run = report.environment(command)
    kept = True
    for name in options.names or workloads.by_default():
        module = workloads.load(name)
        print(f"\n{module.TITLE} ({name})", flush=True)
        with (
            tempfile.TemporaryDirectory(prefix="ebbtide-bench-", dir=options.directory) as scratch,
            setup.opened(Path(scratch), quick=options.quick) as prepared,
        ):
            comparisons = module.run(prepared)
        print("\n".join(report.table(comparisons)), flush=True)
        kept = kept and all(comparison.holds is not False for comparison in comparisons)
        results[name] = report.workload_result(module, comparisons, run)
        page.keep(target / "results.json", "alone", results)
        page.publish(target / "results.json", docs)
    print(f"\nwritten: {target / 'results.json'}, {docs / page.PAGE}")
    if not kept:
        print("a bar was missed", file=sys.stderr)
    # Small data says nothing about the bars.
    return 0 if kept or options.quick else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of Ebbtide.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"workloads to run: {', '.join(workloads.names())}")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the data, to see that it works")
    parser.add_argument(
        "--directory", type=Path, help="where to put the data while it is measured (default: temporary)"
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(workloads.names()))
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(workloads.names())}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
