"""Are checkpoints of every layout that other writers use read alike?"""

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from tests.support.log_builder import (
    CHECKPOINT_SCHEMA,
    LogBuilder,
    add,
    checkpoint_table,
    domain,
    live_keys,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)

from ebbtide.errors import CorruptTableError
from ebbtide.log import load_snapshot
from ebbtide.log.parquet_source import _WHOLE_READ_BYTES

HEAD = [protocol(), metadata(partitions=["p"])]
FILE = add("a", dv=vector(), partition={"p": "x", "q": None}, stats='{"numRecords":3}', tags={"k": "v"}, baseRowId=5)


def with_struct(table, action, **children):
    """The table with children of one action's struct replaced or added (a type casts, None drops, an array is put in)."""
    struct = table.column(action).combine_chunks()
    fields = {field.name: struct.field(position) for position, field in enumerate(struct.type)}
    for name, child in children.items():
        if child is None:
            del fields[name]
        elif isinstance(child, pa.DataType):
            fields[name] = fields[name].cast(child)
        else:
            fields[name] = child
    changed = pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=struct.is_null())
    return table.set_column(table.schema.get_field_index(action), action, changed)


def snapshot_of(table, **options):
    log = LogBuilder()
    log.checkpoint_of(4, table, **options)
    return load_snapshot(log.store)


def test_checkpoint_and_commits_give_the_same_state():
    actions = [*HEAD, FILE, add("b"), remove("c", dv=vector(offset=9)), txn("app", 3), domain("d", "x")]
    log = LogBuilder()
    log.commit(0, actions)
    from_commits = load_snapshot(log.store)
    from_checkpoint = snapshot_of(checkpoint_table(actions))
    assert from_checkpoint.files.to_pylist() == from_commits.files.to_pylist()
    assert from_checkpoint.tombstones().to_pylist() == from_commits.tombstones().to_pylist()
    for field in ("protocol", "metadata", "transactions", "domain_metadata"):
        assert getattr(from_checkpoint, field) == getattr(from_commits, field)


def test_widths_and_string_kinds_do_not_matter():
    table = with_struct(
        checkpoint_table([*HEAD, FILE]),
        "add",
        path=pa.large_string(),
        size=pa.int32(),
        stats=pa.dictionary(pa.int32(), pa.string()),
        modificationTime=pa.int16(),
        partitionValues=pa.map_(pa.large_string(), pa.large_string()),
    )
    assert snapshot_of(table).files.to_pylist() == snapshot_of(checkpoint_table([*HEAD, FILE])).files.to_pylist()


def test_integers_of_a_vector_may_be_wider():
    table = checkpoint_table([*HEAD, FILE])
    wide = pa.struct(
        {
            "cardinality": pa.int64(),
            "offset": pa.int64(),
            "pathOrInlineDv": pa.large_string(),
            "sizeInBytes": pa.int64(),
            "storageType": pa.string(),
            "maxRowIndex": pa.int64(),
        }
    )
    vectors = pa.array([None, None, {**FILE["add"]["deletionVector"], "maxRowIndex": None}], wide)
    assert live_keys(snapshot_of(with_struct(table, "add", deletionVector=vectors))) == live_keys(snapshot_of(table))


def test_vector_of_nulls_is_no_vector():
    table = checkpoint_table([*HEAD, add("a")])
    vectors = pa.array(
        [None, None, dict.fromkeys(vector())], table.schema.field("add").type.field("deletionVector").type
    )
    assert live_keys(snapshot_of(with_struct(table, "add", deletionVector=vectors))) == {("a", None)}


def test_vector_without_its_kind_is_corrupt():
    table = checkpoint_table([*HEAD, add("a")])
    vectors = pa.array(
        [None, None, {**vector(), "storageType": None}], table.schema.field("add").type.field("deletionVector").type
    )
    with pytest.raises(CorruptTableError, match="storageType"):
        snapshot_of(with_struct(table, "add", deletionVector=vectors))


def test_map_written_as_a_list_of_pairs_is_read():
    pairs = pa.list_(pa.struct({"key": pa.string(), "value": pa.string()}))
    values = pa.array([None, None, [{"key": "p", "value": "x"}]], pairs)
    table = with_struct(checkpoint_table([*HEAD, FILE]), "add", partitionValues=values)
    (file,) = snapshot_of(table).add_files()
    assert file.partition_values == {"p": "x"}


def test_optional_columns_may_be_missing():
    table = with_struct(
        checkpoint_table([*HEAD, add("a")]),
        "add",
        stats=None,
        tags=None,
        deletionVector=None,
        baseRowId=None,
        modificationTime=None,
        dataChange=None,
    ).drop_columns(["txn", "remove", "domainMetadata", "checkpointMetadata", "sidecar"])
    snapshot = snapshot_of(table)
    assert live_keys(snapshot) == {("a", None)}
    assert snapshot.tombstones().num_rows == 0


def test_extra_columns_are_ignored():
    table = checkpoint_table([*HEAD, add("a")])
    table = with_struct(table, "add", extra=pa.array([None, None, 1])).append_column("future", pa.array([1, 2, 3]))
    assert live_keys(snapshot_of(table)) == {("a", None)}


def test_actions_of_nulls_are_absent_actions():
    table = checkpoint_table([*HEAD, add("a")])
    fields = list(table.schema.field("txn").type)
    not_null = pa.StructArray.from_arrays([pa.nulls(table.num_rows, field.type) for field in fields], fields=fields)
    table = table.set_column(table.schema.get_field_index("txn"), "txn", not_null)
    assert snapshot_of(table).transactions == {}


def test_rows_in_any_order_and_many_row_groups_are_read():
    actions = [add("0"), remove("x"), protocol(), add("1"), txn("app", 1), add("2"), metadata(), add("3")]
    snapshot = snapshot_of(checkpoint_table(actions), row_group_size=3)
    assert live_keys(snapshot) == {(str(number), None) for number in range(4)}
    assert snapshot.tombstones().column("path").to_pylist() == ["x"]


@pytest.mark.parametrize("missing", ["path", "size", "partitionValues"])
def test_required_column_missing_is_corrupt(missing):
    with pytest.raises(CorruptTableError, match=missing):
        snapshot_of(with_struct(checkpoint_table([*HEAD, add("a")]), "add", **{missing: None}))


@pytest.mark.parametrize("file", [add("", size=1), add("a", size=-1)], ids=["empty path", "negative size"])
def test_impossible_file_is_corrupt(file):
    with pytest.raises(CorruptTableError):
        snapshot_of(checkpoint_table([*HEAD, file]))


def test_file_without_its_path_is_corrupt_and_not_left_out():
    lost = {"add": {"partitionValues": {}, "size": 5}}
    with pytest.raises(CorruptTableError, match="path"):
        snapshot_of(checkpoint_table([*HEAD, add("a"), lost]))


def test_column_that_is_no_struct_is_corrupt():
    table = checkpoint_table([*HEAD, add("a")])
    table = table.set_column(table.schema.get_field_index("add"), "add", pa.array([1, 2, 3]))
    with pytest.raises(CorruptTableError, match="not a struct"):
        snapshot_of(table)


def test_column_of_the_wrong_type_is_corrupt():
    values = pa.array([None, None, "many"])
    with pytest.raises(CorruptTableError):
        snapshot_of(with_struct(checkpoint_table([*HEAD, add("a")]), "add", size=values))


def test_text_that_is_not_utf8_is_corrupt():
    good = checkpoint_table([*HEAD, add("a_path_to_break")])
    log = LogBuilder()
    (name,) = log.checkpoint_of(4, good, compression="none", use_dictionary=False)
    log.store.objects[name] = log.store.objects[name].replace(b"a_path_to_break", b"a_path_to_\xff\xfe\xfdak")
    with pytest.raises(CorruptTableError):
        load_snapshot(log.store)


def test_checkpoint_too_large_for_one_read_is_read_by_ranges(monkeypatch):
    log = LogBuilder()
    log.checkpoint(4, [*HEAD, *(add(f"{number}") for number in range(50)), remove("x")])
    monkeypatch.setattr("ebbtide.log.parquet_source._WHOLE_READ_BYTES", 10)
    assert _WHOLE_READ_BYTES > 10
    snapshot = load_snapshot(log.store)
    assert snapshot.num_files == 50
    assert snapshot.tombstones().num_rows == 1


def test_classic_name_may_hold_a_v2_checkpoint_with_sidecars():
    log = LogBuilder()
    sidecar = log.sidecar([add("a"), remove("b")])
    log.checkpoint(4, [{"checkpointMetadata": {"version": 4}}, *HEAD, {"sidecar": sidecar}])
    snapshot = load_snapshot(log.store)
    assert live_keys(snapshot) == {("a", None)}
    assert snapshot.tombstones().num_rows == 1


def test_sidecar_may_be_named_by_its_full_url():
    log = LogBuilder()
    sidecar = log.sidecar([add("a")])
    sidecar["path"] = f"{log.store.url}/_delta_log/_sidecars/{sidecar['path']}"
    log.v2_checkpoint(4, [*HEAD, {"sidecar": sidecar}])
    assert live_keys(load_snapshot(log.store)) == {("a", None)}


class TestParsedStatistics:
    PARSED = pa.struct(
        {
            "numRecords": pa.int64(),
            "minValues": pa.struct(
                {
                    "i": pa.int32(),
                    "d": pa.date32(),
                    "t": pa.timestamp("us", "UTC"),
                    "n": pa.timestamp("us"),
                    "s": pa.string(),
                    "f": pa.float64(),
                    "m": pa.decimal128(20, 2),
                    "o": pa.struct({"x": pa.int64()}),
                    "b": pa.binary(),
                }
            ),
            "nullCount": pa.struct({"i": pa.int64(), "o": pa.struct({"x": pa.int64()})}),
            "tightBounds": pa.bool_(),
        }
    )
    VALUE = {  # noqa: RUF012
        "numRecords": 3,
        "minValues": {
            "i": -1,
            "d": dt.date(2024, 2, 29),
            "t": dt.datetime(2024, 2, 29, 12, 0, 0, 123456),
            "n": dt.datetime(2024, 2, 29),
            "s": 'quote " back \\ line \n é',
            "f": 0.5,
            "m": decimal.Decimal("123456789012345678.90"),
            "o": {"x": 7},
            "b": b"\x00",
        },
        "nullCount": {"i": 0, "o": {"x": 1}},
        "tightBounds": False,
    }

    def stats(self, value, *, stats=None, drop_stats=True):
        table = checkpoint_table([*HEAD, add("a", stats=stats) if stats else add("a")])
        parsed = pa.array([None, None, value], self.PARSED)
        children = {"stats_parsed": parsed, **({"stats": None} if drop_stats else {})}
        (file,) = snapshot_of(with_struct(table, "add", **children)).add_files()
        return file.stats

    def test_struct_becomes_json_by_the_conventions_of_delta(self):
        text = self.stats(self.VALUE)
        assert '"m":123456789012345678.90' in text
        assert json.loads(text) == {
            "numRecords": 3,
            "minValues": {
                "i": -1,
                "d": "2024-02-29",
                "t": "2024-02-29T12:00:00.123456Z",
                "n": "2024-02-29T00:00:00.000000",
                "s": 'quote " back \\ line \n é',
                "f": 0.5,
                "m": 123456789012345678.90,
                "o": {"x": 7},
            },
            "nullCount": {"i": 0, "o": {"x": 1}},
            "tightBounds": False,
        }

    def test_struct_serves_when_the_json_column_is_null(self):
        assert json.loads(self.stats(self.VALUE, drop_stats=False))["numRecords"] == 3

    def test_json_is_preferred_to_the_struct(self):
        assert self.stats(self.VALUE, stats='{"numRecords":8}', drop_stats=False) == '{"numRecords":8}'

    def test_nulls_and_numbers_that_json_lacks_are_left_out(self):
        value = {"numRecords": None, "minValues": {"i": None, "f": float("nan"), "s": None}, "tightBounds": None}
        assert json.loads(self.stats(value)) == {"minValues": {}}

    def test_absent_struct_is_no_statistics(self):
        assert self.stats(None) is None

    @pytest.mark.parametrize("days", [2**31 - 1, -(2**31)])
    def test_date_beyond_the_calendar_is_an_unknown_bound(self, days):
        parsed = pa.struct({"minValues": pa.struct({"d": pa.date32()})})
        values = pa.array([None, None, {"minValues": {"d": None}}], parsed)
        dates = pa.array([None, None, days], pa.date32())
        minimum = pa.StructArray.from_arrays([dates], names=["d"], mask=pa.array([True, True, False]))
        values = pa.StructArray.from_arrays([minimum], names=["minValues"], mask=pa.array([True, True, False]))
        table = with_struct(checkpoint_table([*HEAD, add("a")]), "add", stats=None, stats_parsed=values)
        (file,) = snapshot_of(table).add_files()
        assert json.loads(file.stats) == {"minValues": {}}


def test_partition_values_are_rebuilt_from_their_struct_when_only_that_exists():
    parsed = pa.struct({"p": pa.int32(), "d": pa.date32(), "t": pa.timestamp("us", "UTC")})
    value = {"p": 5, "d": dt.date(2024, 1, 2), "t": dt.datetime(2024, 1, 2, 3, 4, 5)}
    table = with_struct(
        checkpoint_table([*HEAD, add("a"), add("b")]),
        "add",
        partitionValues=None,
        partitionValues_parsed=pa.array([None, None, value, dict.fromkeys(value)], parsed),
    )
    first, second = snapshot_of(table).add_files()
    assert first.partition_values == {"p": "5", "d": "2024-01-02", "t": "2024-01-02T03:04:05.000000Z"}
    assert second.partition_values == {"p": None, "d": None, "t": None}


def test_schema_of_the_builder_names_every_small_action():
    assert set(CHECKPOINT_SCHEMA.names) >= {"protocol", "metaData", "txn", "domainMetadata", "sidecar"}
