"""Is no number handed out twice, whoever commits in which order?

Writers open transactions at any time, choose numbers from the table as they see it, stay open while others commit, and
follow those when they commit themselves. In between, versions are restored, and values are given by hand and counted
in. Rows are lists of numbers in a dictionary; the log is real, and so is what a write does after a lost
race.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.support.transactions import FakeTime, add_file, make_table, operation

from ebbtide.commands.write.destination import Destination
from ebbtide.commands.write.rows import WrittenRows
from ebbtide.commands.write.work import WriteWork
from ebbtide.log import load_snapshot
from ebbtide.protocol.identity_columns import IdentityColumn, advance_marks, identity_metadata, keep_marks
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType
from ebbtide.transaction import Rebased, Transaction
from ebbtide.write import WriteTarget, WrittenFiles
from ebbtide.write.identity import Numbering

LONG = PrimitiveType("long")
INDEXES = st.sets(st.integers(0, 30), min_size=1, max_size=8)


def place_of(snapshot):
    return Destination(WriteTarget.of(snapshot), snapshot.metadata)


@dataclass
class Open:
    transaction: Transaction
    work: WriteWork


class Writers(RuleBasedStateMachine):
    opened = Bundle("opened")

    @initialize(start=st.integers(-50, 50), step=st.integers(-5, 5).filter(bool))
    def make(self, start, step):
        field = StructField("id", LONG, True, identity_metadata(start, step, allows_values=True))
        schema = StructType((field, StructField("n", LONG)))
        # The memory store dates its objects years back, and log cleanup would believe it.
        kept = {"delta.logRetentionDuration": "interval 100000 days"}
        self.store = make_table(
            writer_features=["identityColumns"], schemaString=schema.to_schema_string(), configuration=kept
        )
        self.files: dict[str, list[int]] = {}
        self.names = (f"part-{number}" for number in count())
        self.seen = load_snapshot(self.store)

    @rule(target=opened, indexes=INDEXES)
    def open(self, indexes):
        def write(place, skipped=0):
            numbering = Numbering.of(place.target, {"n"}, skipped=skipped)
            [column] = numbering.columns
            numbers = [column.first + index * column.column.step for index in sorted(indexes)]
            path = next(self.names)
            self.files[path] = numbers
            files = WrittenFiles((add_file(path, rows=len(numbers)),), (), len(numbers), 0)
            return WrittenRows(files, numbering.read_used({"number_0": numbers[-1]}))

        transaction = Transaction.begin(self.store, clock=FakeTime().clock)
        place = place_of(transaction.snapshot)
        return Open(transaction, WriteWork(write(place), place, write))

    @rule(one=consumes(opened))
    def commit(self, one):
        def follow(lost):
            one.work.follow(place_of(lost.newest))
            return Rebased(one.work.actions(), operation())

        committed = one.transaction.commit(one.work.actions(), operation(), rebase=follow)
        assert committed.is_new_version

    @rule(data=st.data())
    def restore(self, data):
        newest = self.seen
        wanted = load_snapshot(self.store, version=data.draw(st.integers(0, newest.version)))
        metadata = keep_marks(wanted.metadata, newest.metadata)
        if metadata != newest.metadata:
            Transaction.begin(self.store).commit([metadata], operation("RESTORE"))

    @rule(number=st.integers(-200, 200))
    def give_and_sync(self, number):
        """A row got its number by hand, and SYNC IDENTITY counts it in."""
        metadata = advance_marks(self.seen.metadata, {"id": number})
        if metadata != self.seen.metadata:
            Transaction.begin(self.store).commit([metadata], operation("CHANGE COLUMN"))

    @rule()
    def append_without_numbers(self):
        Transaction.begin(self.store).commit([add_file(next(self.names))], operation())

    @invariant()
    def every_number_was_handed_out_once_and_the_mark_covers_it(self):
        newest = self.seen = load_snapshot(self.store, hint=self.seen)
        numbers = [number for add in newest.add_files() for number in self.files.get(add.path, ())]
        assert len(numbers) == len(set(numbers))
        column = IdentityColumn.of(newest.schema.fields[0])
        assert all(column.mark is not None and not column.is_beyond(number, column.mark) for number in numbers)
        assert all((number - column.start) % column.step == 0 for number in numbers)


Writers.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
test_writers = Writers.TestCase
