"""Which way does a merge go? The sizes at which one way becomes another, and what rules a way out."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

from ebbtide.commands.merge.clauses import BoundClause, BoundMerge
from ebbtide.commands.merge.keys import KeyBounds
from ebbtide.commands.merge.request import DeleteClause, InsertClause, MergeRequest, UpdateClause
from ebbtide.commands.merge.source import Source
from ebbtide.commands.merge.strategy import MergeThresholds, choose_strategy
from ebbtide.commands.row_level.assignments import Assignment, Target
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

MIB = 1 << 20
SOURCE = Source(
    given=None,
    rows=None,
    frame=None,
    row_id="row",
    is_exact=False,
    copies={},
    columns=(),
    fields={},
    ambiguous=frozenset(),
    num_rows=10,
    parts=1,
    num_bytes=100,
)


def snapshot_of(path, *, feed=False, vectors=True, tracking=False):
    builder = TableBuilder(path, pa.schema({"id": pa.int64()}))
    for wanted, switch in ((feed, "change_data_feed"), (vectors, "deletion_vectors"), (tracking, "row_tracking")):
        if wanted:
            getattr(builder, switch)()
    return load_snapshot(open_store(str(builder.file([{"id": 1}]).commit().path)))


def upsert_of(snapshot, *, matched="update"):
    clauses = {
        kind: BoundClause(
            kind, None, None, None, (Assignment(Target(("id",), snapshot.schema.fields[0]), None, None),), True
        )
        for kind in ("update", "insert")
    }
    clauses["delete"] = BoundClause("delete", None, None, None)
    return BoundMerge(
        condition=None,
        text="t.id = s.id",
        display_text="t.id = s.id",
        alias="t",
        matched=(clauses[matched],),
        not_matched=(clauses["insert"],),
        by_source=(),
        metadata=snapshot.metadata,
        schema=snapshot.schema,
        policy="ANSI",
    )


def chosen(snapshot, source=SOURCE, *, matched="update", thresholds=MergeThresholds()):
    clause = UpdateClause(None) if matched == "update" else DeleteClause()
    request = MergeRequest(snapshot.store, None, "t.id = s.id", (clause,), (InsertClause(None),))
    return choose_strategy(request, upsert_of(snapshot, matched=matched), source, snapshot, thresholds)


@pytest.mark.parametrize(("num_bytes", "sent"), [(0, True), (32 * MIB, True), (32 * MIB + 1, False), (None, False)])
def test_source_is_sent_to_all_tasks_when_it_is_known_to_be_small(tmp_path, num_bytes, sent):
    snapshot = snapshot_of(tmp_path / "t")
    assert chosen(snapshot, replace(SOURCE, num_bytes=num_bytes)).sends_source is sent
    by_keys = chosen(snapshot, replace(SOURCE, num_bytes=None, key_bytes=num_bytes))
    assert by_keys.join_way(by_keys=True) == ("broadcast" if sent else "shuffle")
    assert by_keys.join_way() == "shuffle"


def test_keys_are_looked_up_when_they_are_many_and_lie_close(tmp_path):
    snapshot = snapshot_of(tmp_path / "t")
    close, wide = KeyBounds("t.id", "s.id", 0, 1000), KeyBounds("t.id", "s.id", 0, 1 << 40)
    many = replace(SOURCE, num_rows=200_000, key_bounds=close)
    assert chosen(snapshot, many).looks_up_keys
    assert not chosen(snapshot, replace(many, num_rows=199_999)).looks_up_keys
    assert not chosen(snapshot, replace(many, key_bounds=wide)).looks_up_keys
    assert not chosen(snapshot, replace(many, key_bounds=None)).looks_up_keys


@pytest.mark.parametrize(
    ("features", "ahead"),
    [({}, True), ({"vectors": False}, False), ({"feed": True}, False), ({"tracking": True}, False)],
)
def test_source_is_written_ahead_only_where_nothing_of_the_old_rows_is_needed(tmp_path, features, ahead):
    assert chosen(snapshot_of(tmp_path / "t", **features)).writes_source_ahead is ahead


def test_merge_that_deletes_every_match_allows_several_partners_and_writes_nothing_ahead(tmp_path):
    strategy = chosen(snapshot_of(tmp_path / "t"), matched="delete")
    assert strategy.allows_several_partners
    assert not strategy.writes_source_ahead


def test_parts_of_the_source_become_files_when_they_are_neither_small_nor_large(tmp_path):
    snapshot = snapshot_of(tmp_path / "t")

    def keeps(num_mib, parts):
        return chosen(snapshot, replace(SOURCE, num_bytes=num_mib * MIB, parts=parts)).keeps_parts

    assert keeps(1, 2)
    assert not keeps(1, 3)
    assert keeps(160, 10)
    assert not keeps(160, 11)
    assert keeps(4096, 4)
    assert not keeps(4096, 3)
