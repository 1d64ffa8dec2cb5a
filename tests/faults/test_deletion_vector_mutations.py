"""Can damage to a deletion vector ever hide or reveal a wrong row?

Thousands of damaged files, inline texts and descriptors are loaded. Damage to a file behind a checksum must give the exact
rows or a typed error. Inline vectors and files with a recomputed checksum have no such guard: there, what is accepted
must be a sound set with the cardinality that the log claims, and one that the whole format agrees on.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from pyroaring import BitMap64

from ebbtide.deletion_vectors import NewMarks, RowIndexSet, load, load_all, write_deletion_vectors
from ebbtide.deletion_vectors.container import VERSION_HEADER, frame
from ebbtide.errors import CorruptTableError
from ebbtide.protocol import base85
from ebbtide.protocol.deletion_vector import DeletionVectorDescriptor
from ebbtide.storage import open_store

pytestmark = pytest.mark.timeout(180)

ID = UUID("61d16c75-6994-46b7-a15b-8b538852e50e")
FILE_NAME = f"deletion_vector_{ID}.bin"
NUM_RECORDS = 400_000
ROUNDS = 1500


def vectors():
    rng = random.Random(11)
    return [
        RowIndexSet([0, 9]),
        RowIndexSet(rng.sample(range(NUM_RECORDS), 300)),
        RowIndexSet(rng.sample(range(65536), 5000)),
        RowIndexSet(row for row in range(100_000) if row % 50 < 20),
        RowIndexSet.from_range(65530, 131080),
    ]


@pytest.fixture
def store():
    return open_store(f"memory://{uuid4()}/table")


@pytest.fixture
def written(store):
    """Rows and descriptors of several vectors in one file, and the file's bytes."""
    rows = vectors()
    results = write_deletion_vectors(store, [NewMarks(None, marked) for marked in rows], new_uuid=lambda: ID)
    descriptors = [result.descriptor for result in results]
    return rows, descriptors, store.read(FILE_NAME)


def damaged(data, rng):
    """One random wound: flipped bits, bytes changed, cut, inserted, dropped, moved or zeroed."""
    wounded = bytearray(data)
    at = rng.randrange(len(wounded))
    length = rng.choice([1, 1, 2, 4, 8, 100])
    kind = rng.randrange(7)
    if kind == 0:
        wounded[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        wounded[at : at + length] = rng.randbytes(len(wounded[at : at + length]))
    elif kind == 2:
        del wounded[at:]
    elif kind == 3:
        wounded[at:at] = rng.randbytes(length)
    elif kind == 4:
        del wounded[at : at + length]
    elif kind == 5:
        other = rng.randrange(len(wounded))
        piece = wounded[other : other + length]
        wounded[at : at + len(piece)] = piece
    else:
        wounded[at : at + length] = bytes(len(wounded[at : at + length]))
    return bytes(wounded)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_file_gives_the_exact_rows_or_a_typed_error(store, written, seed):
    rows, descriptors, content = written
    rng = random.Random(seed)
    refusals = 0
    for _ in range(ROUNDS):
        store.put(FILE_NAME, damaged(content, rng))
        position = rng.randrange(len(descriptors))
        try:
            loaded = load(store, store.url, descriptors[position], num_records=NUM_RECORDS)
        except CorruptTableError:
            refusals += 1
            continue
        assert loaded == rows[position]
    assert refusals > ROUNDS / 20


def test_damaged_file_read_as_a_whole_gives_all_rows_or_a_typed_error(store, written):
    rows, descriptors, content = written
    rng = random.Random(99)
    refusals = 0
    for _ in range(ROUNDS // 3):
        wounded = damaged(content, rng)
        store.put(FILE_NAME, wounded)
        try:
            loaded = load_all(store, store.url, descriptors)
        except CorruptTableError:
            refusals += 1
            continue
        assert loaded == rows
    assert refusals > ROUNDS / 6


def test_small_file_with_any_one_bit_flipped_is_refused(store):
    [result] = write_deletion_vectors(store, [NewMarks(None, RowIndexSet([0, 9]))], new_uuid=lambda: ID)
    content = store.read(FILE_NAME)
    for bit in range(8 * len(content)):
        wounded = bytearray(content)
        wounded[bit // 8] ^= 1 << bit % 8
        store.put(FILE_NAME, bytes(wounded))
        with pytest.raises(CorruptTableError):
            load(store, store.url, result.descriptor)


def test_small_file_cut_anywhere_is_refused(store):
    [result] = write_deletion_vectors(store, [NewMarks(None, RowIndexSet([0, 9]))], new_uuid=lambda: ID)
    content = store.read(FILE_NAME)
    for length in range(len(content)):
        store.put(FILE_NAME, content[:length])
        with pytest.raises(CorruptTableError):
            load(store, store.url, result.descriptor)


@pytest.mark.parametrize("position", range(5))
def test_damage_with_a_recomputed_checksum_is_sound_or_a_typed_error(store, position):
    rows = vectors()[position]
    payload = rows.serialize()
    rng = random.Random(position)
    for _ in range(ROUNDS // 2):
        wounded = damaged(payload, rng)
        store.put(FILE_NAME, VERSION_HEADER + frame(wounded))
        descriptor = DeletionVectorDescriptor.on_disk_with_relative_path(
            ID, offset=1, size_in_bytes=len(wounded), cardinality=len(rows)
        )
        check_sound_or_refused(store, descriptor, wounded)


@pytest.mark.parametrize("position", [0, 1, 4])
def test_damaged_inline_text_is_sound_or_a_typed_error(store, position):
    rows = vectors()[position]
    whole = DeletionVectorDescriptor.inline_in_log(rows.serialize(), len(rows))
    rng = random.Random(position)
    for _ in range(ROUNDS):
        text = damaged(whole.path_or_inline_dv.encode(), rng).decode("latin-1")
        if rng.random() < 0.5:
            # Damage that stays inside the alphabet gets further than the first look.
            text = "".join(letter if letter in base85.ALPHABET else "0" for letter in text)
        fields = {**whole.to_json(), "pathOrInlineDv": text}
        try:
            descriptor = DeletionVectorDescriptor.from_json(fields)
        except CorruptTableError:
            continue
        check_sound_or_refused(store, descriptor, descriptor.inline_data)


def check_sound_or_refused(store, descriptor, payload):
    try:
        loaded = load(store, store.url, descriptor, num_records=NUM_RECORDS)
    except CorruptTableError:
        return
    assert len(loaded) == descriptor.cardinality
    assert loaded.max() < NUM_RECORDS
    assert list(loaded) == list(BitMap64.deserialize(payload[4:]))


@pytest.mark.parametrize("seed", range(2))
def test_damaged_descriptor_gives_the_exact_rows_or_a_typed_error(store, written, seed):
    rows, descriptors, _ = written
    by_id = {descriptor.unique_id: marked for descriptor, marked in zip(descriptors, rows, strict=True)}
    rng = random.Random(seed)
    numbers = [-1, 0, 1, 2, 35, 36, 37, 44, 45, 2**31 - 1, 2**31, 2**32 + 1, 2**63, 1.5, 1e300, None, "1", True, [], {}]
    for _ in range(ROUNDS):
        fields = rng.choice(descriptors).to_json()
        name = rng.choice(list(fields))
        if isinstance(fields[name], str) and rng.random() < 0.8:
            fields[name] = damaged(fields[name].encode() or b"x", rng).decode("latin-1")
        else:
            fields[name] = rng.choice(numbers)
        fields = json.loads(json.dumps(fields))
        try:
            descriptor = DeletionVectorDescriptor.from_json(fields)
            loaded = load(store, store.url, descriptor, num_records=NUM_RECORDS)
        except CorruptTableError:
            continue
        if descriptor.is_empty:
            assert not loaded
        else:
            known = by_id.get(replace(descriptor, offset=descriptor.offset or 1).unique_id)
            assert loaded == known
