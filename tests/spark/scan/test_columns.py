"""Do all kinds of columns come through a scan: odd names, mapped names, old types, no type at all?"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.support.comparison import assert_same_rows
from tests.support.session_settings import session_settings
from tests.support.table_builder import TableBuilder

import ebbtide
from ebbtide import spark_border
from ebbtide.errors import UnsupportedFeatureError

pytestmark = pytest.mark.spark

ODD_NAMES = [
    "a.b",
    "a`b",
    "`",
    "with space",
    " ",
    "",
    "a,b;{}()\n\t=",
    "é-%20#?",
    "_metadata",
    "_METADATA",
    "_metadata.row_index",
    "file_path",
    "__ebbtide_row_index",
    "__ebbtide_row_index_",
    "__EBBTIDE_BLOCK",
    "__ebbtide_block_of_marks",
    "__ebbtide_file",
    "__ebbtide_file_of_values",
    "__ebbtide_words",
]
RESERVED = "_tmp_metadata_row_index"
INSTANT = dt.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=dt.timezone.utc)


def table(path, **columns):
    return TableBuilder(path, pa.schema(columns)).deletion_vectors()


@pytest.fixture(params=["reader column", "metadata column"])
def row_index_source(request, monkeypatch):
    if request.param == "metadata column":
        monkeypatch.setattr(spark_border, "fills_reader_row_index", lambda spark: False)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_value("both row indexes run on both kinds in test_marked_rows.py")
@pytest.mark.matrix
def test_columns_of_every_odd_name_come_through_together(spark, tmp_path, row_index_source):
    names = [name for name in ODD_NAMES if name != "_METADATA"]  # Spark compares names without case
    columns = {"id": pa.int64(), "flag": pa.bool_()} | dict.fromkeys(names, pa.int64())
    builder = table(tmp_path / "t", **columns).partitioned_by("flag")
    for start, flag in ((0, True), (100, None)):
        rows = [
            {"id": number, "flag": flag} | {name: number * 100 + at for at, name in enumerate(names)}
            for number in range(start, start + 6)
        ]
        builder.file(rows, deleted=[1, 5]).file(rows)
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("name", ODD_NAMES)
def test_partition_column_of_an_odd_name_has_its_values(spark, tmp_path, name):
    builder = table(tmp_path / "t", id=pa.int64()).schema(pa.schema({"id": pa.int64(), name: pa.bool_()}))
    builder.partitioned_by(name)
    builder.file([{"id": number, name: True} for number in range(5)], deleted=[1]).file([{"id": 10, name: None}])
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("name", ["a.b", "a`b", "with space", "é", "_metadata", "A=b"])
def test_text_partition_column_of_an_odd_name_has_its_values(spark, tmp_path, name):
    builder = table(tmp_path / "t", id=pa.int64()).schema(pa.schema({"id": pa.int64(), name: pa.string()}))
    builder.partitioned_by(name)
    builder.file([{"id": number, name: "x"} for number in range(5)], deleted=[1]).file([{"id": 10, name: None}])
    builder.commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


def test_user_column_called_metadata_can_be_filtered_and_the_hidden_one_is_still_used(spark, tmp_path):
    builder = table(
        tmp_path / "t", id=pa.int64(), _metadata=pa.struct({"row_index": pa.int64(), "file_size": pa.string()})
    )
    rows = [{"id": n, "_metadata": {"row_index": 99 - n, "file_size": "big"}} for n in range(100)]
    builder.file(rows, deleted=[10, 64]).commit()
    frame = ebbtide.read(spark, str(builder.path)).where("_metadata.row_index > 30")
    assert_same_rows(frame, [row for row in builder.rows() if row["_metadata"]["row_index"] > 30])


@pytest.mark.one_kind("refused before Spark is asked")
@pytest.mark.parametrize("name", [RESERVED, RESERVED.upper()])
@pytest.mark.parametrize("deleted", [[], [1]])
def test_column_whose_name_the_parquet_reader_keeps_for_itself_is_refused(spark, tmp_path, name, deleted):
    """Spark would give the row index in its place, without a word."""
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), name: pa.int64()})).deletion_vectors()
    builder.file([{"id": number, name: -number} for number in range(5)], deleted=deleted).commit()
    with pytest.raises(UnsupportedFeatureError, match=name):
        ebbtide.read(spark, str(builder.path))


@pytest.mark.one_value("the same calls for other values")
@pytest.mark.parametrize("kind", ["mapped column", "text partition", "boolean partition"])
def test_reserved_name_is_fine_where_the_parquet_reader_does_not_see_it(spark, tmp_path, kind):
    of_type = pa.bool_() if kind == "boolean partition" else pa.string()
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), RESERVED: of_type})).deletion_vectors()
    builder.column_mapping("name") if kind == "mapped column" else builder.partitioned_by(RESERVED)
    value = True if kind == "boolean partition" else "x"
    rows = [{"id": number, RESERVED: value} for number in range(5)]
    builder.file(rows, deleted=[1]).file(rows).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


# --- column mapping ---------------------------------------------------------------------------------------------------

NESTED = {
    "id": pa.int64(),
    "part of": pa.string(),
    "place": pa.struct(
        {"street name": pa.string(), "deep": pa.struct({"x.y": pa.int32(), "seen": pa.timestamp("us", "UTC")})}
    ),
    "tags": pa.list_(pa.struct({"tag": pa.string(), "more": pa.list_(pa.struct({"n": pa.int64()}))})),
    "prices": pa.map_(pa.struct({"cur": pa.string()}), pa.struct({"price": pa.decimal128(20, 4)})),
}


def nested_row(number, part):
    return {
        "id": number,
        "part of": part,
        "place": None if number % 5 == 4 else {"street name": f"s{number}", "deep": {"x.y": number, "seen": INSTANT}},
        "tags": None if number % 3 == 0 else [{"tag": str(number), "more": [{"n": number}, None]}, None],
        "prices": [({"cur": "EUR"}, {"price": Decimal(number)}), ({"cur": "CHF"}, None)],
    }


@pytest.mark.one_value("both row indexes run on both kinds in test_marked_rows.py", "row_index_source")
@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_renamed_at_every_level(spark, tmp_path, mode, row_index_source):
    builder = table(tmp_path / "t", **NESTED).column_mapping(mode).partitioned_by("part of")
    builder.file([nested_row(number, "a b") for number in range(20)], deleted=[0, 7])
    builder.file([nested_row(number, None) for number in range(100, 110)]).commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert_same_rows(frame, builder.expected())
    streets = [row["place"]["street name"] for row in builder.rows() if row["place"] and row["id"] > 5]
    assert sorted(
        row[0] for row in frame.where("id > 5 AND place IS NOT NULL").select("place.`street name`").collect()
    ) == sorted(streets)


def test_columns_mapped_by_id_are_found_under_any_name_in_the_file(spark, tmp_path, monkeypatch):
    def write_renamed(data, where, **options):
        renamed = pa.schema([field.with_name(f"other-{at}") for at, field in enumerate(data.schema)])
        write(pa.Table.from_arrays(data.columns, schema=renamed), where, **options)

    write = pq.write_table
    builder = table(tmp_path / "t", id=pa.int64(), text=pa.string()).column_mapping("id")
    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", write_renamed)
        builder.file([{"id": number, "text": str(number)} for number in range(80)], deleted=[3, 64]).commit()
    builder.file([{"id": 500, "text": "plain"}]).commit()
    assert pq.read_schema(builder.path / builder.files[0].add["path"]).names == ["other-0", "other-1"]
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


def test_table_mapped_by_id_does_not_change_how_other_tables_are_read(spark, tmp_path):
    mapped = table(tmp_path / "mapped", id=pa.int64()).column_mapping("id").file([{"id": 1}]).commit()
    plain = table(tmp_path / "plain", id=pa.int64()).file([{"id": 2}, {"id": 3}], deleted=[0]).commit()
    assert_same_rows(ebbtide.read(spark, str(mapped.path)), mapped.expected())
    assert_same_rows(ebbtide.read(spark, str(plain.path)), plain.expected())


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.one_kind(
    "the calls of test_every_type_comes_through_both_branches, which runs on both kinds; this adds a file without the column"
)
def test_column_added_later_is_null_in_older_files(spark, tmp_path):
    builder = table(tmp_path / "t", a=pa.int32()).file([{"a": 1}, {"a": 2}], deleted=[0]).commit()
    builder.schema(pa.schema({"b": pa.struct({"c": pa.string()}), "a": pa.int32()})).file(
        [{"a": 3, "b": {"c": "x"}}]
    ).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


WIDENED = {
    "byte to long": (pa.int8(), pa.int64(), [-128, 127, None]),
    "short to integer": (pa.int16(), pa.int32(), [-32_768, 32_767, None]),
    "integer to long": (pa.int32(), pa.int64(), [-(2**31), 2**31 - 1, None]),
    "integer to double": (pa.int32(), pa.float64(), [-(2**31), 2**31 - 1, None]),
    "float to double": (pa.float32(), pa.float64(), [1.5, -0.25, None]),
    "integer to decimal": (pa.int32(), pa.decimal128(12, 2), [5, -7, None]),
    "decimal to wider": (pa.decimal128(5, 2), pa.decimal128(22, 4), [Decimal("123.45"), Decimal("-0.01"), None]),
    "date to timestamp": (pa.date32(), pa.timestamp("us"), [dt.datetime(1969, 12, 31), dt.datetime(2024, 2, 29), None]),
}


@pytest.mark.one_value("Spark's two readers are the same on both kinds")
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_files_of_a_narrower_type_are_read_as_the_wide_one(spark, tmp_path, vectorized):
    narrow = {name: old for name, (old, _, _) in WIDENED.items()}
    wide = {name: new for name, (_, new, _) in WIDENED.items()}
    builder = TableBuilder(tmp_path / "t", pa.schema(narrow)).deletion_vectors()
    builder.feature("typeWidening").feature("timestampNtz")
    old_rows = [{name: values[at] for name, (_, _, values) in WIDENED.items()} for at in range(3)]
    builder.file(old_rows).file(old_rows, deleted=[0]).commit()
    builder.schema(pa.schema(wide)).file([dict.fromkeys(wide)]).commit()
    with session_settings(spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_kind("about Spark's Parquet reader, which both kinds have")
def test_timestamps_in_the_old_96_bit_form_are_the_same_instants(spark, tmp_path, monkeypatch):
    def write_int96(data, where, **options):
        write(data, where, use_deprecated_int96_timestamps=True, **options)

    write = pq.write_table
    builder = table(tmp_path / "t", id=pa.int64(), seen=pa.timestamp("us", "UTC"))
    instants = [
        INSTANT,
        dt.datetime(1901, 1, 1, tzinfo=dt.timezone.utc),
        dt.datetime(2200, 12, 31, 23, 59, tzinfo=dt.timezone.utc),
        None,
    ]
    rows = [{"id": number, "seen": instants[number % 4]} for number in range(70)]
    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", write_int96)
        builder.file(rows, deleted=[1, 64], stats=False).file(rows, stats=False).commit()
    physical = pq.ParquetFile(builder.path / builder.files[0].add["path"]).schema.column(1).physical_type
    assert physical == "INT96"
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


def with_schema_string(builder, fields):
    """Commit metadata whose schema the builder itself cannot express."""
    body = builder._metadata()["metaData"] | {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    return builder.raw({"metaData": body}).commit()


def test_column_without_a_type_is_null(spark, tmp_path):
    builder = table(tmp_path / "t", id=pa.int64()).file([{"id": 1}, {"id": 2}], deleted=[0]).file([{"id": 3}]).commit()
    fields = [
        {"name": "nothing", "type": "void", "nullable": True, "metadata": {}},
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    ]
    frame = ebbtide.read(spark, str(with_schema_string(builder, fields).path))
    assert frame.schema["nothing"].dataType.simpleString() == "void"
    assert sorted(tuple(row) for row in frame.collect()) == [(None, 2), (None, 3)]


def test_comments_are_kept_and_nothing_is_promised_to_be_present(spark, tmp_path):
    builder = table(tmp_path / "t", id=pa.int64()).file([{"id": 1}, {"id": 2}], deleted=[0]).file([{"id": 3}]).commit()
    fields = [{"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "who"}}]
    for frame in (
        ebbtide.read(spark, str(with_schema_string(builder, fields).path)),
        ebbtide.read(spark, str(builder.path), where="id = 2"),
    ):
        assert frame.schema["id"].metadata.get("comment") == "who"
        assert frame.schema["id"].nullable


def test_every_type_comes_through_both_branches(spark, tmp_path):
    types = {
        "boolean": (pa.bool_(), True),
        "byte": (pa.int8(), -1),
        "short": (pa.int16(), 300),
        "integer": (pa.int32(), 70_000),
        "long": (pa.int64(), 2**40),
        "float": (pa.float32(), 1.5),
        "double": (pa.float64(), float("nan")),
        "decimal": (pa.decimal128(38, 18), Decimal("0.000000000000000001")),
        "string": (pa.string(), "é\0\U0001f600"),
        "binary": (pa.binary(), b"\x00\xff"),
        "date": (pa.date32(), dt.date(1582, 10, 15)),
        "timestamp": (pa.timestamp("us", "UTC"), INSTANT),
        "ntz": (pa.timestamp("us"), INSTANT.replace(tzinfo=None)),
        "list": (pa.list_(pa.int32()), [1, None]),
        "map": (pa.map_(pa.string(), pa.int32()), [("a", None)]),
        "struct": (pa.struct({"a": pa.int32()}), {"a": None}),
    }
    builder = table(tmp_path / "t", **{name: kind for name, (kind, _) in types.items()}).feature("timestampNtz")
    full = {name: value for name, (_, value) in types.items()}
    empty = dict.fromkeys(types)
    builder.file([full, empty, full], deleted=[0]).file([empty, full]).commit()
    assert_same_rows(ebbtide.read(spark, str(builder.path)), builder.expected())


@pytest.mark.one_kind("about Spark's Parquet reader, which both kinds have")
def test_table_of_many_columns_keeps_positions_when_the_reader_changes_its_way(spark, tmp_path):
    """Beyond spark.sql.codegen.maxFields Spark reads rows instead of batches."""
    names = [f"c{at}" for at in range(130)]
    builder = table(tmp_path / "t", **dict.fromkeys(names, pa.int32()))
    builder.file([{name: number for name in names} for number in range(100)], deleted=[0, 64, 99]).commit()
    frame = ebbtide.read(spark, str(builder.path))
    assert frame.agg(F.sum("c129")).first()[0] == sum(range(100)) - 64 - 99
    assert_same_rows(frame, builder.expected())
