"""What does a log with damaged bytes do to its reader?

JSON has no checksum, so a flipped byte may leave another valid log behind. The rule is: a snapshot, or an error of ours;
never another exception, never a hang. Where the damage can be seen (a cut line, a broken checkpoint that commits can
replace), the outcome is exact.
"""

from __future__ import annotations

import random

import pytest
from tests.support.log_builder import (
    LogBuilder,
    add,
    commit_info,
    domain,
    live_keys,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)

from ebbtide.errors import CorruptTableError, DeltaError, InternalError
from ebbtide.log import load_snapshot, read_history, table_detail

HEAD = [
    protocol(features=["deletionVectors", "v2Checkpoint"]),
    metadata({"id": "long", "p": "string"}, partitions=["p"]),
]
FILES = [
    add(
        f"p={number}/f%20{number}",
        dv=vector(offset=number) if number % 2 else None,
        partition={"p": str(number)},
        stats='{"numRecords":9}',
    )
    for number in range(6)
]
STATE = [
    *HEAD,
    *FILES,
    remove("gone", dv=vector(offset=77)),
    txn("app", 3),
    domain("delta.clustering", '{"clusteringColumns":[["id"]]}'),
]
KINDS = ["commits", "classic", "multipart", "v2-json", "v2-parquet", "v2-json-sidecars", "compacted"]
FLIPS_PER_FILE = 120
CUTS_PER_FILE = 25


def write_log(kind, *, keep_commits=False):
    """A log whose state at version 2 is `STATE` and one commit, resting on files of one kind."""
    log = LogBuilder()
    if kind in {"commits", "compacted"} or keep_commits:
        log.commit(0, [commit_info(operation="WRITE", timestamp=1), *HEAD])
        log.commit(1, FILES[:3])
        log.commit(2, STATE[len(HEAD) + 3 :])
    if kind == "compacted":
        log.compact(1, 2, STATE[len(HEAD) :])
    elif kind in {"classic", "multipart"}:
        log.checkpoint(2, STATE, parts=1 if kind == "classic" else 2)
    elif kind.startswith("v2"):
        log.v2_checkpoint(2, STATE, format=kind.split("-")[1], sidecars=2 * kind.endswith("sidecars"))
    log.commit(
        3,
        [
            commit_info(operation="DELETE"),
            remove("p=0/f%200"),
            add("p=0/f%200", dv=vector(offset=9), partition={"p": "0"}),
        ],
    )
    return log


def outcome(store):
    """Everything a reader can ask of the log; an error must be one of ours and must not blame ourselves."""
    try:
        snapshot = load_snapshot(store)
        list(snapshot.add_files())
        snapshot.tombstones()
        table_detail(snapshot)
        read_history(store)
    except InternalError:
        raise
    except DeltaError:
        return None
    return snapshot


def flipped(data, randomness):
    position = randomness.randrange(len(data))
    return data[:position] + bytes([data[position] ^ (1 << randomness.randrange(8))]) + data[position + 1 :]


def overwritten(data, randomness):
    position = randomness.randrange(len(data))
    junk = randomness.randbytes(randomness.randint(1, 16))
    return data[:position] + junk + data[position + len(junk) :]


@pytest.mark.parametrize("damage", [flipped, overwritten], ids=["flipped", "overwritten"])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_byte_gives_a_snapshot_or_an_error_of_ours(kind, damage):
    log = write_log(kind)
    randomness = random.Random(f"{kind} {damage.__name__}")
    originals = dict(log.store.objects)
    for path, data in originals.items():
        for _ in range(FLIPS_PER_FILE):
            log.store.objects[path] = damage(data, randomness)
            outcome(log.store)
        log.store.objects[path] = data
    assert outcome(log.store) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_cut_file_gives_a_snapshot_or_an_error_of_ours(kind):
    log = write_log(kind)
    randomness = random.Random(kind)
    for path, data in dict(log.store.objects).items():
        for length in {0, 1, len(data) - 1, *(randomness.randrange(len(data)) for _ in range(CUTS_PER_FILE))}:
            log.store.objects[path] = data[:length]
            snapshot = outcome(log.store)
            # With a compacted file the commits are spares of each other, so a cut one may not be looked at.
            if snapshot is not None and path.endswith(".json") and kind != "compacted":
                # Only a cut between two lines can pass unnoticed, the newline of the last one aside.
                assert length == 0 or data[length - 1 : length] == b"\n" or data[length : length + 1] == b"\n", (
                    path,
                    length,
                )
        log.store.objects[path] = data


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-parquet", "v2-json-sidecars"])
def test_damaged_checkpoint_beside_its_commits_never_changes_the_answer(kind):
    """Parquet and its compression notice nearly all damage; what they do not notice may only be text they never check."""
    log = write_log(kind, keep_commits=True)
    expected = live_keys(load_snapshot(log.store))
    randomness = random.Random(kind)
    for path in [path for path in log.store.objects if path.endswith(".parquet")]:
        data = log.store.objects[path]
        for _ in range(40):
            log.store.objects[path] = data[: randomness.randrange(len(data))]
            assert live_keys(load_snapshot(log.store)) == expected
        log.store.objects[path] = data


def test_damaged_last_checkpoint_never_changes_the_answer():
    log = write_log("classic")
    hint = log.last_checkpoint(2, parts=1, sizeInBytes=100)
    expected = live_keys(load_snapshot(log.store))
    data, randomness = log.store.objects[hint], random.Random(1)
    for _ in range(200):
        log.store.objects[hint] = randomness.choice([flipped, overwritten])(data, randomness)
        assert live_keys(load_snapshot(log.store)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_any_file_missing_gives_the_same_state_or_an_error_of_ours(kind):
    log = write_log(kind)
    expected = live_keys(load_snapshot(log.store))
    for path, data in dict(log.store.objects).items():
        log.store.delete(path)
        snapshot = outcome(log.store)
        # Without its last commit the table is simply one version younger.
        if snapshot is not None and snapshot.version == 3:
            assert live_keys(snapshot) == expected
        log.store.objects[path] = data


def test_footer_that_claims_more_rows_than_bytes_is_refused():
    log = LogBuilder()
    (path,) = log.checkpoint(2, [*HEAD, add("p=1/a", partition={"p": "1"})], compression="none")
    log.store.objects[path] = log.store.objects[path].replace(b"\x16\x06", b"\x16\xfe\xff\xff\xff\x0f", 1)
    with pytest.raises(CorruptTableError):
        load_snapshot(log.store)
