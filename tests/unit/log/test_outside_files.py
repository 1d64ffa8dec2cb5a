"""Are files outside of the table's directory counted, and refused where nobody trusts the table?"""

import shutil

import pyarrow as pa
import pytest
from tests.support.command_line import ebbtide, json_lines
from tests.support.table_builder import TableBuilder

from ebbtide.config import EngineConfig
from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import count_outside_files, load_snapshot, read_history
from ebbtide.log.change_bounds import ChangeBounds
from ebbtide.log.change_feed import read_change_feed
from ebbtide.storage import open_store

UNTRUSTED = EngineConfig(inside_root_only=True)


@pytest.fixture
def builder(tmp_path):
    schema = pa.schema({"id": pa.int64(), "p": pa.string()})
    made = TableBuilder(tmp_path / "t", schema).partitioned_by("p").deletion_vectors()
    return made.file([{"id": 1, "p": "x"}]).file([{"id": 2, "p": "y"}]).commit()


@pytest.fixture
def elsewhere(tmp_path):
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return directory


def loaded(builder, config=EngineConfig()):
    return load_snapshot(open_store(str(builder.path)), config=config)


def outside(builder):
    snapshot = loaded(builder)
    return count_outside_files(snapshot.live, snapshot.store)


def absolute_data_file(builder, elsewhere):
    file = builder.files[0]
    builder.remove(file).raw({"add": file.add | {"path": f"file://{elsewhere}/part.parquet"}}).commit()


def climbing_absolute_path(builder, elsewhere):
    file = builder.files[0]
    path = f"file://{builder.path}/%2e%2e/{elsewhere.name}/part.parquet"
    builder.remove(file).raw({"add": file.add | {"path": path}}).commit()


def absolute_vector(builder, elsewhere):
    file = builder.files[0]
    vector = {
        "storageType": "p",
        "pathOrInlineDv": f"file://{elsewhere}/v.bin",
        "offset": 1,
        "sizeInBytes": 34,
        "cardinality": 1,
    }
    builder.remove(file).raw({"add": file.add | {"deletionVector": vector}}).commit()


def linked_data_file(builder, elsewhere):
    path = builder.path / builder.files[0].add["path"]
    shutil.move(path, elsewhere / "part.parquet")
    path.symlink_to(elsewhere / "part.parquet")


def linked_partition(builder, elsewhere):
    path = (builder.path / builder.files[0].add["path"]).parent
    shutil.move(path, elsewhere / "partition")
    path.symlink_to(elsewhere / "partition")


OUTSIDE = [absolute_data_file, climbing_absolute_path, absolute_vector, linked_data_file, linked_partition]


@pytest.mark.parametrize("attack", OUTSIDE, ids=lambda attack: attack.__name__)
def test_file_outside_of_the_root_is_counted_and_refused_for_an_untrusted_table(builder, elsewhere, attack):
    assert outside(builder) == 0
    assert loaded(builder, UNTRUSTED).num_files == 2
    attack(builder, elsewhere)
    assert outside(builder) == 1
    with pytest.raises(UnsupportedFeatureError, match=r"inside_root_only=True.*--untrusted"):
        loaded(builder, UNTRUSTED)


def linked_log(builder, elsewhere):
    shutil.move(builder.log, elsewhere / "log")
    builder.log.symlink_to(elsewhere / "log")


def linked_commit(builder, elsewhere):
    shutil.move(builder.log / f"{0:020d}.json", elsewhere / "commit")
    (builder.log / f"{0:020d}.json").symlink_to(elsewhere / "commit")


def dangling_link(builder, elsewhere):
    (builder.path / "p=new").symlink_to(elsewhere / "nothing")


def linked_sidecars(builder, elsewhere):
    builder.checkpoint(kind="v2-json", sidecars=1)
    shutil.move(builder.log / "_sidecars", elsewhere / "sidecars")
    (builder.log / "_sidecars").symlink_to(elsewhere / "sidecars")


@pytest.mark.parametrize(
    "attack", [linked_log, linked_commit, dangling_link, linked_sidecars], ids=lambda attack: attack.__name__
)
def test_link_out_of_the_root_is_followed_for_a_trusted_table_only(builder, elsewhere, attack):
    attack(builder, elsewhere)
    assert loaded(builder).num_files == 2
    with pytest.raises(UnsupportedFeatureError, match="link"):
        loaded(builder, UNTRUSTED)
    with pytest.raises(UnsupportedFeatureError, match="link"):
        load_snapshot(open_store(str(builder.path)), timestamp_ms=0, config=UNTRUSTED)
    with pytest.raises(UnsupportedFeatureError, match="link"):
        read_history(open_store(str(builder.path)), config=UNTRUSTED)


def test_link_inside_the_root_and_a_root_that_is_a_link_are_fine(builder, tmp_path):
    (builder.path / "p=z").symlink_to(builder.path / "p=x")
    (tmp_path / "link").symlink_to(builder.path)
    assert load_snapshot(open_store(str(tmp_path / "link")), config=UNTRUSTED).num_files == 2


def test_directory_beside_the_root_with_a_longer_name_is_outside(builder, tmp_path):
    (tmp_path / "table").mkdir()
    (builder.path / "p=new").symlink_to(tmp_path / "table")
    with pytest.raises(UnsupportedFeatureError, match="p=new"):
        loaded(builder, UNTRUSTED)


def test_snapshot_carried_forward_is_checked_as_well(builder, elsewhere):
    old = loaded(builder)
    absolute_data_file(builder, elsewhere)
    with pytest.raises(UnsupportedFeatureError, match="outside of its root"):
        load_snapshot(old.store, hint=old, config=UNTRUSTED)
    with pytest.raises(UnsupportedFeatureError, match="outside of its root"):
        load_snapshot(old.store, hint=loaded(builder), config=UNTRUSTED)


def test_change_data_outside_of_the_root_is_refused_for_an_untrusted_table(builder, elsewhere):
    builder.change_data_feed().commit()
    cdc = {"path": f"file://{elsewhere}/c.parquet", "partitionValues": {"p": "x"}, "size": 1, "dataChange": False}
    builder.raw({"cdc": cdc}).commit()
    store = open_store(str(builder.path))
    bounds = ChangeBounds(start_version=builder.version)
    assert len(read_change_feed(store, bounds).changes) == 1
    with pytest.raises(UnsupportedFeatureError, match="outside of its root"):
        read_change_feed(store, bounds, config=UNTRUSTED)


@pytest.mark.parametrize("command", ["detail", "check"])
def test_commands_say_how_many_files_are_outside(builder, elsewhere, command):
    assert "outside" not in ebbtide(command, builder.path).stdout
    absolute_data_file(builder, elsewhere)
    assert "1 file outside of the table's directory" in ebbtide(command, builder.path).stdout
    [answer] = json_lines(ebbtide(command, builder.path, "--json"))
    assert answer["numFilesOutsideRoot"] == 1


@pytest.mark.parametrize("command", ["detail", "check", "files", "history", "show", "delete"])
def test_every_command_refuses_an_untrusted_table_that_leads_out(builder, elsewhere, command):
    dangling_link(builder, elsewhere)
    more = ["--where", "id = 1", "--yes"] if command == "delete" else []
    result = ebbtide(command, builder.path, "--untrusted", *more)
    assert result.exit_code == 1
    assert "inside_root_only" in result.stderr
