"""Are deletion vectors that other engines wrote read as the rows they meant?"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array

import pytest
from tests.support.shared_material import shared_directory

from ebbtide.deletion_vectors import load
from ebbtide.deletion_vectors.bitmap import RowIndexSet
from ebbtide.deletion_vectors.container import check_version, unframe
from ebbtide.errors import CorruptDeletionVectorError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import open_store

DIRECTORY = shared_directory() / "golden" / "dv_vectors"
ENTRIES = json.loads((DIRECTORY / "vectors.json").read_text(encoding="utf-8"))

IN_FILES = [
    pytest.param(entry["file"], vector, id=f"{entry['file']}@{vector['offset']}")
    for entry in ENTRIES
    if entry["kind"] == "bin"
    for vector in entry["vectors"]
]
INLINE = [pytest.param(entry, id=entry["origin"]) for entry in ENTRIES if entry["kind"] == "inline"]
PATHS = [pytest.param(entry, id=entry["origin"]) for entry in ENTRIES if entry["kind"] == "path"]


def test_every_kind_of_vector_is_there():
    assert all((IN_FILES, INLINE, PATHS))
    assert {entry["kind"] for entry in ENTRIES} == {"bin", "inline", "path"}


@pytest.mark.parametrize(("file", "expected"), IN_FILES)
def test_vector_in_a_file_has_the_rows_that_spark_meant(file, expected):
    descriptor = DeletionVectorDescriptor.on_disk_with_absolute_path(
        (DIRECTORY / file).as_uri(),
        offset=expected["offset"],
        size_in_bytes=expected["sizeInBytes"],
        cardinality=expected["cardinality"],
    )
    store = open_store(str(DIRECTORY))
    rows = load(store, store.url, descriptor)
    assert (rows.min(), rows.max(), len(rows)) == (expected["min"], expected["max"], expected["cardinality"])
    if "ranges_inclusive" in expected:
        meant = RowIndexSet()
        for first, last in expected["ranges_inclusive"]:
            meant.add_range(first, last + 1)
        assert rows == meant
    else:
        values = array("Q", rows)
        if sys.byteorder == "big":
            values.byteswap()
        assert hashlib.sha256(values.tobytes()).hexdigest() == expected["sha256_of_rows_as_le_u64"]


@pytest.mark.parametrize(("file", "expected"), IN_FILES)
def test_vector_of_spark_is_written_back_no_larger(file, expected):
    content = (DIRECTORY / file).read_bytes()
    check_version(content[:1], where=file)
    payload = unframe(content[expected["offset"] :], expected["sizeInBytes"], where=file)
    rows = RowIndexSet.deserialize(payload)
    assert len(rows.serialize()) <= len(payload)
    assert RowIndexSet.deserialize(rows.serialize()) == rows


@pytest.mark.parametrize("entry", INLINE)
def test_inline_vector_has_its_rows_or_is_refused_where_it_must_be(entry):
    descriptor = DeletionVectorDescriptor.from_json(
        {"storageType": "i", **{name: entry[name] for name in ("pathOrInlineDv", "sizeInBytes", "cardinality")}}
    )
    store = open_store("memory://dv-vectors/table")
    if entry.get("must_fail"):
        with pytest.raises(CorruptDeletionVectorError):
            load(store, store.url, descriptor)
    else:
        assert list(load(store, store.url, descriptor)) == entry["rows"]


@pytest.mark.parametrize("entry", PATHS)
def test_relative_vector_lies_where_others_put_it(entry):
    descriptor = DeletionVectorDescriptor(
        storage_type=entry["storageType"],
        path_or_inline_dv=entry["pathOrInlineDv"],
        offset=1,
        size_in_bytes=1,
        cardinality=1,
    )
    assert descriptor.relative_path == entry["relative_path"]
