"""Is a table judged by the actions that count, and not by those that later ones replaced?"""

import pytest
from tests.support.log_builder import (
    LogBuilder,
    add,
    checkpoint_table,
    domain,
    live_keys,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)

from ebbtide.errors import CorruptTableError
from ebbtide.log import load_snapshot, read_history

HEAD = [protocol(), metadata()]


def without(action, *names):
    ((kind, body),) = action.items()
    return {kind: {name: value for name, value in body.items() if name not in names}}


def log_of(*commits):
    log = LogBuilder()
    for version, actions in enumerate(commits):
        log.commit(version, actions)
    return log


REPLACED = {
    "metadata without a schema": (without(metadata(), "schemaString"), metadata()),
    "metadata with a number for an id": (metadata(id=1), metadata()),
    "two metadata in one commit": ([metadata(), metadata(id="other")], metadata()),
    "protocol without a writer version": (without(protocol(), "minWriterVersion"), protocol()),
    "protocol with a text for features": (protocol(readerFeatures="deletionVectors"), protocol()),
    "transaction without a version": (without(txn("app", 1), "version"), txn("app", 2)),
    "domain with a number": (domain("d", 1), domain("d", "x")),
    "removed domain with a number": (domain("d", 1), domain("d", "", removed=True)),
    "file without a size, removed": (without(add("a"), "size"), remove("a")),
    "file without a size, added again": (without(add("a"), "size"), add("a")),
    "file with odd tags, removed": (add("a", tags={"k": 1.5}), remove("a")),
    "removal with an odd time, added again": (remove("a", deletionTimestamp="soon"), add("a")),
}


@pytest.fixture(params=REPLACED, ids=str)
def replaced(request):
    first, second = REPLACED[request.param]
    return (first if isinstance(first, list) else [first]), second


def test_action_that_a_later_commit_replaces_is_no_reason_to_refuse_the_table(replaced):
    bad, good = replaced
    heads = [action for action in HEAD if next(iter(action)) not in {next(iter(action)) for action in bad}]
    log = log_of([*heads, *bad], [good])
    assert load_snapshot(log.store).version == 1


def test_version_in_which_the_bad_action_counts_is_refused(replaced):
    bad, good = replaced
    heads = [action for action in HEAD if next(iter(action)) not in {next(iter(action)) for action in bad}]
    log = log_of([*heads, *bad], [good])
    with pytest.raises(CorruptTableError):
        load_snapshot(log.store, version=0)


def test_history_of_a_table_with_bad_actions_is_told(replaced):
    bad, good = replaced
    log = log_of([*HEAD, {"commitInfo": {"operation": "WRITE"}}], bad, [good])
    assert [record.version for record in read_history(log.store)] == [2, 1, 0]


def test_history_tells_of_commits_whose_commit_info_is_no_object():
    log = log_of([*HEAD], [{"commitInfo": 5}, add("a")], [{"commitInfo": {"inCommitTimestamp": "soon"}}])
    assert [(record.version, record.commit_info) for record in read_history(log.store)] == [
        (2, None),
        (1, None),
        (0, None),
    ]


def test_snapshot_carried_forward_over_a_replaced_action_equals_a_fresh_one():
    log = log_of(HEAD)
    old = load_snapshot(log.store)
    log.commit(1, [without(metadata(), "schemaString"), without(add("b"), "size"), add("a")])
    log.commit(2, [metadata(name="new"), remove("b")])
    carried = load_snapshot(log.store, hint=old)
    assert carried.metadata.name == "new"
    assert live_keys(carried) == live_keys(load_snapshot(log.store)) == {("a", None)}


def test_file_without_a_size_is_refused_while_only_another_file_is_removed():
    log = log_of([*HEAD, without(add("a"), "size")], [remove("b")])
    with pytest.raises(CorruptTableError, match="'size'"):
        load_snapshot(log.store)


def test_file_without_a_path_is_refused_whatever_comes_later():
    log = log_of([*HEAD, without(add("a"), "path")], [add("a")], [remove("a")])
    with pytest.raises(CorruptTableError, match="'path'"):
        load_snapshot(log.store)


def test_bad_addition_and_removal_in_one_commit_replace_nothing():
    log = log_of(HEAD, [without(add("a"), "size"), remove("a")])
    with pytest.raises(CorruptTableError, match="'size'"):
        load_snapshot(log.store)


def test_log_with_thousands_of_bad_actions_names_the_first():
    log = log_of([*HEAD, *(without(add(f"{number}"), "size") for number in range(1500))], [remove("0")])
    with pytest.raises(CorruptTableError, match="'size'"):
        load_snapshot(log.store)


CHECKPOINTS = {
    "classic": lambda log, actions: log.checkpoint(4, actions),
    "in parts": lambda log, actions: log.checkpoint(4, actions, parts=2),
    "V2 of JSON": lambda log, actions: log.v2_checkpoint(4, actions),
    "V2 of Parquet": lambda log, actions: log.v2_checkpoint(4, actions, format="parquet"),
    "V2 with sidecars": lambda log, actions: log.v2_checkpoint(4, actions, sidecars=2),
}
BAD_FILES = [
    without(add("bad"), "size"),
    without(add("bad"), "partitionValues"),
    add("bad", size=-1),
]


@pytest.fixture(params=CHECKPOINTS, ids=str)
def write_checkpoint(request):
    return CHECKPOINTS[request.param]


@pytest.mark.parametrize("bad", BAD_FILES, ids=["no size", "no partition values", "negative size"])
@pytest.mark.parametrize("good", [remove("bad"), add("bad")], ids=["removed", "added again"])
def test_checkpoint_with_a_malformed_file_is_read_once_a_commit_replaces_it(write_checkpoint, bad, good):
    log = LogBuilder()
    write_checkpoint(log, [*HEAD, *(add(f"{number}") for number in range(9)), bad, add("last")])
    log.commit(5, [remove("3")])
    log.commit(6, [good])
    expected = {f"{number}" for number in range(9) if number != 3} | {"last"} | ({"bad"} if "add" in good else set())
    snapshot = load_snapshot(log.store)
    assert {path for path, _ in live_keys(snapshot)} == expected
    assert {row["path"] for row in snapshot.tombstones().to_pylist()} == {"3"} | ({"bad"} - expected)
    with pytest.raises(CorruptTableError, match=r"add\.(size|partitionValues)|'(size|partitionValues)'"):
        load_snapshot(log.store, version=5)


def test_checkpoint_with_a_malformed_file_is_refused_while_another_vector_of_it_is_removed(write_checkpoint):
    log = LogBuilder()
    write_checkpoint(log, [*HEAD, without(add("bad"), "size")])
    log.commit(5, [remove("bad", dv=vector())])
    with pytest.raises(CorruptTableError, match="size"):
        load_snapshot(log.store)


def test_checkpoint_full_of_malformed_files_is_refused_however_many_are_removed(write_checkpoint):
    log = LogBuilder()
    write_checkpoint(log, [*HEAD, *(without(add(f"{number}"), "size") for number in range(2500))])
    log.commit(5, [remove(f"{number}") for number in range(2500)])
    with pytest.raises(CorruptTableError, match="size"):
        load_snapshot(log.store)


@pytest.mark.parametrize("kind", ["metaData", "protocol", "domainMetadata"])
def test_checkpoint_with_an_action_that_a_commit_replaces_is_read(kind):
    log = LogBuilder()
    bad = {
        "metaData": [protocol(), without(metadata(), "schemaString")],
        "protocol": [without(protocol(), "minWriterVersion"), metadata()],
        "domainMetadata": [*HEAD, domain("d", "x"), domain("d", "y")],
    }[kind]
    good = {"metaData": metadata(), "protocol": protocol(), "domainMetadata": domain("d", "z")}[kind]
    log.checkpoint_of(4, checkpoint_table([*bad, add("a")]))
    log.commit(5, [good])
    assert live_keys(load_snapshot(log.store)) == {("a", None)}
    with pytest.raises(CorruptTableError):
        load_snapshot(log.store, version=4)
