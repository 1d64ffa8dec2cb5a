"""Do manifests name exactly the live files, one manifest per partition, and follow the table where it asks for that?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support import races
from tests.support.log_reading import log_state
from tests.support.table_builder import TableBuilder

from ebbtide.commands.generate.command import generate_manifests
from ebbtide.errors import RequestError, TableNotFoundError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
MODE = "symlink_format_manifest"
FOLLOWS = "delta.compatibility.symlinkFormatManifest.enabled"


def generate(path, mode=MODE, **options):
    return generate_manifests(open_store(str(path)), mode, **options)


def manifests(path):
    root = path / "_symlink_format_manifest"
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def lines(path, *adds):
    return "".join(sorted(f"file:{path}/{add['path'].replace('%2520', '%20')}\n" for add in adds))


def test_table_without_partitions_has_one_manifest_with_its_live_files(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA)
    builder.file([{"id": 1}]).file([{"id": 2}]).commit().remove(builder.files[0]).commit()
    result = generate(builder.path)
    assert (result.version, result.num_written, result.num_deleted) == (1, 1, 0)
    assert manifests(builder.path) == {"manifest": lines(builder.path, *log_state(builder.path).adds)}


def test_each_partition_has_a_manifest_in_its_directory(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p")
    for part in ("a b", "c/d", None):
        builder.file([{"id": 1, "p": part}])
    builder.commit()
    assert generate(builder.path).num_written == 3
    found = manifests(builder.path)
    assert set(found) == {"p=a b/manifest", "p=c%2Fd/manifest", "p=__HIVE_DEFAULT_PARTITION__/manifest"}
    assert found["p=a b/manifest"].startswith(f"file:{builder.path}/p=a b/part-")
    for text in found.values():
        [line] = text.splitlines()
        assert Path(line.removeprefix("file:")).read_bytes()[:4] == b"PAR1"


def test_manifest_of_a_partition_that_is_gone_is_deleted(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p")
    builder.file([{"id": 1, "p": "a"}]).file([{"id": 1, "p": "b"}]).commit()
    generate(builder.path)
    builder.remove(builder.files[0]).commit()
    assert generate(builder.path).num_deleted == 1
    assert set(manifests(builder.path)) == {"p=b/manifest"}


def test_empty_table_has_an_empty_manifest(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).commit()
    generate(builder.path)
    assert manifests(builder.path) == {"manifest": ""}


def test_dry_run_writes_nothing(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file([{"id": 1}]).commit()
    assert generate(builder.path, dry_run=True).num_written == 1
    assert manifests(builder.path) == {}


def test_vectors_are_refused_until_none_is_left(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).deletion_vectors()
    builder.file([{"id": 1}, {"id": 2}], deleted=[0]).commit()
    with pytest.raises(RequestError) as refused:
        generate(builder.path)
    assert refused.value.error_class == "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS"
    assert manifests(builder.path) == {}
    builder.remove(builder.files[0]).file([{"id": 2}]).commit()
    assert generate(builder.path).num_written == 1


def test_mapped_columns_are_refused(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).column_mapping("name").commit()
    with pytest.raises(RequestError) as refused:
        generate(builder.path)
    assert refused.value.error_class == "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"


def test_clone_is_refused(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA)
    builder.raw({"add": {"path": "file:/elsewhere/f", "partitionValues": {}, "size": 1, "dataChange": True}}).commit()
    with pytest.raises(RequestError, match="outside of its directory"):
        generate(builder.path)


def test_mode_is_known_in_any_case_and_no_other_is(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).commit()
    generate(builder.path, MODE.upper())
    with pytest.raises(RequestError) as refused:
        generate(builder.path, "hive")
    assert refused.value.error_class == "DELTA_MODE_NOT_SUPPORTED"


def test_there_must_be_a_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        generate(tmp_path / "none")


def test_commits_keep_manifests_up_to_date_where_the_table_asks_for_it(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file([{"id": 1}]).commit()
    store = open_store(str(builder.path))
    races.set_property(store, FOLLOWS, "true")
    assert manifests(builder.path) == {"manifest": lines(builder.path, *log_state(builder.path).adds)}
    races.append(store, [2])
    assert manifests(builder.path) == {"manifest": lines(builder.path, *log_state(builder.path).adds)}
    races.overwrite(store, [3])
    assert len(manifests(builder.path)["manifest"].splitlines()) == 1
    races.set_property(store, FOLLOWS, "false")
    races.append(store, [4])
    assert len(manifests(builder.path)["manifest"].splitlines()) == 1


def test_commits_write_the_manifests_of_the_partitions_they_changed(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").table_property(FOLLOWS, "true")
    builder.file([{"id": 1, "p": "a"}]).file([{"id": 1, "p": "b"}]).commit()
    store = open_store(str(builder.path))
    first, second = log_state(builder.path).adds
    generate(builder.path)
    untouched = builder.path / "_symlink_format_manifest" / "p=b" / "manifest"
    untouched.write_text("as it was\n")
    removed = next(add for add in load_snapshot(store).add_files() if add.path == first["path"])
    races.commit(store, [removed.remove(1)])
    assert manifests(builder.path) == {"p=b/manifest": "as it was\n"}
    assert second["path"].startswith("p=b/")


def test_first_commit_that_keeps_manifests_writes_all_of_them(tmp_path):
    builder = TableBuilder(tmp_path / "t", SCHEMA).partitioned_by("p").table_property(FOLLOWS, "true")
    builder.file([{"id": 1, "p": "a"}]).file([{"id": 1, "p": "b"}]).commit()
    store = open_store(str(builder.path))
    removed = next(iter(load_snapshot(store).add_files()))
    races.commit(store, [removed.remove(1)])
    assert set(manifests(builder.path)) == {"p=b/manifest"}


def test_commit_lands_even_if_its_manifests_cannot_be_written(tmp_path, caplog):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).table_property(FOLLOWS, "true").file([{"id": 1}]).commit()
    (builder.path / "_symlink_format_manifest").write_text("in the way")
    assert races.append(open_store(str(builder.path)), [2]).version == 1
    assert "readers of manifests see an older version" in caplog.text
