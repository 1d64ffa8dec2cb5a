"""Would the check after every Spark test notice an engine that sees other rows, and does its judge know the right ones?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support import peer_agreement
from tests.support.comparison import assert_same_rows
from tests.support.peer_agreement import assert_peers_agree, our_tables
from tests.support.peers import Fault, Peer
from tests.support.table_builder import TableBuilder
from tests.support.table_rows import rows_of, snapshot_of

NESTED = pa.struct({"x": pa.int32(), "names": pa.list_(pa.string()), "m": pa.map_(pa.string(), pa.float64())})
SCHEMA = pa.schema({"id": pa.int64(), "s": NESTED, "p": pa.string(), "day": pa.date32()})


def row(number, p="a b%é"):
    nested = {"x": number, "names": ["a", None], "m": [("k", float("nan"))]}
    return {"id": number, "s": nested if number % 3 else None, "p": p, "day": None}


@pytest.fixture
def ours(tmp_path):
    """A table whose newest commit claims to be by Ebbtide."""
    table = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().partitioned_by("p")
    table.file([row(number) for number in range(6)], deleted=[1, 4]).file([row(7, None)]).commit()
    claim(table)
    return table


def claim(table):
    commit = table.log / f"{table.version:020d}.json"
    first, *others = commit.read_text(encoding="utf-8").splitlines()
    info = json.loads(first)
    info["commitInfo"]["engineInfo"] = "Ebbtide/1"
    commit.write_text("\n".join([json.dumps(info, separators=(",", ":")), *others]) + "\n", encoding="utf-8")


def only_peer(monkeypatch, read, *faults):
    monkeypatch.setattr(peer_agreement, "PEERS", {"other": Peer("other", read)})
    monkeypatch.setattr(peer_agreement, "FAULTS", faults)


def refusing(path, version):
    raise ValueError("not this one")


@pytest.mark.parametrize("mapping", [None, "name", "id"])
def test_judge_knows_the_rows_of_a_table(tmp_path, mapping):
    table = TableBuilder(tmp_path / "t", SCHEMA).deletion_vectors().partitioned_by("p")
    if mapping:
        table.column_mapping(mapping)
    table.file([row(number) for number in range(6)], deleted=[1, 4]).file([row(7, None)]).commit()
    wider = pa.schema([*SCHEMA, pa.field("new", pa.list_(pa.struct({"y": pa.float32()})))])
    table.schema(wider).file([row(9) | {"new": [{"y": 0.5}, None]}]).commit()
    assert_same_rows(rows_of(table.path, snapshot_of(table.path)), table.expected())


def test_tables_of_others_are_not_asked_about(tmp_path, ours, monkeypatch):
    TableBuilder(tmp_path / "theirs", SCHEMA).file([row(1)]).commit()
    assert list(our_tables(tmp_path)) == [ours.path]
    only_peer(monkeypatch, lambda path, version: ours.expected())
    assert assert_peers_agree(tmp_path) == 1
    ours.file([row(8)]).commit()
    assert assert_peers_agree(tmp_path) == 0


def test_engine_that_sees_other_rows_is_named(ours, monkeypatch):
    only_peer(monkeypatch, lambda path, version: ours.expected().slice(1))
    with pytest.raises(AssertionError, match=r"other, version 0 of .*4 rows, expected 5"):
        assert_peers_agree(ours.path.parent)


def test_engine_that_raises_is_named(ours, monkeypatch):
    only_peer(monkeypatch, refusing)
    with pytest.raises(AssertionError, match=r"other, version 0 of .*: ValueError: not this one"):
        assert_peers_agree(ours.path.parent)


@pytest.mark.parametrize(
    ("fault", "is_excused"),
    [
        (Fault("other", "it refuses", lambda asked: asked.has("deletionVectors"), "not this"), True),
        (Fault("other", "it is wrong", lambda asked: asked.has("deletionVectors")), True),
        (Fault("other", "it refuses in other words", lambda asked: True, "nor that"), False),
        (Fault("other", "other tables", lambda asked: asked.has("columnMapping"), "not this"), False),
        (Fault("another", "another engine", lambda asked: True, "not this"), False),
    ],
    ids=lambda value: value.reason if isinstance(value, Fault) else None,
)
def test_only_the_named_fault_excuses_an_engine(ours, monkeypatch, fault, is_excused):
    only_peer(monkeypatch, refusing, fault)
    if is_excused:
        assert assert_peers_agree(ours.path.parent) == 1
    else:
        with pytest.raises(AssertionError, match="not this one"):
            assert_peers_agree(ours.path.parent)
