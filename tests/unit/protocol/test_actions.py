"""The actions of the log: read leniently, written strictly, broken input always a typed error."""

import orjson
import pytest

from ebbtide.errors import CorruptDeletionVectorError, CorruptTableError, DeltaError, RequestError
from ebbtide.protocol.actions import (
    AddCDCFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
    parse_action,
    parse_commit,
    serialize_actions,
)
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor

LIMIT = 1 << 20
VECTOR = DeletionVectorDescriptor(
    storage_type="u", path_or_inline_dv="vBn[lx{q8@P<9BNH/isA", offset=1, size_in_bytes=36, cardinality=2
)
VECTOR_JSON = '{"storageType":"u","pathOrInlineDv":"vBn[lx{q8@P<9BNH/isA","offset":1,"sizeInBytes":36,"cardinality":2}'
ADD = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}


def parse(data: bytes):
    return parse_commit(data, source="00000000000000000003.json", max_line_bytes=LIMIT)


GOLDEN_LINES = [
    (
        AddFile(
            path="p=a%20b/x.parquet",
            partition_values={"p": "a b", "q": None},
            size=10,
            modification_time=11,
            data_change=True,
            stats='{"numRecords":3}',
            tags={"t": "1"},
            deletion_vector=VECTOR,
            base_row_id=4,
            default_row_commit_version=5,
            clustering_provider="liquid",
        ),
        '{"add":{"path":"p=a%20b/x.parquet","partitionValues":{"p":"a b","q":null},"size":10,"modificationTime":11,'
        '"dataChange":true,"stats":"{\\"numRecords\\":3}","tags":{"t":"1"},"deletionVector":' + VECTOR_JSON + ","
        '"baseRowId":4,"defaultRowCommitVersion":5,"clusteringProvider":"liquid"}}',
    ),
    (
        AddFile("a", {}, 0, 0, False),
        '{"add":{"path":"a","partitionValues":{},"size":0,"modificationTime":0,"dataChange":false}}',
    ),
    (
        RemoveFile(
            path="a",
            deletion_timestamp=7,
            data_change=True,
            extended_file_metadata=True,
            partition_values={"p": None},
            size=10,
            stats='{"numRecords":3}',
            tags={"t": "1"},
            deletion_vector=VECTOR,
            base_row_id=4,
            default_row_commit_version=5,
        ),
        '{"remove":{"path":"a","deletionTimestamp":7,"dataChange":true,"extendedFileMetadata":true,'
        '"partitionValues":{"p":null},"size":10,"tags":{"t":"1"},"deletionVector":' + VECTOR_JSON + ","
        '"baseRowId":4,"defaultRowCommitVersion":5,"stats":"{\\"numRecords\\":3}"}}',
    ),
    (RemoveFile("a", None, False), '{"remove":{"path":"a","dataChange":false}}'),
    (
        AddCDCFile("_change_data/x", {"p": "1"}, 3, {"t": "1"}),
        '{"cdc":{"path":"_change_data/x","partitionValues":{"p":"1"},"size":3,"dataChange":false,"tags":{"t":"1"}}}',
    ),
    (
        Metadata("i", "{}", ("p",), {"k": "v"}, "n", "d", "parquet", {"o": "1"}, 9),
        (
            '{"metaData":{"id":"i","name":"n","description":"d","format":{"provider":"parquet","options":{"o":"1"}},'
            '"schemaString":"{}","partitionColumns":["p"],"configuration":{"k":"v"},"createdTime":9}}'
        ),
    ),
    (
        Metadata("i", "{}", (), {}),
        (
            '{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}",'
            '"partitionColumns":[],"configuration":{}}}'
        ),
    ),
    (Protocol(1, 2), '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'),
    (
        Protocol(3, 7, frozenset({"b", "a"}), frozenset()),
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a","b"],"writerFeatures":[]}}',
    ),
    (SetTransaction("app", 3, 4), '{"txn":{"appId":"app","version":3,"lastUpdated":4}}'),
    (SetTransaction("app", 3), '{"txn":{"appId":"app","version":3}}'),
    (
        DomainMetadata("delta.rowTracking", '{"x":1}', False),
        '{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\\"x\\":1}","removed":false}}',
    ),
    (
        CommitInfo({"timestamp": 5, "operation": "DELETE", "operationParameters": {"predicate": '["a"]'}}),
        '{"commitInfo":{"timestamp":5,"operation":"DELETE","operationParameters":{"predicate":"[\\"a\\"]"}}}',
    ),
    (CheckpointMetadata(3, {"a": "b"}), '{"checkpointMetadata":{"version":3,"tags":{"a":"b"}}}'),
    (Sidecar("u.parquet", 4, 5), '{"sidecar":{"path":"u.parquet","sizeInBytes":4,"modificationTime":5}}'),
]


@pytest.mark.parametrize(("action", "line"), GOLDEN_LINES, ids=lambda value: type(value).__name__)
def test_each_action_is_written_in_the_order_of_the_reference_and_reads_back(action, line):
    assert serialize_actions([action]) == line.encode() + b"\n"
    assert parse(line.encode()) == [action]


def test_the_actions_of_a_commit_keep_their_order_and_blank_lines_are_ignored():
    data = b'\n{"txn":{"appId":"b","version":1}}\r\n  \t\n{"txn":{"appId":"a","version":1}}'
    assert [action.app_id for action in parse(data)] == ["b", "a"]


def test_unknown_actions_and_unknown_fields_are_ignored():
    assert parse(b'{"futureAction":{"x":1}}\n{}\n{"add":null}') == []
    assert parse_action({"txn": {"appId": "a", "version": 1, "future": {"x": [1]}}}) == SetTransaction("a", 1)


def test_null_means_absent_and_the_last_of_two_equal_keys_counts():
    line = b'{"add":{"path":"a","path":"b","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true,"stats":null,"tags":null,"deletionVector":null,"baseRowId":null},"remove":null}'
    assert parse(line) == [AddFile("b", {}, 1, 2, True)]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("size", "12", 12),
        ("size", 12.0, 12),
        ("modificationTime", "-3", -3),
        ("modificationTime", None, 0),
        ("baseRowId", "9223372036854775807", 2**63 - 1),
    ],
)
def test_integers_in_another_spelling_are_read_where_nothing_is_lost(field, value, expected):
    action = parse_action({"add": {**ADD, field: value}})
    attribute = {"size": "size", "modificationTime": "modification_time", "baseRowId": "base_row_id"}[field]
    assert getattr(action, attribute) == expected


def test_a_missing_data_change_counts_as_a_change():
    fields = {key: value for key, value in ADD.items() if key != "dataChange"}
    assert parse_action({"add": fields}).data_change is True
    assert parse_action({"remove": {"path": "a"}}).data_change is True


def test_scalar_partition_values_read_as_text_and_null_tags_as_absent():
    action = parse_action({"add": {**ADD, "partitionValues": {"i": 1, "b": True, "n": None}, "tags": {"x": None}}})
    assert action.partition_values == {"i": "1", "b": "true", "n": None}
    assert action.tags == {}


def test_maps_of_a_parquet_row_are_accepted_as_pairs():
    action = parse_action({"add": {**ADD, "partitionValues": [("p", "1"), ("q", None)], "tags": []}})
    assert action.partition_values == {"p": "1", "q": None}


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({"add": {**ADD, "path": None}}, "path"),
        ({"add": {**ADD, "path": ""}}, "path"),
        ({"add": {**ADD, "path": 3}}, "path"),
        ({"add": {**ADD, "partitionValues": None}}, "partitionValues"),
        ({"add": {**ADD, "partitionValues": [1]}}, "partitionValues"),
        ({"add": {**ADD, "partitionValues": {"p": 1.5}}}, "partitionValues.p"),
        ({"add": {**ADD, "partitionValues": {"p": {}}}}, "partitionValues.p"),
        ({"add": {**ADD, "size": None}}, "size"),
        ({"add": {**ADD, "size": -1}}, "size"),
        ({"add": {**ADD, "size": 1.5}}, "size"),
        ({"add": {**ADD, "size": 1e300}}, "size"),
        ({"add": {**ADD, "size": 2.0**60}}, "size"),
        ({"add": {**ADD, "size": True}}, "size"),
        ({"add": {**ADD, "size": "0x10"}}, "size"),
        ({"add": {**ADD, "size": "١"}}, "size"),
        ({"add": {**ADD, "size": 2**64 - 1}}, "size"),
        ({"add": {**ADD, "dataChange": "true"}}, "dataChange"),
        ({"add": {**ADD, "stats": {"numRecords": 1}}}, "stats"),
        ({"add": {**ADD, "tags": "x"}}, "tags"),
        ({"add": {**ADD, "deletionVector": "x"}}, "deletionVector"),
        ({"remove": {"path": "a", "deletionTimestamp": "soon"}}, "deletionTimestamp"),
        ({"remove": {"path": "a", "extendedFileMetadata": 1}}, "extendedFileMetadata"),
        ({"cdc": {"path": "a", "size": 1}}, "partitionValues"),
        ({"metaData": {"id": "i"}}, "schemaString"),
        ({"metaData": {"id": "i", "schemaString": "{}", "partitionColumns": "p"}}, "partitionColumns"),
        ({"metaData": {"id": "i", "schemaString": "{}", "partitionColumns": [1]}}, "partitionColumns"),
        ({"metaData": {"id": "i", "schemaString": "{}", "configuration": "x"}}, "configuration"),
        ({"metaData": {"id": "i", "schemaString": "{}", "format": "parquet"}}, "format"),
        ({"protocol": {"minReaderVersion": 1}}, "minWriterVersion"),
        ({"protocol": {"minReaderVersion": -1, "minWriterVersion": 2}}, "minReaderVersion"),
        ({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": {"a": 1}}}, "readerFeatures"),
        ({"txn": {"appId": "a"}}, "version"),
        ({"domainMetadata": {"configuration": "x"}}, "domain"),
        ({"checkpointMetadata": {"version": -1}}, "version"),
        ({"sidecar": {"path": "x"}}, "sizeInBytes"),
        ({"commitInfo": [1]}, "commitInfo"),
        ({"add": "text"}, "add"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name_and_source(obj, field):
    with pytest.raises(CorruptTableError) as caught:
        parse_action(obj, source="line 1 of x.json")
    assert field in str(caught.value)
    assert next(iter(obj)) in str(caught.value)
    assert "line 1 of x.json" in str(caught.value)


def test_a_broken_deletion_vector_keeps_its_error_class_and_gains_its_place():
    obj = {
        "add": {**ADD, "deletionVector": {"storageType": "x", "pathOrInlineDv": "", "sizeInBytes": 1, "cardinality": 1}}
    }
    with pytest.raises(CorruptDeletionVectorError, match="'add' in line 4") as caught:
        parse_action(obj, source="line 4")
    assert caught.value.error_class == "DELTA_CANNOT_RECONSTRUCT_PATH_FROM_URI"
    assert str(caught.value).count("DELTA_CANNOT_RECONSTRUCT_PATH_FROM_URI") == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"add":{"path":"a","partitionValues":{},"size":1,',
        b"[1]",
        b"1",
        b"null",
        b'"add"',
        b'{"txn":{"appId":"\xff","version":1}}',
        b"\x00\x01\x02",
        b'{"commitInfo":' * 2000 + b"1" + b"}" * 2000,
        b'{"commitInfo":' + b"[" * 1_000_000,
        b'{"txn":{"appId":"a","version":1}}{"txn":{"appId":"b","version":1}}',
        b'{"txn":{"appId":"a","version":NaN}}',
        b'\xef\xbb\xbf{"txn":{"appId":"a","version":1}}',
    ],
    ids=["truncated", "array", "number", "null", "string", "utf8", "binary", "deep", "bomb", "two", "nan", "bom"],
)
def test_a_line_that_is_no_json_object_is_a_corrupt_table_with_its_line_number(data):
    with pytest.raises(CorruptTableError, match=r"line 2 of 00000000000000000003\.json"):
        parse(b'{"txn":{"appId":"first","version":1}}\n' + data)


def test_a_line_longer_than_the_limit_is_refused_before_it_is_parsed():
    line = b'{"commitInfo":{"x":"' + b"y" * 100 + b'"}}'
    assert len(parse_commit(line, source="s", max_line_bytes=len(line))) == 1
    with pytest.raises(CorruptTableError, match="max_log_line_bytes"):
        parse_commit(line, source="s", max_line_bytes=len(line) - 1)


def test_two_actions_on_one_line_are_refused_instead_of_one_being_lost():
    with pytest.raises(CorruptTableError, match="add, remove"):
        parse_action({"add": ADD, "remove": {"path": "a"}})


def test_error_messages_show_only_the_beginning_of_a_long_value():
    with pytest.raises(CorruptTableError) as caught:
        parse_action({"add": {**ADD, "size": "x" * 10_000}})
    assert len(str(caught.value)) < 400


def test_removing_a_file_names_the_vector_it_has_now_and_keeps_what_readers_need():
    add = AddFile("a", {"p": "1"}, 5, 6, False, '{"numRecords":1}', {"t": "x"}, VECTOR, 7, 8, "c")
    assert add.remove(99) == RemoveFile(
        "a", 99, True, True, {"p": "1"}, 5, '{"numRecords":1}', {"t": "x"}, VECTOR, 7, 8
    )
    assert add.remove(99, data_change=False).data_change is False


def test_the_key_of_a_logical_file_is_its_path_and_vector():
    assert AddFile("a", {}, 1, 1, True).key == ("a", None)
    assert AddFile("a", {}, 1, 1, True, deletion_vector=VECTOR).key == ("a", VECTOR.unique_id)
    assert RemoveFile("a", 1, True, deletion_vector=VECTOR).key == ("a", "uvBn[lx{q8@P<9BNH/isA@1")


def test_commit_info_reads_known_fields_and_treats_strange_ones_as_unknown():
    info = CommitInfo(
        {
            "timestamp": 5,
            "operation": "DELETE",
            "operationParameters": {"predicate": "[]"},
            "operationMetrics": {"numDeletedRows": "1"},
            "readVersion": 4,
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": "e",
            "txnId": "t",
            "userMetadata": "u",
            "tags": {"a": "b"},
            "inCommitTimestamp": 6,
        }
    )
    assert (info.timestamp, info.operation, info.read_version, info.txn_id) == (5, "DELETE", 4, "t")
    assert (info.isolation_level, info.is_blind_append, info.engine_info) == ("Serializable", False, "e")
    assert (info.user_metadata, info.in_commit_timestamp, info.tags) == ("u", 6, {"a": "b"})
    assert info.operation_parameters == {"predicate": "[]"}
    assert info.operation_metrics == {"numDeletedRows": "1"}
    strange = CommitInfo(
        {"timestamp": "now", "operation": 3, "operationParameters": [], "isBlindAppend": 1, "readVersion": True}
    )
    assert (strange.timestamp, strange.operation, strange.is_blind_append, strange.read_version) == (
        None,
        None,
        None,
        None,
    )
    assert strange.operation_parameters == {}


def test_an_in_commit_timestamp_of_the_wrong_type_is_refused():
    with pytest.raises(CorruptTableError, match="inCommitTimestamp"):
        CommitInfo({"inCommitTimestamp": "soon"}).in_commit_timestamp


def test_absent_commit_info_fields_are_not_written_as_null():
    assert serialize_actions([CommitInfo({"a": None, "b": 1})]) == b'{"commitInfo":{"b":1}}\n'


@pytest.mark.parametrize("value", [object(), "\ud800", 2**70])
def test_what_json_cannot_hold_is_a_request_error(value):
    with pytest.raises(RequestError, match="commitInfo"):
        serialize_actions([CommitInfo({"userMetadata": value})])


def test_nothing_is_written_for_no_actions():
    assert serialize_actions([]) == b""


@pytest.mark.parametrize("position", range(0, 330, 3))
def test_a_commit_cut_at_any_byte_gives_whole_actions_or_a_typed_error(position):
    line = GOLDEN_LINES[0][1].encode()
    try:
        actions = parse(line[:position])
    except DeltaError:
        return
    assert actions == [] or orjson.loads(line[:position])


def test_commit_info_that_nests_too_deep_is_refused():
    line = b'{"commitInfo":{"a":' + b"[" * 300 + b"]" * 300 + b"}}"
    with pytest.raises(CorruptTableError, match="nests more than 100 levels"):
        parse(line)


@pytest.mark.parametrize("data", [b"root:x:0:0:secret", b'"secret"', b"[1, 2]", b'{"secret": '])
def test_error_over_bytes_that_are_no_log_does_not_quote_them(data):
    """A link or an absolute path can make any file of the machine look like a log file."""
    with pytest.raises(CorruptTableError) as caught:
        parse(data)
    assert "secret" not in f"{caught.value}{caught.value.__cause__}"
    assert "00000000000000000003.json" in str(caught.value)
