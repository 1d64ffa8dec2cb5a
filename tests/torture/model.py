"""Is every commit of a torture accounted for, and does every version show what the order of the commits says?

The model is a set of ids. It starts with those of version 0 and follows the log: an append adds the ids that the worker
wrote down, a DELETE takes away what its condition matches, anything else changes nothing. The log itself is read by hand
(`tests/support/log_reading.py`). What the files of each version hold must be the model; so must what workers saw while they
ran, and what the engine shows afterwards when it opens the version anew. Files that VACUUMs deleted are read from their
graveyard, where nothing may be that was still needed: live, or removed after the last of their cutoffs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.arrow_deletes import Condition, snapshot_ids
from tests.support.log_reading import (
    Json,
    data_file,
    newest_version,
    read_commit,
    vector_file,
    vector_id,
    vector_rows,
)
from tests.torture.workload import ANY_VERSION, ids_digest

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

__all__ = ["Report", "check", "versions_of"]

Record = dict[str, Any]
Key = tuple[str, str | None]
# Opening a version anew reads the log from its last checkpoint on; a sample of a long log will do.
MAX_REOPENED = 200


@dataclass
class Report:
    """Numbers for people. `problems` are sentences; none of them is the expected outcome."""

    commits: int = 0
    problems: list[str] = field(default_factory=list)
    reopened: int = 0
    observed: int = 0
    # Versions that need a file which a VACUUM has deleted.
    gone: int = 0
    # DELETEs that were rebased over a compaction.
    met_compactions: int = 0


def versions_of(record: Record) -> list[int]:
    """The versions that an operation says it made; `ANY_VERSION` where it was not told which."""
    if "versions" in record:
        return list(record["versions"])
    return [] if record.get("version") is None else [record["version"]]


class _Files:
    """The live files of one version after the other, and the ids they show."""

    def __init__(self, table: Path, graveyard: Path) -> None:
        self.table = table
        self.graveyard = graveyard
        self.live: dict[Key, Json] = {}
        self.shown: dict[int, int] = {}
        self.deleted: set[Key] = set()
        self._removed_ms: dict[Key, int] = {}
        self._ids: dict[Key, list[int]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether the table itself still has every file of this version."""
        return self.deleted.isdisjoint(self.live)

    def needlessly_deleted(self, cutoff_ms: int) -> list[str]:
        """Of the newest version, and of removed files that a VACUUM up to this time had to keep."""
        late = {key for key, time_ms in self._removed_ms.items() if time_ms >= cutoff_ms}
        return sorted(path for path, _ in self.deleted & (late | self.live.keys()))

    def apply(self, commit: list[Json]) -> list[str]:
        """Replay one commit; says what is wrong with it."""
        problems = []
        for body in (action["remove"] for action in commit if "remove" in action):
            key = (body["path"], vector_id(body.get("deletionVector")))
            if self.live.pop(key, None) is None:
                problems.append(f"removes {key}, which was not live")
            else:
                self._count(key, -1)
                self._removed_ms[key] = body["deletionTimestamp"]
        for body in (action["add"] for action in commit if "add" in action):
            key = (body["path"], vector_id(body.get("deletionVector")))
            if any(path == body["path"] for path, _ in self.live):
                problems.append(f"makes {body['path']} live twice")
            self.live[key] = body
            self._removed_ms.pop(key, None)
            self._ids[key] = self._visible(body)
            self._count(key, 1)
        return problems

    def _visible(self, add: Json) -> list[int]:
        descriptor = add.get("deletionVector")
        vector = None if descriptor is None else vector_file(self.table, descriptor)
        places = [
            self.table if path is None or path.exists() else self.graveyard
            for path in (data_file(self.table, add), vector)
        ]
        if self.graveyard in places:
            self.deleted.add((add["path"], vector_id(descriptor)))
        marks = vector_rows(places[1], add)
        ids = pq.ParquetFile(data_file(places[0], add)).read(columns=["id"])["id"].to_pylist()
        return [number for row, number in enumerate(ids) if row not in marks]

    def _count(self, key: tuple[str, str | None], step: int) -> None:
        for number in self._ids[key]:
            left = self.shown.get(number, 0) + step
            if left:
                self.shown[number] = left
            else:
                self.shown.pop(number, None)


def check(table: Path, records: list[Record], *, seed: str, graveyard: Path) -> Report:
    """Compare the table (a local copy, every commit still there) with what the workers wrote down."""
    report = Report(commits=newest_version(table))
    made = {record["name"]: (record, versions_of(record)) for record in records}
    files = _Files(table, graveyard)
    files.apply(read_commit(table, 0))
    state = set(files.shown)
    digests = {0: ids_digest(state)}
    whole, compactions = {0: files.is_whole}, set()
    for version in range(1, report.commits + 1):
        commit = read_commit(table, version)
        report.problems += [f"version {version} {problem}" for problem in files.apply(commit)]
        record, left = made.get(_info(commit).get("userMetadata", ""), ({}, []))
        if version in left or ANY_VERSION in left:
            left.remove(version if version in left else ANY_VERSION)
            state = _after(state, record, _info(commit), version, report)
        else:
            report.problems.append(f"version {version} is nobody's, or its maker was told otherwise: {_info(commit)}")
        if record.get("op") in {"optimize", "purge", "compact"}:
            compactions.add(version)
        elif record.get("op") == "delete" and record["searched"]:
            report.met_compactions += not compactions.isdisjoint(range(record["searched"][0] + 1, version))
        if files.shown.keys() != state or any(count != 1 for count in files.shown.values()):
            _compare(files.shown, state, version, report)
            state = set(files.shown)
        digests[version] = ids_digest(state)
        whole[version] = files.is_whole
    for name, (_, left) in made.items():
        report.problems += [f"{name} was told that it made version {version}" for version in left]
    cutoff_ms = max((record["cutoff"] for record in records if "cutoff" in record), default=0)
    report.problems += [f"{path} was deleted, and is needed" for path in files.needlessly_deleted(cutoff_ms)]
    report.gone = sum(1 for is_whole in whole.values() if not is_whole)
    _check_observations(records, digests, report)
    _check_reopened(table, {version: digests[version] for version in digests if whole[version]}, seed, report)
    return report


def _info(commit: list[Json]) -> Json:
    return next((action["commitInfo"] for action in commit if "commitInfo" in action), {})


def _after(state: set[int], record: Record, info: Json, version: int, report: Report) -> set[int]:
    match record["op"]:
        case "append":
            return state | set(record["ids"])
        case "delete":
            kind, numbers = record["condition"]
            ids = pa.array(sorted(state), pa.int64())
            gone = set(ids.filter(Condition(kind, tuple(numbers)).mask(ids)).to_pylist())
            counted = int(info["operationMetrics"]["numDeletedRows"])
            if not len(gone) == record["deleted"] == counted:
                report.problems.append(
                    f"version {version} had {len(gone)} rows to delete, the worker was told {record['deleted']} and the "
                    f"commit says {counted}"
                )
            return state - gone
    return state


def _compare(shown: dict[int, int], state: set[int], version: int, report: Report) -> None:
    for words, numbers in (
        ("lost", state - shown.keys()),
        ("shows again, or too early,", shown.keys() - state),
        ("shows more than once", {number for number, count in shown.items() if count > 1}),
    ):
        if numbers:
            report.problems.append(f"version {version} {words} {len(numbers)} rows: {sorted(numbers)[:10]}")


def _check_observations(records: list[Record], digests: dict[int, str], report: Report) -> None:
    for record in records:
        if "seen" in record:
            report.observed += 1
            if record["digest"] != digests.get(record["seen"]):
                report.problems.append(f"{record['name']} saw other rows in version {record['seen']} than there are")


def _check_reopened(table: Path, digests: dict[int, str], seed: str, report: Report) -> None:
    store = open_store(str(table))
    versions = Random(f"{seed}/reopened").sample(sorted(digests), min(MAX_REOPENED, len(digests)))
    for version in {*versions, *([max(digests)] if digests else [])}:
        report.reopened += 1
        if ids_digest(snapshot_ids(load_snapshot(store, version=version))) != digests[version]:
            report.problems.append(f"version {version} opened anew shows other rows than its files")
