"""What the protocol room writes it reads back, for any value; what it reads never ends in an untyped error."""

import datetime as dt
import json
import math
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.errors import CorruptTableError, DeltaError
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
from ebbtide.protocol.features import FEATURES, is_feature_supported, supported_features, upgrade_protocol_for
from ebbtide.protocol.log_names import parse_log_name
from ebbtide.protocol.partition_values import (
    escape_path_name,
    parse_partition_value,
    serialize_partition_value,
    to_arrow,
)
from ebbtide.protocol.paths import canonical_path, canonical_paths, decode_path, encode_path, resolve_data_path
from ebbtide.protocol.properties import TableProperties
from ebbtide.protocol.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    leaf_columns,
    parse_schema,
)
from ebbtide.protocol.statistics import FileStatistics, widen

# The machine may be busy: how long one example takes says nothing about the code.
unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
int64 = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
partition_values = st.dictionaries(text, st.none() | text, max_size=3)
tags = st.none() | st.dictionaries(text, text, max_size=3)
vectors = st.none() | st.builds(
    lambda uuid, prefix, offset, size, cardinality: DeletionVectorDescriptor.on_disk_with_relative_path(
        uuid, random_prefix=prefix, offset=offset, size_in_bytes=size, cardinality=cardinality
    ),
    st.uuids(),
    st.text("abc123", max_size=4),
    st.none() | st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    counts,
)
json_values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
optional_int64 = st.none() | int64

actions = st.one_of(
    st.builds(
        AddFile, names, partition_values, counts, int64, st.booleans(), st.none() | text, tags, vectors, optional_int64, optional_int64, st.none() | text
    ),
    st.builds(
        RemoveFile, names, optional_int64, st.booleans(), st.none() | st.booleans(), st.none() | partition_values,
        st.none() | counts, st.none() | text, tags, vectors, optional_int64, optional_int64,
    ),
    st.builds(AddCDCFile, names, partition_values, counts, tags),
    st.builds(
        Metadata, text, text, st.lists(text, max_size=3).map(tuple), st.dictionaries(text, text, max_size=3),
        st.none() | text, st.none() | text, names, st.dictionaries(text, text, max_size=2), optional_int64,
    ),
    st.builds(
        Protocol, st.integers(0, 9), st.integers(0, 9), st.none() | st.frozensets(text, max_size=3), st.none() | st.frozensets(text, max_size=3)
    ),
    st.builds(SetTransaction, text, int64, optional_int64),
    st.builds(DomainMetadata, text, text, st.booleans()),
    st.builds(CommitInfo, st.dictionaries(text, json_values, max_size=4)),
    st.builds(CheckpointMetadata, counts, tags),
    st.builds(Sidecar, names, counts, int64, tags),
)  # fmt: skip


@given(st.lists(actions, max_size=5))
@unhurried
def test_any_actions_read_back_as_they_were_written(written):
    assert parse_commit(serialize_actions(written), source="commit", max_line_bytes=1 << 20) == written


@given(st.lists(actions, min_size=1, max_size=3), st.data())
@unhurried
def test_a_commit_with_changed_bytes_parses_or_is_a_corrupt_table(written, data):
    serialized = bytearray(serialize_actions(written))
    for _ in range(data.draw(st.integers(1, 3))):
        serialized[data.draw(st.integers(0, len(serialized) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_commit(bytes(serialized), source="commit", max_line_bytes=1 << 20)
    except CorruptTableError as error:
        assert "commit" in str(error)


@given(
    st.sampled_from(
        [
            "add",
            "remove",
            "cdc",
            "metaData",
            "protocol",
            "txn",
            "domainMetadata",
            "checkpointMetadata",
            "sidecar",
            "commitInfo",
        ]
    ),
    json_values,
    st.data(),
)
@unhurried
def test_an_action_with_any_json_inside_parses_or_is_a_corrupt_table(key, junk, data):
    fields = {
        field: data.draw(json_values | st.none())
        for field in data.draw(st.lists(st.sampled_from(["path", "size", "partitionValues", "deletionVector", "id", "schemaString", "minReaderVersion", "minWriterVersion", "readerFeatures", "appId", "version", "domain"]), unique=True))
    }  # fmt: skip
    for body in (junk, fields):
        try:
            parse_action({key: body})
        except CorruptTableError:
            continue


primitives = st.sampled_from(
    ["string", "long", "integer", "double", "date", "timestamp_ntz", "variant", "void", "binary"]
).map(PrimitiveType) | st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(
    lambda bounds: bounds[1] <= bounds[0]
).map(lambda bounds: PrimitiveType(f"decimal({bounds[0]},{bounds[1]})"))


def struct_of(types):
    field = st.builds(StructField, text, types, st.booleans(), st.dictionaries(text, json_values, max_size=2))
    return st.lists(field, max_size=4, unique_by=lambda item: item.name.lower()).map(tuple).map(StructType)


schemas = struct_of(
    st.recursive(
        primitives,
        lambda inner: (
            st.builds(ArrayType, inner, st.booleans())
            | st.builds(MapType, inner, inner, st.booleans())
            | struct_of(inner)
        ),
        max_leaves=8,
    )
)


@given(schemas)
@unhurried
def test_any_schema_reads_back_as_it_was_written(schema):
    assert parse_schema(schema.to_schema_string()) == schema
    assert json.loads(schema.to_schema_string()) == schema.to_json()
    assert all(not isinstance(chain[-1].type, StructType) for chain in leaf_columns(schema))


@given(json_values)
@unhurried
def test_any_json_as_a_schema_parses_or_is_a_typed_error(value):
    try:
        parse_schema(json.dumps(value))
    except DeltaError:
        return
    assert isinstance(value, dict)


path_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
TABLE = "s3://bucket/warehouse/a%20table"


@given(path_text)
@unhurried
def test_any_decoded_path_encodes_and_decodes_to_itself(path):
    assert decode_path(encode_path(path)) == path
    assert not any(character.isspace() for character in encode_path(path))


@given(st.lists(path_text.filter(lambda part: part not in {"", ".", ".."} and "/" not in part), min_size=1, max_size=4))
@unhurried
def test_any_file_below_the_table_resolves_to_itself_by_every_spelling(parts):
    relative = "/".join(parts)
    encoded = encode_path(relative)
    assert resolve_data_path(encoded, TABLE).relative_path == relative
    assert canonical_path(f"{TABLE}/./{encoded}", TABLE) == relative
    assert canonical_path(f"s3a://bucket/warehouse/a%20table//{encoded}", TABLE) == relative


@given(st.text(max_size=30))
@unhurried
def test_any_path_resolves_inside_the_store_or_is_a_typed_error(path):
    try:
        location = resolve_data_path(path, TABLE)
    except DeltaError:
        return
    if location.relative_path is not None:
        assert not {"", ".", ".."} & set(location.relative_path.split("/"))
    else:
        assert location.absolute_url.startswith("s3://bucket/")


@given(st.lists(path_text, max_size=6))
@unhurried
def test_a_column_of_paths_is_canonical_like_its_members(paths):
    try:
        expected = [canonical_path(path, TABLE) for path in paths]
    except CorruptTableError:
        with pytest.raises(CorruptTableError):
            canonical_paths(pa.array(paths, pa.string()), TABLE)
        return
    assert canonical_paths(pa.array(paths, pa.string()), TABLE).to_pylist() == expected


typed_values = st.one_of(
    st.tuples(st.just("string"), names),
    st.tuples(st.just("long"), int64),
    st.tuples(st.just("byte"), st.integers(-128, 127)),
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("float"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("decimal(20,4)"), st.decimals(-(10**15), 10**15, places=4)),
    st.tuples(st.just("date"), st.dates()),
    st.tuples(st.just("timestamp"), st.datetimes(timezones=st.just(dt.timezone.utc))),
    st.tuples(st.just("timestamp_ntz"), st.datetimes()),
    st.tuples(st.just("binary"), names.map(str.encode)),
)


@given(typed_values)
@unhurried
def test_any_partition_value_reads_back_as_it_was_written(typed):
    name, value = typed
    data_type = PrimitiveType(name)
    log_text = serialize_partition_value(value, data_type, column="p")
    parsed = to_arrow(pa.array([log_text]), data_type, column="p")[0].as_py()
    assert parsed == value
    if name != "float":
        assert parse_partition_value(log_text, data_type, column="p") == value
    if isinstance(value, float):
        assert math.copysign(1, parsed) == math.copysign(1, value)


@given(text, st.sampled_from(["long", "double", "decimal(10,2)", "boolean", "date", "timestamp", "timestamp_ntz"]))
@unhurried
def test_any_text_is_a_partition_value_or_a_corrupt_table(value, name):
    try:
        to_arrow(pa.array([value]), PrimitiveType(name), column="p")
    except CorruptTableError as error:
        assert "'p'" in str(error)


@given(text)
@unhurried
def test_any_directory_name_is_one_name_without_an_equals_sign(name):
    escaped = escape_path_name(name)
    assert unquote(escaped) == name
    assert "/" not in escaped
    assert "=" not in escaped


null_counts = st.recursive(
    st.dictionaries(names, st.integers(0, 5), max_size=3),
    lambda inner: st.dictionaries(names, inner | st.integers(0, 5), max_size=3),
    max_leaves=5,
)


@given(st.integers(0, 5), st.integers(0, 5), null_counts, st.sampled_from([None, True, False]))
@unhurried
def test_widening_keeps_every_promise_that_the_statistics_made(physical, marked, null_count, tight):
    marked = min(marked, physical)
    before = FileStatistics.build(
        num_records=physical, min_values={"a": 1}, max_values={"a": 2}, null_count=null_count, tight_bounds=tight
    )
    after = json.loads(widen(before.to_json(), marked))
    assert after["numRecords"] == physical
    assert (after["minValues"], after["maxValues"], after["tightBounds"]) == ({"a": 1}, {"a": 2}, False)
    for old, new in zip(_leaves(null_count), _leaves(after["nullCount"]), strict=True):
        if old == 0:
            assert new == 0
        elif tight and old == physical - marked:
            assert new == physical
        else:
            assert new == old


def _leaves(counts_by_name):
    for value in counts_by_name.values():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield value


@given(st.dictionaries(text, json_values, max_size=4))
@unhurried
def test_any_json_object_is_kept_by_statistics(value):
    assert json.loads(FileStatistics.parse(json.dumps(value)).to_json()) == value


@given(st.text(max_size=40))
@unhurried
def test_any_text_as_statistics_is_read_or_ignored(value):
    statistics = FileStatistics.parse(value)
    assert statistics is None or json.loads(statistics.to_json()) is not None


@given(
    st.dictionaries(
        st.sampled_from([declared.name for declared in TableProperties.declarations()]) | text, text, max_size=4
    )
)
@unhurried
def test_any_configuration_is_accepted_and_each_property_parses_or_is_a_corrupt_table(configuration):
    properties = TableProperties.parse(configuration)
    for declared in TableProperties.declarations():
        try:
            declared.__get__(properties, TableProperties)
        except CorruptTableError as error:
            assert declared.name in str(error)


protocols = st.one_of(
    st.builds(Protocol, st.integers(1, 2), st.integers(1, 6)),
    st.builds(
        lambda writer: Protocol(1, 7, None, writer), st.frozensets(st.sampled_from(sorted(FEATURES)), max_size=3)
    ),
    st.builds(lambda both: Protocol(3, 7, both, both), st.frozensets(st.sampled_from(sorted(FEATURES)), max_size=3)),
)


@given(protocols, st.sets(st.sampled_from(sorted(FEATURES)), max_size=4))
@unhurried
def test_an_upgraded_protocol_supports_the_old_and_the_new_features(protocol, features):
    upgraded = upgrade_protocol_for(protocol, features)
    assert supported_features(protocol) <= supported_features(upgraded)
    assert all(is_feature_supported(upgraded, feature) for feature in features)
    assert upgraded.min_reader_version >= protocol.min_reader_version
    assert (upgraded.reader_features is None) == (upgraded.min_reader_version < 3)
    assert upgrade_protocol_for(upgraded, features) == upgraded


@given(st.from_regex(r"[0-9]{18,21}\.(json|crc|checkpoint\..{0,10}|parquet)", fullmatch=True) | text)
@unhurried
def test_any_file_name_is_recognised_or_ignored(name):
    parsed = parse_log_name(name)
    assert parsed is None or parsed.version == int(name[:20])
