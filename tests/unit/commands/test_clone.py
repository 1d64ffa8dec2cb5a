"""Does a shallow clone name exactly the files and vectors of its source, as a table of its own, and leave the source alone?

No Spark: CLONE is all log. Rows are read back by hand (`races.ids_at`).
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support import races
from tests.support.log_reading import actions_of, commit_info, log_state, newest_version, vector_file
from tests.support.table_builder import FIRST_COMMIT_MS, TableBuilder

from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.commands.vacuum.command import VacuumCommand
from ebbtide.commands.vacuum.request import VacuumRequest
from ebbtide.config import EngineConfig
from ebbtide.errors import (
    CorruptTableError,
    DeltaError,
    MissingDataFileError,
    ProtocolChangedException,
    RequestError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

MINUTE_MS = 60_000


def rows_of(ids):
    return [{"id": number} for number in ids]


def marked(path):
    """0: ids 0-9 in a file with a space | 1: 0 and 1 marked | 2: ids 10-14, the last one in an inline vector."""
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors()
    builder.file(rows_of(range(10)), name="a b.parquet").commit()
    builder.mark(builder.files[0], [0, 1], vector_prefix="x").commit()
    return builder.file(rows_of(range(10, 15)), deleted=[4], vector="i").commit()


@pytest.fixture
def source(tmp_path):
    return marked(tmp_path / "so urce")


def clone(source, target, how="create", **options):
    return clone_table(CloneRequest(open_store(str(source)), open_store(str(target)), how=how, **options))


def bytes_below(path):
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


# --- files ------------------------------------------------------------------------------------------------------------


def test_clone_shows_the_rows_of_the_source_through_its_vectors(source, tmp_path):
    before = bytes_below(source.path)
    result = clone(source.path, tmp_path / "c")
    assert (result.version, result.source_version) == (0, 2)
    assert races.ids_at(tmp_path / "c") == races.ids_at(source.path) == [*range(2, 14)]
    assert bytes_below(source.path) == before
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["_delta_log"]


def test_paths_are_absolute_and_spelled_as_delta_spark_spells_them(source, tmp_path):
    clone(source.path, tmp_path / "c")
    first, second = sorted(actions_of(tmp_path / "c", 0, "add"), key=lambda add: "%20b" not in add["path"])
    place = f"file:{tmp_path}/so%20urce"
    assert first["path"] == f"{place}/a%20b.parquet"
    assert first["deletionVector"]["storageType"] == "p"
    assert first["deletionVector"]["pathOrInlineDv"].startswith(f"{place}/x/deletion_vector_")
    # An inline vector travels as it is.
    assert second["deletionVector"]["storageType"] == "i"
    assert first["dataChange"] and second["dataChange"]


def test_clone_of_a_clone_names_the_files_of_the_first_source(source, tmp_path):
    clone(source.path, tmp_path / "c")
    races.append(open_store(str(tmp_path / "c")), [77])
    clone(tmp_path / "c", tmp_path / "d")
    assert races.ids_at(tmp_path / "d") == [*range(2, 14), 77]
    paths = [add["path"] for add in log_state(tmp_path / "d").adds]
    assert sum(f"{tmp_path}/so%20urce/" in path for path in paths) == 2
    assert sum(f"{tmp_path}/c/" in path for path in paths) == 1


def test_commit_records_what_delta_spark_records(source, tmp_path):
    clone(source.path, tmp_path / "c")
    info = commit_info(tmp_path / "c", 0)
    assert info["operation"] == "CLONE"
    assert info["operationParameters"] == {"source": f"delta.`file:{source.path}`", "sourceVersion": 2}
    assert info["operationMetrics"] == {
        "sourceTableSize": str(sum(add["size"] for add in log_state(source.path).adds)),
        "sourceNumOfFiles": "2",
        "numRemovedFiles": "0",
        "numCopiedFiles": "0",
        "removedFilesSize": "0",
        "copiedFilesSize": "0",
    }
    assert (info["isolationLevel"], info["isBlindAppend"]) == ("Serializable", False)


def test_partition_values_statistics_and_tags_are_kept(tmp_path):
    schema = pa.schema({"id": pa.int64(), "p": pa.string()})
    builder = TableBuilder(tmp_path / "s", schema).partitioned_by("p")
    builder.file([{"id": 1, "p": "a/b c"}]).file([{"id": 2, "p": None}]).commit()
    clone(builder.path, tmp_path / "c")
    kept = ("partitionValues", "size", "modificationTime", "stats")

    def seen(path):
        return sorted(json.dumps({key: add[key] for key in kept}) for add in log_state(path).adds)

    assert seen(tmp_path / "c") == seen(builder.path)
    assert log_state(tmp_path / "c").metadata["partitionColumns"] == ["p"]


def test_empty_table_is_cloned_as_an_empty_table(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).commit()
    assert clone(builder.path, tmp_path / "c").metrics.source_num_of_files == 0
    assert log_state(tmp_path / "c").live == {}


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"version": 0}, {"timestamp_ms": FIRST_COMMIT_MS + 5}])
def test_older_version_is_cloned_with_what_it_had(source, tmp_path, asked):
    assert clone(source.path, tmp_path / "c", **asked).source_version == 0
    assert races.ids_at(tmp_path / "c") == [*range(10)]


def test_version_that_does_not_exist_is_refused(source, tmp_path):
    with pytest.raises(VersionNotFoundError):
        clone(source.path, tmp_path / "c", version=3)
    assert not (tmp_path / "c").exists()


def test_version_that_was_vacuumed_is_refused(source, tmp_path):
    [add] = log_state(source.path, 1).adds
    vector = vector_file(source.path, add["deletionVector"])
    source.remove(source.files[0]).commit()
    vector.unlink()
    with pytest.raises(MissingDataFileError, match=f"Version 1 .*{vector.name}"):
        clone(source.path, tmp_path / "c", version=1)
    assert not (tmp_path / "c").exists()


# --- the target -------------------------------------------------------------------------------------------------------


def test_clone_onto_a_table_is_refused_and_changes_nothing(source, tmp_path):
    other = TableBuilder(tmp_path / "c", races.ID_SCHEMA).file(rows_of([1])).commit()
    before = bytes_below(other.path)
    with pytest.raises(TableAlreadyExistsError) as refused:
        clone(source.path, other.path)
    assert refused.value.error_class == "DELTA_TABLE_ALREADY_EXISTS"
    with pytest.raises(RequestError) as refused:
        clone(source.path, other.path, "create_or_replace")
    assert refused.value.error_class == "DELTA_UNSUPPORTED_NON_EMPTY_CLONE"
    assert bytes_below(other.path) == before


def test_existing_table_is_left_alone_where_that_is_asked_for(source, tmp_path):
    other = TableBuilder(tmp_path / "c", races.ID_SCHEMA).file(rows_of([1])).commit()
    assert clone(source.path, other.path, "create_if_not_exists").version is None
    assert newest_version(other.path) == 0
    assert clone(source.path, tmp_path / "d", "create_if_not_exists").version == 0


def test_empty_table_is_replaced_and_keeps_its_id_and_history(source, tmp_path):
    other = TableBuilder(tmp_path / "c", pa.schema({"x": pa.string()})).file([{"x": "a"}]).commit()
    other.remove(other.files[0]).commit()
    result = clone(source.path, other.path, "create_or_replace")
    assert result.version == 2
    assert log_state(other.path).metadata["id"] == log_state(other.path, 0).metadata["id"]
    assert races.ids_at(other.path) == [*range(2, 14)]


def test_missing_table_cannot_be_replaced(source, tmp_path):
    with pytest.raises(TableNotFoundError) as refused:
        clone(source.path, tmp_path / "c", "replace")
    assert refused.value.error_class == "DELTA_CANNOT_REPLACE_MISSING_TABLE"
    assert not (tmp_path / "c").exists()


def test_source_must_be_a_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        clone(tmp_path / "none", tmp_path / "c")


def test_clone_of_a_table_onto_itself_is_refused(source):
    with pytest.raises(TableAlreadyExistsError):
        clone(source.path, source.path)


def test_clone_inside_its_source_is_refused_and_so_is_the_reverse(source, tmp_path):
    for first, second in ((source.path, source.path / "c"), (source.path, tmp_path)):
        with pytest.raises(RequestError, match="inside the other"):
            clone(first, second)
    assert not (source.path / "c").exists()
    assert not (tmp_path / "_delta_log").exists()


def test_table_beside_with_the_same_beginning_is_not_inside(source, tmp_path):
    assert clone(source.path, tmp_path / "so urce 2").version == 0


@pytest.mark.parametrize("target", ["memory://a/b", "s3://bucket/t"])
def test_clone_in_another_store_is_refused(source, target):
    with pytest.raises(RequestError, match="different stores"):
        clone(source.path, target)


def test_clone_in_another_bucket_is_refused():
    with pytest.raises(RequestError, match="different stores"):
        clone("s3://one/t", "s3://two/t")


def test_two_clones_at_once_one_wins_and_the_other_says_so(source, tmp_path):
    target = open_store(str(tmp_path / "c"))
    racing = races.RacingStore(target, lambda: clone(source.path, tmp_path / "c", version=0), first=0)
    with pytest.raises(ProtocolChangedException, match=r"created the table .* first"):
        clone_table(CloneRequest(open_store(str(source.path)), racing))
    assert races.ids_at(tmp_path / "c") == [*range(10)]


def test_rows_written_while_an_empty_table_is_replaced_are_not_lost(source, tmp_path):
    other = TableBuilder(tmp_path / "c", races.ID_SCHEMA).commit()
    target = open_store(str(other.path))
    racing = races.RacingStore(target, lambda: races.append(target, [1]), first=1)
    with pytest.raises(DeltaError):
        clone_table(CloneRequest(open_store(str(source.path)), racing, how="create_or_replace"))
    assert races.ids_at(other.path) == [1]


def test_dry_run_writes_nothing(source, tmp_path):
    result = clone(source.path, tmp_path / "c", dry_run=True)
    assert (result.version, result.metrics.source_num_of_files) == (None, 2)
    assert not (tmp_path / "c").exists()


# --- the definition ---------------------------------------------------------------------------------------------------


def test_clone_is_a_table_of_its_own_with_the_definition_of_its_source(source, tmp_path):
    source.table_property("owner", "me").commit()
    clone(source.path, tmp_path / "c")
    ours, theirs = log_state(tmp_path / "c"), log_state(source.path)
    assert ours.metadata["id"] != theirs.metadata["id"]
    assert ours.metadata["schemaString"] == theirs.metadata["schemaString"]
    assert ours.configuration == theirs.configuration
    assert set(theirs.protocol["writerFeatures"]) <= set(ours.protocol["writerFeatures"])


def test_properties_take_precedence_and_bring_their_features(source, tmp_path):
    given = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false", "mine": "1"}
    clone(source.path, tmp_path / "c", properties={**given, "delta.feature.v2Checkpoint": "supported"})
    state = log_state(tmp_path / "c")
    assert state.configuration == given
    assert {"changeDataFeed", "deletionVectors", "v2Checkpoint"} <= set(state.protocol["writerFeatures"])
    assert races.ids_at(tmp_path / "c") == [*range(2, 14)]


@pytest.mark.parametrize(
    ("properties", "error", "error_class"),
    [
        ({"delta.columnMapping.mode": "name"}, RequestError, "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"),
        ({"delta.noSuchThing": "1"}, RequestError, "DELTA_UNKNOWN_CONFIGURATION"),
        ({"delta.enableDeletionVectors": "maybe"}, RequestError, None),
        ({"delta.enableIcebergCompatV2": "true"}, UnsupportedFeatureError, None),
    ],
)
def test_property_that_a_clone_cannot_have_is_refused(source, tmp_path, properties, error, error_class):
    with pytest.raises(error) as refused:
        clone(source.path, tmp_path / "c", properties=properties)
    assert error_class in (None, refused.value.error_class)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_keep_their_physical_names(tmp_path, mode):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).column_mapping(mode).file(rows_of([1])).commit()
    clone(builder.path, tmp_path / "c")
    ours, theirs = log_state(tmp_path / "c"), log_state(builder.path)
    assert ours.metadata["schemaString"] == theirs.metadata["schemaString"]
    assert ours.configuration["delta.columnMapping.mode"] == mode
    assert ours.configuration["delta.columnMapping.maxColumnId"] == "1"


def test_rows_are_numbered_anew_under_names_of_the_clones_own(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).row_tracking()
    builder.file(rows_of(range(4))).commit().remove(builder.files[0]).file(rows_of(range(6))).commit()
    clone(builder.path, tmp_path / "c")
    [add] = actions_of(tmp_path / "c", 0, "add")
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (0, 0)
    [mark] = actions_of(tmp_path / "c", 0, "domainMetadata")
    assert json.loads(mark["configuration"]) == {"rowIdHighWaterMark": 5}
    ours, theirs = log_state(tmp_path / "c").configuration, log_state(builder.path).configuration
    assert ours.keys() == theirs.keys()
    for name in ("RowId", "RowCommitVersion"):
        key = f"delta.rowTracking.materialized{name}ColumnName"
        assert ours[key] != theirs[key]


def test_files_without_row_counts_cannot_be_cloned_with_row_tracking(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).file(rows_of([1]), stats=False).commit()
    with pytest.raises(RequestError) as refused:
        clone(builder.path, tmp_path / "c", properties={"delta.enableRowTracking": "true"})
    assert refused.value.error_class == "DELTA_CLONE_WITH_ROW_TRACKING_WITHOUT_STATS"
    assert not (tmp_path / "c").exists()
    assert clone(builder.path, tmp_path / "c").version == 0


def test_record_of_in_commit_timestamps_is_not_inherited(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).file(rows_of([1])).commit()
    builder.in_commit_timestamps().table_property("delta.inCommitTimestampEnablementVersion", "1")
    builder.table_property("delta.inCommitTimestampEnablementTimestamp", str(FIRST_COMMIT_MS + MINUTE_MS)).commit()
    clone(builder.path, tmp_path / "c")
    assert log_state(tmp_path / "c").configuration == {"delta.enableInCommitTimestamps": "true"}
    assert commit_info(tmp_path / "c", 0)["inCommitTimestamp"] > FIRST_COMMIT_MS


def test_clustering_is_copied_and_other_domains_are_not(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).feature("domainMetadata").feature("clustering")
    builder.domain("delta.clustering", '{"clusteringColumns":[["id"]]}').domain("mine", "x").commit()
    clone(builder.path, tmp_path / "c")
    assert set(load_snapshot(open_store(str(tmp_path / "c"))).domain_metadata) == {"delta.clustering"}


def test_table_that_cannot_be_written_is_not_cloned(tmp_path):
    builder = TableBuilder(tmp_path / "s", races.ID_SCHEMA).feature("collations").commit()
    with pytest.raises(UnsupportedFeatureError):
        clone(builder.path, tmp_path / "c")
    assert not (tmp_path / "c").exists()


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_what_happens_to_the_clone_leaves_the_source_alone(source, tmp_path):
    clone(source.path, tmp_path / "c")
    before = bytes_below(source.path)
    store = open_store(str(tmp_path / "c"))
    races.append(store, [50, 51])
    races.compact(store, tmp_path / "c")
    assert races.ids_at(tmp_path / "c") == [*range(2, 14), 50, 51]
    restore_table(RestoreRequest(store, 0))
    assert races.ids_at(tmp_path / "c") == [*range(2, 14)]
    assert bytes_below(source.path) == before


def test_vacuum_of_the_clone_leaves_the_source_alone_and_the_clone_readable(source, tmp_path):
    clone(source.path, tmp_path / "c")
    store = open_store(str(tmp_path / "c"))
    races.overwrite(store, [1, 2])
    restore_table(RestoreRequest(store, 0))
    before = bytes_below(source.path)
    VacuumCommand(VacuumRequest(store, retention_hours=0, retention_check=False)).run()
    assert races.ids_at(tmp_path / "c") == [*range(2, 14)]
    assert not list((tmp_path / "c").glob("*.parquet"))
    assert bytes_below(source.path) == before


def test_restore_after_a_vacuum_is_refused_and_names_the_file(tmp_path):
    builder = TableBuilder(tmp_path / "t", races.ID_SCHEMA).file(rows_of([1])).commit()
    [gone] = log_state(builder.path).live
    store = open_store(str(builder.path))
    races.overwrite(store, [2])
    VacuumCommand(VacuumRequest(store, retention_hours=0, retention_check=False)).run()
    version = newest_version(builder.path)
    with pytest.raises(MissingDataFileError, match=gone[0]):
        restore_table(RestoreRequest(store, 0))
    assert newest_version(builder.path) == version


def test_clone_is_read_as_it_was_after_the_source_moves_on(source, tmp_path):
    clone(source.path, tmp_path / "c")
    source.remove(source.files[0]).commit()
    assert races.ids_at(tmp_path / "c") == [*range(2, 14)]


def test_untrusted_clones_are_refused_by_those_who_ask(source, tmp_path):
    clone(source.path, tmp_path / "c")
    with pytest.raises(UnsupportedFeatureError, match="shallow clones"):
        load_snapshot(open_store(str(tmp_path / "c")), config=EngineConfig(inside_root_only=True))


# --- a source that is at fault ----------------------------------------------------------------------------------------


def with_strange_default(path):
    """1: a column with a default that is a number | 2: the same without it."""
    builder = TableBuilder(path, races.ID_SCHEMA).feature("allowColumnDefaults")
    builder.file(rows_of(range(3))).commit()
    metadata = actions_of(path, 0, "metaData")[0]
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"]["CURRENT_DEFAULT"] = 7
    strange = metadata | {"schemaString": json.dumps(schema)}
    return builder.raw({"metaData": strange}).commit().raw({"metaData": metadata}).commit()


def test_clone_of_a_table_with_a_wrongly_typed_default_asks_for_a_report(tmp_path):
    with_strange_default(tmp_path / "t")
    with pytest.raises(CorruptTableError, match=r"CLONE would copy.*CURRENT_DEFAULT.*Nothing was changed") as caught:
        clone(tmp_path / "t", tmp_path / "c", version=1)
    assert "report" not in str(caught.value)
    assert not (tmp_path / "c").exists()


def test_restore_to_a_wrongly_typed_default_asks_for_a_report(tmp_path):
    with_strange_default(tmp_path / "t")
    with pytest.raises(CorruptTableError, match=r"RESTORE would copy.*CURRENT_DEFAULT"):
        restore_table(RestoreRequest(open_store(str(tmp_path / "t")), version=1))
    assert newest_version(tmp_path / "t") == 2


def test_clone_of_files_without_partition_values_blames_ebbtide(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "p": pa.string()})).partitioned_by("p")
    builder.file([{"id": 1, "p": "a"}])
    builder._staged[-1]["add"]["partitionValues"] = {}
    builder.commit()
    with pytest.raises(CorruptTableError, match="partition values"):
        clone(tmp_path / "t", tmp_path / "c")
    assert not (tmp_path / "c").exists()
