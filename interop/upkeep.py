"""Does maintenance leave the rows, whoever does it and whoever reads?

A table of several small files, some of their rows deleted and updated, is compacted, purged, sorted, restored, vacuumed
and cloned. First by Ebbtide; then, each on a table of its own, by every other engine, with as much of it as it has.
After each step all engines read the table, and its clone once there is one. The vacuum that looks at every file comes
last: what it takes away too much is gone.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tests.support.log_reading import newest_version

from interop.cells import FAILS, MAINTENANCE, Cell, complaint_of, is_explained, objection_to, verdict_on
from interop.engines import Engine
from interop.features import Feature
from interop.known import find
from interop.steps import UPKEEP, Condition, Model, Step, every, source_file

__all__ = ["maintain_in_turn"]

# Before the last steps Ebbtide deletes rows, whoever maintains the table: engines that write no vectors meet live ones.
OURS = "a delete of ours"
KINDS = ("optimize", "delete", "purge", "append", "zorder", "restore", "lite vacuum", OURS, "clone", "vacuum")
LONGEST = frozenset({"append", "zorder", "lite vacuum", "clone"})
DELETED, DELETED_BY_US, DELETED_IN_CLONE = every(7, 2), every(11, 3), every(3, 2)


@dataclass(frozen=True)
class _Deed:
    """A step on the table at a path, and what it does to the models."""

    path: str
    step: Step
    effect: Callable[[], object] = lambda: None
    is_ours: bool = False


@dataclass
class _Table:
    """The table and its model, and the model of its clone once there is one."""

    feature: Feature
    directory: Path
    model: Model
    clone: Model | None = None

    @property
    def path(self) -> str:
        return str(self.directory / "table")

    @property
    def clone_path(self) -> str:
        return str(self.directory / "clone")

    def append(self, *numbers: int) -> _Deed:
        content = [self.feature.row(number, number * 10) for number in numbers]
        source = source_file(content, self.feature.schema, self.directory / f"{numbers[0]}.parquet")
        return _Deed(self.path, Step("append", source), lambda: self.model.append(content))

    def delete(self, gone: Condition) -> _Deed:
        return _Deed(self.path, Step("delete", where=gone.sql), lambda: self.model.delete(gone))

    def update(self, met: Condition) -> _Deed:
        step = Step("update", where=met.sql, amount=100)
        return _Deed(self.path, step, lambda: self.model.update(met, 100))

    def make_clone(self) -> None:
        self.clone = copy.deepcopy(self.model)

    def deeds(self, offers: frozenset[str]) -> Iterator[_Deed]:
        """As much of the maintenance as an engine has; each is yielded when the one before it is done."""
        deleted = 0
        for kind in (kind for kind in KINDS if kind in {*offers, OURS}):
            match kind:
                case "append":
                    yield self.append(30, 31)
                case "delete":
                    yield self.delete(DELETED)
                    deleted = newest_version(Path(self.path))
                    self.model.committed(deleted)
                case "a delete of ours":
                    yield replace(self.delete(DELETED_BY_US), is_ours=True)
                case "restore":
                    yield _Deed(self.path, Step(kind, version=deleted), partial(self.model.restore, deleted))
                case "clone":
                    yield _Deed(self.path, Step(kind, target=self.clone_path), self.make_clone)
                    step = Step("delete", where=DELETED_IN_CLONE.sql)
                    yield _Deed(self.clone_path, step, lambda: self.clone and self.clone.delete(DELETED_IN_CLONE))
                case _:
                    yield _Deed(self.path, Step(kind))


@dataclass
class _Readers:
    """All engines but ours. `clone_blind` are those that are known not to read clones, with the place of the entry."""

    engines: dict[str, Engine]
    feature: Feature
    clone_blind: dict[str, int] = field(default_factory=dict)

    def objection(self, name: str, table: _Table) -> str:
        """Why what the engine shows is wrong; empty when it is not, or when it is known not to read clones."""
        engine = self.engines[name]
        words = objection_to(lambda: engine.read(table.path), table.model.table())
        if words or table.clone is None or name in self.clone_blind:
            return words
        words = objection_to(lambda: engine.read(table.clone_path), table.clone.table())
        place = find(name, "reads", self.feature.name, words, step="clone") if words else None
        if place is not None:
            self.clone_blind[name] = place
            return ""
        return words


def maintain_in_turn(
    ours: Engine, engines: dict[str, Engine], feature: Feature, directory: Path, *, only_ours: bool = False
) -> Iterator[Cell]:
    """One cell for each engine: it reads what we maintain, and everybody reads what it maintains.

    `only_ours` leaves the second half out, and of the first what takes longest.
    """
    cells = {name: Cell(MAINTENANCE, feature.name, name) for name in engines}
    readers = _Readers(engines, feature)
    table = _begin(ours, feature, directory / "ours")
    begun = copy.deepcopy(table.model)
    shutil.copytree(table.path, directory / "begun")
    for deed in table.deeds(ours.offers - LONGEST if only_ours else ours.offers):
        ours.run(deed.path, deed.step)
        deed.effect()
        objection = _our_objection(ours, table)
        # Before others are asked: an explanation of what they see must not hide a fault of ours.
        assert not objection, f"Ebbtide does not see what it left ({feature.name}, {deed.step}): {objection}"
        for name, cell in cells.items():
            if not cell.objection:
                verdict_on(cell, "reads", readers.objection(name, table))
    for name, cell in cells.items():
        if name in readers.clone_blind and not cell.objection:
            cell.known.append(readers.clone_blind[name])
        if not only_ours and cell.verdict != FAILS and not engines[name].offers.isdisjoint(UPKEEP):
            table = _Table(feature, directory / name, copy.deepcopy(begun))
            shutil.copytree(directory / "begun", table.path)
            _maintain(ours, readers, cell, table)
        yield cell


def _begin(ours: Engine, feature: Feature, directory: Path) -> _Table:
    table = _Table(feature, directory, feature.model())
    ours.create(table.path, feature.definition)
    made = [table.append(*range(start, stop)) for start, stop in ((0, 12), (12, 18), (18, 21))]
    for deed in (*made, table.delete(every(5, 1)), table.update(every(3, 0))):
        ours.run(deed.path, deed.step)
        deed.effect()
    return table


def _maintain(ours: Engine, readers: _Readers, cell: Cell, table: _Table) -> None:
    """The engine of the cell maintains the table; the first step that went wrong ends it."""
    engine, done, asked = readers.engines[cell.engine], [], list(readers.engines)
    for deed in table.deeds(engine.offers):
        kind = deed.step.kind
        writer = ours if deed.is_ours else engine
        complaint = complaint_of(lambda writer=writer, deed=deed: writer.run(deed.path, deed.step))
        if complaint and not deed.is_ours and is_explained(cell, kind, complaint):
            continue
        if not complaint:
            deed.effect()
            complaint = _our_objection(ours, table)
        if complaint:
            verdict_on(cell, "writes", complaint, step=kind)
            return
        done.append(kind)
        for reader in list(asked):
            objection = readers.objection(reader, table)
            if objection and find(reader, "reads", cell.feature, objection) is not None:
                asked.remove(reader)
            elif objection:
                verdict_on(cell, "writes", f"then {reader} reads: {objection}", step=kind)
                return
    kept = [kind for kind in UPKEEP if kind in done]
    cell.note = f"its {', '.join(kept)}" if kept else ""


def _our_objection(ours: Engine, table: _Table) -> str:
    words = objection_to(lambda: ours.read(table.path), table.model.table())
    if words or table.clone is None:
        return words
    return objection_to(lambda: ours.read(table.clone_path), table.clone.table())
