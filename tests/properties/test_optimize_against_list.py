"""Does a table have the rows of a list, whatever compactions, purges, deletes and appends do at the same time?

The model is a list of ids. A compaction or a purge is run while rivals commit between its read and its commit. Nothing of
the engine is replaced but the two Spark jobs, so planning, rebase, vectors and commits are the real ones.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import races
from tests.support.arrow_copies import optimize_without_spark, purge_without_spark
from tests.support.arrow_deletes import Condition, delete_without_spark, forget_files, snapshot_ids
from tests.support.log_reading import commit_info, newest_version
from tests.support.races import RacingStore, ids_at, unnamed_files
from tests.support.table_builder import TableBuilder

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store
from ebbtide.transaction import SYSTEM_CLOCK

FILES = st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 8))), min_size=1, max_size=5)
NUMBERS = st.integers(0, 45)
RIVALS = st.one_of(
    st.tuples(st.just("delete"), st.sets(NUMBERS, min_size=1, max_size=20)),
    st.tuples(st.just("append"), st.sets(st.integers(1000, 1010), min_size=1, max_size=3)),
    st.tuples(st.just("compact"), st.just(frozenset())),
    st.tuples(st.just("restore"), st.just(frozenset())),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["optimize", "per group", "purge"]), st.lists(RIVALS, max_size=3)),
    min_size=1,
    max_size=3,
)


@dataclass
class Model:
    """The rows that the table must have, version by version."""

    path: Path
    versions: list[list[int]]

    @property
    def rows(self) -> list[int]:
        return self.versions[-1]

    def note(self, rows):
        """After something that may have made a version: `rows` if it did."""
        while len(self.versions) <= newest_version(self.path):
            self.versions.append(sorted(rows))


def build(path, files):
    builder = TableBuilder(path, races.ID_SCHEMA).deletion_vectors()
    start = 0
    for count, marked in files:
        builder.file([{"id": start + row} for row in range(count)], deleted=[row for row in marked if row < count])
        start += count
    builder.commit()
    return Model(path, [sorted(item["id"] for item in builder.rows())])


def rival(model, kind, numbers):
    store = open_store(str(model.path))

    def act():
        # The compaction that is being raced against may have made versions by now; it changes no row.
        model.note(model.rows)
        match kind:
            case "delete":
                delete_without_spark(store, Condition("in", tuple(sorted(numbers))))
                model.note([number for number in model.rows if number not in numbers])
            case "append":
                races.append(store, sorted(numbers))
                model.note([*model.rows, *numbers])
            case "compact":
                races.compact(store, model.path)
                model.note(model.rows)
            case "restore":
                races.restore(store, 0)
                model.note(model.versions[0])

    return act


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FILES, STEPS)
def test_no_row_is_lost_or_comes_back(files, steps):
    sleep = SYSTEM_CLOCK.sleep
    object.__setattr__(SYSTEM_CLOCK, "sleep", lambda seconds: None)
    try:
        with tempfile.TemporaryDirectory() as directory:
            forget_files()
            check(build(Path(directory) / "t", files), steps)
    finally:
        object.__setattr__(SYSTEM_CLOCK, "sleep", sleep)


def check(model, steps):
    for kind, rivals in steps:
        first = newest_version(model.path) + 1
        acts = [rival(model, *each) for each in rivals]
        store = RacingStore(open_store(str(model.path)), *acts, first=first)
        if kind == "purge":
            result = purge_without_spark(store)
            assert result.is_complete
        else:
            result = optimize_without_spark(store, commit_per_group=kind == "per group", target_bytes=1500)
        model.note(model.rows)
        assert ids_at(model.path) == model.rows
        assert sorted(snapshot_ids(load_snapshot(open_store(str(model.path))))) == model.rows
        for version in result.versions:
            assert commit_info(model.path, version)["operation"] in {"OPTIMIZE", "REORG"}
    for version, rows in enumerate(model.versions):
        assert ids_at(model.path, version) == rows, f"version {version}"
    races.assert_each_delete_counts_its_own_rows(model.path)
    assert unnamed_files(model.path) == set()
