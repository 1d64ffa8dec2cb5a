"""What does it cost to read a table after rows were deleted, beside the same read before?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.client import EngineError, Process
from bench.peers.data import Rows, fresh_table
from bench.peers.engines import EBBTIDE, READERS, WRITERS
from bench.peers.measure import Case, Measurement
from bench.peers.run import Run
from bench.peers.workloads.random_delete import SHARES, left_of, rows_of

TITLE = "Reading after those deletes: the overhead of vectors"
ABOUT = (
    "The tables of the workload before. Each engine reads the undeleted table and the one that it deleted rows from, "
    "in turns; deltalake, DuckDB and Polars, which write no vectors, read the table that Ebbtide left. `two columns` "
    "sums two columns, `all columns` is an aggregate of each of six, `filtered` sums one column where another is "
    "small, `count` is `count(*)`, and with Ebbtide `DeltaTable.count()`. One process per engine does all of them, so "
    "there are no cold times; the first run of each is not counted. `overhead` is the time after the delete divided by "
    "the time before it, so a quick read of the undeleted table makes it larger; `seconds more` is the difference."
)
ENGINES = (*(engine for engine in WRITERS if engine.name != "delta-spark without vectors"), *READERS)
ALL_COLUMNS = ["sum(id)", "sum(number)", "sum(price)", "max(length(name))", "max(seen)", "sum(amount)"]
READS: dict[str, dict[str, Any]] = {
    "two columns": {"select": ["sum(id)", "sum(price)"]},
    "all columns": {"select": ALL_COLUMNS},
    "filtered": {"select": ["sum(price)"], "where": "number >= 99000"},
    "count": {"select": ["count(*)"]},
}


TURNS = 5


def run(run: Run) -> list[Case]:
    source, engines, cases = rows_of(run), run.present(ENGINES), []
    assert EBBTIDE in engines, "half of the engines read what Ebbtide leaves"
    shares = {"1 %": SHARES["1 %"]} if run.is_short else SHARES
    for share, below in shares.items():
        with run.place("left") as left, run.place("undeleted") as undeleted:
            fresh_table(undeleted, source, run.data, vectors=True)
            processes = {engine.name: run.start(engine) for engine in engines}
            tables = {engine: _left(run, source, processes[engine.name], left, below) for engine in engines}
            places = {engine.name: (undeleted, table) for engine, table in tables.items()}
            for name, read in READS.items():
                case = Case(f"{share} deleted, {name}", [Measurement(engine.name) for engine in engines])
                _measure(run, case, read, processes, places)
                _check(case, processes, places, left_of(source, run, below))
                cases.append(case)
            for process in processes.values():
                run.release(process)
    return cases


def _left(run: Run, source: Rows, process: Process, left: Path, below: int) -> Path:
    """The table after the delete. Ebbtide comes first: those that write no vectors read what it left."""
    engine = process.engine
    table = left / (engine.slug if engine in WRITERS and engine.vectors else EBBTIDE.slug)
    if not table.exists():
        fresh_table(table, source, run.data, vectors=True)
        process.ask({"do": "delete", "path": str(table), "where": f"number < {below}"})
    return table


def _measure(
    run: Run, case: Case, read: dict[str, Any], processes: dict[str, Process], places: dict[str, tuple[Path, Path]]
) -> None:
    for turn in range(min(run.turns, TURNS) + 1):
        for result in case.measurements:
            _read(processes[result.engine], read, places[result.engine], result, counts=turn > 0)
    for result in case.measurements:
        memory = processes[result.engine].memory()
        result.driver_bytes, result.worker_bytes = memory.driver, memory.workers
    told = [f"{each.engine} {each.overhead:.2f}" for each in case.measurements if each.overhead is not None]
    print(f"  {case.label}: {', '.join(told)}", flush=True)


def _check(case: Case, processes: dict[str, Process], places: dict[str, tuple[Path, Path]], rows_left: int) -> None:
    """An engine that does not see what was deleted is not measured."""
    for result in case.measurements:
        table = places[result.engine][1]
        if not result.trouble:
            [seen] = processes[result.engine].ask({"do": "query", "path": str(table), **READS["count"]})["result"]
            result.trouble = None if seen == rows_left else f"it counts {seen:,} rows instead of {rows_left:,}"


def _read(
    process: Process, read: dict[str, Any], places: tuple[Path, Path], result: Measurement, *, counts: bool
) -> None:
    if result.trouble:
        return
    try:
        before, after = (process.ask({"do": "query", "path": str(place), **read}) for place in places)
    except EngineError as error:
        result.trouble = f"{error}"
        return
    if counts:
        result.undeleted_seconds.append(before["seconds"])
        result.warm_seconds.append(after["seconds"])
