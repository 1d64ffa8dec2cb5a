"""Ask the other engines: all of them about everything, or less of it.

python -m interop                      everything; writes interop/results.json and docs/interop.md
python -m interop --engine Sail        one engine, or --feature plain: one feature; the other cells keep their results
python -m interop --short              all engines, few features, 8 commits a history; writes below artifacts/interop

Ends with 0 when all that could be started agree but for what `interop/known.py` explains, and with 1 when they do not
or when an explanation is out of date. An engine that could not be started is named in a line "NOT HERE: ...", and then
the page stays as it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interop import report
from interop.cells import FAILS, Cell, words_of
from interop.engines import ENGINES, Engine, Place, load
from interop.features import FEATURES, Feature
from interop.histories import take_turns
from interop.known import KNOWN
from interop.remote import Remote
from interop.spark_engines import Ebbtide, open_session
from interop.steps import UPKEEP
from interop.stories import read_by_us, reads_ours, tell_ours
from interop.upkeep import maintain_in_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
COMMITS = 30
SHORT_COMMITS = 8
# Steps that only histories take: a short one may not draw them.
RARE = frozenset(UPKEEP)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    started = time.monotonic()
    features = [each for each in FEATURES if _is_asked(each, options)]
    with tempfile.TemporaryDirectory(prefix="ebbtide-interop-") as name, open_session(Path(name)) as spark:
        scratch = Path(name).resolve()
        engines, missing = _started(options.engine or list(ENGINES), scratch, spark)
        cells = []
        for cell in _asked(Ebbtide(spark), engines, features, scratch, SHORT_COMMITS if options.short else COMMITS):
            cells.append(cell)
            _print(cell)
        versions = {each: engine.version() for each, engine in engines.items()}
        for engine in engines.values():
            engine.close()
    print(f"\n{round(time.monotonic() - started)} seconds")
    # Cells of engines that are not here would be lost from the page without a word.
    _write(report.results(cells, versions), for_page=not options.short and not missing)
    return _outcome(cells, missing, list(engines), features, short=options.short)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop", description="Ask other engines about our tables.")
    parser.add_argument("--short", action="store_true", help="few features and short histories, for CI")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="only this one (may be repeated)")
    names = [each.name for each in FEATURES]
    parser.add_argument("--feature", action="append", choices=names, help="only this one (may be repeated)")
    return parser.parse_args(arguments)


def _is_asked(feature: Feature, options: argparse.Namespace) -> bool:
    return feature.name in options.feature if options.feature else feature.in_short or not options.short


def _started(names: list[str], scratch: Path, spark: SparkSession) -> tuple[dict[str, Engine], list[str]]:
    """The engines, and the sentences of those that cannot be had."""
    engines: dict[str, Engine] = {}
    missing = []
    for name in names:
        try:
            engines[name] = _start(name, ENGINES[name], scratch, spark)
        except Exception as error:
            missing.append(f"NOT HERE: {name} could not be started: {words_of(error)}")
    return engines, missing


def _start(name: str, place: Place, scratch: Path, spark: SparkSession) -> Engine:
    if place.is_remote:
        return Remote(place, scratch, scratch / f"{name}.log")
    engine = load(place)
    return engine(spark) if name == "delta-spark" else engine()


def _asked(
    ours: Engine, engines: dict[str, Engine], features: list[Feature], scratch: Path, commits: int
) -> Iterator[Cell]:
    for number, feature in enumerate(features):
        told = tell_ours(ours, feature, scratch / f"{number}-ours")
        for name, engine in engines.items():
            place = scratch / f"{number}-{name}"
            yield _timed(reads_ours, engine, name, feature, told)
            yield _timed(read_by_us, ours, engine, name, feature, place / "theirs")
            if feature.has_history:
                yield _timed(take_turns, ours, engine, name, feature, place / "turns", commits)
        # A short run shows only that the others can follow ours; everything else takes minutes.
        if feature.is_maintained and (commits == COMMITS or (feature.has_history and feature.protocol)):
            place, is_short = scratch / f"{number}-maintained", commits != COMMITS
            maintained = maintain_in_turn(ours, engines, feature, place, only_ours=is_short)
            while cell := _timed(next, maintained, None):
                yield cell


def _timed(ask: Callable[..., Any], *arguments: Any) -> Any:
    started = time.monotonic()
    cell: Cell | None = ask(*arguments)
    if cell is not None:
        cell.seconds = time.monotonic() - started
    return cell


def _print(cell: Cell) -> None:
    known = " ".join(f"[{place + 1}]" for place in cell.known)
    words = [cell.verdict, known, cell.note]
    print(
        f"{cell.feature:<31} {cell.engine:<12} {cell.table:<15} {cell.seconds:5.1f}s  {' '.join(filter(None, words))}",
        flush=True,
    )
    if cell.verdict == FAILS:
        print("    " + cell.objection.replace("\n", "\n    "), flush=True)


def _write(content: dict[str, Any], *, for_page: bool) -> None:
    target = ROOT / "interop" if for_page else ROOT / "artifacts" / "interop"
    page = ROOT / "docs" / "interop.md" if for_page else target / "interop.md"
    file = target / "results.json"
    content = report.merged(report.read_results(file), content) if for_page and file.exists() else content
    report.write_results(file, content)
    page.write_text(report.markdown(content), encoding="utf-8")
    print(f"written: {file}, {page}")


def _outcome(cells: list[Cell], missing: list[str], engines: list[str], features: list[Feature], *, short: bool) -> int:
    failed = [cell for cell in cells if cell.verdict == FAILS]
    stale = list(_stale(cells, engines, {each.name for each in features}, short=short))
    for sentence in (*missing, *stale):
        print(sentence, file=sys.stderr)
    print(f"{len(cells)} cells, {len(failed)} failed", file=sys.stderr)
    return 1 if failed or stale else 0


def _stale(cells: list[Cell], engines: list[str], features: set[str], *, short: bool) -> Iterator[str]:
    """What is held against an engine and did not show, although it was asked."""
    shown = {place for cell in cells for place in cell.known}
    for place, each in enumerate(KNOWN):
        was_asked = each.engine in engines and not features.isdisjoint(each.features)
        if was_asked and place not in shown and not (short and each.step in RARE):
            yield f"[{place + 1}] {each.engine} no longer {each.verdict}; out of interop/known.py with: {each.reason}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
