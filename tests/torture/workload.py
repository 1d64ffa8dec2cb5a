"""What does one worker of a torture do, and what does it write down about it?

A worker draws operations from its own seeded dice: DELETEs, appends, OPTIMIZE, PURGE, VACUUM, checkpoints, reads of the newest
and of older versions that are still kept. Everything it does becomes a record, and `model` compares the records with the log
afterwards. Compactions may be deltalake's instead of ours.

The commands are the engine's own; only the Spark jobs that look for rows and copy them are replaced (`arrow_deletes`,
`arrow_copies`), because eight JVMs do not fit one machine. One more worker may run with a real session.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from tests.support.arrow_copies import optimize_without_spark, purge_without_spark
from tests.support.arrow_deletes import Condition, delete_without_spark, forget_files, snapshot_ids
from tests.support.races import new_data_file
from tests.support.searches import Searches, watched
from tests.torture.graveyard import GraveyardStore
from tests.torture.horizon import Horizon

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.optimize.command import OptimizeCommand
from ebbtide.commands.optimize.request import OptimizeRequest, OptimizeSettings
from ebbtide.commands.requests import DeleteRequest, WriteOptions
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.errors import DeltaConcurrentModificationException
from ebbtide.log import Snapshot, load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import ObjectStore
from ebbtide.transaction import SYSTEM_CLOCK, Operation, Transaction

__all__ = ["ANY_VERSION", "INITIAL_IDS", "Record", "Worker", "ids_digest"]

IDS_A_WRITER = 1_000_000
IDS_AN_APPEND = 40
INITIAL_IDS = 2_000
# Conditions ask for this many of a writer's own ids; in a short run not all of them are there yet.
APPENDED_IDS = 400
# How often a worker does what, of a hundred.
SHARES = {"delete": 53, "append": 15, "read": 10, "optimize": 10, "purge": 2, "checkpoint": 5, "vacuum": 5}
# A compaction puts files of up to this size together; None is everything into one file. The files that are written have one
# or two kilobytes.
TARGETS = [4_000, 12_000, None]
# A version that was seen can be read again during so many further operations.
OPERATIONS_REMEMBERED = 4
HOUR_MS = 3_600_000
# In a record: it made a version, but nobody told which.
ANY_VERSION = -1
COMPACTION_ATTEMPTS = 20

Record = dict[str, Any]


def drawn_condition(dice: Random, writers: int) -> Condition:
    """A few rows, a stretch of one writer's rows, or a sprinkling over every file."""
    writer = dice.choice([0, dice.randrange(1, writers + 1)])
    first, ids = writer * IDS_A_WRITER, INITIAL_IDS if writer == 0 else APPENDED_IDS
    kind = dice.choices(["in", "between", "modulo"], [5, 3, 2])[0]
    if kind == "in":
        return Condition(kind, tuple(sorted({first + dice.randrange(ids) for _ in range(5)})))
    if kind == "between":
        start = first + dice.randrange(ids)
        return Condition(kind, (start, start + dice.randrange(60)))
    return Condition(kind, (199, dice.randrange(199)))


# --- a worker ---------------------------------------------------------------------------------------------------------


@dataclass
class Worker:
    number: int
    writers: int
    seed: str
    store: ObjectStore
    # Where deltalake finds the same table.
    place: str
    storage_options: dict[str, str] | None
    write: Callable[[Record], None]
    # Where the notes and what VACUUM deletes are kept.
    directory: Path
    spark: Any = None
    # "ebbtide", or "deltalake" for the same deletes and appends by the peer.
    engine: str = "ebbtide"
    # Who compacts: "ebbtide", or "deltalake" (then only one worker).
    compactions: str = "ebbtide"
    vacuums: bool = True
    # Nothing but DELETEs, each sent again until it lands.
    only_deletes: bool = False
    hint: Snapshot | None = None
    appended: int = 0
    operations: int = 0
    dice: Random = field(init=False)
    horizon: Horizon = field(init=False)
    # Since when the running operation needs what is removed.
    needs_since: int = 0
    # Versions that were the newest when they were read: the version, since when it needs its files, and the operation.
    remembered: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = Random(f"{self.seed}/{self.number}")
        # The kernel's clock for files ticks every few milliseconds, that of S3 once a second.
        self.horizon = Horizon(self.directory / "horizon", 50 if self.storage_options is None else 2_000)
        self.begin()

    def run(self, *, rounds: int | None, seconds: float | None) -> None:
        """So many operations, or for so long."""
        ends = None if seconds is None else time.monotonic() + seconds
        while (rounds is None or self.operations < rounds) and (ends is None or time.monotonic() < ends):
            self.operations += 1
            self.begin()
            self.step()
        self.horizon.end(self.number)

    def begin(self) -> None:
        oldest = self.operations - OPERATIONS_REMEMBERED
        self.remembered = [each for each in self.remembered if each[2] >= oldest]
        self.needs_since = self.horizon.begin(self.number, [since for _, since, _ in self.remembered])

    def step(self) -> None:
        chosen = self.draw()
        started = time.monotonic()
        record = {"op": chosen, "name": f"{self.number}-{self.operations}", "worker": self.number, "aborts": []}
        state = self.dice.getstate()
        while True:
            self.dice.setstate(state)
            try:
                record |= getattr(self, chosen if self.engine == "ebbtide" else f"{chosen}_by_deltalake")(
                    record["name"]
                )
            except (DeltaConcurrentModificationException, CommitFailedError) as error:
                record["aborts"].append(f"{type(error).__name__}: {error}")
                if self.only_deletes:
                    continue
            break
        self.write(record | {"seconds": time.monotonic() - started})

    def draw(self) -> str:
        if self.only_deletes:
            return "delete"
        shares = SHARES if self.engine == "ebbtide" else {"delete": SHARES["delete"], "append": SHARES["append"]}
        chosen = self.dice.choices(list(shares), list(shares.values()))[0]
        if chosen == "vacuum" and not self.vacuums:
            return "delete"
        if self.compactions == "deltalake" and chosen in {"optimize", "purge"}:
            # Two compactions by deltalake 1.6 at once both land, and every row is there twice. That is not our subject.
            return "compact" if self.number == 0 else "delete"
        return chosen

    # --- by us --------------------------------------------------------------------------------------------------------

    def delete(self, name: str) -> Record:
        condition = drawn_condition(self.dice, self.writers)
        searches = Searches()
        if self.spark is None:
            result = delete_without_spark(self.store, condition, hint=self.hint, searches=searches, user_metadata=name)
        else:
            options = WriteOptions(deletion_vectors=self.dice.choice(["on", "auto"]), user_metadata=name)
            request = DeleteRequest(self.store, condition.text, options=options)
            result = watched(DeleteCommand, searches)(self.spark, request).run()
        return {
            "condition": [condition.kind, list(condition.numbers)],
            "version": result.version,
            "deleted": result.num_affected_rows,
            "rebases": searches.rebases,
            "rescanned": searches.rescanned,
            "searched": searches.versions[:1],
        }

    def append(self, name: str) -> Record:
        ids = self.next_ids()
        file = new_data_file(self.store, ids)
        transaction = Transaction.begin(self.store, hint=self.hint)
        committed = transaction.commit([file], Operation("WRITE", user_metadata=name))
        self.hint = committed.snapshot
        return {"version": committed.version, "ids": ids, "retries": committed.attempts - 1}

    def optimize(self, name: str) -> Record:
        options = WriteOptions(user_metadata=name)
        target, is_per_group = self.dice.choice(TARGETS), self.dice.random() < 0.3
        if self.spark is None:
            result = optimize_without_spark(
                self.store, commit_per_group=is_per_group, options=options, target_bytes=target
            )
        else:
            # Sorted by a column, the place of a row in the copy is not known, and a race that is lost means copying again.
            order = ("id",) if self.dice.random() < 0.3 else ()
            settings = OptimizeSettings(target_bytes=target, threads=2)
            request = OptimizeRequest(self.store, None, order, settings, is_per_group, options=options)
            result = OptimizeCommand(self.spark, request).run()
        metrics = result.metrics
        return {
            "versions": list(result.versions),
            "carried": metrics.num_carried_rows,
            "given_up": metrics.num_dropped_groups,
        }

    def purge(self, name: str) -> Record:
        if self.spark is not None:
            return self.optimize(name)
        result = purge_without_spark(self.store, options=WriteOptions(user_metadata=name))
        return {"versions": list(result.versions), "carried": result.metrics.num_carried_rows}

    def vacuum(self, name: str) -> Record:
        """Delete whatever nobody needs any more; LITE every other time."""
        now, cutoff = SYSTEM_CLOCK.now_ms(), self.horizon.cutoff_ms
        request = VacuumRequest(
            GraveyardStore(self.store, self.directory / "graveyard"),
            retention_hours=(now - cutoff) / HOUR_MS,
            lite=self.dice.random() < 0.5,
            retention_check=False,
            options=WriteOptions(user_metadata=name),
        )
        result = VacuumCommand(request, clock=replace(SYSTEM_CLOCK, now_ms=lambda: now)).run()
        assert not result.num_failed, result.failures
        versions = [] if result.version is None else [ANY_VERSION, result.version]
        return {"versions": versions, "vacuumed": result.metrics.num_deleted_files, "cutoff": result.cutoff_ms}

    def compact(self, name: str) -> Record:
        said = CommitProperties(custom_metadata={"userMetadata": name})
        refused = ""
        for attempt in range(COMPACTION_ATTEMPTS):
            table = DeltaTable(self.place, storage_options=self.storage_options)
            try:
                metrics = table.optimize.compact(commit_properties=said)
            except CommitFailedError as error:
                # Its own rules stop it when a file it merges was marked meanwhile; nothing is lost then.
                refused = str(error)
                continue
            # Which version it made the log knows by the name; the table object has gone on to the newest.
            return {"version": ANY_VERSION if metrics["numFilesAdded"] else None, "attempts": attempt + 1}
        return {"version": None, "refused": refused}

    def checkpoint(self, name: str) -> Record:
        snapshot = load_snapshot(self.store)
        return {"version": None, "checkpoint": snapshot.version, "is_new": write_checkpoint(snapshot).is_new}

    def read(self, name: str) -> Record:
        newest = load_snapshot(self.store, hint=self.hint if self.dice.random() < 0.5 else None)
        self.hint = newest
        snapshot = newest
        if self.remembered and self.dice.random() < 0.4:
            snapshot = load_snapshot(self.store, version=self.dice.choice(self.remembered)[0])
        self.remembered.append((newest.version, self.needs_since, self.operations))
        # What a VACUUM deleted must not be read from memory.
        forget_files()
        if self.spark is not None:
            import ebbtide

            rows = ebbtide.read(self.spark, self.place, version=snapshot.version).toArrow()
            ids = rows["id"].to_pylist()
        else:
            ids = snapshot_ids(snapshot)
        return {"version": None, "seen": snapshot.version, "digest": ids_digest(ids)}

    # --- the same by the peer -----------------------------------------------------------------------------------------

    def delete_by_deltalake(self, name: str) -> Record:
        condition = drawn_condition(self.dice, self.writers)
        metrics = DeltaTable(self.place, storage_options=self.storage_options).delete(condition.text)
        deleted = metrics["num_deleted_rows"]
        return {"version": ANY_VERSION if deleted else None, "deleted": deleted}

    def append_by_deltalake(self, name: str) -> Record:
        data = pa.table({"id": pa.array(self.next_ids(), pa.int64())})
        write_deltalake(self.place, data, mode="append", storage_options=self.storage_options)
        return {"version": ANY_VERSION}

    def next_ids(self) -> list[int]:
        """Ids that nobody ever had."""
        first = (self.number + 1) * IDS_A_WRITER + self.appended
        self.appended += IDS_AN_APPEND
        return list(range(first, first + IDS_AN_APPEND))


def ids_digest(ids: Any) -> str:
    """A short text for a bag of ids: equal only when the same ids are in it equally often."""
    return sha256(",".join(map(str, sorted(ids))).encode()).hexdigest()[:24]
