"""Does a checkpoint that we write say exactly what the snapshot says, in the shape that other readers expect?"""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.log_builder import (
    LogBuilder,
    MemoryStore,
    add,
    domain,
    live_keys,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)
from tests.support.table_builder import TableBuilder

from ebbtide.errors import UnsupportedFeatureError
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import is_checkpoint_due, write_checkpoint
from ebbtide.log.last_checkpoint import json_checksum, write_last_checkpoint
from ebbtide.storage import open_store

WEEK_MS = 7 * 86_400_000
NOW_MS = 1_700_000_000_000
CLASSIC = "_delta_log/00000000000000000001.checkpoint.parquet"
DV = protocol(features=["deletionVectors"])
V2 = protocol(features=["deletionVectors", "v2Checkpoint"])
V2_POLICY = {"delta.checkpointPolicy": "v2"}
STATS = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'


def table_of(*actions, head=None, configuration=None, columns=None, partitions=()):
    """A table with one commit of these actions after its creation."""
    log = LogBuilder()
    first = [head or protocol(), metadata(columns, partitions=partitions, configuration=configuration)]
    log.commit(0, first)
    log.commit(1, list(actions))
    return log


def checkpoint_rows(store, path=CLASSIC):
    return pq.read_table(io.BytesIO(store.objects[path])).to_pylist()


def of(rows, action):
    return [row[action] for row in rows if row[action] is not None]


def written(log, **options):
    result = write_checkpoint(load_snapshot(log.store), **{"now_ms": NOW_MS, **options})
    return result, checkpoint_rows(log.store) if result.files[-1] == CLASSIC else None


def without_commits(log):
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    return load_snapshot(log.store)


# --- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("interval", "version", "due"), [(2, 0, False), (2, 1, False), (2, 2, True), (1, 1, True)])
def test_checkpoint_is_due_at_multiples_of_the_interval_but_not_at_zero(interval, version, due):
    log = LogBuilder()
    log.commit(0, [protocol(), metadata(configuration={"delta.checkpointInterval": str(interval)})])
    log.commit(1, [add("a")])
    log.commit(2, [add("b")])
    assert is_checkpoint_due(load_snapshot(log.store, version=version)) is due


def test_table_with_unknown_writer_feature_gets_no_checkpoint():
    log = table_of(head={"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["newThing"]}})
    with pytest.raises(UnsupportedFeatureError, match="newThing"):
        written(log)
    assert not any("checkpoint" in path for path in log.store.objects)


# --- the rows ---------------------------------------------------------------------------------------------------------


def test_every_action_of_the_snapshot_is_one_row():
    log = table_of(add("a"), add("b", dv=vector()), remove("c", at=NOW_MS), txn("app", 7), domain("d", "x"), head=DV)
    result, rows = written(log)
    kinds = sorted(name for row in rows for name, value in row.items() if value is not None)
    assert kinds == ["add", "add", "domainMetadata", "metaData", "protocol", "remove", "txn"]
    assert (result.num_actions, result.num_add_files, result.is_new) == (7, 2, True)
    assert result.size_in_bytes == len(log.store.objects[CLASSIC])


def test_add_without_vector_has_a_null_vector_and_not_one_of_empty_members():
    _, rows = written(table_of(add("a"), add("b", dv=vector(cardinality=4)), head=DV))
    found = {row["path"]: row["deletionVector"] for row in of(rows, "add")}
    assert found["a"] is None
    assert found["b"] == {**vector(cardinality=4)}


def test_null_vectors_are_null_in_the_file_at_the_level_of_the_struct():
    log = table_of(add("a"), remove("b", at=NOW_MS), head=DV)
    written(log)
    table = pq.read_table(io.BytesIO(log.store.objects[CLASSIC]))
    for name in ("add", "remove"):
        present = table.column(name).combine_chunks().drop_null()
        assert (len(present), present.field("deletionVector").null_count) == (1, 1)


def test_vector_without_offset_keeps_a_null_offset():
    inline = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    _, rows = written(table_of(add("a", dv=inline), head=DV))
    assert of(rows, "add")[0]["deletionVector"] == {**inline, "offset": None}


def test_partition_values_keep_null_and_empty_text_apart():
    parts = [{"p": None}, {"p": ""}, {"p": "x"}]
    adds = [add(f"f{number}", partition=values) for number, values in enumerate(parts)]
    _, rows = written(table_of(*adds, columns={"id": "long", "p": "string"}, partitions=["p"]))
    assert [row["partitionValues"] for row in of(rows, "add")] == [[("p", None)], [("p", "")], [("p", "x")]]


def test_restated_files_never_claim_a_data_change():
    _, rows = written(table_of(add("a"), remove("b", at=NOW_MS)))
    assert [row["dataChange"] for row in of(rows, "add") + of(rows, "remove")] == [False, False]


def test_optional_fields_that_are_absent_are_null():
    _, rows = written(table_of(add("a"), remove("b", at=NOW_MS)))
    assert of(rows, "protocol") == [
        {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None}
    ]
    (file,) = of(rows, "add")
    for name in ("tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider", "stats"):
        assert file[name] is None, name
    (tombstone,) = of(rows, "remove")
    for name in ("extendedFileMetadata", "partitionValues", "size", "deletionVector", "baseRowId"):
        assert tombstone[name] is None, name
    (table,) = of(rows, "metaData")
    assert (table["name"], table["description"]) == (None, None)


def test_feature_lists_that_are_empty_stay_empty_and_do_not_become_null():
    head = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [],
            "writerFeatures": ["appendOnly"],
        }
    }
    _, rows = written(table_of(add("a"), head=head))
    assert of(rows, "protocol")[0]["readerFeatures"] == []


def test_metadata_keeps_format_options_and_configuration():
    log = LogBuilder()
    log.commit(
        0,
        [
            protocol(),
            metadata(
                configuration={"k": "v"},
                name="n",
                description="d",
                format={"provider": "parquet", "options": {"o": "1"}},
            ),
        ],
    )
    log.commit(1, [add("a")])
    _, rows = written(log)
    (table,) = of(rows, "metaData")
    assert table["configuration"] == [("k", "v")]
    assert table["format"] == {"provider": "parquet", "options": [("o", "1")]}
    assert (table["name"], table["description"], table["partitionColumns"]) == ("n", "d", [])


def test_remove_rows_have_neither_statistics_nor_tags():
    log = table_of(remove("b", at=NOW_MS, stats=STATS, tags={"t": "1"}))
    written(log)
    schema = pq.read_schema(io.BytesIO(log.store.objects[CLASSIC]))
    names = {field.name for field in schema.field("remove").type}
    assert names == {
        "path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size", "deletionVector",
        "baseRowId", "defaultRowCommitVersion",
    }  # fmt: skip


def test_maps_and_lists_have_the_names_that_parquet_readers_look_for():
    log = table_of(add("a"))
    written(log)
    paths = {column.path for column in _columns(log.store.objects[CLASSIC])}
    assert "add.partitionValues.key_value.key" in paths
    assert "add.partitionValues.key_value.value" in paths
    assert "metaData.partitionColumns.list.element" in paths
    assert "protocol.readerFeatures.list.element" in paths


def _columns(data):
    schema = pq.ParquetFile(io.BytesIO(data)).schema
    return [schema.column(index) for index in range(len(schema))]


# --- what expires -----------------------------------------------------------------------------------------------------


def test_tombstones_stay_until_their_retention_is_over():
    log = table_of(
        remove("old", at=NOW_MS - WEEK_MS),
        remove("young", at=NOW_MS - WEEK_MS + 1),
        {"remove": {"path": "undated", "dataChange": True}},
    )
    _, rows = written(log)
    assert [row["path"] for row in of(rows, "remove")] == ["young"]


def test_tombstone_retention_is_the_tables_own():
    log = table_of(
        remove("a", at=NOW_MS - 3_600_000),
        remove("b", at=NOW_MS - 3_599_999),
        configuration={"delta.deletedFileRetentionDuration": "interval 1 hour"},
    )
    _, rows = written(log)
    assert [row["path"] for row in of(rows, "remove")] == ["b"]


def test_transaction_identifiers_are_forgotten_only_by_a_known_age():
    actions = [
        {"txn": {"appId": "old", "version": 1, "lastUpdated": NOW_MS - 3_600_000}},
        {"txn": {"appId": "young", "version": 1, "lastUpdated": NOW_MS - 1}},
        {"txn": {"appId": "undated", "version": 1}},
    ]
    log = table_of(*actions, configuration={"delta.setTransactionRetentionDuration": "interval 1 hour"})
    _, rows = written(log)
    assert sorted(row["appId"] for row in of(rows, "txn")) == ["undated", "young"]


def test_tombstones_of_the_checkpoint_before_are_carried_over():
    log = table_of(add("a"), remove("gone", dv=vector(), at=NOW_MS), head=DV)
    written(log)
    log.commit(2, [remove("a", at=NOW_MS)])
    write_checkpoint(load_snapshot(log.store), now_ms=NOW_MS)
    rows = checkpoint_rows(log.store, "_delta_log/00000000000000000002.checkpoint.parquet")
    assert sorted(row["path"] for row in of(rows, "remove")) == ["a", "gone"]


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("as_struct", [True, False])
def test_statistics_stand_in_the_forms_that_the_table_asks_for(as_json, as_struct):
    configuration = {
        "delta.checkpoint.writeStatsAsJson": str(as_json).lower(),
        "delta.checkpoint.writeStatsAsStruct": str(as_struct).lower(),
    }
    log = table_of(
        add("a", stats=STATS, partition={"p": "5"}),
        configuration=configuration,
        columns={"id": "long", "p": "integer"},
        partitions=["p"],
    )
    _, rows = written(log)
    (file,) = of(rows, "add")
    assert ("stats" in file) is as_json
    assert ("stats_parsed" in file) is as_struct
    assert ("partitionValues_parsed" in file) is as_struct
    if as_json:
        assert file["stats"] == STATS
    if as_struct:
        assert file["partitionValues_parsed"] == {"p": 5}
        assert file["stats_parsed"] == {
            "numRecords": 3,
            "minValues": {"id": 1},
            "maxValues": {"id": 9},
            "nullCount": {"id": 0},
            "tightBounds": None,
        }


def test_file_with_a_vector_keeps_its_row_count_in_a_table_without_statistics():
    off = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "false"}
    log = table_of(add("a", stats=STATS), add("b", stats=STATS, dv=vector()), head=DV, configuration=off)
    _, rows = written(log)
    assert {row["path"]: row["stats"] for row in of(rows, "add")} == {"a": None, "b": STATS}


def test_table_without_partitions_has_no_typed_partition_values():
    _, rows = written(table_of(add("a")))
    assert "partitionValues_parsed" not in of(rows, "add")[0]


def test_partition_value_that_is_no_value_of_its_type_is_null_and_stays_in_the_map():
    log = table_of(add("a", partition={"p": "x"}), columns={"id": "long", "p": "integer"}, partitions=["p"])
    _, rows = written(log)
    (file,) = of(rows, "add")
    assert (file["partitionValues"], file["partitionValues_parsed"]) == ([("p", "x")], {"p": None})


def test_typed_columns_of_a_mapped_table_have_physical_names():
    def column(name, number):
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        return {"name": name, "type": "long", "nullable": True, "metadata": mapping}

    schema = json.dumps({"type": "struct", "fields": [column("id", 1), column("p", 2)]})
    log = LogBuilder()
    mapped = metadata(partitions=["p"], configuration={"delta.columnMapping.mode": "name"}, schemaString=schema)
    log.commit(0, [protocol(2, 5), mapped])
    log.commit(1, [add("a", partition={"col-2": "7"}, stats='{"numRecords":1,"minValues":{"col-1":4}}')])
    _, rows = written(log)
    (file,) = of(rows, "add")
    assert file["partitionValues_parsed"] == {"col-2": 7}
    assert file["stats_parsed"]["minValues"] == {"col-1": 4}


def test_statistics_survive_a_table_that_keeps_them_only_as_struct():
    log = table_of(add("a", stats=STATS), configuration={"delta.checkpoint.writeStatsAsJson": "false"})
    written(log)
    (file,) = without_commits(log).add_files()
    assert json.loads(file.stats) == json.loads(STATS)


# --- V2 ---------------------------------------------------------------------------------------------------------------


def test_v2_checkpoint_splits_file_actions_into_sidecars():
    actions = [*(add(f"f{number}") for number in range(5)), remove("r", at=NOW_MS)]
    log = table_of(*actions, head=V2, configuration=V2_POLICY)
    result, _ = written(log, actions_per_sidecar=4)
    *sidecars, top = result.files
    assert [len(checkpoint_rows(log.store, path)) for path in sidecars] == [4, 2]
    lines = [json.loads(line) for line in log.store.objects[top].splitlines()]
    assert [next(iter(line)) for line in lines] == ["checkpointMetadata", "protocol", "metaData", "sidecar", "sidecar"]
    assert lines[0]["checkpointMetadata"] == {
        "version": 1,
        "tags": {
            "sidecarNumActions": "6",
            "sidecarSizeInBytes": str(sum(len(log.store.objects[path]) for path in sidecars)),
            "numOfAddFiles": "5",
        },
    }
    assert [f"_delta_log/_sidecars/{line['sidecar']['path']}" for line in lines[3:]] == sidecars
    assert result.num_actions == 11
    assert result.size_in_bytes == sum(len(log.store.objects[path]) for path in result.files)
    snapshot = without_commits(log)
    assert live_keys(snapshot) == {(f"f{number}", None) for number in range(5)}
    assert snapshot.tombstones().column("path").to_pylist() == ["r"]


def test_v2_checkpoint_of_a_table_without_files_names_no_sidecar():
    log = table_of(txn("app", 1), head=V2, configuration=V2_POLICY)
    result, _ = written(log)
    assert len(result.files) == 1
    snapshot = without_commits(log)
    assert (snapshot.num_files, snapshot.transactions["app"].version) == (0, 1)


def test_policy_without_the_feature_gives_a_classic_checkpoint():
    log = table_of(add("a"), configuration=V2_POLICY)
    result, _ = written(log)
    assert result.files == (CLASSIC,)


def test_sidecars_without_their_checkpoint_change_nothing():
    class StoreThatStops(MemoryStore):
        def put_if_absent(self, path, data):
            if ".checkpoint." in path:
                raise OSError("gone")
            super().put_if_absent(path, data)

    log = LogBuilder(StoreThatStops())
    log.commit(0, [V2, metadata(configuration=V2_POLICY), add("a")])
    with pytest.raises(OSError, match="gone"):
        write_checkpoint(load_snapshot(log.store))
    assert any("_sidecars" in path for path in log.store.objects)
    assert live_keys(load_snapshot(log.store)) == {("a", None)}
    assert "_delta_log/_last_checkpoint" not in log.store.objects


# --- beside others ----------------------------------------------------------------------------------------------------


def test_version_with_a_checkpoint_in_parts_gets_no_second_one_beside_it(tmp_path):
    """A hint that speaks of parts, and one file beside them: readers that trust the hint could not open the table."""
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).file([{"id": 1}]).commit()
    table = builder.checkpoint("multipart", parts=2).path
    before = sorted(file.name for file in (table / "_delta_log").iterdir())
    result = write_checkpoint(load_snapshot(open_store(str(table))))
    assert (result.is_new, len(result.files), result.num_add_files) == (False, 2, 1)
    assert sorted(file.name for file in (table / "_delta_log").iterdir()) == before
    assert json.loads((table / "_delta_log" / "_last_checkpoint").read_text())["parts"] == 2


@pytest.mark.parametrize("configuration", [{}, V2_POLICY], ids=["classic", "v2"])
def test_checkpoint_whose_writer_died_before_the_hint_gets_its_hint_from_the_next(configuration):
    log = table_of(add("a"), head=V2, configuration=configuration)
    write_checkpoint(load_snapshot(log.store), now_ms=NOW_MS)
    hint = json.loads(log.store.objects.pop("_delta_log/_last_checkpoint"))
    names = set(log.store.objects)
    assert not write_checkpoint(load_snapshot(log.store), now_ms=NOW_MS).is_new
    assert set(log.store.objects) - names == {"_delta_log/_last_checkpoint"}
    again = json.loads(log.store.objects["_delta_log/_last_checkpoint"])
    assert (again["version"], again.get("v2Checkpoint")) == (hint["version"], hint.get("v2Checkpoint"))


def test_checkpoint_of_another_writer_is_never_overwritten():
    log = table_of(add("a"))
    snapshot = load_snapshot(log.store)
    log.store.objects[CLASSIC] = b"theirs"
    log.store.times[CLASSIC] = 1
    result = write_checkpoint(snapshot, now_ms=NOW_MS)
    assert not result.is_new
    assert log.store.objects[CLASSIC] == b"theirs"
    assert "_delta_log/_last_checkpoint" not in log.store.objects


def hint_of(store):
    return json.loads(store.objects["_delta_log/_last_checkpoint"])


def test_hint_describes_a_classic_checkpoint():
    log = table_of(add("a"))
    result, _ = written(log)
    hint = hint_of(log.store)
    checksum = hint.pop("checksum")
    assert hint == {"version": 1, "size": 3, "sizeInBytes": result.size_in_bytes, "numOfAddFiles": 1}
    assert checksum == json_checksum(hint)


def test_hint_names_the_file_of_a_v2_checkpoint():
    log = table_of(add("a"), head=V2, configuration=V2_POLICY)
    result, _ = written(log)
    top = result.files[-1]
    assert hint_of(log.store)["v2Checkpoint"] == {
        "path": top.removeprefix("_delta_log/"),
        "sizeInBytes": len(log.store.objects[top]),
        "modificationTime": log.store.times[top],
    }


def test_hint_never_moves_back():
    log = table_of(add("a"))
    log.commit(2, [add("b")])
    older, newer = load_snapshot(log.store, version=1), load_snapshot(log.store)
    write_checkpoint(newer, now_ms=NOW_MS)
    write_checkpoint(older, now_ms=NOW_MS)
    assert hint_of(log.store)["version"] == 2


def test_hint_of_an_older_table_at_this_place_is_replaced():
    log = table_of(add("a"))
    log.last_checkpoint(99)
    written(log)
    assert hint_of(log.store)["version"] == 1


def test_unreadable_hint_is_replaced():
    log = table_of(add("a"))
    log.raw("_last_checkpoint", b"{torn")
    written(log)
    assert hint_of(log.store)["version"] == 1


def test_hint_checksum_is_the_protocols_own_example():
    nested = {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}
    assert json_checksum({"k0": "'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1": nested}) == (
        "6a92d155a59bf2eecbd4b4ec7fd1f875"
    )


def test_hint_says_whether_it_was_written():
    store = MemoryStore()
    assert write_last_checkpoint(store, {"version": 3, "size": 1})
    LogBuilder(store).commit(3, [add("a")])
    assert not write_last_checkpoint(store, {"version": 3, "size": 1})


def test_large_table_becomes_row_groups_that_can_be_skipped():
    log = table_of(*(add(f"f{number}") for number in range(10)))
    written(log)
    file = pq.ParquetFile(io.BytesIO(log.store.objects[CLASSIC]))
    groups = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    assert groups == [2, 10]
    assert b"ARROW:schema" not in (file.metadata.metadata or {})


def test_file_reads_back_with_plain_pyarrow_types():
    log = table_of(add("a", stats=STATS))
    written(log)
    schema = pq.read_schema(io.BytesIO(log.store.objects[CLASSIC]))
    assert schema.names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    vector_type = schema.field("add").type.field("deletionVector").type
    assert [(field.name, field.type) for field in vector_type] == [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
