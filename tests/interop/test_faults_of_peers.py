"""Is everything that is held against a peer still true, and true of tables that are not ours?

One smallest table, made without Ebbtide, for each entry of `FAULTS` in `tests/support/peers.py`. A peer that gets it right one
day fails here, and its entry goes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.comparison import difference
from tests.support.peers import FAULTS, PEERS, Asked
from tests.support.table_builder import TableBuilder
from tests.support.table_rows import snapshot_of

pytest.importorskip("deltalake")
pytest.importorskip("duckdb_extension_delta")
pytest.importorskip("polars")

ID = pa.schema({"id": pa.int64()})
PARTED = pa.schema({"id": pa.int64(), "p": pa.string()})


def of_feature(path: Path, name: str) -> TableBuilder:
    return TableBuilder(path, ID).feature(name).file([{"id": 1}]).commit()


def mapped(path: Path) -> TableBuilder:
    return TableBuilder(path, ID).column_mapping("name").file([{"id": 1}]).commit()


def mapped_and_partitioned(path: Path) -> TableBuilder:
    table = TableBuilder(path, PARTED).column_mapping("name").partitioned_by("p")
    return table.file([{"id": 1, "p": "a"}]).commit()


def partitioned_by_bytes(path: Path) -> TableBuilder:
    table = TableBuilder(path, pa.schema({"id": pa.int64(), "p": pa.binary()})).partitioned_by("p")
    return table.file([{"id": 1, "p": b"a"}]).commit()


def marked_at_encoded_path(path: Path) -> TableBuilder:
    return (
        TableBuilder(path, ID).deletion_vectors().file([{"id": 1}, {"id": 2}], deleted=[0], name="a b.parquet").commit()
    )


def file_elsewhere(path: Path) -> TableBuilder:
    """As in a shallow clone: the file of one table, named by its URL in another."""
    source = TableBuilder(path.parent / "the source", ID).file([{"id": 1}])
    table = TableBuilder(path, ID).file([{"id": 1}])
    table.files[0].add["path"] = (source.path / source.files[0].add["path"]).as_uri()
    return table.commit()


EXAMPLES = {
    "refuses column mapping": mapped,
    "refuses V2 checkpoints": lambda path: of_feature(path, "v2Checkpoint"),
    "refuses type widening": lambda path: of_feature(path, "typeWidening"),
    "cannot parse binary partition values": partitioned_by_bytes,
    "takes the URL of a file elsewhere for a relative path": file_elsewhere,
    "gives partition columns of mapped tables null or each other's values": mapped_and_partitioned,
    "forgets the vector of a file whose path needs encoding": marked_at_encoded_path,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.peer} {fault.reason}")
def test_fault_is_still_there(tmp_path, fault):
    table = EXAMPLES[fault.reason](tmp_path / "t")
    expected = table.expected()
    assert fault.concerns(Asked(table.path, snapshot_of(table.path), expected.schema))
    if fault.error is None:
        assert difference(PEERS[fault.peer].rows(table.path, expected.schema), expected)
    else:
        with pytest.raises(Exception) as raised:
            PEERS[fault.peer].rows(table.path, expected.schema)
        assert fault.error in str(raised.value)


def test_plain_table_concerns_no_fault(tmp_path):
    table = TableBuilder(tmp_path / "t", PARTED).deletion_vectors().partitioned_by("p")
    table.file([{"id": 1, "p": "a"}, {"id": 2, "p": "a"}], deleted=[0]).commit()
    asked = Asked(table.path, snapshot_of(table.path), table.expected().schema)
    assert [fault.reason for fault in FAULTS if fault.concerns(asked)] == []
