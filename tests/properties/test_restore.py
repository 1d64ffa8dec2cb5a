"""Does a restored table show exactly the rows of the version, whatever was done before and in between?

Histories of appends, deletes by marks, overwrites, compactions and restores, at random, without Spark.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import races
from tests.support.arrow_deletes import Condition, delete_without_spark, forget_files
from tests.support.log_reading import log_state
from tests.support.table_builder import TableBuilder

from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.storage import open_store

IDS = st.lists(st.integers(0, 30), min_size=1, max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("append"), IDS),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("overwrite"), IDS),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("restore"), st.integers(0, 100)),
)


def perform(store, table, kind, argument):
    match kind:
        case "append":
            races.append(store, argument)
        case "delete":
            delete_without_spark(store, Condition("in", tuple(argument)))
        case "overwrite":
            races.overwrite(store, argument)
        case "compact":
            races.compact(store, table)
        case "restore":
            restore_table(RestoreRequest(store, argument % (log_state(table).version + 1)))


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=8), wanted=st.integers(0, 100))
def test_restored_table_shows_the_rows_of_the_version(steps, wanted):
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory) / "t"
        builder = TableBuilder(table, races.ID_SCHEMA).deletion_vectors()
        builder.file([{"id": number} for number in range(8)]).commit()
        store = open_store(str(table))
        for kind, argument in steps:
            perform(store, table, kind, argument)
        versions = [races.ids_at(table, version) for version in range(log_state(table).version + 1)]
        chosen = wanted % len(versions)
        result = restore_table(RestoreRequest(store, chosen))
        assert races.ids_at(table) == versions[chosen]
        assert log_state(table).live.keys() == log_state(table, chosen).live.keys()
        # No older version shows anything else than before.
        assert [races.ids_at(table, version) for version in range(len(versions))] == versions
        assert (result.version is None) == (chosen == len(versions) - 1)
        forget_files()
