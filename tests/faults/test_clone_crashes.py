"""Is there a whole clone or none, and the source as it was, wherever a CLONE or a CONVERT is interrupted?"""

from __future__ import annotations

from itertools import count
from unittest.mock import MagicMock

import pytest
from tests.support import races
from tests.support.faulty_store import FAULTS, FaultyStore, outcome_of
from tests.support.races import ids_at
from tests.support.table_builder import TableBuilder

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.convert import command as convert
from ebbtide.commands.generate.command import generate_manifests
from ebbtide.errors import TableAlreadyExistsError
from ebbtide.protocol.schema import PrimitiveType, StructField, StructType
from ebbtide.storage import open_store
from ebbtide.transaction import SYSTEM_CLOCK

IDS = [2, 3, 4, 5]


@pytest.fixture(autouse=True)
def _without_waiting():
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    yield
    object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)


def make_source(path):
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors()
    builder.file([{"id": number} for number in range(4)], deleted=[0, 1]).commit()
    return builder.file([{"id": 4}, {"id": 5}]).commit().path


def bytes_below(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_call_leaves_a_whole_clone_or_none(fault, side, tmp_path):
    outcomes = set()
    for at in count():
        source = make_source(tmp_path / str(at) / "s")
        target = tmp_path / str(at) / "c"
        before = bytes_below(source)
        stores = {"source": open_store(str(source)), "target": open_store(str(target))}
        stores[side] = FaultyStore(stores[side], fault, at)
        outcome = outcome_of(lambda stores=stores: clone_table(CloneRequest(stores["source"], stores["target"])))
        if len(stores[side].calls) <= at:
            break
        outcomes.add(outcome)
        assert bytes_below(source) == before
        is_there = any((target / "_delta_log").glob("*.json"))
        assert is_there or outcome != "landed"
        if not is_there:
            clone_table(CloneRequest(open_store(str(source)), open_store(str(target))))
        else:
            with pytest.raises(TableAlreadyExistsError):
                clone_table(CloneRequest(open_store(str(source)), open_store(str(target))))
        assert ids_at(target) == IDS
    assert at > 1, "the run stopped making calls"
    assert "crashed" in outcomes if fault.startswith("crash") else outcomes <= {"landed", "refused"}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_while_a_folder_is_converted_leaves_a_whole_table_or_none(fault, tmp_path, monkeypatch):
    """Spark is asked for the schema of the folder alone."""
    monkeypatch.setattr(
        convert, "folder_schema", lambda *_, **__: StructType((StructField("id", PrimitiveType("long"), True),))
    )
    monkeypatch.setattr(convert.border, "is_case_sensitive", lambda _: False)
    outcomes = set()
    for at in count():
        folder = tmp_path / str(at)
        folder.mkdir()
        for name, ids in (("a.parquet", [2, 3]), ("b.parquet", [4, 5])):
            (folder / name).write_bytes(races.parquet_bytes(ids))
        store = FaultyStore(open_store(str(folder)), fault, at)
        outcome = outcome_of(lambda store=store: convert.convert_folder(MagicMock(), convert.ConvertRequest(store)))
        if len(store.calls) <= at:
            break
        outcomes.add(outcome)
        is_there = any((folder / "_delta_log").glob("*.json"))
        assert is_there or outcome != "landed"
        again = convert.convert_folder(MagicMock(), convert.ConvertRequest(open_store(str(folder))))
        assert (again.version is None) == is_there, "a table that is there is left as it is"
        assert ids_at(folder) == IDS
        assert {"a.parquet", "b.parquet"} == {file.name for file in folder.glob("*.parquet")}
    assert at > 1, "the run stopped making calls"
    assert "crashed" in outcomes if fault.startswith("crash") else outcomes <= {"landed", "refused"}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_while_manifests_are_written_leaves_every_line_whole(fault, tmp_path):
    for at in count():
        builder = TableBuilder(tmp_path / str(at), races.ID_SCHEMA).file([{"id": 1}]).file([{"id": 2}]).commit()
        store = FaultyStore(open_store(str(builder.path)), fault, at)
        outcome_of(lambda store=store: generate_manifests(store, "symlink_format_manifest"))
        if len(store.calls) <= at:
            break
        manifest = builder.path / "_symlink_format_manifest" / "manifest"
        assert not manifest.exists() or len(manifest.read_text().splitlines()) == 2
        generate_manifests(open_store(str(builder.path)), "symlink_format_manifest")
        assert len(manifest.read_text().splitlines()) == 2
    assert at > 1, "the run stopped making calls"
