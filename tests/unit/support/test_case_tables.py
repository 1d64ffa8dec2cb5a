"""Do the readers of behaviour cases and of logs read what is there?"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from tests.support.case_tables import build_table, file_rows, parse_ddl, rows_as_table
from tests.support.log_reading import files_with_vectors, log_state, physical_rows, vector_file, vector_rows
from tests.support.table_builder import TableBuilder


def test_ddl_becomes_arrow_types():
    schema = parse_ddl(
        "id BIGINT NOT NULL, s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, DECIMAL(10, 2)>, `x` DATE"
    )
    assert schema.names == ["id", "s", "m", "x"]
    assert schema.field("id").nullable is False
    assert schema.field("s").type == pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})
    assert schema.field("m").type == pa.map_(pa.string(), pa.decimal128(10, 2))
    assert schema.field("x").type == pa.date32()
    assert parse_ddl("").names == []


@pytest.mark.parametrize("ddl", ["id", "id NOTHING", "id INT)", "id STRUCT<a: INT", "id INT; b INT"])
def test_ddl_that_is_not_understood_is_an_error(ddl):
    with pytest.raises((AssertionError, KeyError, IndexError)):
        parse_ddl(ddl)


def test_json_values_take_the_type_of_their_column():
    schema = parse_ddl("d DATE, t TIMESTAMP, b BINARY, s STRUCT<a: INT>, m MAP<STRING, INT>")
    [row] = rows_as_table([["2020-01-02", "2020-01-02 03:04:05", "AQI=", {"a": 1}, {"k": 2}]], schema).to_pylist()
    assert row["d"] == dt.date(2020, 1, 2)
    assert row["t"] == dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    assert (row["b"], row["s"], row["m"]) == (b"\x01\x02", {"a": 1}, [("k", 2)])
    assert rows_as_table([[None] * 5], schema).column("s").null_count == 1


def test_rows_are_divided_into_files_in_order():
    assert file_rows({"rows": [[0], [1], [2], [3]], "files": 2}) == [[[0], [1]], [[2], [3]]]
    assert file_rows({"rows": [[0], [1]]}) == [[[0], [1]]]
    assert file_rows({"files": [[[0]], [[1], [2]]]}) == [[[0]], [[1], [2]]]
    assert file_rows({"rows": []}) == []


def test_table_is_one_version_with_a_file_for_each_part(tmp_path):
    spec = {"schema": "id INT, p STRING", "rows": [[0, "a"], [1, "b"], [2, "a"]], "properties": {"k": "v"}}
    build_table(tmp_path / "t", spec, partition_by=["p"], vectors=True)
    state = log_state(tmp_path / "t")
    assert state.version == 0
    assert sorted(physical_rows(tmp_path / "t", add) for add in state.adds) == [1, 2]
    assert state.configuration == {"k": "v", "delta.enableDeletionVectors": "true"}
    assert "deletionVectors" in state.protocol["writerFeatures"]


@pytest.mark.parametrize(("kind", "prefix"), [("u", ""), ("u", "ab"), ("p", ""), ("i", "")])
def test_log_read_by_hand_follows_a_vector_as_it_grows(tmp_path, kind, prefix):
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    rows = [{"id": number} for number in range(6)]
    builder.file(rows, deleted=[1], vector=kind, vector_prefix=prefix).file(rows[:2]).commit()
    builder.mark(builder.files[0], [4], vector=kind, vector_prefix=prefix).commit()
    for version, expected in ((0, [1]), (1, [1, 4])):
        state = log_state(builder.path, version)
        assert len(state.live) == 2
        [marked] = files_with_vectors(state)
        assert list(vector_rows(builder.path, marked)) == expected
        file = vector_file(builder.path, marked["deletionVector"])
        assert file is None if kind == "i" else file.exists()
