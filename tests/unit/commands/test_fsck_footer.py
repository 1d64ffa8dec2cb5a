"""Does the footer say the same to us as to pyarrow, and can no broken footer do more than raise?"""

from __future__ import annotations

import io
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_builder import deltalake_table

from ebbtide.commands.fsck.footer import footer_bytes, is_encrypted, parse_footer
from ebbtide.log.thrift_compact import MalformedThriftError

TABLE = pa.table(
    {
        "i": pa.array([3, 1, None], pa.int32()),
        "s": ["b", "a", None],
        "inner": [{"x": 1.5, "deep": {"y": [1, 2]}}, None, {"x": None, "deep": None}],
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "d": pa.array([Decimal("1.25"), Decimal("-7.00"), None], pa.decimal128(20, 2)),
    }
)


def footer_of(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    data = file.getvalue()
    return data[-footer_bytes(data, len(data)) :], pq.read_metadata(pa.BufferReader(data))


def test_leaves_and_statistics_are_those_that_pyarrow_reads():
    data, expected = footer_of(TABLE, row_group_size=2)
    footer = parse_footer(data)
    assert footer.num_rows == expected.num_rows == 3
    assert [".".join(leaf.path) for leaf in footer.leaves] == [
        expected.schema.column(index).path for index in range(expected.num_columns)
    ]
    assert [leaf.physical_type for leaf in footer.leaves] == [
        expected.schema.column(index).physical_type for index in range(expected.num_columns)
    ]
    for group in range(2):
        for index in range(expected.num_columns):
            ours, theirs = footer.groups[group][index], expected.row_group(group).column(index).statistics
            assert ours.null_count == theirs.null_count
            assert (ours.least is not None) == theirs.has_min_max


def test_columns_below_arrays_and_maps_repeat():
    footer = parse_footer(footer_of(TABLE)[0])
    assert {".".join(leaf.path) for leaf in footer.leaves if leaf.is_repeated} == {
        "inner.deep.y.list.element", "m.key_value.key", "m.key_value.value",
    }  # fmt: skip


def test_column_is_found_by_its_whole_path():
    footer = parse_footer(footer_of(TABLE)[0])
    assert footer.leaves[footer.find(("inner", "x"))].physical_type == "DOUBLE"
    assert footer.find(("x",)) is None
    assert footer.find(("inner.x",)) is None


def test_field_ids_and_scales_are_kept():
    schema = pa.schema([pa.field("a", pa.decimal128(9, 4), metadata={b"PARQUET:field_id": b"17"})])
    (leaf,) = parse_footer(footer_of(pa.table({"a": [Decimal("1.0000")]}, schema=schema))[0]).leaves
    assert (leaf.meaning, leaf.scale, leaf.field_id) == ("decimal", 4, 17)


def test_file_without_statistics_or_rows_says_nothing():
    footer = parse_footer(footer_of(TABLE, write_statistics=False)[0])
    assert {(each.null_count, each.least, each.greatest) for each in footer.groups[0]} == {(None, None, None)}
    assert parse_footer(footer_of(TABLE.slice(0, 0))[0]).num_rows == 0


def test_values_that_the_writer_has_cut_do_not_count(tmp_path):
    path = deltalake_table(tmp_path / "t", pa.table({"long": ["x" * 500], "short": ["x"]}))
    (file,) = path.glob("*.parquet")
    data = file.read_bytes()
    ((long, short),) = parse_footer(data[-footer_bytes(data, len(data)) :]).groups
    assert (long.least, long.greatest) == (None, None)
    assert (short.least, short.greatest) == (b"x", b"x")


@pytest.mark.parametrize("end", [b"", b"PAR1", b"\x00\x00\x00\x00PARX", b"\xff\xff\xff\xffPAR1"])
def test_file_that_does_not_end_like_one_is_refused(end):
    with pytest.raises(MalformedThriftError):
        footer_bytes(b"x" * 20 + end if end else b"", 20 + len(end))


def test_encrypted_footer_is_recognised():
    assert is_encrypted(b"....PARE")
    assert not is_encrypted(b"....PAR1")


@pytest.mark.parametrize("seed", range(4))
def test_broken_footer_is_read_or_refused_and_never_ends_the_process(seed):
    data, _ = footer_of(TABLE, row_group_size=1)
    randomness = random.Random(seed)
    refused = 0
    for _ in range(500):
        wounded = bytearray(data)
        for _ in range(randomness.choice([1, 1, 3, 20])):
            wounded[randomness.randrange(len(wounded) - 8)] = randomness.randrange(256)
        if randomness.random() < 0.2:
            del wounded[randomness.randrange(len(wounded)) :]
        try:
            parse_footer(bytes(wounded))
        except MalformedThriftError:
            refused += 1
    assert refused > 100


def test_footer_that_counts_its_rows_differently_is_refused():
    data, expected = footer_of(pa.table({"i": list(range(5))}))
    assert expected.num_rows == 5
    # The number of rows of the file comes first, that of its row group second.
    wounded = data.replace(b"\x16\x0a", b"\x16\x0c", 1)
    assert wounded != data
    with pytest.raises(MalformedThriftError, match="claims 6 rows, but 5"):
        parse_footer(wounded)
