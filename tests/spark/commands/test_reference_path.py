"""Do real commands run through the reference's members, as the reference map says?

The map names for each member the commands that call it. Here each of those commands runs, in all its ways, and every
Python call is noted; nothing is patched.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

import pyarrow as pa
import pytest
from tests.support.races import append
from tests.support.table_builder import TableBuilder
from tests.unit.test_reference_map import sections

from ebbtide.commands.delete.command import DeleteCommand
from ebbtide.commands.merge.command import MergeCommand
from ebbtide.commands.merge.request import InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.requests import DeleteRequest, UpdateRequest, WriteOptions
from ebbtide.commands.update.command import UpdateCommand
from ebbtide.storage import open_store

pytestmark = pytest.mark.spark


@contextmanager
def calls() -> Iterator[set[CodeType]]:
    """The code of every Python function that this thread calls in the block."""
    seen: set[CodeType] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def codes_of(place):
    """The code behind a place of the map; None where it is a value, a field or a class."""
    module, _, attribute = place.partition(":")
    found = importlib.import_module(module)
    for name in attribute.split("."):
        found = found.__dict__.get(name) if isinstance(found, type) else getattr(found, name)
    found = getattr(found, "__func__", found)
    found = found.fget if isinstance(found, property) else found
    found = getattr(found, "__wrapped__", found)
    return getattr(found, "__code__", None)


def members_of(verb):
    rows = [row for rows in sections().values() for row in rows]
    found = {member: codes_of(place) for member, place, caller, _ in rows if verb in caller.split(", ")}
    return {member: code for member, code in found.items() if code is not None}


@pytest.fixture
def traced(spark, tmp_path):
    """What a command calls: where rows are marked, where files are rewritten, and where it follows a winner."""

    def table(name):
        builder = TableBuilder(tmp_path / name, pa.schema({"id": pa.int64()}))
        builder.deletion_vectors().file([{"id": number} for number in range(10)], deleted=[0])
        return open_store(str(builder.file([{"id": number} for number in range(10, 14)]).commit().path))

    def run(command):
        seen: set[CodeType] = set()
        for mode in ("on", "off"):
            store = table(mode)
            options = WriteOptions(deletion_vectors=mode)

            def let_the_winner_in(phase, store=store):
                if phase == "Committing":
                    append(store, [11])

            with calls() as found:
                result = command(spark, of(command, store, options), on_phase=let_the_winner_in).run()
            assert result.version is not None
            seen |= found
        return seen

    def of(command, store, options):
        if command is DeleteCommand:
            return DeleteRequest(store, "id IN (1, 11)", options=options)
        if command is UpdateCommand:
            return UpdateRequest(store, "id IN (1, 11)", [("id", "id + 100")], options=options)
        source = spark.createDataFrame([(1,), (11,), (99,)], "id long").alias("s")
        clauses = {"matched": (UpdateClause((("id", "t.id + 100"),)),), "not_matched": (InsertClause(None),)}
        return MergeRequest(store, source, "t.id = s.id", target_alias="t", options=options, **clauses)

    return run


COMMANDS = {"DELETE": DeleteCommand, "UPDATE": UpdateCommand, "MERGE": MergeCommand}


def test_map_names_the_functions_that_matter():
    assert {"findTouchedFiles", "findFilesWithMatchingRows", "processUnmodifiedData"} <= set(members_of("DELETE"))
    assert {"findTouchedFiles", "replaceFileIndex", "run"} <= set(members_of("UPDATE"))
    assert "shouldWritePersistentDeletionVectors" in members_of("MERGE")


@pytest.mark.one_kind("the commands are the same code on both kinds")
@pytest.mark.parametrize("verb", COMMANDS)
def test_command_runs_through_the_members(traced, verb):
    seen = traced(COMMANDS[verb])
    assert [member for member, code in members_of(verb).items() if code not in seen] == []
