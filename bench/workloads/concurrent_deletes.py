"""How long do many writers need to delete from one table at once, and how often does one have to start over?"""

from __future__ import annotations

import shutil
from functools import partial

from tests.torture.run import Plan, torture

from bench.measure import Comparison, Contender, Sample, compare
from bench.setup import Setup

TITLE = "Deletes of one table by many processes at once"
ABOUT = (
    "Eight processes, twenty DELETEs each from the same dice (five rows by id, a stretch of ids, or every 199th row), "
    "on one table of 2,000 rows in eight files on the local disk. A DELETE that an engine aborts because of another "
    "writer is sent again until it lands. Ebbtide runs its command and commit as always, but finds rows with pyarrow, "
    "since eight JVMs do not fit one machine. The workload of `make torture`, without its other writers."
)
PROCESSES, DELETES = 8, 20


def run(setup: Setup) -> list[Comparison]:
    aborts: dict[str, int] = {}
    rebases: dict[str, int] = {}

    def work(engine: str) -> Sample:
        directory = setup.directory / f"torture-{engine}"
        shutil.rmtree(directory, ignore_errors=True)
        plan = Plan("bench", PROCESSES, rounds=DELETES, engine=engine, only_deletes=True)
        summary = torture(plan, directory)
        assert not summary.problems, summary.problems[0]
        aborts[engine] = aborts.get(engine, 0) + len(summary.aborts)
        rebases[engine] = rebases.get(engine, 0) + summary.total("rebases")
        return Sample(summary.seconds)

    contenders = [Contender(name, partial(work, name.lower())) for name in ("deltalake", "Ebbtide")]
    turns = 3
    result = compare("", contenders, repetitions=turns, warmups=0)
    told = [f"{name} aborted {aborts[name.lower()] / turns:.0f}" for name in ("deltalake", "Ebbtide")]
    result.label = f"{PROCESSES * DELETES} deletes; {', '.join(told)}, rebased {rebases['ebbtide'] / turns:.0f}"
    return [result]
