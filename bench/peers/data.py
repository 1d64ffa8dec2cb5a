"""Which rows are measured? Made once, from a seed, and linked into a fresh table for every run of every engine.

Spark writes plain Parquet files, in a process of its own (`python -m bench.peers.data ...`), or in one for all rows
inside `one_maker`: where they are few, starting Java takes longer than making them. Commit 0 is written here, with
the statistics that the files' own footers have. So every engine starts from the same bytes, and from a path that it
has not seen: delta-spark remembers tables by their path.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.support.line_worker import LineWorker, answers

from bench.peers.engines import ROOT
from bench.tables import HASH, SEED, SIX_COLUMNS, Columns, first_actions
from ebbtide.protocol.actions import AddFile, serialize_actions
from ebbtide.protocol.statistics import FileStatistics

__all__ = ["NARROW", "NOW_MS", "WITH_CODE", "Rows", "add_of", "fresh_table", "made", "one_maker"]

# Not from the seed: an engine may clean up commits that look older than the table keeps them.
NOW_MS = int(time.time() * 1000)

# `code` is as unique as `id`, but every file holds codes from one end to the other: statistics rule out none.
WITH_CODE = (*SIX_COLUMNS[:1], ("code", "long", "pmod(id * 7919 + 13, {rows})"), *SIX_COLUMNS[1:4])
# As in the notebook: an id, and a string as long as a UUID that does not compress.
NARROW = (*SIX_COLUMNS[:1], ("data", "string", f"concat(hex({HASH}), hex(xxhash64(id, {SEED + 1}L)))"))


@dataclass(frozen=True)
class Rows:
    """Rows in Parquet files. `ids` says which id the n-th row has; `instead` gives columns another value."""

    name: str
    rows: int
    files: int
    columns: Columns
    ids: str = "n"
    instead: tuple[tuple[str, str], ...] = ()

    @property
    def directory_name(self) -> str:
        """Other rows have another name, so that nothing old is taken for them."""
        said = hashlib.sha256(repr((self.expressions(), self.ids)).encode()).hexdigest()[:8]
        return f"{self.name}-{self.rows}-in-{self.files}-{said}"

    def expressions(self) -> list[str]:
        other = dict(self.instead)
        return [f"{other.get(name, said.format(rows=self.rows))} AS {name}" for name, _, said in self.columns]


def made(rows: Rows, data: Path) -> list[Path]:
    """The files, written now unless an earlier workload of this run has done so."""
    directory = data / rows.directory_name
    if not directory.exists():
        started = directory.with_name(directory.name + ".making")
        shutil.rmtree(started, ignore_errors=True)
        _make(asdict(rows) | {"directory": str(started)})
        started.rename(directory)
    files = sorted(directory.glob("part-*.parquet"))
    assert len(files) == rows.files, f"{len(files)} files instead of {rows.files} in {directory}"
    return files


@contextmanager
def one_maker(scratch: Path) -> Iterator[None]:
    """Inside, one process makes all rows. It is started by the first that are not there."""
    _makers.append(_Maker(scratch))
    try:
        yield
    finally:
        _makers.pop().close()


class _Maker:
    def __init__(self, scratch: Path) -> None:
        self._log = scratch / "maker.log"
        self._worker: LineWorker | None = None

    def make(self, task: dict[str, Any]) -> None:
        if self._worker is None:
            self._worker = LineWorker(_MAKER, self._log, directory=ROOT)
        self._worker.ask(task)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


_MAKER = (sys.executable, "-W", "ignore", "-m", "bench.peers.data")
_makers: list[_Maker] = []


def _make(task: dict[str, Any]) -> None:
    if _makers:
        _makers[-1].make(task)
    else:
        subprocess.run([*_MAKER, json.dumps(task)], cwd=ROOT, check=True)


def fresh_table(directory: Path, rows: Rows, data: Path, *, vectors: bool) -> Path:
    """A Delta table over the files, which are linked and not copied."""
    files = made(rows, data)
    (directory / "_delta_log").mkdir(parents=True)
    for file in files:
        os.link(file, directory / file.name)
    commit = _first_commit(tuple(files), rows.columns, vectors=vectors)
    (directory / "_delta_log" / f"{0:020d}.json").write_bytes(commit)
    return directory


@cache
def _first_commit(files: tuple[Path, ...], columns: Columns, *, vectors: bool) -> bytes:
    adds = [add_of(file, file.name) for file in files]
    return serialize_actions([*first_actions(columns, vectors=vectors, time_ms=NOW_MS), *adds])


def add_of(file: Path, name: str) -> AddFile:
    """The file, under a name that it has in a table."""
    return AddFile(name, {}, file.stat().st_size, NOW_MS, data_change=True, stats=_stats(file))


@cache
def _stats(file: Path) -> str:
    """Bounds of the numbers, from the footer. A string's bounds may be cut there, so they are left out."""
    footer = pq.read_metadata(file)
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for at in range(footer.num_columns):
        groups = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        name, known = groups[0].path_in_schema, [group.statistics for group in groups]
        if all(each is not None and each.has_min_max and isinstance(each.min, (int, float)) for each in known):
            lowest[name], highest[name] = min(each.min for each in known), max(each.max for each in known)
    nulls = dict.fromkeys(lowest, 0)
    told = {"min_values": lowest, "max_values": highest, "null_count": nulls}
    return FileStatistics.build(num_records=footer.num_rows, **told).to_json()


def _write(task: dict[str, Any]) -> None:
    """In the process that only makes rows: the ids in order, cut evenly into the files."""
    from bench.peers.adapters.spark import session

    directory = Path(task.pop("directory"))
    rows = Rows(**task)
    # Spark's old form of timestamps, INT96, is nobody's recommended one.
    spark = session(
        directory.with_name(directory.name + ".spark"), {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    )
    ids = spark.range(0, rows.rows, 1, rows.files).toDF("n").selectExpr(f"{rows.ids} AS id")
    ids.selectExpr(*rows.expressions()).write.parquet(str(directory))
    spark.stop()
    shutil.rmtree(directory.with_name(directory.name + ".spark"), ignore_errors=True)


def _serve() -> None:
    """Makes the rows that each line of the input asks for."""
    say = answers()
    for line in sys.stdin:
        try:
            _write(json.loads(line))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
        else:
            say({})


if __name__ == "__main__":
    if sys.argv[1:]:
        _write(json.loads(sys.argv[1]))
    else:
        _serve()
