"""Is every history of concurrent transactions one that could have happened one after the other?

The model is a set of rows, each in a partition. Transactions are opened at any time, stay open while others commit, and
commit with or without a rebase, over storage that now and then loses an answer. A commit that lands must have done to
the rows what its statement says about the rows *at that moment*; one that is refused must have done nothing. The data
files of the model are lists of row numbers in a dictionary; only the log is real.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from tests.support.log_builder import MemoryStore
from tests.support.stores import HookedStore
from tests.support.transactions import DV_TABLE, FakeTime, make_table, operation, remove_of

from ebbtide.errors import DeltaConcurrentModificationException, ObjectExistsError
from ebbtide.log import load_snapshot
from ebbtide.protocol.actions import AddFile, SetTransaction
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import PutOutcomeUnknownError
from ebbtide.transaction import ReadPredicate, Rebased, Transaction

PARTITIONS = ("x", "y")
ROWS_PER_FILE = 4
PADDING = b"\xff\xff"
TABLE = {
    "columns": {"id": "long", "p": "string"},
    "partitions": ["p"],
    "features": DV_TABLE["features"],
    "configuration": {
        **DV_TABLE["configuration"],
        "delta.checkpointInterval": "4",
        # The memory store dates its objects years back; a cleanup must not take open transactions' commits away.
        "delta.logRetentionDuration": "interval 100000 days",
    },
}


def vector_of(positions):
    data = b"".join(struct.pack("<H", position) for position in sorted(positions))
    return DeletionVectorDescriptor.inline_in_log(data.ljust(4, PADDING[:1]), len(positions))


def positions_of(vector):
    if vector is None:
        return set()
    return {position for (position,) in struct.iter_unpack("<H", vector.inline_data)} - {0xFFFF}


def note_of(rows, partition, new_rows):
    """A new row whose number tells how many rows the partition had."""
    return 1_000_000 * (new_rows[0] + 1) + sum(1 for where, _ in rows if where == partition)


@dataclass(frozen=True)
class Statement:
    """What a transaction is to do: `kind` with its partition (None: all of them) and a divisor for row numbers.

    `append` writes new rows, `note` a row about the rows it reads; the deletes and `compact` say what they do.
    """

    kind: str
    partition: str | None = None
    divisor: int = 2

    @property
    def writes(self):
        return self.kind in {"append", "note"}

    def hits(self, partition, row):
        if self.partition not in {None, partition}:
            return False
        return self.kind == "delete files" or row % self.divisor == 0

    def on_rows(self, rows, new_rows):
        """The rows afterwards, had it run alone."""
        if self.kind == "append":
            return rows | {(self.partition, row) for row in new_rows}
        if self.kind == "note":
            return rows | {(self.partition, note_of(rows, self.partition, new_rows))}
        if self.kind == "compact":
            return rows
        return {(partition, row) for partition, row in rows if not self.hits(partition, row)}


def statement_of(kind, partition, divisor):
    statement = Statement(kind, partition, divisor)
    return replace(statement, partition=partition or "x") if statement.writes else statement


STATEMENTS = st.builds(
    statement_of,
    st.sampled_from(["append", "note", "delete files", "delete rows", "compact"]),
    st.sampled_from([*PARTITIONS, None]),
    st.integers(1, 4),
)
SENT = st.none() | st.builds(SetTransaction, st.just("job"), st.integers(1, 3))


class FaultyPuts(HookedStore):
    """The next commit's put loses its answer, before or after it took effect, or is sent twice."""

    fault = None

    def put_if_absent(self, path, data):
        fault, self.fault = (self.fault, None) if path.endswith(".json") else (None, self.fault)
        if fault == "lost before":
            raise PutOutcomeUnknownError("no answer")
        super().put_if_absent(path, data)
        if fault == "lost after":
            raise PutOutcomeUnknownError("no answer")
        if fault == "sent twice":
            raise ObjectExistsError("exists")


class Worker:
    """One open transaction and the statement it runs, on the files of the machine."""

    def __init__(self, machine, statement, sent):
        self.machine = machine
        self.statement = statement
        self.sent = sent
        self.new_rows = [next(machine.row_numbers) for _ in range(ROWS_PER_FILE)] if statement.writes else []
        self.transaction = Transaction.begin(machine.store, clock=FakeTime().clock)
        self.actions = self.staged(self.transaction.snapshot)
        self.record_reads()

    def record_reads(self):
        statement, snapshot = self.statement, self.transaction.snapshot
        if statement.kind == "append":
            return
        if statement.partition is None:
            self.transaction.record_read_whole_table()
            return
        rows = pa.array(
            [file.partition_values["p"] == statement.partition for file in snapshot.add_files()], pa.bool_()
        )
        self.transaction.record_read(ReadPredicate(f"p = '{statement.partition}'"), snapshot.files.filter(rows))

    def staged(self, snapshot):
        if self.statement.kind == "note":
            note = note_of(self.machine.rows_of(snapshot), self.statement.partition, self.new_rows)
            return [self.machine.new_file(self.statement.partition, [note], data_change=True)]
        if self.statement.kind == "append":
            return [self.machine.new_file(self.statement.partition, self.new_rows, data_change=True)]
        files = [f for f in snapshot.add_files() if self.statement.partition in {None, f.partition_values["p"]}]
        if self.statement.kind == "compact":
            return self.compacted(files)
        return [action for file in files for action in self.deleted(file)]

    def compacted(self, files):
        actions = []
        for partition in PARTITIONS:
            inputs = [file for file in files if file.partition_values["p"] == partition]
            if len(inputs) > 1:
                rows = [row for file in inputs for row in self.machine.visible(file)]
                actions += [remove_of(file, data_change=False) for file in inputs]
                actions.append(self.machine.new_file(partition, rows, data_change=False))
        return actions

    def deleted(self, file):
        partition, contents = file.partition_values["p"], self.machine.contents[file.path]
        old = positions_of(file.deletion_vector)
        new = old | {at for at, row in enumerate(contents) if self.statement.hits(partition, row)}
        if new == old:
            return []
        if len(new) == len(contents):
            return [remove_of(file)]
        return [self.machine.add_action(file.path, partition, vector=vector_of(new)), remove_of(file)]

    def rebase(self, lost):
        actions = self.staged(lost.newest)
        return Rebased(tuple(actions), self.operation) if actions else None

    @property
    def operation(self):
        return operation(
            "WRITE" if self.statement.writes else "OPTIMIZE" if self.statement.kind == "compact" else "DELETE"
        )

    def commit(self, *, follows):
        rebase = self.rebase if follows else None
        return self.transaction.commit(self.actions, self.operation, rebase=rebase, set_transaction=self.sent)


class Transactions(RuleBasedStateMachine):
    workers = Bundle("workers")

    @initialize()
    def create(self):
        self.row_numbers = count()
        self.file_numbers = count()
        # The data files in storage.
        self.contents = {}
        files = [
            self.new_file(partition, [next(self.row_numbers) for _ in range(ROWS_PER_FILE)], data_change=True)
            for partition in PARTITIONS * 2
        ]
        self.inner = MemoryStore()
        make_table(self.inner, *files, **TABLE)
        self.store = FaultyPuts(self.inner)
        # The model.
        self.rows = {(file.partition_values["p"], row) for file in files for row in self.contents[file.path]}
        self.sent = {}
        self.rows_at = [self.rows]

    # --- the data files -----------------------------------------------------------------------------------------------

    def new_file(self, partition, rows, *, data_change):
        path = f"file-{next(self.file_numbers)}"
        self.contents[path] = list(rows)
        return self.add_action(path, partition, data_change=data_change)

    def add_action(self, path, partition, *, vector=None, data_change=True):
        tight = "true" if vector is None else "false"
        stats = f'{{"numRecords":{len(self.contents[path])},"tightBounds":{tight}}}'
        return AddFile(path, {"p": partition}, 1, 1, data_change, stats=stats, deletion_vector=vector)

    def visible(self, file):
        hidden = positions_of(file.deletion_vector)
        return [row for at, row in enumerate(self.contents[file.path]) if at not in hidden]

    def rows_of(self, snapshot):
        rows = [(file.partition_values["p"], row) for file in snapshot.add_files() for row in self.visible(file)]
        assert len(rows) == len(set(rows)), "a row is in the table twice"
        return set(rows)

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(target=workers, statement=STATEMENTS, sent=SENT)
    def begin(self, statement, sent):
        return Worker(self, statement, sent)

    @rule(early=STATEMENTS, late=STATEMENTS)
    def race(self, early, late):
        """The shortest race: both read the same version, and the one that asks the reference's rules comes second."""
        workers = [Worker(self, statement, None) for statement in (early, late)]
        for worker in workers:
            self.commit(worker, follows=False, fault=None)

    @rule(
        worker=consumes(workers),
        follows=st.booleans(),
        fault=st.sampled_from([None, None, "lost before", "lost after", "sent twice"]),
    )
    def finish(self, worker, follows, fault):
        self.commit(worker, follows=follows, fault=fault)

    def commit(self, worker, *, follows, fault):
        self.store.fault = fault
        expected = worker.statement.on_rows(self.rows, worker.new_rows)
        is_sent_again = worker.sent is not None and self.sent.get(worker.sent.app_id, 0) >= worker.sent.version
        try:
            committed = worker.commit(follows=follows)
        except DeltaConcurrentModificationException:
            # Nothing here changes metadata, so whoever follows always arrives.
            assert not follows
            return
        finally:
            self.store.fault = None
        if not committed.is_new_version:
            # It changes nothing where it looked last: at its own snapshot, or at the one it was rebased on.
            seen = self.rows_at[committed.version]
            assert is_sent_again or worker.statement.on_rows(seen, worker.new_rows) == seen
            return
        assert not is_sent_again
        self.rows = expected
        self.rows_at.append(expected)
        assert committed.version == len(self.rows_at) - 1
        assert self.rows_of(committed.snapshot) == expected
        if worker.sent is not None:
            self.sent[worker.sent.app_id] = worker.sent.version

    @precondition(lambda self: len(self.rows_at) > 1)
    @rule(choice=st.integers(0, 1000))
    def look_back(self, choice):
        version = choice % len(self.rows_at)
        assert self.rows_of(load_snapshot(self.inner, version=version)) == self.rows_at[version]

    @invariant()
    def table_is_what_the_model_says(self):
        if not hasattr(self, "inner"):
            return
        snapshot = load_snapshot(self.inner)
        assert snapshot.version == len(self.rows_at) - 1
        assert self.rows_of(snapshot) == self.rows
        assert {app: known.version for app, known in snapshot.transactions.items()} == self.sent


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
