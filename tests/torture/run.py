"""How is a torture set up, run and summed up?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch
from uuid import UUID, uuid4

from tests.support import arrow_copies, races
from tests.support.arrow_deletes import forget_files
from tests.support.races import new_data_file
from tests.support.s3_endpoint import s3_endpoint
from tests.torture.model import Report, check, versions_of
from tests.torture.simulation import Turns, TurnStore
from tests.torture.workload import INITIAL_IDS, Record, Worker

from ebbtide.protocol.actions import Metadata
from ebbtide.storage import ObjectStore, open_store
from ebbtide.transaction import SYSTEM_CLOCK, Operation, Transaction, protocol_for

__all__ = ["Plan", "Summary", "simulate", "torture"]

FILES = 8
ROOT = Path(__file__).parents[2]
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@dataclass(frozen=True)
class Plan:
    """What a run is to be. Either `rounds` operations a worker or `seconds` for all of them."""

    seed: str
    processes: int = 8
    rounds: int | None = None
    seconds: float | None = None
    store: str = "local"
    # One more worker with a real Spark session (local store only: S3 needs a JAR that we do not ask for).
    spark: bool = False
    engine: str = "ebbtide"
    compactions: str = "ebbtide"
    # What a VACUUM deletes depends on the time: with it, a simulation is not the same twice.
    vacuums: bool = True
    # For a comparison of engines: nothing but DELETEs, each of which is sent again until it lands.
    only_deletes: bool = False


@dataclass
class Summary:
    plan: Plan
    seconds: float
    records: list[Record]
    report: Report
    crashed: list[str] = field(default_factory=list)

    def count(self, op: str) -> int:
        return sum(1 for record in self.records if record["op"] == op)

    def total(self, key: str) -> int:
        return sum(int(record.get(key) or 0) for record in self.records)

    @property
    def landed(self) -> int:
        return sum(len(versions_of(record)) for record in self.records)

    @property
    def aborts(self) -> list[str]:
        return [abort for record in self.records for abort in record["aborts"]]

    def aborts_of(self, op: str) -> int:
        return sum(len(record["aborts"]) for record in self.records if record["op"] == op)

    @property
    def problems(self) -> list[str]:
        return [*self.crashed, *self.report.problems]

    def lines(self) -> list[str]:
        rebased = sum(1 for record in self.records if record.get("rebases"))
        others = f"{self.count('checkpoint')} checkpoints, {self.count('read')} reads"
        looked = f"looking again at {self.total('rescanned')} files; {self.total('retries')} appends repeated"
        plan = self.plan
        workers = f"{plan.processes} processes" + (" and one with Spark" if plan.spark else "")
        gone = f"{self.report.gone} of {self.report.commits + 1} versions are gone"
        met = f"{self.report.met_compactions} deletes met a compaction, {self.aborts_of('delete')} were aborted"
        return [
            f"{plan.engine} on {plan.store}, seed {plan.seed}, {workers}, {self.seconds:.1f} s",
            f"  {self.landed} commits, {self.landed / self.seconds:.1f} a second",
            f"  {self.count('delete')} deletes ({self.total('deleted')} rows), {self.count('append')} appends, {others}",
            f"  {rebased} deletes were rebased, {self.total('rebases')} times, {looked}; {len(self.aborts)} aborts",
            f"  {self._compactions()}; {met}",
            f"  {self.count('vacuum')} vacuums deleted {self.total('vacuumed')} files; {gone}",
            f"  {self.report.observed} reads compared while it ran, {self.report.reopened} versions opened anew",
        ]

    def _compactions(self) -> str:
        if self.plan.compactions == "deltalake":
            refused = sum(1 for record in self.records if "refused" in record)
            return f"{self.count('compact')} compactions by deltalake ({refused} refused by their own engine)"
        made = f"{self.count('optimize')} compactions and {self.count('purge')} purges"
        return f"{made} carried over {self.total('carried')} deletes and gave up {self.total('given_up')} groups"


# --- many processes ---------------------------------------------------------------------------------------------------


def torture(plan: Plan, directory: Path) -> Summary:
    """Run the workers as processes and compare what they did with the log."""
    directory.mkdir(parents=True, exist_ok=True)
    with _place(plan, directory) as (place, options):
        _create(open_store(place, options), plan)
        started, crashed = _run_processes(plan, place, options, directory)
        seconds = time.monotonic() - started
        table = _local_copy(place, options, directory)
    records = _read_records(directory)
    is_ours = plan.engine != "deltalake"
    report = check(table, records, seed=plan.seed, graveyard=directory / "graveyard") if is_ours else Report()
    return Summary(plan, seconds, records, report, crashed)


@contextmanager
def _place(plan: Plan, directory: Path) -> Iterator[tuple[str, dict[str, str] | None]]:
    if plan.store == "local":
        yield str(directory / "table"), None
        return
    with s3_endpoint() as endpoint:
        # The endpoint remembers the buckets of earlier runs in this process.
        bucket = endpoint.create_bucket(f"torture-{uuid4().hex[:12]}")
        yield f"s3://{bucket}/table", endpoint.storage_options | {"max_retries": "5"}


def _create(store: ObjectStore, plan: Plan) -> None:
    configuration = {"delta.enableDeletionVectors": "true"} if plan.engine == "ebbtide" else {}
    metadata = Metadata("torture", json.dumps(SCHEMA), (), configuration)
    size = INITIAL_IDS // FILES
    files = [new_data_file(store, range(start, start + size)) for start in range(0, INITIAL_IDS, size)]
    Transaction.create(store, metadata, protocol_for(metadata)).commit(files, Operation("CREATE TABLE"))


def _run_processes(plan: Plan, place: str, options: dict[str, str] | None, directory: Path) -> tuple[float, list[str]]:
    workers = plan.processes + plan.spark
    processes = [_start(plan, number, place, options, directory) for number in range(workers)]
    for process in processes:
        # Imports take seconds and a session more: nobody begins before everybody can.
        assert process.stdout is not None
        process.stdout.readline()
    started = time.monotonic()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    crashed = []
    for number, process in enumerate(processes):
        if process.wait() != 0:
            log = (directory / f"worker-{number}.log").read_text(errors="replace")
            crashed.append(f"worker {number} ended with {process.returncode}: {log[-2000:]}")
    return started, crashed


def _start(
    plan: Plan, number: int, place: str, options: dict[str, str] | None, directory: Path
) -> subprocess.Popen[bytes]:
    task = {"plan": asdict(plan), "number": number, "place": place, "options": options, "directory": str(directory)}
    log = (directory / f"worker-{number}.log").open("wb")
    with log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.torture.process", json.dumps(task)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # A worker uses one core; eight of them with a pool each would only wait for each other.
            env=os.environ | {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2"},
        )


def _local_copy(place: str, options: dict[str, str] | None, directory: Path) -> Path:
    if options is None:
        return Path(place)
    store, copy = open_store(place, options), directory / "copy"
    for meta in store.list(""):
        target = copy / meta.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.read(meta.path))
    return copy


def _read_records(directory: Path) -> list[Record]:
    lines = [line for file in sorted(directory.glob("records-*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


# --- one process, chosen turns ----------------------------------------------------------------------------------------


def simulate(plan: Plan, directory: Path) -> tuple[Summary, list[tuple[int, str]]]:
    """Run the workers in turns that the seed chooses; the summary, and who called storage in which order."""
    assert plan.rounds is not None, "a simulation ends after so many rounds, not after so much time"
    assert plan.store == "local"
    forget_files()
    table = directory / "table"
    store = open_store(str(table))
    _create(store, plan)
    turns, records = Turns(plan.seed), []
    players = [
        Worker(
            number,
            plan.processes,
            plan.seed,
            TurnStore(store, turns),
            str(table),
            None,
            records.append,
            directory,
            compactions=plan.compactions,
            vacuums=plan.vacuums,
        )
        for number in range(plan.processes)
    ]
    started = time.monotonic()
    with _no_waiting(), _known_names(plan.seed):
        turns.run([lambda player=player: player.run(rounds=plan.rounds, seconds=None) for player in players])
    seconds = time.monotonic() - started
    report = check(table, records, seed=plan.seed, graveyard=directory / "graveyard")
    return Summary(plan, seconds, records, report), turns.trace


@contextmanager
def _known_names(seed: str) -> Iterator[None]:
    """The names of files decide in which order a compaction takes them."""
    dice = Random(f"{seed}/names")
    with (
        patch.object(races, "uuid4", lambda: UUID(int=dice.getrandbits(128))),
        patch.object(arrow_copies, "uuid4", lambda: UUID(int=dice.getrandbits(128))),
    ):
        yield


@contextmanager
def _no_waiting() -> Iterator[None]:
    """A loser that waits would hold everybody up, since only one worker runs at a time."""
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    try:
        yield
    finally:
        object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)
