"""Does a descriptor lead to its rows, with every check made and no read too many?"""

from __future__ import annotations

import struct
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.support.deletion_vector_files import VectorFile, inline_descriptor
from tests.support.recording_store import RecordingStore

from ebbtide.config import EngineConfig
from ebbtide.deletion_vectors import RowIndexSet, load, load_all
from ebbtide.deletion_vectors.container import VERSION_HEADER, frame
from ebbtide.errors import (
    CorruptDeletionVectorError,
    MissingDataFileError,
    RequestError,
    UnsupportedFeatureError,
)
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import open_store

# A vector of a quarter of a megabyte: nobody reads over it to spare a request.
EVERY_OTHER_ROW = range(0, 2_000_000, 2)


@pytest.fixture
def table(tmp_path):
    directory = tmp_path / "a table%20"
    directory.mkdir()
    return directory


@pytest.fixture
def store(table):
    return RecordingStore(open_store(str(table)))


def described(fields, **changes):
    return replace(DeletionVectorDescriptor.from_json(fields), **changes)


def rows_of(store, descriptor, **options):
    return list(load(store, store.url, descriptor, **options))


# --- where vectors are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "aB"])
def test_relative_vector_is_read_from_the_table(table, store, prefix):
    descriptor = described(VectorFile(table, prefix=prefix).add([0, 9]))
    assert rows_of(store, descriptor) == [0, 9]
    assert len(store.reads) == 1


def test_inline_vector_is_read_without_io(store):
    descriptor = described(inline_descriptor([3, 4, 7, 11, 18, 29]))
    assert descriptor.path_or_inline_dv == "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert rows_of(store, descriptor) == [3, 4, 7, 11, 18, 29]
    assert store.reads == []


def test_empty_vector_is_read_without_io_wherever_it_is(store):
    elsewhere = DeletionVectorDescriptor.on_disk_with_relative_path(uuid4(), size_in_bytes=36, cardinality=0, offset=1)
    for descriptor in (DeletionVectorDescriptor.EMPTY, elsewhere):
        assert rows_of(store, descriptor) == []
    assert store.reads == []


def test_absolute_vector_inside_the_table_is_read_from_its_store(table, store):
    descriptor = described(VectorFile(table, prefix="p q").add([1, 2], storage_type="p"))
    assert rows_of(store, descriptor) == [1, 2]
    assert store.reads != []


def test_absolute_vector_elsewhere_in_the_same_store_is_read(tmp_path, store):
    other = tmp_path / "other # table"
    descriptor = described(VectorFile(other).add([1, 2], storage_type="p"))
    assert rows_of(store, descriptor) == [1, 2]
    assert store.reads == []


def test_absolute_vector_in_another_store_is_refused_unless_allowed(store):
    name = uuid4()
    payload = RowIndexSet([8]).serialize()
    open_store(f"memory://{name}/other").put_if_absent("x y.bin", VERSION_HEADER + frame(payload))
    descriptor = DeletionVectorDescriptor.on_disk_with_absolute_path(
        f"memory://{name}/other/x%20y.bin", offset=1, size_in_bytes=len(payload), cardinality=1
    )
    with pytest.raises(UnsupportedFeatureError, match="another store"):
        load(store, store.url, descriptor)
    assert rows_of(store, descriptor, config=EngineConfig(allow_foreign_paths=True)) == [8]


def test_absolute_vector_in_a_store_that_nobody_knows_is_refused(store):
    descriptor = DeletionVectorDescriptor.on_disk_with_absolute_path(
        "hdfs://node/x.bin", offset=1, size_in_bytes=36, cardinality=1
    )
    with pytest.raises(CorruptDeletionVectorError, match="cannot be opened"):
        load(store, store.url, descriptor, config=EngineConfig(allow_foreign_paths=True))


def test_absent_offset_means_the_first_vector(table, store):
    descriptor = described(VectorFile(table).add([4]), offset=None)
    assert rows_of(store, descriptor) == [4]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage_type", ["u", "p"])
def test_missing_file_is_named_and_never_means_no_rows(table, store, storage_type):
    file = VectorFile(table)
    descriptor = described(file.add([1], storage_type=storage_type))
    file.path.unlink()
    with pytest.raises(MissingDataFileError, match=file.path.name) as refused:
        load(store, store.url, descriptor)
    assert refused.value.error_class == "DELTA_FILE_NOT_FOUND"


@pytest.mark.parametrize(
    ("changes", "error_class"),
    [
        ({"size_in_bytes": 35}, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        ({"size_in_bytes": 37}, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        ({"offset": 0}, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        ({"offset": 2}, "DELTA_DELETION_VECTOR_SIZE_MISMATCH"),
        ({"offset": 45}, ""),
        ({"offset": 2**31 - 1}, ""),
        ({"cardinality": 1}, "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"),
        ({"cardinality": 3}, "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"),
    ],
    ids=str,
)
def test_descriptor_that_disagrees_with_the_file_is_refused(table, store, changes, error_class):
    descriptor = described(VectorFile(table).add([0, 9]), **changes)
    with pytest.raises(CorruptDeletionVectorError) as refused:
        load(store, store.url, descriptor)
    assert refused.value.error_class == error_class


def test_inline_cardinality_is_checked_too(store):
    with pytest.raises(CorruptDeletionVectorError) as refused:
        load(store, store.url, described(inline_descriptor([1, 2]), cardinality=1))
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"


def test_big_endian_inline_example_of_the_protocol_is_refused(store):
    descriptor = DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv="wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        size_in_bytes=40,
        cardinality=6,
    )
    with pytest.raises(CorruptDeletionVectorError, match="magic number"):
        load(store, store.url, descriptor)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_far", [False, True], ids=["read together", "read apart"])
def test_version_byte_is_always_looked_at(table, store, version, is_far):
    file = VectorFile(table)
    if is_far:
        file.add(EVERY_OTHER_ROW)
    descriptor = described(file.add([1]))
    file.path.write_bytes(bytes([version]) + file.path.read_bytes()[1:])
    with pytest.raises(CorruptDeletionVectorError, match="version 1"):
        load(store, store.url, descriptor)


def test_flipped_byte_is_a_checksum_mismatch(table, store):
    file = VectorFile(table)
    descriptor = described(file.add([0, 9]))
    content = bytearray(file.path.read_bytes())
    content[-6] ^= 1
    file.path.write_bytes(content)
    with pytest.raises(CorruptDeletionVectorError) as refused:
        load(store, store.url, descriptor)
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"


def test_damage_behind_a_right_checksum_is_named_with_its_file(store):
    payload = struct.pack("<I", 7) + bytes(8)
    uuid = uuid4()
    store.put_if_absent(f"deletion_vector_{uuid}.bin", VERSION_HEADER + frame(payload))
    descriptor = DeletionVectorDescriptor.on_disk_with_relative_path(
        uuid, offset=1, size_in_bytes=len(payload), cardinality=1
    )
    with pytest.raises(CorruptDeletionVectorError, match=f"{uuid}.*magic number"):
        load(store, store.url, descriptor)


@pytest.mark.parametrize(("num_records", "is_right"), [(10, True), (9, False), (0, False), (None, True)])
def test_marked_row_must_exist_where_the_row_count_is_known(table, store, num_records, is_right):
    descriptor = described(VectorFile(table).add([0, 9]))
    if is_right:
        assert rows_of(store, descriptor, num_records=num_records) == [0, 9]
        return
    with pytest.raises(CorruptDeletionVectorError) as refused:
        load(store, store.url, descriptor, num_records=num_records)
    assert refused.value.error_class == "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"


def test_vector_larger_than_the_limit_is_refused_before_it_is_read(table, store):
    fields = VectorFile(table).add([0, 9])
    for descriptor in (described(fields), described(inline_descriptor([0, 9]))):
        with pytest.raises(CorruptDeletionVectorError, match="claims 36 bytes"):
            load(store, store.url, descriptor, config=EngineConfig(max_deletion_vector_bytes=35))
    assert store.reads == []


# --- many at once -----------------------------------------------------------------------------------------------------


def test_vectors_of_one_file_are_fetched_by_one_read(table, store):
    file = VectorFile(table)
    descriptors = [described(file.add([number, number + 5])) for number in range(20)]
    loaded = load_all(store, store.url, list(reversed(descriptors)))
    assert [list(rows) for rows in loaded] == [[number, number + 5] for number in reversed(range(20))]
    assert len(store.reads) == 1


def test_vectors_that_lie_far_apart_are_fetched_apart(table, store):
    file = VectorFile(table)
    first = described(file.add([1]))
    file.add(EVERY_OTHER_ROW)
    last = described(file.add([2]))
    loaded = load_all(store, store.url, [first, last])
    assert [list(rows) for rows in loaded] == [[1], [2]]
    assert len(store.reads) == 2
    assert sum(length for _, _, length in store.reads) < 200


def test_one_vector_asked_for_twice_is_two_sets(table, store):
    descriptor = described(VectorFile(table).add([1]))
    first, second = load_all(store, store.url, [descriptor, descriptor])
    first.add_range(5, 6)
    assert list(second) == [1]


def test_many_files_and_kinds_keep_their_order(table, store):
    files = [VectorFile(table) for _ in range(12)]
    wanted = []
    for number in range(60):
        if number % 6 == 5:
            wanted.append((described(inline_descriptor([number])), [number]))
        elif number % 6 == 4:
            wanted.append((DeletionVectorDescriptor.EMPTY, []))
        else:
            wanted.append((described(files[number % 12].add([number, 10**6])), [number, 10**6]))
    loaded = load_all(store, store.url, [descriptor for descriptor, _ in wanted], num_records=[10**6 + 1] * len(wanted))
    assert [list(rows) for rows in loaded] == [rows for _, rows in wanted]


def test_row_count_of_each_vector_is_its_own(table, store):
    file = VectorFile(table)
    descriptors = [described(file.add([5])), described(file.add([9]))]
    assert len(load_all(store, store.url, descriptors, num_records=[6, 10])) == 2
    with pytest.raises(CorruptDeletionVectorError, match="marks row 9"):
        load_all(store, store.url, descriptors, num_records=[10, 6])


def test_one_broken_file_among_many_fails_the_whole(table, store):
    files = [VectorFile(table) for _ in range(10)]
    descriptors = [described(file.add([1])) for file in files]
    files[7].path.unlink()
    with pytest.raises(MissingDataFileError):
        load_all(store, store.url, descriptors)


def test_row_counts_must_be_as_many_as_vectors(store):
    with pytest.raises(RequestError, match="1 row counts"):
        load_all(store, store.url, [], num_records=[3])


def test_nothing_asked_is_nothing_read(store):
    assert load_all(store, store.url, []) == []
    assert store.reads == []


def test_vector_that_marks_more_rows_than_allowed_is_refused_before_it_is_read():
    descriptor = DeletionVectorDescriptor.inline_in_log(RowIndexSet.from_range(0, 1000).serialize(), 1000)
    store = open_store("memory://limits/t")
    config = EngineConfig(max_deletion_vector_rows=999)
    with pytest.raises(
        CorruptDeletionVectorError, match=r"1000 rows; EngineConfig\.max_deletion_vector_rows allows 999"
    ):
        load(store, store.url, descriptor, config=config)
    assert len(load(store, store.url, descriptor)) == 1000


def test_error_over_a_foreign_file_tells_nothing_of_its_bytes(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\x01SECRETSECRETSECRET")
    descriptor = DeletionVectorDescriptor.on_disk_with_absolute_path(
        secret.as_uri(), size_in_bytes=4, cardinality=1, offset=1
    )
    store = open_store(str(tmp_path))
    with pytest.raises(CorruptDeletionVectorError) as caught:
        load(store, store.url, descriptor)
    assert str(int.from_bytes(b"SECR", "big")) not in str(caught.value)
