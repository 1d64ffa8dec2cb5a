"""Does a compacted log file mean what its commits mean?"""

from __future__ import annotations

import json

import pytest
from tests.support.log_builder import LogBuilder, add, commit_info, domain, live_keys, metadata, protocol, remove, txn
from tests.support.log_builder import vector as vector_of

from ebbtide.errors import CorruptTableError, RequestError, UnsupportedFeatureError
from ebbtide.log import load_snapshot, write_checkpoint
from ebbtide.log.compaction import compact_log

HEAD = protocol(features=["deletionVectors", "domainMetadata", "v2Checkpoint"])
OLD, NEW = vector_of(offset=1), vector_of(offset=50)


@pytest.fixture
def log():
    """Files come, go, come back and change their vector; applications and domains move on."""
    log = LogBuilder()
    log.commit(0, [HEAD, metadata(), add("a"), add("b"), txn("x", 1), domain("d", "1"), domain("e", "1")])
    log.commit(1, [commit_info(operation="DELETE"), remove("a"), add("a", dv=OLD), txn("x", 2), txn("y", 1)])
    log.commit(2, [{"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": False}}])
    log.commit(3, [remove("a", dv=OLD, at=9), add("a", dv=NEW), remove("b"), domain("d", removed=True)])
    log.commit(4, [add("b", size=7), add("c"), metadata({"id": "long", "n": "long"})])
    log.commit(5, [remove("c")])
    return log


def content(log, name):
    return [json.loads(line) for line in log.store.read(f"_delta_log/{name}").splitlines()]


def state(log, version=None):
    snapshot = load_snapshot(log.store, version=version)
    return (
        live_keys(snapshot),
        sorted(map(str, snapshot.tombstones().to_pylist())),
        snapshot.transactions,
        snapshot.domain_metadata,
        snapshot.metadata,
        snapshot.protocol,
    )


@pytest.mark.parametrize(("start", "end"), [(0, 5), (1, 3), (2, 4), (4, 5), (0, 1)])
def test_versions_from_the_end_of_a_compaction_on_are_the_same_without_its_commits(log, start, end):
    before = {version: state(log, version) for version in range(end, 6)}
    done = compact_log(load_snapshot(log.store), start, end)
    assert done.path == f"_delta_log/{start:020d}.{end:020d}.compacted.json"
    for version in range(start, end):
        log.delete(f"{version:020d}.json")
    assert {version: state(log, version) for version in range(end, 6)} == before


def test_newest_action_of_each_kind_is_kept_and_what_describes_commits_is_not(log):
    done = compact_log(load_snapshot(log.store), 1, 4)
    written = content(log, done.path.rpartition("/")[2])
    assert written[0] == metadata({"id": "long", "n": "long"})
    assert sorted(map(str, written[1:])) == sorted(
        map(
            str,
            [
                remove("a"),
                remove("a", dv=OLD, at=9),
                add("a", dv=NEW),
                add("b", size=7),
                add("c"),
                txn("x", 2),
                txn("y", 1),
                domain("d", removed=True),
            ],
        )
    )
    assert done.num_actions == len(written) == 9
    assert done.size_in_bytes == len(log.store.read(done.path))


def test_fields_that_nobody_here_knows_are_copied(log):
    log.commit(6, [add("z", somethingNew={"deep": [1]})])
    compact_log(load_snapshot(log.store), 5, 6)
    assert content(log, f"{5:020d}.{6:020d}.compacted.json")[-1]["add"]["somethingNew"] == {"deep": [1]}


def test_two_spellings_of_a_path_are_one_file(log):
    log.commit(6, [add("p=a%20b/f")])
    log.commit(7, [remove("p=a%20b/./f")])
    compact_log(load_snapshot(log.store), 6, 7)
    assert [list(action) for action in content(log, f"{6:020d}.{7:020d}.compacted.json")] == [["remove"]]


def test_everything_since_the_newest_checkpoint_is_compacted_unless_told_otherwise(log):
    assert compact_log(load_snapshot(log.store)).path.endswith(f"{0:020d}.{5:020d}.compacted.json")
    write_checkpoint(load_snapshot(log.store, version=2), now_ms=0)
    done = compact_log(load_snapshot(log.store))
    assert (done.version, done.end_version) == (3, 5)


def test_second_compaction_of_the_same_commits_changes_nothing(log):
    first = compact_log(load_snapshot(log.store), 1, 3)
    data = log.store.read(first.path)
    assert first.is_new
    assert not compact_log(load_snapshot(log.store), 1, 3).is_new
    assert log.store.read(first.path) == data


@pytest.mark.parametrize(("start", "end"), [(3, 3), (4, 2), (-1, 3), (0, 6), (6, None), (5, 5)])
def test_what_is_no_range_of_two_commits_is_refused(log, start, end):
    names = set(log.store.objects)
    with pytest.raises(RequestError, match="not a range of at least two commits"):
        compact_log(load_snapshot(log.store), start, end)
    assert set(log.store.objects) == names


def test_commit_that_was_cleaned_up_is_named(log):
    write_checkpoint(load_snapshot(log.store), now_ms=0)
    log.delete(f"{1:020d}.json")
    with pytest.raises(RequestError, match=r"version 1 .* Start after 1"):
        compact_log(load_snapshot(log.store), 0, 3)


def test_nothing_to_compact_after_a_checkpoint_is_said(log):
    write_checkpoint(load_snapshot(log.store), now_ms=0)
    with pytest.raises(RequestError, match=r"since its newest checkpoint, version 5, are not a range"):
        compact_log(load_snapshot(log.store))


def test_commit_that_contradicts_itself_is_not_compacted(log):
    log.commit(6, [add("q")])
    snapshot = load_snapshot(log.store)
    log.commit(6, [add("q"), remove("q")])
    with pytest.raises(CorruptTableError, match="two different things about file q"):
        compact_log(snapshot, 5, 6)


def test_of_two_progresses_in_one_commit_the_later_one_counts(log):
    log.commit(6, [txn("x", 9), txn("x", 8), add("q"), add("q")])
    compact_log(load_snapshot(log.store), 5, 6)
    actions = content(log, f"{5:020d}.{6:020d}.compacted.json")
    assert txn("x", 9) in actions
    assert [action for action in actions if "txn" in action] == [txn("x", 9)]


def test_table_with_a_feature_that_we_do_not_know_is_not_compacted(log):
    log.commit(6, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["somethingNew"]}}])
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        compact_log(load_snapshot(log.store), 0, 6)
