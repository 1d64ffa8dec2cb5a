"""What happens to a table of each feature, and does the other side see it?

The same story for all: appends, DELETE, UPDATE, MERGE, a checkpoint, and something after it. `reads_ours` lets an
engine read a table whose story Ebbtide played; `read_by_us` lets the engine play what it offers of it (on a table
that Ebbtide made, if it makes none) and reads with Ebbtide. Rows are compared with the model's, and change feeds
where the table has one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interop.cells import FAILS, READ_BY_US, READS_OURS, Cell, complaint_of, is_explained, objection_to, verdict_on
from interop.engines import Engine
from interop.evidence import lacking
from interop.features import Feature
from interop.known import KNOWN, find
from interop.steps import Model, Row, Step, every, source_file

__all__ = ["Move", "Told", "read_by_us", "reads_ours", "story", "tell_ours"]

FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class Move:
    """A step, and what it does to the model."""

    step: Step
    effect: Callable[[Model], None]


@dataclass(frozen=True)
class Told:
    """A table to which a story happened, and what it must show."""

    path: str
    model: Model


def story(feature: Feature, directory: Path) -> list[Move]:
    def rows(*numbers: int, n: int = 0) -> list[Row]:
        return [feature.row(number, number * 10 + n) for number in numbers]

    def append(*numbers: int) -> Move:
        content = rows(*numbers)
        return Move(Step("append", source(content)), lambda model: model.append(content))

    def merge(*numbers: int, deletes: bool = False) -> Move:
        content = rows(*numbers, n=7)
        step = Step("merge", source(content), deletes=deletes)
        return Move(step, lambda model: model.merge(content, deletes=deletes))

    def source(content: list[Row]) -> str:
        return source_file(content, feature.schema, directory / f"source-{content[0]['id']}-{len(content)}.parquet")

    gone, raised = every(5, 1), every(3, 0)
    return [
        append(*range(24)),
        append(*range(24, 28)),
        Move(Step("delete", where=gone.sql), lambda model: model.delete(gone)),
        Move(Step("update", where=raised.sql, amount=100), lambda model: model.update(raised, 100)),
        merge(2, 4, 50, 51),
        Move(Step("checkpoint"), lambda _: None),
        merge(3, 40, 41, deletes=True),
        append(60, 61, 62),
    ]


def tell_ours(ours: Engine, feature: Feature, directory: Path) -> Told:
    """The whole story, by Ebbtide."""
    told = Told(str(directory / "table"), feature.model())
    ours.create(told.path, feature.definition)
    for move in story(feature, directory):
        ours.run(told.path, move.step)
        move.effect(told.model)
    objection = objection_to(lambda: ours.read(told.path), told.model.table())
    if objection:
        # Before others are asked: an explanation of what they see must not hide a fault of ours.
        raise AssertionError(f"Ebbtide does not see what it wrote ({feature.name}): {objection}")
    return told


def reads_ours(engine: Engine, name: str, feature: Feature, told: Told) -> Cell:
    cell = Cell(READS_OURS, feature.name, name)
    objection = objection_to(lambda: engine.read(told.path), told.model.table())
    if not objection and FEED in feature.properties and "changes" in engine.offers:
        cell.note = "and the change feed"
        objection = objection_to(lambda: engine.changes(told.path), told.model.feed())
    return verdict_on(cell, "reads", objection)


def read_by_us(ours: Engine, engine: Engine, name: str, feature: Feature, directory: Path) -> Cell:
    cell = Cell(READ_BY_US, feature.name, name)
    moves = story(feature, directory)
    told = Told(str(directory / "table"), feature.model())
    has_made_it = _made(engine, cell, told, feature)
    if cell.verdict == FAILS:
        return cell
    if not has_made_it:
        first = moves.pop(0)
        ours.create(told.path, feature.definition)
        ours.run(told.path, first.step)
        first.effect(told.model)
    if not _played(engine, cell, told, moves):
        return cell
    cell.note = "on a table of ours" if "create" in engine.offers and not has_made_it else ""
    return _compared(ours, engine, feature, cell, told)


def _made(engine: Engine, cell: Cell, told: Told, feature: Feature) -> bool:
    """Whether the engine has made the table; where it is known not to, Ebbtide can."""
    if "create" not in engine.offers:
        return False
    complaint = complaint_of(lambda: engine.create(told.path, feature.definition))
    if complaint and is_explained(cell, "create", complaint):
        shutil.rmtree(told.path, ignore_errors=True)
    return not complaint


def _played(engine: Engine, cell: Cell, told: Told, moves: list[Move]) -> bool:
    """The moves that the engine offers and does not refuse; whether there is something to compare."""
    has_done = False
    for move in moves:
        if move.step.kind not in engine.offers:
            continue
        complaint = complaint_of(lambda step=move.step: engine.run(told.path, step))
        if not complaint:
            move.effect(told.model)
            # A checkpoint alone says nothing about rows.
            has_done = has_done or move.step.kind != "checkpoint"
        elif not is_explained(cell, move.step.kind, complaint):
            return False
    if not has_done:
        cell.verdict = KNOWN[cell.known[-1]].verdict
    return has_done


def _compared(ours: Engine, engine: Engine, feature: Feature, cell: Cell, told: Told) -> Cell:
    objection = objection_to(lambda: ours.read(told.path), told.model.table())
    if objection:
        own = objection_to(lambda: engine.read(told.path), told.model.table())
        objection += "\nIts own reader " + (f"objects as well: {own}" if own else "sees the expected rows.")
    elif FEED in feature.properties:
        objection = objection_to(lambda: ours.changes(told.path), told.model.feed())
    if objection:
        return verdict_on(cell, "writes", objection)
    if "create" in engine.offers and not cell.note:
        cell.note = lacking(feature, Path(told.path))
    own = objection_to(lambda: engine.read(told.path), told.model.table())
    place = find(cell.engine, "reads", cell.feature, own) if own else None
    if place is None:
        return verdict_on(cell, "reads", own)
    # We read what it wrote, and that is the question; that it cannot read it itself is worth a number.
    cell.known.append(place)
    return cell
