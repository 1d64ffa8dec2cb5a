"""Does every maintenance command leave the rows of every golden table as they were, for us and for other engines?

Commands that need no Spark run on a copy of every table that Ebbtide may write. OPTIMIZE and PURGE need Spark, and run on a few
tables that have all features of the golden tables between them; `make conformance ARGS=--compact-golden=all` takes all, in six minutes.
Rows are compared before and after by our log and vectors with pyarrow, and by DuckDB and deltalake where these can read the
table at all. What a peer made of the table before is not judged here, only that it is the same afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.comparison import difference
from tests.support.log_reading import data_file
from tests.support.peers import PEERS
from tests.support.shared_material import GoldenTable, golden_tables
from tests.support.table_rows import rows_of
from tests.support.vacuum_tables import HOUR_MS, vacuum

import ebbtide
from ebbtide.commands.clone.command import CloneRequest, clone_table
from ebbtide.commands.requests import WriteOptions
from ebbtide.commands.restore.command import RestoreRequest, restore_table
from ebbtide.config import EngineConfig
from ebbtide.errors import (
    CorruptTableError,
    DeltaError,
    InternalError,
    MissingDataFileError,
    RequestError,
    UnsupportedFeatureError,
)
from ebbtide.log import Snapshot, load_snapshot, write_checkpoint
from ebbtide.log.compaction import compact_log
from ebbtide.protocol.features import ensure_writable
from ebbtide.protocol.properties import TableProperties
from ebbtide.storage import open_store

# Some of the tables name files by their full path.
CONFIG = EngineConfig(allow_foreign_paths=True)
OPTIONS = WriteOptions(config=CONFIG)
# DuckDB and deltalake are asked; Polars is deltalake once more.
ASKED = ("DuckDB", "deltalake")
EIGHT_DAYS_MS = 8 * 24 * HOUR_MS
TABLES = [table for table in golden_tables() if table.expected_kind in {"rows", "files"} and not table.must_fail]
Shown = dict[str, pa.Table]


def snapshot_of(copy: Path, version: int | None = None) -> Snapshot:
    return load_snapshot(open_store(str(copy)), version=version, config=CONFIG)


def shown(copy: Path, peers: tuple[str, ...] = ASKED) -> Shown:
    """What each reader that can read the table makes of it; the live files in any case."""
    snapshot = snapshot_of(copy)
    files = sorted(str(add.key) for add in snapshot.add_files())
    rows = {"our log": pa.table({"file": pa.array(files, pa.string())})}
    if "variant" not in snapshot.metadata.schema_string:  # pyarrow does not know it
        with suppress(Exception):
            rows["us"] = rows_of(copy, snapshot)
    for name in peers:
        with suppress(Exception):
            rows[name] = PEERS[name].read(copy, None)
    return rows


def differences(
    copy: Path,
    before: Shown,
    label: str,
    *,
    peers: tuple[str, ...] = (),
    same_files: bool = False,
    right: Any = None,
) -> Iterator[str]:
    """Who shows other rows than before. Where files were rewritten, a reader that misread the old ones may read the
    new ones as it should: then it shows the rows that are `right`."""
    after = shown(copy, peers)
    for reader, rows in before.items():
        if (reader == "our log" and not same_files) or (reader in ASKED and reader not in peers):
            continue
        if reader not in after:
            yield f"{label}: {reader} cannot read the table any more"
        elif (found := difference(after[reader], rows)) and (right is None or difference(after[reader], right)):
            yield f"{label}, by {reader}: {found}"


def refusal_of(copy: Path) -> DeltaError | None:
    """Why Ebbtide does not write the table, if so; never an error of our own making."""
    try:
        snapshot = snapshot_of(copy)
        ensure_writable(snapshot.protocol, snapshot.metadata)
    except DeltaError as error:
        assert not isinstance(error, InternalError)
        return error
    return None


# --- without Spark ----------------------------------------------------------------------------------------------------


def log_problems(copy: Path, before: Shown) -> Iterator[str]:
    write_checkpoint(snapshot_of(copy))
    yield from differences(copy, before, "checkpoint", same_files=True)
    # A log of one commit has nothing to put together; one that contradicts itself is left alone.
    with suppress(RequestError, CorruptTableError):
        compact_log(snapshot_of(copy), *commits_of(copy))
    yield from differences(copy, before, "log compaction", same_files=True)


def commits_of(copy: Path) -> tuple[int, int]:
    """The newest commits between which none is missing."""
    versions = {int(file.stem) for file in (copy / "_delta_log").glob("*.json") if file.stem.isdigit()}
    first = newest = max(versions, default=snapshot_of(copy).version)
    while first - 1 in versions:
        first -= 1
    return first, newest


def restore_problems(copy: Path, before: Shown) -> Iterator[str]:
    """To the oldest version that has all its files, and back."""
    newest = snapshot_of(copy).version
    if not is_whole(copy):
        return
    for version in range(commits_of(copy)[0], newest):
        try:
            snapshot_of(copy, version)
        except DeltaError:
            continue  # older than the oldest checkpoint
        try:
            restore(copy, version)
        except (MissingDataFileError, UnsupportedFeatureError):
            continue
        except RequestError as error:
            # Append-only tables are not restored; other definitions of old are refused by name.
            yield from [] if is_expected(error) else [f"RESTORE to {version}: {error}"]
            continue
        old = {(add.path, str(add.dv_id)) for add in snapshot_of(copy, version).add_files()}
        now = {(add.path, str(add.dv_id)) for add in snapshot_of(copy).add_files()}
        if old != now:
            yield f"RESTORE to {version} shows {now}, not {old}"
        restore(copy, newest)
        yield from differences(copy, before, f"RESTORE to {version} and back", same_files=True)
        return


def is_whole(copy: Path) -> bool:
    """Whether all data files are shipped."""
    return all(data_file(copy, {"path": add.path}).is_file() for add in snapshot_of(copy).add_files())


def is_expected(error: RequestError) -> bool:
    return (error.getCondition() or "") in {"DELTA_CANNOT_MODIFY_APPEND_ONLY", "DELTA_CANNOT_RESTORE_TABLE_VERSION"}


def restore(copy: Path, version: int) -> None:
    restore_table(RestoreRequest(open_store(str(copy)), version, options=OPTIONS))


def clone_problems(copy: Path, before: Shown) -> Iterator[str]:
    clone = copy.with_name("clone")
    try:
        clone_table(CloneRequest(open_store(str(copy)), open_store(str(clone)), options=OPTIONS))
    except MissingDataFileError:
        assert not is_whole(copy)
        return
    # Of the two only deltalake does not take the URL of a file elsewhere for a relative path.
    yield from differences(clone, before, "clone", peers=("deltalake",))
    yield from differences(copy, before, "after a clone", same_files=True)


def vacuum_problems(copy: Path, before: Shown) -> Iterator[str]:
    """In eight days, so that everything which the newest version does not need may go."""
    in_eight_days = int(time.time() * 1000) + EIGHT_DAYS_MS
    assert vacuum(copy, in_eight_days, options=OPTIONS).status == "COMPLETED"
    yield from differences(copy, before, "VACUUM after all", peers=ASKED, same_files=True)


@pytest.mark.parametrize("table", [pytest.param(table, id=table.name) for table in TABLES])
def test_commands_that_need_no_spark_leave_the_rows(table, tmp_path):
    copy = table.copy_to(tmp_path)
    refusal = refusal_of(copy)
    if refusal is not None:
        assert isinstance(refusal, UnsupportedFeatureError)
        return
    before = shown(copy)
    problems = []
    # A version that breaks the protocol does not come back: it was there, and may be refused.
    breaks_protocol = table.entry.get("alternative") == "error"
    restores = () if breaks_protocol else (restore_problems,)
    for command in (log_problems, *restores, clone_problems, vacuum_problems):
        try:
            problems += command(copy, before)
        except DeltaError as error:
            # A table that breaks the protocol may be refused, by an error that says so.
            if isinstance(error, InternalError) or not (table.may_refuse or is_contradictory(copy, error)):
                raise
            problems += differences(copy, before, f"after {error}")
    assert not problems, "\n".join(problems)


def is_contradictory(copy: Path, error: DeltaError) -> bool:
    """Whether the log says what cannot be, such as a property that has no such value."""
    try:
        TableProperties.check(snapshot_of(copy).metadata.configuration)
    except DeltaError:
        return True
    return isinstance(error, CorruptTableError)


# --- in Spark ---------------------------------------------------------------------------------------------------------


def few_with_all_features() -> set[str]:
    """Tables, each of which has a feature that those before it do not have; the ones with most features come first."""
    seen: set[str] = set()
    chosen = set()
    for table in sorted(TABLES, key=lambda table: (-len(table.entry["features"]), table.name)):
        if table.expected_kind == "rows" and not seen.issuperset(table.entry["features"]):
            seen |= set(table.entry["features"])
            chosen.add(table.name)
    return chosen


FEW = few_with_all_features()


def layout_problems(spark: Any, copy: Path, table: GoldenTable, before: Shown) -> Iterator[str]:
    delta = ebbtide.DeltaTable.forPath(spark, str(copy), config=CONFIG)
    expected = table.expected_rows()
    for name, command in (
        ("OPTIMIZE", lambda: delta.optimize(target_size=1 << 30).executeCompaction()),
        ("PURGE", delta.purge),
    ):
        command()
        found = difference(ebbtide.read(spark, str(copy), config=CONFIG), expected)
        yield from [f"{name}: {found}"] if found else []
        yield from differences(copy, before, name, peers=ASKED if name == "PURGE" else (), right=expected)
    marked = [add.path for add in snapshot_of(copy).add_files() if add.deletion_vector is not None]
    yield from [f"PURGE left marked rows in {marked}"] if marked else []


def pytest_generate_tests(metafunc):
    if "compacted" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--compact-golden")
        names = {"none": set(), "few": FEW, "all": {table.name for table in TABLES}}[wanted]
        tables = [table for table in TABLES if table.expected_kind == "rows" and table.name in names]
        metafunc.parametrize("compacted", [pytest.param(table, id=table.name) for table in tables])


@pytest.mark.spark
def test_compaction_and_purge_leave_the_rows(compacted, tmp_path, request):
    copy = compacted.copy_to(tmp_path)
    if refusal_of(copy) is not None:
        return
    before = shown(copy)
    try:
        problems = list(layout_problems(request.getfixturevalue("spark"), copy, compacted, before))
    except CorruptTableError:
        # A table that breaks the protocol may be refused, by an error that says so; then nothing has changed.
        assert compacted.may_refuse
        problems = list(differences(copy, before, "after a refusal", same_files=True))
    assert not problems, "\n".join(problems)
