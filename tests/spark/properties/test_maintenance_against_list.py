"""Does maintenance, in any order and between any changes, leave every version that is still kept as it was?

Appends, DELETEs, UPDATEs and MERGEs on one table with a change data feed, and between them OPTIMIZE, Z-ORDER, PURGE, VACUUM,
RESTORE, checkpoints, log compactions, cleanups of the log, and a shallow clone that is then changed. A list of tuples per
version knows which rows there are, and which versions a VACUUM or a cleanup was allowed to take. After each step the newest
rows are compared, and at the end those of every kept version and the change feed of all kept commits: maintenance is no change.

`EBBTIDE_EXAMPLES=200` tries more than the few sequences of `make test`.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.spark.properties.test_commands_against_list import CONDITIONS, Changes, Row, Table, net
from tests.spark.properties.test_merge_against_list import ROWS, SCHEMA, merges
from tests.support.log_reading import newest_version
from tests.support.peer_agreement import assert_peers_agree
from tests.support.table_builder import TableBuilder
from tests.support.table_rows import rows_of, snapshot_of
from tests.support.vacuum_tables import HOUR_MS, vacuum

import ebbtide
from ebbtide.config import DEFAULT_CONFIG
from ebbtide.errors import DeltaError
from ebbtide.log import load_snapshot
from ebbtide.log.cleanup import clean_expired_log
from ebbtide.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLES = int(os.environ.get("EBBTIDE_EXAMPLES", "5"))
ONE_OF_MANY = st.integers(0, 40)
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.")

CHANGES = st.one_of(
    st.tuples(st.just("append"), st.lists(ROWS, min_size=1, max_size=4)),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("merge"), merges()),
)
MAINTENANCE = st.one_of(
    st.tuples(st.just("optimize"), st.sampled_from(["compact", "each group", "z-order", "where"])),
    st.tuples(st.just("purge"), st.none()),
    st.tuples(st.just("vacuum_since"), st.tuples(ONE_OF_MANY, st.booleans())),
    st.tuples(st.just("vacuum_keeping"), st.lists(ONE_OF_MANY, max_size=2)),
    st.tuples(st.just("vacuum_by_default"), st.none()),
    st.tuples(st.just("restore"), ONE_OF_MANY),
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(st.just("compact_log"), ONE_OF_MANY),
    st.tuples(st.just("clean_log"), st.none()),
    st.tuples(st.just("clone"), st.tuples(ONE_OF_MANY, CONDITIONS)),
)
# A change and what is done for the table afterwards.
STEPS = st.lists(
    st.tuples(CHANGES, st.sampled_from(["on", "off"]), st.lists(MAINTENANCE, min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)


class MaintainedTable(Table):
    """The table beside the list. `versions` are the rows of all versions that must still be readable."""

    def __init__(self, spark: Any, path: Path, rows: list[Row]) -> None:
        super().__init__(spark, path, rows)
        # What the feed must tell of each commit whose changes must be readable; None where several ways are right.
        self.told: dict[int, Changes | None] = {}
        self.clones = 0

    @property
    def store(self) -> Any:
        return open_store(str(self.path))

    def kept(self, number: int) -> int:
        """One of the versions that must be readable."""
        return sorted(self.versions)[number % len(self.versions)]

    def forget(self, *, but: set[int]) -> None:
        self.versions = {version: rows for version, rows in self.versions.items() if version in but}

    # --- what changes no row ------------------------------------------------------------------------------------------

    def optimize(self, how: str, mode: str) -> Changes:
        builder = self.delta.optimize(
            commit_per_group=how == "each group", target_size=1500 if how == "each group" else None
        )
        if how == "where" and self.delta.detail().first()["partitionColumns"]:
            builder = builder.where("p = 'a'")
        builder.executeZOrderBy("k", "v") if how == "z-order" else builder.executeCompaction()
        return Counter()

    def purge(self, _: None, mode: str) -> Changes:
        assert self.delta.purge().is_complete
        marked = [add for add in load_snapshot(self.store).add_files() if add.deletion_vector is not None]
        assert not marked
        return Counter()

    def checkpoint(self, _: None, mode: str) -> Changes:
        self.delta.checkpoint()
        return Counter()

    def compact_log(self, number: int, mode: str) -> Changes:
        newest, first = newest_version(self.path), self.first_commit
        if newest > first:
            self.delta.compact_log(first + number % (newest - first), newest)
        return Counter()

    # --- what takes old versions away ---------------------------------------------------------------------------------

    @property
    def first_commit(self) -> int:
        return min(int(file.stem) for file in (self.path / "_delta_log").glob("*.json") if file.stem.isdigit())

    def vacuum_since(self, choice: tuple[int, bool], mode: str) -> Changes:
        """A VACUUM whose retention reaches back to the moment at which a version was committed."""
        first, lite = self.kept(choice[0]), choice[1]
        commit = self.path / "_delta_log" / f"{first:020d}.json"
        cutoff_ms = commit.stat().st_mtime_ns // 1_000_000
        try:
            vacuum(self.path, cutoff_ms + HOUR_MS, retention_hours=1, lite=lite)
        except DeltaError as error:
            assert error.getCondition() == "DELTA_CANNOT_VACUUM_LITE" and lite and self.first_commit > 0
        self.forget(but={version for version in self.versions if version >= first})
        # The first version is kept, but not what its own commit removed.
        self.told = {version: told for version, told in self.told.items() if version > first}
        return Counter()

    def vacuum_keeping(self, numbers: list[int], mode: str) -> Changes:
        kept = {self.kept(number) for number in numbers}
        self.delta.vacuum(0, keep_versions=sorted(kept), retention_check=False)
        self.forget(but=kept | {max(self.versions)})
        # Of the changes only the kept versions' own are still there.
        self.told = {version: told for version, told in self.told.items() if version in kept}
        return Counter()

    def vacuum_by_default(self, _: None, mode: str) -> Changes:
        assert self.delta.vacuum().metrics.num_deleted_files == 0, "everything is younger than a week"
        return Counter()

    def clean_log(self, _: None, mode: str) -> Changes:
        """In two months: whatever is below the newest checkpoint may go."""
        in_two_months = int(time.time() * 1000) + 60 * 24 * HOUR_MS
        clean_expired_log(load_snapshot(self.store), config=DEFAULT_CONFIG, now_ms=in_two_months)
        names = (CHECKPOINT.match(file.name) for file in (self.path / "_delta_log").iterdir())
        boundary = max((int(name[1]) for name in names if name), default=0)
        self.forget(but={version for version in self.versions if version >= boundary})
        return Counter()

    # --- older versions and copies ------------------------------------------------------------------------------------

    def restore(self, number: int, mode: str) -> None:
        chosen = self.kept(number)
        self.delta.restoreToVersion(chosen)
        self.rows = list(self.versions[chosen])

    def clone(self, choice: tuple[int, str | None], mode: str) -> Changes:
        """A clone shows the rows, and whatever is done to it is not done to its source."""
        version, self.clones = self.kept(choice[0]), self.clones + 1
        copy = self.delta.cloneAtVersion(version, str(self.path.with_name(f"clone-{self.clones}")), isShallow=True)
        cloned = Table(self.spark, self.path.with_name(f"clone-{self.clones}"), list(self.versions[version]))
        assert_newest(cloned)
        cloned.delete(choice[1], mode)
        copy.optimize().executeCompaction()
        copy.vacuum(0, retention_check=False)
        assert_newest(cloned)
        return Counter()


def counted(rows: Any) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def assert_newest(table: Table) -> None:
    """Without Spark: by our log and vectors, and the Parquet files."""
    assert counted(rows_of(table.path, snapshot_of(table.path))) == Counter(table.rows)


def play(table: MaintainedTable, name: str, argument: Any, mode: str) -> None:
    note(f"{name} {argument} (vectors {mode})")
    before, version = Counter(table.rows), newest_version(table.path)
    told = getattr(table, name)(argument, mode)
    assert_newest(table)
    newest, after = newest_version(table.path), Counter(table.rows)
    for made in range(version + 1, newest + 1):
        table.versions[made] = list(table.rows)
        table.told[made] = told
    if told is None:
        # A RESTORE: the feed tells how the rows became others, in whichever way.
        expected = Counter({row: after[row] - before[row] for row in after | before if after[row] != before[row]})
        assert newest == version or net(fed_since(table, newest).get(newest, Counter())) == expected


def fed_since(table: MaintainedTable, first: int) -> dict[int, Changes]:
    feed = ebbtide.read_changes(table.spark, str(table.path), start_version=first)
    fed: dict[int, Changes] = {}
    for *change, version in feed.select("k", "v", "p", "_change_type", "_commit_version").collect():
        fed.setdefault(version, Counter())[tuple(change)] += 1
    return fed


def assert_kept(table: MaintainedTable) -> None:
    for version, rows in table.versions.items():
        shown = ebbtide.read(table.spark, str(table.path), version=version).collect()
        assert Counter(map(tuple, shown)) == Counter(rows), f"version {version}"


def assert_fed(table: MaintainedTable) -> None:
    """The changes of the newest versions, as far back as all of them are kept."""
    newest = newest_version(table.path)
    first = newest + 1
    while first - 1 in table.versions and first - 1 in table.told and first > table.first_commit:
        first -= 1
    fed = fed_since(table, first) if first <= newest else {}
    for version in range(first, newest + 1):
        told = table.told[version]
        assert told is None or fed.get(version, Counter()) == told, f"changes of version {version}"


def built(path: Path, files: list[list[Row]], *, partitioned: bool, vectors: bool) -> Path:
    builder = TableBuilder(path, SCHEMA).change_data_feed()
    if vectors:
        builder.deletion_vectors()
    if partitioned:
        builder.partitioned_by("p")
    for group in files:
        for part in ("a", "b") if partitioned else (None,):
            rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in group if part in (None, row[2])]
            if rows:
                builder.file(rows)
    return builder.commit().path


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(st.lists(ROWS, min_size=1, max_size=5), max_size=3),
    steps=STEPS,
    partitioned=st.booleans(),
    vectors=st.booleans(),
)
def test_maintenance_changes_no_version_that_is_kept(spark, files, steps, partitioned, vectors):
    with tempfile.TemporaryDirectory() as directory:
        path = built(Path(directory, "t"), files, partitioned=partitioned, vectors=vectors)
        table = MaintainedTable(spark, path, [row for group in files for row in group])
        for change, mode, maintenance in steps:
            # A table without vectors gets none, whatever a command prefers.
            chosen = mode if vectors else "off"
            for step in (change, *maintenance):
                play(table, *step, chosen)
        assert_kept(table)
        assert_fed(table)
        assert_peers_agree(Path(directory))
