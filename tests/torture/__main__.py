"""`python -m tests.torture`: many writers, one table, and a model that must agree. See `make torture`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.torture.run import Plan, Summary, simulate, torture


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", default=None, help="dice of the workers; by default the time of day")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long each run takes")
    parser.add_argument("--rounds", type=int, default=None, help="operations a worker, instead of minutes")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--store", choices=["local", "s3", "both"], default="both")
    parser.add_argument(
        "--spark", action=argparse.BooleanOptionalAction, default=True, help="one more worker with Spark"
    )
    parser.add_argument("--engine", choices=["ebbtide", "deltalake", "both"], default="ebbtide")
    parser.add_argument("--compactions", choices=["ebbtide", "deltalake"], default="ebbtide", help="who compacts")
    parser.add_argument(
        "--simulate", action="store_true", help="one process, turns chosen by the seed, no VACUUM: replayable"
    )
    parser.add_argument("--keep", type=Path, default=None, help="directory for tables and records (kept)")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    seed = chosen.seed or str(int(time.time()))
    directory = chosen.keep or Path(tempfile.mkdtemp(prefix="torture-"))
    failed = False
    for plan in plans(chosen, seed):
        target = directory / f"{plan.engine}-{plan.store}"
        summary = simulate(plan, target)[0] if chosen.simulate else torture(plan, target)
        failed |= told(summary)
    if failed:
        print(f"Seed {seed}; tables and records are in {directory}", file=sys.stderr)
        return 1
    if chosen.keep is None:
        shutil.rmtree(directory)
    return 0


def plans(chosen: argparse.Namespace, seed: str) -> list[Plan]:
    stores = ["local", "s3"] if chosen.store == "both" else [chosen.store]
    if chosen.simulate:
        rounds = chosen.rounds or 30
        return [Plan(seed, chosen.processes, rounds=rounds, compactions=chosen.compactions, vacuums=False)]
    seconds = None if chosen.rounds is not None else chosen.minutes * 60
    return [
        Plan(
            seed,
            chosen.processes,
            rounds=chosen.rounds,
            seconds=seconds,
            store=store,
            spark=chosen.spark and store == "local" and engine == "ebbtide",
            engine=engine,
            compactions=chosen.compactions,
        )
        for engine in (["ebbtide", "deltalake"] if chosen.engine == "both" else [chosen.engine])
        for store in stores
    ]


def told(summary: Summary) -> bool:
    """Print a run; whether it failed. The peer may abort as often as it likes, we may not."""
    print("\n".join(summary.lines()), flush=True)
    for problem in summary.problems[:20]:
        print(f"  PROBLEM: {problem}", file=sys.stderr)
    is_ours = summary.plan.engine == "ebbtide"
    for abort in summary.aborts[:5] if is_ours else ():
        print(f"  ABORT: {abort}", file=sys.stderr)
    return bool(summary.problems) or (is_ours and bool(summary.aborts))


if __name__ == "__main__":
    sys.exit(main())
