"""Do the checks that run after every DELETE notice a commit that is wrong?

A real DELETE is done, then its commit (or a file) is damaged by hand in one respect, and the checks are asked.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.support.invariants import assert_table_invariants, look
from tests.support.log_reading import log_state, vector_file
from tests.support.table_builder import TableBuilder

import ebbtide

pytestmark = pytest.mark.spark


def changed_body(kind, **changes):
    def change(actions):
        for action in actions:
            if kind in action:
                action[kind].update(changes)
        return actions

    return change


def without(kind):
    return lambda actions: [action for action in actions if kind not in action]


def changed_stats(**changes):
    def change(actions):
        for action in actions:
            if "add" in action:
                action["add"]["stats"] = json.dumps(json.loads(action["add"]["stats"]) | changes)
        return actions

    return change


def changed_metrics(**changes):
    def change(actions):
        actions[0]["commitInfo"]["operationMetrics"].update(changes)
        return actions

    return change


@pytest.fixture
def deleted(spark, tmp_path):
    """A table after a DELETE that gave one file a second mark, and what it was before."""
    builder = TableBuilder(tmp_path / "t", pa.schema({"id": pa.int64()})).deletion_vectors()
    builder.file([{"id": number} for number in range(5)], deleted=[0]).commit()
    before = look(spark, builder.path)
    ebbtide.DeltaTable.forPath(spark, str(builder.path)).delete("id = 3")
    return builder.path, before


def damage(path, change):
    commit = path / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    commit.write_text("".join(json.dumps(action) + "\n" for action in change(actions)))


@pytest.mark.one_kind("about what the suite itself notices")
def test_right_commit_passes(spark, deleted):
    path, before = deleted
    assert assert_table_invariants(spark, path, before=before).state.version == 1


@pytest.mark.one_kind("about what the suite itself notices")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("remove"), "1: live more than once"),
        (without("add"), "3: numDeletedRows"),
        (changed_metrics(numDeletedRows="2"), "3: numDeletedRows"),
        (changed_metrics(numDeletedRows=1), "written as strings"),
        (changed_body("remove", size=1), "5: size"),
        (changed_body("remove", path="other"), "1: live more than once"),
        (changed_body("remove", dataChange=False), "5: dataChange"),
        (changed_stats(tightBounds=True), "6: bounds"),
        (changed_stats(minValues={"id": 1}), "6: minValues"),
        (changed_body("add", modificationTime=1), "6: modificationTime"),
    ],
)
def test_wrong_commit_is_noticed(spark, deleted, change, said):
    path, before = deleted
    damage(path, change)
    with pytest.raises(AssertionError, match=said):
        assert_table_invariants(spark, path, before=before)


@pytest.mark.one_kind("about what the suite itself notices")
def test_old_vector_that_was_written_again_is_noticed(spark, deleted):
    path, before = deleted
    [old] = log_state(path, 0).adds
    file = vector_file(path, old["deletionVector"])
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(AssertionError, match="was written again"):
        assert_table_invariants(spark, path, before=before)


@pytest.mark.one_kind("about what the suite itself notices")
def test_wrong_checksum_is_noticed(spark, deleted):
    path, before = deleted
    file = path / "_delta_log" / f"{1:020d}.crc"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"numDeletedRecordsOpt": 7}))
    with pytest.raises(AssertionError, match="12: the checksum file"):
        assert_table_invariants(spark, path, before=before)
