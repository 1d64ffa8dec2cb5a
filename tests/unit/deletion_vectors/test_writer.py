"""Are new marks packed into files as the reference packs them, and is every descriptor true when it is handed out?"""

from __future__ import annotations

import random
from uuid import UUID, uuid4

import pytest
from tests.support.recording_store import RecordingStore

from ebbtide.deletion_vectors import NewMarks, RowIndexSet, load, write_deletion_vectors
from ebbtide.errors import ObjectExistsError, PermissionDeniedError, RequestError
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import PutOutcomeUnknownError, open_store

ID = UUID("61d16c75-6994-46b7-a15b-8b538852e50e")


@pytest.fixture
def store():
    return RecordingStore(open_store(f"memory://{uuid4()}/table"))


def marks(*rows, key=None, existing=None, existing_rows=None):
    return NewMarks(key, RowIndexSet(rows), existing, existing_rows)


def existing_vector(store, *rows):
    [result] = write_deletion_vectors(store, [marks(*rows)])
    store.puts.clear()
    return {"existing": result.descriptor, "existing_rows": load(store, store.url, result.descriptor)}


class FailingStore(RecordingStore):
    """Fails the first puts with the given errors; `store_first` lets the object appear before the failure."""

    def __init__(self, inner, errors, *, store_first=False):
        super().__init__(inner)
        self.errors = list(errors)
        self.store_first = store_first

    def put_if_absent(self, path, data):
        error = self.errors.pop(0) if self.errors else None
        if error is None or self.store_first:
            super().put_if_absent(path, data)
        if error is not None:
            raise error


def test_golden_file_is_written_byte_for_byte(store):
    [result] = write_deletion_vectors(store, [marks(0, 9, key="part-0.parquet")], new_uuid=lambda: ID)
    golden = "01 00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900 2a671846"
    assert store.puts == [(f"deletion_vector_{ID}.bin", bytes.fromhex(golden))]
    assert result.key == "part-0.parquet"
    assert result.matched_row_count == 2
    assert result.descriptor.to_json() == {
        "storageType": "u",
        "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    assert result.descriptor.max_row_index == 9


def test_offsets_point_at_the_size_of_each_vector(store):
    results = list(write_deletion_vectors(store, [marks(1), marks(0, 9), marks(7)]))
    assert [result.descriptor.offset for result in results] == [1, 1 + 34 + 8, 1 + 34 + 8 + 36 + 8]
    assert [list(load(store, store.url, result.descriptor)) for result in results] == [[1], [0, 9], [7]]


@pytest.mark.parametrize(("target_bytes", "files"), [(2, 10), (200, 3), (2_000_000, 1)])
def test_ten_small_vectors_are_packed_as_the_reference_packs_them(store, target_bytes, files):
    results = list(write_deletion_vectors(store, [marks(0, key=n) for n in range(10)], target_bytes=target_bytes))
    assert [result.descriptor.size_in_bytes for result in results] == [34] * 10
    assert [result.key for result in results] == list(range(10))
    assert len(store.puts) == files


def test_bin_takes_what_exactly_fills_the_target(store):
    list(write_deletion_vectors(store, [marks(0), marks(0)], target_bytes=84))
    assert len(store.puts) == 1


def test_bin_is_closed_when_the_next_vector_would_exceed_the_target(store):
    list(write_deletion_vectors(store, [marks(0), marks(0)], target_bytes=83))
    assert len(store.puts) == 2


def test_packing_never_goes_back_to_an_earlier_file(store):
    large = range(0, 2000, 2)
    results = write_deletion_vectors(store, [marks(0), marks(*large), marks(0)], target_bytes=100)
    names = [result.descriptor.path_or_inline_dv for result in results]
    assert len(set(names)) == 3


def test_estimate_counts_the_old_vector_beside_the_new_marks(store):
    old = existing_vector(store, 0)
    # 34 new + 34 old + 8 for each, although each union takes only 36 + 8.
    list(write_deletion_vectors(store, [marks(1, **old), marks(1, **old)], target_bytes=151))
    assert len(store.puts) == 2
    store.puts.clear()
    list(write_deletion_vectors(store, [marks(1, **old), marks(1, **old)], target_bytes=152))
    assert len(store.puts) == 1


def test_old_marks_are_kept_and_only_new_ones_counted(store):
    old = existing_vector(store, 3, 70000)
    [result] = write_deletion_vectors(store, [marks(3, 4, **old)])
    assert list(load(store, store.url, result.descriptor)) == [3, 4, 70000]
    assert result.descriptor.cardinality == 3
    assert result.matched_row_count == 2
    assert result.descriptor.unique_id != old["existing"].unique_id
    assert list(old["existing_rows"]) == [3, 70000]


def test_no_new_marks_give_the_old_descriptor_back_and_write_nothing(store):
    old = existing_vector(store, 3)
    results = list(write_deletion_vectors(store, [marks(**old), marks()]))
    assert [result.descriptor for result in results] == [old["existing"], DeletionVectorDescriptor.EMPTY]
    assert [result.matched_row_count for result in results] == [0, 0]
    assert store.puts == []


def test_nothing_to_write_creates_no_file(store):
    assert list(write_deletion_vectors(store, [])) == []
    assert store.puts == []


def test_each_file_has_its_own_uuid_and_prefix(store):
    results = list(
        write_deletion_vectors(store, [marks(0), marks(0)], target_bytes=0, prefix_length=3, rng=random.Random(1))
    )
    prefixes = {result.descriptor.random_prefix_and_uuid[0] for result in results}
    assert len(prefixes) == 2
    assert all(len(prefix) == 3 and prefix.isalnum() and prefix.isascii() for prefix in prefixes)
    assert [path for path, _ in store.puts] == [result.descriptor.relative_path for result in results]


def test_descriptors_come_only_after_their_file_is_stored(store):
    arrived = []

    def arriving():
        for number in range(4):
            arrived.append(number)
            yield marks(number)

    results = write_deletion_vectors(store, arriving(), target_bytes=84)
    assert store.puts == []
    next(results)
    assert len(store.puts) == 1
    # The third has to be seen to know that the bin is full; the fourth waits.
    assert arrived == [0, 1, 2]


def test_failed_put_hands_out_no_descriptor(store):
    failing = FailingStore(store.inner, [PermissionDeniedError("no")])
    with pytest.raises(PermissionDeniedError):
        next(write_deletion_vectors(failing, [marks(0)]))


@pytest.mark.parametrize("store_first", [False, True])
@pytest.mark.parametrize("error", [ObjectExistsError("taken"), PutOutcomeUnknownError("lost")], ids=["taken", "lost"])
def test_name_that_may_be_taken_is_left_for_a_new_one(store, error, store_first):
    failing = FailingStore(store.inner, [error], store_first=store_first)
    [result] = write_deletion_vectors(failing, [marks(0, 5)])
    assert list(load(store, store.url, result.descriptor)) == [0, 5]


def test_existing_file_is_never_overwritten(store):
    store.put_if_absent(f"deletion_vector_{ID}.bin", b"theirs")
    with pytest.raises(ObjectExistsError):
        list(write_deletion_vectors(store, [marks(0)], new_uuid=lambda: ID))
    assert store.read(f"deletion_vector_{ID}.bin") == b"theirs"


@pytest.mark.parametrize("target_bytes", [-1, 3 * 2**29])
def test_target_outside_the_limits_is_refused_at_once(store, target_bytes):
    with pytest.raises(RequestError, match="target size"):
        write_deletion_vectors(store, [], target_bytes=target_bytes)


def test_old_descriptor_without_its_rows_is_refused():
    with pytest.raises(RequestError, match="both or neither"):
        NewMarks("x", RowIndexSet([1]), existing=DeletionVectorDescriptor.EMPTY)
