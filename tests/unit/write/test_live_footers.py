"""Are missing row counts read from the footer, and is the rest of the statistics left alone?"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.table_builder import TableBuilder

from ebbtide.errors import CorruptTableError, MissingDataFileError
from ebbtide.log import load_snapshot
from ebbtide.storage import open_store
from ebbtide.write import stats_from_footer


@pytest.fixture
def snapshot(tmp_path):
    builder = TableBuilder(tmp_path / "a table", pa.schema({"id": pa.int64()}))
    builder.file([{"id": 1}, {"id": 2}, {"id": 3}]).commit()
    return load_snapshot(open_store(str(builder.path)))


def one_file(snapshot, **changes):
    from dataclasses import replace

    (add,) = snapshot.add_files()
    return replace(add, **changes)


def test_file_without_statistics_gets_its_row_count_and_wide_bounds(snapshot):
    text = stats_from_footer(snapshot, one_file(snapshot, stats=None))
    assert text == '{"numRecords":3,"tightBounds":false}'


def test_statistics_without_a_row_count_keep_what_they_say(snapshot):
    text = stats_from_footer(snapshot, one_file(snapshot, stats='{"minValues":{"id":1.50},"mine":[1]}'))
    assert text == '{"numRecords":3,"minValues":{"id":1.50},"mine":[1]}'
    assert json.loads(text)["numRecords"] == 3


def test_absolute_path_is_followed_within_the_same_store(snapshot):
    add = one_file(snapshot, stats=None)
    absolute = f"{snapshot.store.url}/../a%20table/{add.path}"
    assert "3" in stats_from_footer(snapshot, one_file(snapshot, stats=None, path=absolute))


def test_file_that_is_gone_is_named(snapshot):
    with pytest.raises(MissingDataFileError, match=r"gone\.parquet"):
        stats_from_footer(snapshot, one_file(snapshot, path="gone.parquet"))


def test_file_that_is_no_parquet_is_named(snapshot, tmp_path):
    (tmp_path / "a table" / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(CorruptTableError, match=r"bad\.parquet"):
        stats_from_footer(snapshot, one_file(snapshot, path="bad.parquet"))
