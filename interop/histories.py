"""Can two engines take turns on one table for a long time?

Ebbtide makes a table; then every commit is made by one of the two, drawn at random, with a step drawn at random from
what it offers. After each, both read the table, and both must see the model's rows. A history is its seed: the
feature's and the engine's names, so that a failure can be played again.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.log_reading import newest_version

from interop.cells import FAILS, HISTORIES, Cell, complaint_of, is_explained, objection_to, verdict_on
from interop.engines import Engine
from interop.features import Feature
from interop.known import ruins
from interop.steps import Condition, Model, Row, Step, every, is_null, source_file
from interop.stories import Move

__all__ = ["take_turns"]

KEYS = 40
MAX_DRAWS = 4
# How often a kind of step is drawn, beside the others that the engine has.
WEIGHTS = {
    "append": 4,
    "delete": 4,
    "update": 4,
    "merge": 5,
    "checkpoint": 2,
    "optimize": 2,
    "zorder": 1,
    "purge": 2,
    "vacuum": 1,
    "lite vacuum": 1,
    "restore": 1,
}


@dataclass
class _History:
    feature: Feature
    directory: Path
    chance: random.Random
    model: Model
    made: int = 0

    @property
    def path(self) -> str:
        return str(self.directory / "table")

    def move(self, kind: str) -> Move:
        """A random step of a kind, for the table as it is now."""
        match kind:
            case "append":
                content = self._rows(self.chance.randrange(1, 6))
                return Move(Step(kind, self._source(content)), lambda model: model.append(content))
            case "delete":
                gone = self._condition()
                return Move(Step(kind, where=gone.sql), lambda model: model.delete(gone))
            case "update":
                met, amount = self._condition(), self.chance.randrange(1, 100)
                step = Step(kind, where=met.sql, amount=amount)
                return Move(step, lambda model: model.update(met, amount))
            case "merge":
                return self._merge()
            case "restore":
                version = self.chance.choice(sorted(self.model.versions))
                return Move(Step(kind, version=version), lambda model: model.restore(version))
            case "vacuum" | "lite vacuum":
                newest = newest_version(Path(self.path))
                return Move(Step(kind), lambda model: model.forget_before(newest))
        return Move(Step(kind), lambda _: None)

    def _merge(self) -> Move:
        content, deletes = self._rows(self.chance.randrange(1, 8)), self.chance.random() < 0.3
        step = Step("merge", self._source(content), deletes=deletes)
        return Move(step, lambda model: model.merge(content, deletes=deletes))

    def _rows(self, count: int) -> list[Row]:
        keys = self.chance.sample(range(KEYS), count)
        return [self.feature.row(key, self.chance.randrange(1000)) for key in keys]

    def _condition(self) -> Condition:
        divisor = self.chance.choice([3, 5, 7, 11])
        return self.chance.choice([every(divisor, self.chance.randrange(divisor)), is_null("v")])

    def _source(self, content: list[Row]) -> str:
        self.made += 1
        return source_file(content, self.feature.schema, self.directory / f"source-{self.made}.parquet")


def take_turns(ours: Engine, engine: Engine, name: str, feature: Feature, directory: Path, commits: int) -> Cell:
    cell = Cell(HISTORIES, feature.name, name)
    history = _History(feature, directory, random.Random(f"{feature.name}/{name}"), feature.model())
    _begin(ours, history)
    if not _agree(ours, engine, cell, history):
        return cell
    done: Counter[str] = Counter()
    # What an engine refuses is no commit; one that refuses everything must not keep us here for ever.
    for number in range(commits * MAX_DRAWS):
        if done.total() == commits:
            break
        is_ours = not _kinds(engine, cell) or history.chance.random() < 0.5
        who = "Ebbtide" if is_ours else name
        kinds = _kinds(ours) if is_ours else _kinds(engine, cell)
        move = history.move(_drawn(kinds, history))
        outcome = _turn(ours, engine, cell, history, move, is_ours=is_ours)
        if outcome is None:
            cell.objection = f"turn {number}, {who} {move.step}: {cell.objection}"
            return cell
        done[who] += outcome
    cell.note = f"{done.total()} commits, {done[name]} by it"
    return cell


def _turn(ours: Engine, engine: Engine, cell: Cell, history: _History, move: Move, *, is_ours: bool) -> int | None:
    """How many commits were made, one or none; None when the history cannot go on."""
    kind = move.step.kind
    complaint = complaint_of(lambda: (ours if is_ours else engine).run(history.path, move.step))
    if complaint:
        return 0 if _is_borne(cell, kind, complaint, is_ours=is_ours) else None
    move.effect(history.model)
    history.model.committed(newest_version(Path(history.path)))
    return 1 if _agree(ours, engine, cell, history, "" if is_ours else kind) else None


def _begin(ours: Engine, history: _History) -> None:
    ours.create(history.path, history.feature.definition)
    history.model.committed(newest_version(Path(history.path)))
    first = history.move("append")
    ours.run(history.path, first.step)
    first.effect(history.model)
    history.model.committed(newest_version(Path(history.path)))


def _agree(ours: Engine, engine: Engine, cell: Cell, history: _History, their_step: str = "") -> bool:
    """Whether both see the model's rows. What we see wrongly after a commit of ours is never the other's fault."""
    expected = history.model.table()
    objection = objection_to(lambda: ours.read(history.path), expected)
    if objection:
        own = objection_to(lambda: engine.read(history.path), expected)
        words = f"Ebbtide reads: {objection}\nThe other reads: {own or 'what is expected'}"
        if their_step:
            verdict_on(cell, "writes", words, step=their_step)
        else:
            cell.verdict, cell.objection = FAILS, words
        return False
    objection = objection_to(lambda: engine.read(history.path), expected)
    verdict_on(cell, "reads", objection)
    return not objection


def _is_borne(cell: Cell, kind: str, complaint: str, *, is_ours: bool) -> bool:
    if not is_ours:
        return is_explained(cell, kind, complaint)
    cell.verdict, cell.objection = FAILS, complaint
    return False


def _kinds(engine: Engine, cell: Cell | None = None) -> list[str]:
    """What the engine offers, without what is known to leave a table of this kind that nobody can read."""
    offered = [kind for kind in WEIGHTS if kind in engine.offers]
    return [kind for kind in offered if cell is None or not ruins(cell.engine, cell.feature, kind)]


def _drawn(kinds: list[str], history: _History) -> str:
    kinds = [kind for kind in kinds if kind != "restore" or len(history.model.versions) > 1]
    return history.chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
