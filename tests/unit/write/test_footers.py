"""Is the footer read from the end of the file alone, and is a broken one refused?"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.recording_store import RecordingStore

from ebbtide.errors import CorruptTableError
from ebbtide.storage import open_store
from ebbtide.write.footers import read_footer


def written(tmp_path, table, **options):
    pq.write_table(table, tmp_path / "f.parquet", **options)
    return RecordingStore(open_store(str(tmp_path)))


def test_only_the_end_of_a_large_file_is_read(tmp_path):
    store = written(tmp_path, pa.table({"a": [f"{n:064d}" for n in range(20_000)]}), compression=None)
    meta = store.head("f.parquet")
    assert read_footer(store, meta).num_rows == 20_000
    assert meta.size > 1_000_000
    assert sum(length for _, _, length in store.reads) <= 64 * 1024


def test_footer_longer_than_the_first_read_is_fetched_whole(tmp_path):
    table = pa.table({f"a_column_with_quite_a_long_name_{n}": [n] for n in range(1500)})
    store = written(tmp_path, table)
    footer = read_footer(store, store.head("f.parquet"))
    assert footer.num_columns == 1500
    assert len(store.reads) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"not a parquet file at all", b"x" * 100 + b"\x40\x00\x00\x00PAR1", b"\xff\xff\xff\x7fPAR1" * 2],
)
def test_file_without_a_footer_is_refused_with_its_name(tmp_path, content):
    (tmp_path / "f.parquet").write_bytes(content)
    store = open_store(str(tmp_path))
    with pytest.raises(CorruptTableError, match=r"f\.parquet"):
        read_footer(store, store.head("f.parquet"))
