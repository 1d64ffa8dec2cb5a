"""Does `maintain` find what a table needs, with the right numbers, and nothing where nothing is needed?

Each finding has a test in which it is there and one in which it is not.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.log_builder import LogBuilder, add, domain, metadata, protocol, remove, vector
from tests.support.table_builder import TableBuilder

from ebbtide.commands.maintain.command import MaintainCommand, plan_steps
from ebbtide.commands.maintain.findings import (
    ExpiredLogFiles,
    HeldRows,
    MissingCheckpoint,
    OldCheckpoint,
    PartitionGain,
    SmallFiles,
    UnneededFiles,
    UnsortedFiles,
    WornFiles,
)
from ebbtide.commands.maintain.request import MaintainRequest
from ebbtide.commands.optimize.request import OptimizeSettings
from ebbtide.errors import RequestError, TableNotFoundError, UnsupportedFeatureError
from ebbtide.log import load_snapshot
from ebbtide.log.checkpoint_writer import write_checkpoint
from ebbtide.storage import open_store
from ebbtide.transaction import Clock

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_700_000_000_000 + 400 * DAY
VECTORS = protocol(features=["deletionVectors"])
CLUSTERED = domain("delta.clustering", json.dumps({"clusteringColumns": [["id"], ["city"]]}))
CLUSTERED_PROTOCOL = protocol(
    reader=1, writer=7, features=None, writerFeatures=["domainMetadata", "clustering", "appendOnly", "invariants"]
)
SIZES = OptimizeSettings(target_bytes=1000, max_deleted_share=0.05, min_group_files=3)


def look(store, *, settings=SIZES, now_ms=NOW, **request):
    clock = Clock(now_ms=lambda: now_ms, sleep=lambda _: None)
    return MaintainCommand(MaintainRequest(store, settings, **request), clock=clock).look()


def findings(store, kind, **options):
    return [found for found in look(store, **options).findings if isinstance(found, kind)]


def table(*actions, head=None, **options):
    log = LogBuilder()
    log.commit(0, [head or VECTORS, metadata(**options), *actions])
    return log.store


def marked_file(path, rows, deleted, **options):
    return add(path, dv=vector(cardinality=deleted), stats=json.dumps({"numRecords": rows}), **options)


def history(versions, *, checkpoints=(), configuration=None):
    """One commit per day; version = day."""
    log = LogBuilder()
    for version in range(versions):
        first = [protocol(), metadata(configuration=configuration)] if version == 0 else []
        log.store.times[log.commit(version, [*first, add(f"f{version}", size=2000)])] = day(version)
        if version in checkpoints:
            for path in write_checkpoint(load_snapshot(log.store, version=version), now_ms=day(version)).files:
                log.store.times[path] = day(version)
    return log.store


def day(number):
    return 1_700_000_000_000 // DAY * DAY + number * DAY


# --- small files ------------------------------------------------------------------------------------------------------


def test_small_files_are_counted_by_partition_the_worst_first():
    parts = {"a": 3, "b": 5, "c": 2}
    small = [add(f"{part}{n}", size=100, partition={"p": part}) for part, count in parts.items() for n in range(count)]
    store = table(*small, columns={"id": "long", "p": "string"}, partitions=["p"])
    (found,) = findings(store, SmallFiles)
    gains = (PartitionGain("p=b", 5, 500, 1), PartitionGain("p=a", 3, 300, 1))
    assert found == SmallFiles(8, 800, 2, 2, 1000, gains)
    assert found.reason == "8 files (800 B) are smaller than 1000 B, most of them in p=b; they would become 2 files."


def test_fewer_small_files_than_the_threshold_are_left_alone():
    assert look(table(add("a"), add("b"))).findings == ()


def test_small_files_that_do_not_fit_together_are_left_alone():
    assert look(table(*(add(name, size=600) for name in "abcdef"))).findings == ()


def test_partitions_are_named_as_users_know_them_when_columns_are_mapped(tmp_path):
    built = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "p": pa.string()}))
    built.partitioned_by("p").column_mapping("name")
    for number in range(3):
        built.file([{"id": number, "p": "x"}])
    built.commit()
    (found,) = findings(open_store(str(built.path)), SmallFiles, settings=OptimizeSettings(min_group_files=3))
    assert [gain.partition for gain in found.partitions] == ["p=x"]


# --- deleted share ----------------------------------------------------------------------------------------------------


def test_files_above_the_deleted_share_are_found_even_if_large_and_alone():
    (found,) = findings(table(marked_file("a", 100, 6, size=5000), marked_file("b", 100, 5, size=5000)), WornFiles)
    assert found == WornFiles(1, 5000, 6, 0.05, 0.06)
    assert "6 deleted rows in 1 file (4.9 KiB), up to 6.0 % of a file where 5.0 % are allowed" in found.reason


def test_files_at_the_deleted_share_or_below_are_left_alone():
    assert look(table(marked_file("a", 100, 5, size=5000), marked_file("b", 100, 0, size=5000))).findings == ()


def test_file_that_does_not_state_its_rows_counts_as_worn_with_an_unknown_share():
    (found,) = findings(table(add("a", size=5000, dv=vector(cardinality=1))), WornFiles)
    assert found.worst_share is None
    assert "an unknown share" in found.reason


# --- clustering -------------------------------------------------------------------------------------------------------


def clustered_table(*adds):
    columns = {"id": "long", "city": "string"}
    return table(CLUSTERED, *adds, head=CLUSTERED_PROTOCOL, columns=columns)


def test_files_that_nobody_sorted_are_found_on_a_clustered_table():
    found = look(clustered_table(add("a", size=5000), add("b", size=5000, clusteringProvider="ebbtide"))).findings
    assert found == (UnsortedFiles(1, 5000, ("id", "city")),)
    assert found[0].reason == "1 file (4.9 KiB) not yet sorted by the clustering columns id, city."


def test_sorted_files_of_a_clustered_table_are_left_alone():
    sorted_by = ("ebbtide", "liquid", "ebbtide")
    adds = [add(f"f{n}", size=5000, clusteringProvider=name) for n, name in enumerate(sorted_by)]
    assert look(clustered_table(*adds)).findings == ()


def test_small_sorted_files_of_a_clustered_table_are_small_files():
    adds = [add(f"f{n}", size=600, clusteringProvider="ebbtide") for n in range(4)]
    (found,) = look(clustered_table(*adds)).findings
    assert isinstance(found, SmallFiles)
    assert (found.num_files, found.num_new_files) == (4, 3)


# --- purge ------------------------------------------------------------------------------------------------------------


def test_deleted_rows_below_the_share_are_found_when_a_purge_is_asked_for():
    store = table(marked_file("a", 1000, 1, size=5000), add("b", size=5000))
    (found,) = look(store, purges=True).findings
    assert found == HeldRows(1, 5000, 1, 0)
    assert found.reason == "1 live file (4.9 KiB) still holding 1 deleted row."


def test_deleted_rows_are_not_looked_for_when_no_purge_is_asked_for():
    assert look(table(marked_file("a", 1000, 1, size=5000))).findings == ()


def test_nothing_is_held_by_files_without_marks():
    assert look(table(add("a", size=5000)), purges=True).findings == ()


def test_dropped_columns_are_found_in_footers_when_a_purge_is_asked_for(tmp_path):
    built = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64(), "gone": pa.string()})).column_mapping("name")
    built.file([{"id": 1, "gone": "x"}]).commit().schema(pa.schema({"id": pa.int64()})).commit()
    (found,) = findings(open_store(str(built.path)), HeldRows, purges=True)
    assert (found.num_files, found.num_marked_rows, found.num_files_with_dropped_columns) == (1, 0, 1)
    assert "dropped columns (in 1 file)" in found.reason


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_log_without_a_checkpoint_is_found_once_one_was_due():
    (found,) = findings(history(11), MissingCheckpoint)
    assert found == MissingCheckpoint(11, 10)
    assert found.reason == "No checkpoint: every reader replays 11 commits. There should be one every 10 commits."


def test_log_whose_first_checkpoint_is_not_due_needs_none():
    assert look(history(10)).findings == ()


def test_checkpoint_that_is_too_old_is_found():
    (found,) = findings(history(14, checkpoints=[3]), OldCheckpoint)
    assert found == OldCheckpoint(10, 3, 10)
    assert "10 commits since the checkpoint of version 3" in found.reason


def test_checkpoint_that_is_recent_enough_is_left_alone():
    assert look(history(13, checkpoints=[3]), now_ms=day(14)).findings == ()


def test_table_says_how_many_commits_are_too_many_unless_the_caller_does():
    store = history(4, configuration={"delta.checkpointInterval": "3"})
    assert findings(store, MissingCheckpoint) == [MissingCheckpoint(4, 3)]
    assert findings(store, MissingCheckpoint, max_commits=4) == []


# --- storage ----------------------------------------------------------------------------------------------------------


def test_orphans_and_removed_files_older_than_the_retention_are_found():
    log = LogBuilder()
    log.commit(0, [protocol(), metadata(), add("old", size=2000), add("live", size=2000)])
    log.commit(1, [remove("old", at=NOW - 8 * DAY)])
    for name, size in (("old", 7), ("live", 5), ("orphan", 100)):
        log.store.put(name, b"x" * size)
    (found,) = findings(log.store, UnneededFiles)
    assert (found.num_paths, found.num_bytes, found.cutoff_ms) == (2, 107, NOW - 7 * DAY)
    assert found.reason.startswith("2 paths (107 B) in storage that no version since 20")


def test_orphans_within_the_retention_are_left_alone():
    store = table(add("live", size=2000))
    store.put("orphan", b"x")
    store.times["orphan"] = NOW - 7 * DAY
    assert look(store).findings == ()
    assert findings(store, UnneededFiles, now_ms=NOW + 1)


def test_retention_below_the_tables_own_is_refused():
    with pytest.raises(RequestError, match="shorter than the table's"):
        look(table(), retention_hours=1)


# --- the log ----------------------------------------------------------------------------------------------------------


def test_expired_log_files_below_a_checkpoint_are_found():
    (found,) = findings(history(9, checkpoints=[4, 8]), ExpiredLogFiles, now_ms=day(36))
    assert (found.num_files, found.retention_ms) == (4, 30 * DAY)
    assert found.reason == "4 log files below a checkpoint, older than the 720 hours of delta.logRetentionDuration."


def test_log_files_within_the_retention_are_left_alone():
    assert look(history(9, checkpoints=[4, 8]), now_ms=day(30)).findings == ()


def test_table_that_keeps_its_history_has_no_expired_log():
    keeps = {"delta.enableExpiredLogCleanup": "false"}
    assert look(history(9, checkpoints=[4, 8], configuration=keeps), now_ms=day(100)).findings == ()


# --- all of it --------------------------------------------------------------------------------------------------------


def messy():
    """A table in need of everything."""
    configuration = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 1 days"}
    store = history(9, checkpoints=[4], configuration=configuration)
    log = LogBuilder(store)
    log.commit(9, [VECTORS, *(add(f"s{n}", size=10) for n in range(3)), marked_file("worn", 10, 9, size=5000)])
    store.put("orphan", b"x")
    return store


def test_steps_come_in_their_order_and_each_once():
    plan = look(messy(), purges=True)
    assert [step.step for step in plan.steps] == ["optimize", "purge", "checkpoint", "vacuum", "cleanup"]
    assert [len(step.findings) for step in plan.steps] == [2, 1, 1, 1, 1]
    assert plan_steps(tuple(reversed(plan.findings)))[0].step == "optimize"
    assert plan_steps(()) == ()


def test_skipped_steps_are_not_even_looked_at():
    store = messy()
    listed = []
    list_all = store.list
    store.list = lambda prefix, **options: listed.append(prefix) or list_all(prefix, **options)
    plan = look(store, skip=frozenset({"optimize", "vacuum", "cleanup"}))
    assert [step.step for step in plan.steps] == ["checkpoint"]
    assert "" not in listed
    look(store)
    assert "" in listed


def test_looking_writes_nothing():
    store = messy()
    before = dict(store.objects)
    plan = look(store, purges=True)
    assert store.objects == before
    assert plan.is_dry_run
    assert plan.is_complete
    assert plan.version is None


def test_picture_of_a_healthy_table_says_nothing_to_do():
    assert repr(look(table(add("a", size=2000)))) == (
        "<MaintainResult planned for memory://tests/table, version 0: 1 file (2.0 KiB), log of 1 commit, no checkpoint\n"
        "  nothing to do>"
    )


def test_picture_shows_each_finding_beside_its_step():
    lines = repr(look(messy(), skip=frozenset({"vacuum"}))).splitlines()
    assert lines[0].endswith("version 9: 13 files (22.5 KiB), log of 10 commits, checkpoint at version 4")
    assert lines[1].startswith("  OPTIMIZE     3 files (30 B) are smaller")
    assert lines[2].startswith("               9 deleted rows in 1 file")
    assert lines[3].startswith("  CHECKPOINT   Every reader replays 5 commits")
    assert lines[4].startswith("  LOG CLEANUP  4 log files")
    assert "<pre>version 9: 13 files" in look(messy())._repr_html_()


def test_partition_value_that_could_steer_a_terminal_is_escaped_in_the_picture():
    adds = [add(f"f{part}{n}", partition={"p": f"\x1b[31m{part}"}) for part in "ab" for n in range(3)]
    store = table(*adds, columns={"id": "long", "p": "string"}, partitions=["p"])
    assert "\x1b" not in repr(look(store))
    assert "p=\\x1b[31ma" in repr(look(store))


def test_values_for_programs_are_json():
    for found in look(messy(), purges=True).findings:
        shown = found.to_json()
        assert (shown["kind"], shown["step"], shown["reason"]) == (found.KIND, found.STEP, found.reason)
        assert json.loads(json.dumps(shown)) is not None


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"skip": frozenset({"purge"})}, "'purge' is no step to skip; expected some of optimize, checkpoint"),
        ({"max_commits": 0}, "max_commits=0"),
    ],
)
def test_request_that_makes_no_sense_is_refused(request_, message):
    with pytest.raises(RequestError, match=message):
        MaintainRequest(table(), **request_)


def test_place_without_a_table_and_table_that_cannot_be_written_are_refused():
    with pytest.raises(TableNotFoundError):
        look(LogBuilder().store)
    head = protocol(reader=1, writer=7, writerFeatures=["fromTheFuture"])
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        look(table(head=head))
