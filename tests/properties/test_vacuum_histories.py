"""After any history and any VACUUM: has every version in retention all its files, and is nothing kept beyond that?

Histories are built without Ebbtide's own writer: files come, are marked again and again with vectors of every kind, and go;
vectors of a commit may share a file; checkpoints and orphans lie between. The model keeps, for each version, which files it
needs and when each was removed. The clock stands at the last commit, so that a retention cuts through the history.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.table_builder import TableBuilder
from tests.support.vacuum_tables import SCHEMA, at, files_of, names_below, needed_by, put, settle, vacuum

from ebbtide.log import load_snapshot
from ebbtide.storage import open_store

MINUTES = 1 / 60
VECTORS = st.sampled_from([("u", ""), ("u", "ab"), ("p", ""), ("i", "")])
STEPS = st.sampled_from(["add", "mark", "mark", "remove", "checkpoint", "orphan", "empty commit"])


@dataclass
class Model:
    table: TableBuilder
    # What each version needs, and when the files of a tombstone were removed, the newest time of each.
    needed: list[set[str]] = field(default_factory=list)
    removed_at: dict[str, int] = field(default_factory=dict)
    written_at: dict[str, int] = field(default_factory=dict)

    def commit(self) -> None:
        self.table.commit()
        settle(self.table)
        self.needed.append(needed_by(self.table))
        for name in names_below(self.table.path):
            self.written_at.setdefault(name, at(self.table.version))

    def remove(self, action: dict) -> None:
        for name in files_of(self.table.path, action):
            self.removed_at[name] = at(self.table.version + 1)

    def kept(self, cutoff_ms: int, keeps: set[int]) -> set[str]:
        live = self.needed[-1].union(*(self.needed[version] for version in keeps))
        recent = {name for name, time in self.removed_at.items() if time >= cutoff_ms}
        young = {name for name, time in self.written_at.items() if time >= cutoff_ms}
        return (live | recent | young) & set(self.written_at)


def play(data, path: Path) -> Model:
    table = TableBuilder(path, SCHEMA).deletion_vectors(share_a_file=data.draw(st.booleans(), "share a file"))
    model = Model(table)
    model.commit()
    for number in range(data.draw(st.integers(1, 8), "steps")):
        rows = [{"id": row, "part": "a"} for row in range(6)]
        storage, prefix = data.draw(VECTORS)
        match data.draw(STEPS):
            case "mark" if table.files:
                file = data.draw(st.sampled_from(range(len(table.files))))
                model.remove(table.files[file].add)
                table.mark(table.files[file], [number % 6], vector=storage, vector_prefix=prefix)
            case "remove" if table.files:
                model.remove(table.files[0].add)
                table.remove(table.files[0])
            case "checkpoint":
                table.checkpoint(data.draw(st.sampled_from(["classic", "multipart"])))
                continue
            case "orphan":
                name = f"{data.draw(st.sampled_from(['', 'deep/']))}orphan-{number}.parquet"
                put(path, name, at(table.version))
                model.written_at[name] = at(table.version)
                continue
            case "empty commit":
                pass
            case _:
                table.file(rows, deleted=data.draw(st.sampled_from([[], [0]])), vector=storage, vector_prefix=prefix)
        model.commit()
    return model


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_version_in_retention_has_its_files_and_nothing_else_stays(data):
    directory = Path(tempfile.mkdtemp())
    try:
        model = play(data, directory / "t")
        newest = model.table.version
        retained = data.draw(st.integers(0, newest + 1), "minutes retained")
        keeps = data.draw(st.sets(st.integers(0, newest), max_size=1), "kept versions")
        lite = data.draw(st.booleans(), "lite")
        before = names_below(model.table.path)
        now_ms = at(newest)
        cutoff_ms = now_ms - retained * 60_000
        arguments = {"retention_hours": retained * MINUTES, "keep_versions": tuple(keeps)}
        looked = set(vacuum(model.table.path, now_ms, lite=lite, dry_run=True, **arguments).paths)
        done = vacuum(model.table.path, now_ms, lite=lite, **arguments)
        left = names_below(model.table.path)
        assert before - left == looked & before == set(done.paths) & before
        kept = model.kept(cutoff_ms, keeps)
        assert kept <= left
        orphans = {name for name in before if "orphan" in name}
        if lite:
            assert left - kept <= orphans | {
                name for name in before if model.removed_at.get(name, cutoff_ms) >= cutoff_ms
            }
        else:
            assert left == kept
        # A version is in retention when it was still the newest at the cutoff, or is kept by name.
        for version in {*keeps, *(each for each in range(newest + 1) if each == newest or at(each + 1) > cutoff_ms)}:
            assert model.needed[version] <= left
            assert load_snapshot(open_store(str(model.table.path)), version=version).num_files >= 0
    finally:
        shutil.rmtree(directory)
