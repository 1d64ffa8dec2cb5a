"""Are the tables that `TableBuilder` makes real Delta tables? Another engine, `deltalake`, has to read what they must show."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.support.checkpoint_files import CHECKPOINT_KINDS
from tests.support.comparison import assert_same_rows
from tests.support.table_builder import TableBuilder, deltalake_table

UTC = dt.timezone.utc
INSTANT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "part": pa.string(),
        "place": pa.struct({"street name": pa.string(), "seen": pa.timestamp("us", "UTC")}),
        "tags": pa.list_(pa.struct({"tag": pa.string()})),
        "prices": pa.map_(pa.string(), pa.struct({"price": pa.decimal128(38, 10)})),
    }
)


def row(number, part):
    return {
        "id": number,
        "part": part,
        "place": None if number % 5 == 4 else {"street name": f"street {number}", "seen": INSTANT},
        "tags": None if number % 3 == 0 else [{"tag": str(number)}, None],
        "prices": [("now", {"price": Decimal(number)}), ("never", None)],
    }


def read_with_deltalake(path, version=None):
    table = DeltaTable(path, version=version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


def partitioned_table(path, *, vector="u", prefix="", share=False, mapping=None):
    """Two versions: vectors from the start, then one that grows."""
    builder = TableBuilder(path, SCHEMA).partitioned_by("part").deletion_vectors(share_a_file=share)
    builder.feature("v2Checkpoint")
    if mapping:
        builder.column_mapping(mapping)
    how = {"vector": vector, "vector_prefix": prefix}
    builder.file([row(number, "a/b=c d%#é") for number in range(20)], deleted=[0, 3, 19], row_group_size=4, **how)
    builder.file([row(number, None) for number in range(100, 130)], deleted=[5], **how).commit()
    return builder.mark(builder.files[0], [1, 2], **how).file([row(1000, "z")]).commit()


@pytest.mark.parametrize("mapping", [None, "name", "id"])
@pytest.mark.parametrize(
    ("vector", "prefix", "share"),
    [("u", "", False), ("u", "ab", False), ("u", "", True), ("i", "", False), ("p", "", True)],
)
def test_vectors_of_every_kind_hide_exactly_the_deleted_rows(tmp_path, vector, prefix, share, mapping):
    builder = partitioned_table(tmp_path / "t", vector=vector, prefix=prefix, share=share, mapping=mapping)
    for version in (0, 1):
        assert_same_rows(read_with_deltalake(builder.path, version), builder.expected(version))
    assert {each["id"] for each in builder.rows(0)} - {each["id"] for each in builder.rows(1)} == {1, 2}


@pytest.mark.parametrize("hint", [True, False])
@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
def test_state_of_every_kind_of_checkpoint_is_enough_without_the_commits(tmp_path, kind, hint):
    builder = partitioned_table(tmp_path / "t").checkpoint(kind, parts=3, sidecars=2, hint=hint)
    builder.remove(builder.files[0]).commit().clean_commits(before=1)
    assert_same_rows(read_with_deltalake(builder.path), builder.expected())


def test_compacted_commits_hold_the_newest_action_of_each_file_and_vector(tmp_path):
    builder = partitioned_table(tmp_path / "t")
    builder.compact(0, 1)
    (compacted,) = builder.log.glob("*.compacted.json")
    actions = [json.loads(line) for line in compacted.read_text(encoding="utf-8").splitlines()]
    assert sorted(action["add"]["path"] for action in actions if "add" in action) == sorted(
        file.add["path"] for file in builder.files
    )
    (removed,) = [action["remove"] for action in actions if "remove" in action]
    assert removed["deletionVector"]["cardinality"] == 3
    assert removed["path"] in {file.add["path"] for file in builder.files}


def test_partition_values_of_every_type_come_back(tmp_path):
    schema = pa.schema(
        {
            "v": pa.int32(),
            "boolean": pa.bool_(),
            "byte": pa.int8(),
            "float": pa.float32(),
            "double": pa.float64(),
            "decimal": pa.decimal128(10, 2),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", "UTC"),
            "ntz": pa.timestamp("us"),
            "string": pa.string(),
        }
    )
    partitions = schema.names[1:]
    builder = TableBuilder(tmp_path / "t", schema).partitioned_by(*partitions).feature("timestampNtz")
    values = (1, True, -3, 1.5, -2.25, Decimal("1.20"), INSTANT.date(), INSTANT, INSTANT.replace(tzinfo=None), "")
    builder.file([dict(zip(schema.names, values, strict=True))])
    builder.file([{"v": 2} | dict.fromkeys(partitions)]).commit()
    assert_same_rows(read_with_deltalake(builder.path), builder.expected())
    assert {each["string"] for each in builder.rows()} == {None}


def test_column_added_later_is_null_in_older_files(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"a": pa.int32()})).column_mapping("name")
    builder.file([{"a": 1}]).commit()
    builder.schema(pa.schema({"b": pa.string(), "a": pa.int32()})).file([{"a": 2, "b": "x"}]).commit()
    assert builder.rows() == [{"b": None, "a": 1}, {"b": "x", "a": 2}]
    assert_same_rows(read_with_deltalake(builder.path), builder.expected())


def test_change_feed_row_tracking_and_commit_timestamps_are_in_the_log(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"a": pa.int32()}))
    builder.change_data_feed().row_tracking().in_commit_timestamps()
    builder.file([{"a": 1}, {"a": 2}]).commit(timestamp_ms=1_000)
    builder.file([{"a": 3}]).transaction("app", 7)
    builder.change_file([{"a": 3, "_change_type": "insert"}]).commit(timestamp_ms=2_000)
    feed = pa.table(DeltaTable(builder.path).load_cdf(starting_version=1).read_all())
    assert feed.select(["a", "_change_type"]).to_pylist() == [{"a": 3, "_change_type": "insert"}]
    second = [json.loads(line) for line in (builder.log / f"{1:020d}.json").read_text().splitlines()]
    assert second[0]["commitInfo"]["inCommitTimestamp"] == 2_000
    assert [action["add"]["baseRowId"] for action in second if "add" in action] == [2]
    assert {"txn": {"appId": "app", "version": 7}} in second


def test_statistics_are_those_of_the_rows(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"n": pa.float64(), "s": pa.string(), "d": pa.decimal128(38, 18)}))
    rows = [{"n": 1.5, "s": "é" * 40, "d": Decimal("0.123456789012345678")}, {"n": None, "s": "b", "d": None}]
    builder.file(rows).file([{"n": float("nan"), "s": None, "d": None}]).commit()
    text = builder.files[0].add["stats"]
    bounded = json.loads(text, parse_float=Decimal)
    assert bounded["minValues"] == {"n": Decimal("1.5"), "s": "b", "d": Decimal("0.123456789012345678")}
    assert bounded["maxValues"] == {"n": Decimal("1.5"), "d": Decimal("0.123456789012345678")}
    assert bounded["nullCount"] == {"n": 1, "s": 0, "d": 1}
    assert bounded["tightBounds"] is True
    assert json.loads(builder.files[1].add["stats"])["minValues"] == {}


def test_table_of_the_other_engine_is_written_where_asked(tmp_path):
    path = deltalake_table(tmp_path / "t", pa.table({"a": [1, 2]}))
    deltalake_table(path, pa.table({"a": [3]}), mode="append")
    assert_same_rows(read_with_deltalake(path), pa.table({"a": [3, 2, 1]}))
