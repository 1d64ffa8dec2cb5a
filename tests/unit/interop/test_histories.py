"""Does a history find the engine that is wrong? Two engines of a few lines share one table of rows in a Parquet file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.cells import AGREES, FAILS
from interop.features import FEATURES
from interop.histories import take_turns
from interop.steps import UPKEEP, Model, every, is_null
from interop.stories import read_by_us, reads_ours, tell_ours
from interop.upkeep import maintain_in_turn

from interop import known

PLAIN = FEATURES[0]
CONDITIONS = {found.sql: found for found in (is_null("v"), *(every(d, r) for d in (3, 5, 7, 11) for r in range(d)))}


class Faithful:
    """Every version is a file; a step is done as the model does it."""

    offers = frozenset({"create", "append", "delete", "update", "merge", "restore", "checkpoint"})

    def create(self, path, definition):
        log = Path(path, "_delta_log")
        log.mkdir(parents=True)
        self._commit(path, PLAIN.schema.empty_table())
        protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        metadata = {"id": "x", "format": {"provider": "parquet"}, "schemaString": '{"type":"struct","fields":[]}'}
        metadata |= {"partitionColumns": [], "configuration": {}}
        (log / f"{0:020d}.json").write_text(json.dumps(protocol) + "\n" + json.dumps({"metaData": metadata}))

    def run(self, path, step):
        model = Model(PLAIN.schema, rows=self.read(path).to_pylist())
        match step.kind:
            case "append":
                model.append(pq.read_table(step.source).to_pylist())
            case "delete":
                model.delete(CONDITIONS[step.where])
            case "update":
                model.update(CONDITIONS[step.where], step.amount)
            case "merge":
                model.merge(pq.read_table(step.source).to_pylist(), deletes=step.deletes)
            case "restore":
                model.rows = pq.read_table(Path(path, f"{step.version}.parquet")).to_pylist()
        self._commit(path, model.table())

    def read(self, path):
        return pq.read_table(Path(path, f"{self._newest(path)}.parquet"))

    def _commit(self, path, rows):
        version = self._newest(path) + 1
        pq.write_table(rows, Path(path, f"{version}.parquet"))
        Path(path, "_delta_log", f"{version:020d}.json").touch()

    def _newest(self, path):
        return len(list(Path(path, "_delta_log").iterdir())) - 1


class Forgetful(Faithful):
    """Loses the first row when it writes a merge."""

    def run(self, path, step):
        super().run(path, step)
        if step.kind == "merge":
            self._commit(path, self.read(path).slice(1))


class Blind(Faithful):
    """Shows no row."""

    def read(self, path):
        return super().read(path).slice(0, 0)


def history(directory, ours, theirs):
    return take_turns(ours, theirs, "Other", PLAIN, directory, 30)


def test_faithful_engines_agree_for_thirty_commits(tmp_path):
    cell = history(tmp_path, Faithful(), Faithful())
    assert (cell.verdict, cell.objection) == (AGREES, "")
    assert cell.note.startswith("30 commits")


def test_history_is_the_same_every_time(tmp_path):
    first = history(tmp_path / "a", Faithful(), Faithful())
    again = history(tmp_path / "b", Faithful(), Faithful())
    assert first == again


@pytest.mark.parametrize("theirs", [Forgetful(), Blind()])
def test_engine_that_loses_rows_is_found(tmp_path, theirs):
    cell = history(tmp_path, Faithful(), theirs)
    assert cell.verdict == FAILS
    assert "missing" in cell.objection


def test_fault_of_ours_is_never_explained_by_what_is_known_of_the_other(tmp_path, monkeypatch):
    everything = [
        known.Known("Other", when, "differs", ("plain",), "missing", "x.", "") for when in ("reads", "writes")
    ]
    monkeypatch.setattr(known, "KNOWN", tuple(everything))
    assert history(tmp_path / "theirs", Faithful(), Blind()).verdict == "differs"
    assert history(tmp_path / "ours", Blind(), Faithful()).verdict == FAILS
    with pytest.raises(AssertionError, match="Ebbtide does not see what it wrote"):
        tell_ours(Blind(), PLAIN, tmp_path / "story")


def test_step_that_is_known_to_be_refused_is_left_out_and_the_rest_is_compared(tmp_path, monkeypatch):
    class Refusing(Faithful):
        def run(self, path, step):
            if step.kind == "update":
                raise NotImplementedError("no UPDATE")
            super().run(path, step)

    assert history(tmp_path / "unknown", Faithful(), Refusing()).verdict == FAILS
    entry = known.Known("Other", "writes", "refuses", ("plain",), "no UPDATE", "x.", "", "update")
    monkeypatch.setattr(known, "KNOWN", (entry,))
    shutil.rmtree(tmp_path / "unknown")
    cell = history(tmp_path / "known", Faithful(), Refusing())
    assert (cell.verdict, cell.known) == (AGREES, [0])


def test_story_is_read_both_ways(tmp_path):
    told = tell_ours(Faithful(), PLAIN, tmp_path / "ours")
    assert reads_ours(Faithful(), "Other", PLAIN, told).verdict == AGREES
    assert reads_ours(Blind(), "Other", PLAIN, told).verdict == FAILS
    assert pa.Table.from_pylist(told.model.rows, PLAIN.schema).num_rows > 20
    lossy = read_by_us(Faithful(), Forgetful(), "Other", PLAIN, tmp_path / "theirs")
    assert lossy.verdict == FAILS
    assert "Its own reader objects as well" in lossy.objection


# --- maintenance ------------------------------------------------------------------------------------------------------


class Maintaining(Faithful):
    """Has all of it. A table that was vacuumed has its newest version alone."""

    offers = Faithful.offers | set(UPKEEP)

    def run(self, path, step):
        if step.kind == "clone":
            shutil.copytree(path, step.target)
        elif "vacuum" in step.kind:
            for version in range(self._newest(path)):
                Path(path, f"{version}.parquet").unlink(missing_ok=True)
        else:
            super().run(path, step)


class Ruinous(Maintaining):
    """Deletes too much in a vacuum."""

    def run(self, path, step):
        super().run(path, step)
        if step.kind == "vacuum":
            Path(path, f"{self._newest(path)}.parquet").unlink()


class Resurrecting(Maintaining):
    """Writes through its clone into the source."""

    def run(self, path, step):
        super().run(path, step)
        if path.endswith("clone"):
            super().run(path.replace("clone", "table"), step)


def maintained(directory, **engines):
    return list(maintain_in_turn(Maintaining(), engines, PLAIN, directory))


def test_engines_that_maintain_faithfully_agree_about_everything(tmp_path):
    reading, maintaining = maintained(tmp_path, Reader=Faithful(), Other=Maintaining())
    assert (reading.verdict, maintaining.verdict) == (AGREES, AGREES)
    assert reading.note == "its restore"
    assert maintaining.note == f"its {', '.join(UPKEEP)}"


@pytest.mark.parametrize(("engine", "words"), [(Ruinous(), "FileNotFoundError"), (Resurrecting(), "missing")])
def test_maintenance_that_loses_rows_is_found(tmp_path, engine, words):
    [cell] = maintained(tmp_path, Other=engine)
    assert cell.verdict == FAILS
    assert words in cell.objection


def test_reader_that_cannot_follow_our_maintenance_is_found_and_asked_no_more(tmp_path):
    blind, other = maintained(tmp_path, Reader=Blind(), Other=Maintaining())
    assert blind.verdict == FAILS
    # Nor does what the other left agree, as long as nothing explains why one of the readers sees it otherwise.
    assert "Reader reads" in other.objection


def test_vacuum_that_is_known_to_ruin_tables_is_left_out_of_histories_but_not_out_of_the_story(tmp_path, monkeypatch):
    entry = known.Known(
        "Other", "writes", "differs", ("plain",), "FileNotFoundError", "x.", "", "vacuum", ruins=True
    )  # fmt: skip
    monkeypatch.setattr(known, "KNOWN", (entry,))
    cell = take_turns(Maintaining(), Ruinous(), "Other", PLAIN, tmp_path / "turns", 60)
    assert (cell.verdict, cell.known) == (AGREES, [])
    [cell] = maintained(tmp_path, Other=Ruinous())
    assert (cell.verdict, cell.known) == ("differs", [0])
