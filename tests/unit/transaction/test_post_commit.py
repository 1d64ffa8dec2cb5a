"""Is the work after a commit done when it is due, and does its failure stay its own?"""

from __future__ import annotations

import logging

import pytest
from tests.support.log_builder import LogBuilder, add, live_keys, metadata, protocol
from tests.support.stores import FailingStore, HookedStore

from ebbtide.config import DEFAULT_CONFIG
from ebbtide.errors import StorageError
from ebbtide.log import load_snapshot
from ebbtide.transaction.post_commit import run_post_commit


def table(versions, *, configuration=None, head=None):
    log = LogBuilder()
    for version in range(versions):
        first = [head or protocol(), metadata(configuration=configuration)] if version == 0 else []
        log.commit(version, [*first, add(f"f{version}")])
    return log


def names(store, *, part):
    return sorted(path.rpartition("/")[2] for path in store.objects if part in path)


@pytest.mark.parametrize(("versions", "expected"), [(10, []), (11, [f"{10:020d}.checkpoint.parquet"]), (12, [])])
def test_checkpoint_is_written_at_every_tenth_version(versions, expected):
    log = table(versions, configuration={"delta.enableExpiredLogCleanup": "false"})
    run_post_commit(load_snapshot(log.store), config=DEFAULT_CONFIG)
    assert names(log.store, part="checkpoint.parquet") == expected


def test_checksum_is_written_after_every_commit():
    log = table(3)
    run_post_commit(load_snapshot(log.store), config=DEFAULT_CONFIG)
    assert names(log.store, part=".crc") == [f"{2:020d}.crc"]


def test_new_checkpoint_lets_the_expired_log_go():
    # The builder's clock stands in 2023, so all of these commits have expired.
    log = table(5, configuration={"delta.checkpointInterval": "2"})
    run_post_commit(load_snapshot(log.store, version=2), config=DEFAULT_CONFIG)
    assert f"_delta_log/{1:020d}.json" not in log.store.objects
    assert f"_delta_log/{2:020d}.json" in log.store.objects
    assert live_keys(load_snapshot(log.store)) == {(f"f{number}", None) for number in range(5)}


def test_without_a_new_checkpoint_nothing_is_cleaned_up():
    log = table(4, configuration={"delta.checkpointInterval": "2"})
    run_post_commit(load_snapshot(log.store), config=DEFAULT_CONFIG)
    assert f"_delta_log/{0:020d}.json" in log.store.objects


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("happens", [True, False])
def test_failure_of_any_storage_call_neither_reaches_the_caller_nor_harms_the_table(policy, happens, caplog):
    head = protocol(features=["deletionVectors", "v2Checkpoint"])
    configuration = {"delta.checkpointInterval": "2", "delta.checkpointPolicy": policy}
    expected = {(f"f{number}", None) for number in range(3)}
    counted = HookedStore(table(3, configuration=configuration, head=head).store)
    snapshot = load_snapshot(counted)
    before = len(counted.calls)
    run_post_commit(snapshot, config=DEFAULT_CONFIG)
    failures = 0
    for call in range(before, len(counted.calls)):
        log = table(3, configuration=configuration, head=head)
        store = FailingStore(log.store, StorageError("the network is gone"), at=call, happens=happens)
        snapshot = load_snapshot(store)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            run_post_commit(snapshot, config=DEFAULT_CONFIG)
        assert live_keys(load_snapshot(log.store)) == expected
        # A call that fails by itself (no hint yet) has no answer that could be lost.
        if store.failed:
            failures += 1
            assert "was committed" in caplog.text
    assert failures > 8


@pytest.mark.parametrize(
    "error", [OSError("disk"), MemoryError(), RuntimeError("thread"), KeyError("x"), AssertionError()]
)
def test_unforeseen_failure_of_one_step_does_not_stop_the_next(error, monkeypatch, caplog):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr("ebbtide.transaction.post_commit.write_checksum", fail)
    log = table(3, configuration={"delta.checkpointInterval": "2"})
    with caplog.at_level(logging.WARNING):
        run_post_commit(load_snapshot(log.store), config=DEFAULT_CONFIG)
    assert "version 2 of memory://tests/table was committed, but its version checksum failed" in caplog.text
    assert names(log.store, part="checkpoint.parquet") == [f"{2:020d}.checkpoint.parquet"]


def test_interrupt_is_not_swallowed(monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ebbtide.transaction.post_commit.write_checksum", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_post_commit(load_snapshot(table(1).store), config=DEFAULT_CONFIG)


def test_broken_interval_property_does_not_stop_the_commit(caplog):
    log = table(3, configuration={"delta.checkpointInterval": "often"})
    with caplog.at_level(logging.WARNING):
        run_post_commit(load_snapshot(log.store), config=DEFAULT_CONFIG)
    assert "checkpointInterval" in caplog.text
    assert names(log.store, part=".crc") == [f"{2:020d}.crc"]
