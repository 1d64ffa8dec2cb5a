"""Does a check leave every healthy table alone, whatever its shape?"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.fsck import damage, fsck
from tests.support.sample_table import people_table
from tests.support.table_builder import TableBuilder, deltalake_table

from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.log.checksum import write_checksum
from ebbtide.storage import open_store

ALL_TYPES = pa.schema(
    {
        "tiny": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
        "double": pa.float64(), "small": pa.decimal128(8, 3), "wide": pa.decimal128(38, 10), "text": pa.string(),
        "bytes": pa.binary(), "flag": pa.bool_(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"), "list": pa.list_(pa.int64()),
        "inner": pa.struct({"x": pa.int64(), "deep": pa.struct({"s": pa.string()})}),
    }
)  # fmt: skip
LOW = {
    "tiny": -128, "short": -(2**15), "int": -(2**31), "long": -(2**63), "float": 0.1, "double": -1e300,
    "small": Decimal("-1.005"), "wide": Decimal("-1234567890123456789012345678.0123456789"), "text": "é" * 40,
    "bytes": b"\xff\x00", "flag": False, "day": dt.date(1969, 12, 31), "list": [1, 2], "inner": {"x": None, "deep": None},
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.timezone.utc), "local": dt.datetime(1950, 1, 1, 0, 0, 0, 1),
}  # fmt: skip
HIGH = {
    "tiny": 127, "short": 1, "int": 2, "long": 2**63 - 1, "float": 3.4e38, "double": float("inf"), "small": Decimal("99999.999"),
    "wide": Decimal("9999999999999999999999999999.9999999999"), "text": "\U0010ffff" * 33, "bytes": b"", "flag": True,
    "day": dt.date(9999, 12, 31), "list": None, "inner": {"x": 5, "deep": {"s": "z"}},
    "at": dt.datetime(2262, 1, 1, 0, 0, 0, 1_999, dt.timezone.utc), "local": dt.datetime(2020, 1, 1, 1, 1, 1, 999_999),
}  # fmt: skip
NULLS = dict.fromkeys(ALL_TYPES.names)


def table(path, *, partitioned=False):
    builder = TableBuilder(path / "t", pa.schema({"id": pa.int64(), "p": pa.string()}))
    return builder.partitioned_by("p") if partitioned else builder


def test_values_of_every_type_fit_their_statistics(tmp_path):
    builder = TableBuilder(tmp_path / "t", ALL_TYPES)
    builder.file([LOW, HIGH, NULLS], row_group_size=1).file([LOW, LOW]).file([NULLS]).file([NULLS, HIGH]).commit()
    assert damage(builder.path) == []


def test_values_of_every_type_fit_their_statistics_under_column_mapping(tmp_path):
    for mode in ("name", "id"):
        builder = TableBuilder(tmp_path / mode, ALL_TYPES).column_mapping(mode)
        builder.file([LOW, HIGH, NULLS]).commit()
        assert damage(builder.path) == []


def test_nan_and_infinity_are_no_damage(tmp_path):
    builder = TableBuilder(tmp_path / "t", pa.schema({"x": pa.float64()}))
    builder.file([{"x": float("nan")}, {"x": 1.0}]).file([{"x": float("-inf")}, {"x": -0.0}]).commit()
    assert damage(builder.path) == []


@pytest.mark.parametrize("kind", ["u", "i", "p"])
def test_vectors_of_every_storage_type_are_sound(tmp_path, kind):
    builder = table(tmp_path).deletion_vectors()
    builder.file([{"id": number, "p": "a"} for number in range(9)], deleted=[0, 8], vector=kind).commit()
    result = fsck(builder.path)
    assert result.is_healthy
    assert (result.metrics.num_checked_files, result.metrics.num_checked_vectors) == (1, 1)


def test_vectors_that_share_a_file_and_a_prefix_are_sound(tmp_path):
    builder = table(tmp_path, partitioned=True).deletion_vectors(share_a_file=True)
    for name in "abc":
        builder.file([{"id": number, "p": name} for number in range(5)], deleted=[1], vector_prefix="xy")
    builder.commit()
    assert damage(builder.path) == []


def test_bounds_of_the_rows_that_are_left_are_no_damage(tmp_path):
    """After the statistics were computed anew, those of a file with deleted rows are narrower than its footer."""
    builder = table(tmp_path).deletion_vectors()
    builder.file([{"id": 1, "p": None}, {"id": 9, "p": "b"}], deleted=[0]).commit()
    add = builder.files[0].add | {
        "stats": '{"numRecords":2,"minValues":{"id":9},"maxValues":{"id":9},"nullCount":{"id":0,"p":0},"tightBounds":true}'
    }
    builder.raw({"add": add}).commit()
    assert damage(builder.path) == []


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json", "v2-parquet"])
def test_checkpoints_of_every_kind_agree_with_their_commits(tmp_path, kind):
    builder = table(tmp_path, partitioned=True).deletion_vectors().transaction("app", 1)
    if kind.startswith("v2"):
        builder.feature("v2Checkpoint").domain("delta.clustering", "{}").feature("domainMetadata")
    builder.file([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}]).commit().checkpoint(kind)
    builder.mark(builder.files[0], [0]).file([{"id": 3, "p": None}]).commit().checkpoint(kind)
    builder.remove(builder.files[0]).commit()
    assert damage(builder.path) == []
    assert fsck(builder.path).metrics.num_checked_checkpoints == 2


def test_log_that_was_cleaned_up_has_no_gap(tmp_path):
    builder = table(tmp_path)
    for number in range(5):
        builder.file([{"id": number, "p": "a"}]).commit()
    builder.checkpoint().file([{"id": 9, "p": "a"}]).commit().clean_commits(before=3)
    assert damage(builder.path) == []


def test_compacted_log_and_features_with_columns_of_their_own_are_sound(tmp_path):
    builder = table(tmp_path).row_tracking().in_commit_timestamps().change_data_feed()
    builder.file([{"id": 1, "p": "a"}]).commit()
    builder.file([{"id": 2, "p": "a"}]).change_file([{"id": 2, "p": "a", "_change_type": "insert"}]).commit().compact(
        0, 1
    )
    assert damage(builder.path) == []


def test_change_data_that_vacuum_may_have_taken_is_no_damage(tmp_path):
    builder = table(tmp_path).change_data_feed().file([{"id": 1, "p": "a"}])
    builder.change_file([{"id": 1, "p": "a", "_change_type": "insert"}]).commit()
    for file in (builder.path / "_change_data").iterdir():
        file.unlink()
    assert damage(builder.path) == []


def test_partition_values_of_every_type_are_read(tmp_path):
    names = [name for name in ALL_TYPES.names if name not in {"list", "inner", "bytes"}]
    builder = TableBuilder(tmp_path / "t", pa.schema([ALL_TYPES.field(name) for name in names] + [("v", pa.int64())]))
    builder.partitioned_by(*names)
    for row in (LOW, NULLS):
        builder.file([{name: row[name] for name in names} | {"v": 1}])
    builder.commit()
    assert damage(builder.path) == []


def test_file_without_statistics_or_with_foreign_ones_says_nothing(tmp_path):
    builder = table(tmp_path).file([{"id": 1, "p": "a"}], stats=False).commit()
    for stats in (
        "",
        "{}",
        "nonsense",
        '{"numRecords":1,"minValues":[],"maxValues":{"id":"x","p":5},"nullCount":{"id":"0"}}',
    ):
        builder.raw({"add": builder.files[0].add | {"stats": stats}}).commit()
        assert damage(builder.path) == []


def test_checksum_and_checkpoint_of_our_own_are_right(tmp_path):
    builder = people_table(tmp_path / "people")
    snapshot = load_snapshot(open_store(str(builder.path)))
    assert write_checksum(snapshot, config=snapshot.config)
    write_checkpoint(snapshot)
    assert damage(builder.path) == []
    assert "no damage" in repr(fsck(builder.path))


def test_table_of_another_engine_is_sound(tmp_path):
    rows = pa.table(
        {"d": [Decimal("1.10"), Decimal("922337203685477.58")], "s": ["a" * 100, "\U0001f600" * 20], "f": [1.5, None]}
    )
    path = deltalake_table(tmp_path / "t", rows)
    deltalake_table(path, rows, mode="append")
    assert damage(path) == []


def test_empty_table_is_sound(tmp_path):
    assert damage(table(tmp_path).commit().path) == []


def test_files_elsewhere_are_named_and_are_no_damage(tmp_path):
    source = table(tmp_path).file([{"id": 1, "p": "a"}]).commit()
    clone = TableBuilder(tmp_path / "clone", pa.schema({"id": pa.int64(), "p": pa.string()}))
    clone.raw({"add": source.files[0].add | {"path": (source.path / source.files[0].add["path"]).as_uri()}}).commit()
    (found,) = fsck(clone.path).findings
    assert (found.kind, found.severity, found.path) == ("outside-root", "note", source.path.as_uri())
    assert fsck(clone.path).is_healthy
