"""Is the memory of a checkpoint bounded before it is decoded, whatever its footer says?

The limits are small here, so that small files pass them. `tests/faults/test_hostile_tables.py` measures real bombs.
"""

import pyarrow as pa
import pytest
from tests.support.log_builder import LogBuilder, add, checkpoint_table, live_keys, metadata, protocol

from ebbtide.config import EngineConfig
from ebbtide.errors import CorruptTableError
from ebbtide.log import load_snapshot
from ebbtide.log.parquet_pages import measure_chunk, row_groups
from ebbtide.log.thrift_compact import MalformedThriftError, read_struct

HEAD = [protocol(), metadata()]
ONE_MIB = EngineConfig(max_checkpoint_bytes=1 << 20)
LONG = "x" * 10_000


@pytest.fixture(autouse=True)
def nothing_is_too_small_to_be_measured(monkeypatch):
    for name in ("_WORTH_A_LOOK_BYTES", "_NOT_WORTH_A_LOOK_BYTES"):
        monkeypatch.setattr(f"ebbtide.log.parquet_pages.{name}", 0)


def load(table, config=ONE_MIB, **options):
    log = LogBuilder()
    log.checkpoint_of(4, table, **options)
    return load_snapshot(log.store, config=config)


def bomb(num_files=200, stats=LONG):
    return checkpoint_table([*HEAD, *(add(f"{number}", stats=stats) for number in range(num_files))])


BOMBS = {
    "compressed": {"use_dictionary": False, "compression": "zstd"},
    "compressed pages of version 2": {"use_dictionary": False, "compression": "gzip", "data_page_version": "2.0"},
    "dictionary": {"use_dictionary": True, "compression": "none"},
    "compressed dictionary": {"use_dictionary": True, "compression": "brotli"},
    "dictionary with an opaque codec": {"use_dictionary": True, "compression": "lz4"},
    "common prefixes": {
        "use_dictionary": False,
        "compression": "none",
        "column_encoding": {"add.stats": "DELTA_BYTE_ARRAY"},
    },
}


@pytest.mark.parametrize("options", BOMBS.values(), ids=BOMBS)
def test_small_checkpoint_that_expands_beyond_the_limit_is_refused(options):
    with pytest.raises(CorruptTableError, match=r"EngineConfig\.max_checkpoint_bytes=1048576"):
        load(bomb(), **options)


@pytest.mark.parametrize("options", BOMBS.values(), ids=BOMBS)
def test_checkpoint_below_the_limit_is_read_whatever_its_encoding(options):
    config = EngineConfig(max_checkpoint_bytes=8 << 20)
    assert load(bomb(), config, **options).num_files == 200


@pytest.mark.parametrize("options", BOMBS.values(), ids=BOMBS)
def test_expansion_beyond_the_ratio_is_refused_above_what_is_always_allowed(monkeypatch, options):
    monkeypatch.setattr("ebbtide.log.memory_budget._ALWAYS_ALLOWED_BYTES", 1000)
    with pytest.raises(CorruptTableError, match=r"EngineConfig\.max_checkpoint_expansion=2\b"):
        load(bomb(), EngineConfig(max_checkpoint_expansion=2), **options)


@pytest.mark.parametrize("options", BOMBS.values(), ids=BOMBS)
def test_one_long_value_among_many_rows_is_no_bomb(options):
    table = checkpoint_table([*HEAD, add("long", stats=LONG * 20), *(add(f"{number}") for number in range(300))])
    assert load(table, **options).num_files == 301


def test_dictionary_of_map_values_is_measured():
    files = [add(f"{number}", partition={"p": LONG if number % 2 else "short"}) for number in range(400)]
    table = checkpoint_table([protocol(), metadata({"id": "long", "p": "string"}, partitions=["p"]), *files])
    with pytest.raises(CorruptTableError, match="max_checkpoint_bytes"):
        load(table)
    assert load(table, EngineConfig(max_checkpoint_bytes=8 << 20)).num_files == 400


def test_map_with_very_many_entries_is_refused():
    tags = [(f"{number % 10}", "v") for number in range(60_000)]
    table = checkpoint_table([*HEAD, add("a", tags=dict(tags[:10]))])
    struct = table.column("add").combine_chunks()
    children = {field.name: struct.field(position) for position, field in enumerate(struct.type)}
    children["tags"] = pa.array([None, None, tags], children["tags"].type)
    changed = pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=struct.is_null())
    table = table.set_column(table.schema.get_field_index("add"), "add", changed)
    with pytest.raises(CorruptTableError, match="max_checkpoint_bytes"):
        load(table)


def test_sidecars_share_one_limit():
    log = LogBuilder()
    actions = [*HEAD, *(add(f"{number}", stats=LONG) for number in range(200))]
    log.v2_checkpoint(4, actions, format="json", sidecars=8)
    with pytest.raises(CorruptTableError, match="max_checkpoint_bytes"):
        load_snapshot(log.store, config=ONE_MIB)
    assert load_snapshot(log.store, config=EngineConfig(max_checkpoint_bytes=8 << 20)).num_files == 200


def test_sidecar_named_twice_is_refused():
    log = LogBuilder()
    log.v2_checkpoint(4, [*HEAD, add("a")], format="json", sidecars=1)
    [path] = [path for path in log.store.objects if path.endswith(".json")]
    lines = log.store.objects[path].splitlines(keepends=True)
    log.store.objects[path] = b"".join([*lines, *(line for line in lines if b'"sidecar"' in line)])
    with pytest.raises(CorruptTableError, match="twice"):
        load_snapshot(log.store)


def test_checkpoint_that_is_a_bomb_is_passed_over_for_the_commits():
    log = LogBuilder()
    log.commit(0, [*HEAD, add("a")])
    log.checkpoint_of(0, bomb())
    assert live_keys(load_snapshot(log.store, config=ONE_MIB)) == {("a", None)}


def test_large_checkpoint_is_measured_by_ranges_too(monkeypatch):
    monkeypatch.setattr("ebbtide.log.parquet_source._WHOLE_READ_BYTES", 10)
    with pytest.raises(CorruptTableError, match="max_checkpoint_bytes"):
        load(bomb(), use_dictionary=False, compression="zstd", row_group_size=50)
    config = EngineConfig(max_checkpoint_bytes=8 << 20)
    assert load(bomb(), config, use_dictionary=True, row_group_size=50).num_files == 200


def test_pages_of_small_checkpoints_are_read_only_where_fields_repeat(monkeypatch):
    monkeypatch.undo()
    measured = []

    def measure(chunk, column, *args, **options):
        measured.append(column.max_repetition_level)
        return measure_chunk(chunk, column, *args, **options)

    monkeypatch.setattr("ebbtide.log.parquet_source.measure_chunk", measure)
    assert load(checkpoint_table([*HEAD, add("a")]), compression="snappy").num_files == 1
    assert set(measured) == {1}


@pytest.mark.parametrize(
    "data", [b"", b"\x19", b"\x1c" * 100, b"\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x1d\x00"]
)
def test_bytes_that_are_no_struct_are_refused(data):
    with pytest.raises(MalformedThriftError):
        read_struct(data, 0, {})


def test_footer_without_row_groups_is_refused():
    with pytest.raises(MalformedThriftError):
        row_groups(b"\x15\x02\x00")
