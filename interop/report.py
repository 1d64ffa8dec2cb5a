"""How are results kept and shown: `interop/results.json`, and `docs/interop.md`, which is made from it alone?"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from interop.cells import AGREES, FAILS, HISTORIES, MAINTENANCE, NOT_OFFERED, READ_BY_US, READS_OURS, Cell
from interop.engines import ENGINES
from interop.features import FEATURES
from interop.known import KNOWN

__all__ = ["markdown", "merged", "read_results", "results", "write_results"]

HEADING = """# Other engines

Does another engine see the rows that Ebbtide wrote, and does Ebbtide see what it wrote? `make interop` tries
each engine with each kind of table and makes this page from `interop/results.json`; edit neither. Rows are compared
with a model in plain Python, never counts.

- **agrees**: the same rows.
- **refuses**: the engine says that it does not support this. Nothing is wrong; the number links to its message.
- **differs**: the engine fails where it should not, or shows other rows. The number links to the smallest example.
- **—**: the engine does not offer this.
"""
ABOUT = {
    READS_OURS: """Each table was made by Ebbtide: two appends, DELETE, UPDATE, MERGE, a checkpoint, a MERGE that
deletes, an append. Where the table has a change feed and the engine reads feeds, the feed is compared too.""",
    READ_BY_US: """The engine runs as much of the same sequence as it has statements for, and Ebbtide reads the rows and
the change feed. DuckDB and ClickHouse append to a table that Ebbtide made, Polars appends and merges.""",
    HISTORIES: """Every commit to one table is made by Ebbtide or by the other engine, chosen at random, and is a random
step that it supports: append, DELETE, UPDATE, MERGE, checkpoint; Ebbtide, delta-spark and deltalake also compact, sort,
vacuum and restore, and the first two purge. Both read the table after every commit.""",
    MAINTENANCE: """A table of small files with deleted and updated rows is maintained: OPTIMIZE, a DELETE, PURGE, an
append, Z-ORDER, RESTORE to before the PURGE, VACUUM LITE, a DELETE by Ebbtide, SHALLOW CLONE and a DELETE in the clone,
VACUUM; both vacuums without retention. First Ebbtide does all of it, and the engine reads the table and the clone after
each step. Then the engine does what it has of it on a table of its own, and Ebbtide and all others read after each
step.""",
}
TITLES = {
    READS_OURS: "It reads what we wrote",
    READ_BY_US: "We read what it wrote",
    HISTORIES: "They take turns",
    MAINTENANCE: "Maintenance",
}


def results(cells: Iterable[Cell], versions: dict[str, str]) -> dict[str, Any]:
    """Everything the page needs, known issues included, so that the page can be made from the file alone."""
    return {
        "run": {
            "date": datetime.now(timezone.utc).date().isoformat(),
            "ebbtide": version("ebbtide"),
            "pyspark": version("pyspark"),
            "python": platform.python_version(),
        },
        "engines": versions,
        "cells": [cell.to_json() for cell in cells],
        "known": [
            {"engine": each.engine, "verdict": each.verdict, "reason": each.reason, "example": each.example}
            for each in KNOWN
        ],
    }


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """New cells replace old ones; other old cells stay if their explanations still exist."""
    places = {(each["engine"], each["reason"]): place for place, each in enumerate(new["known"])}
    moved = {at: places.get((each["engine"], each["reason"])) for at, each in enumerate(old["known"])}
    asked = {_key(cell) for cell in new["cells"]}
    kept = [
        cell | {"known": [moved[at] for at in cell["known"]]}
        for cell in old["cells"]
        if _key(cell) not in asked and cell["engine"] in ENGINES and None not in [moved[at] for at in cell["known"]]
    ]
    versions = old["engines"] | new["engines"]
    order = {feature.name: place for place, feature in enumerate(FEATURES)}
    cells = sorted(kept + new["cells"], key=lambda cell: (order[cell["feature"]], list(ENGINES).index(cell["engine"])))
    return new | {"cells": cells, "engines": {name: versions[name] for name in ENGINES if name in versions}}


def _key(cell: dict[str, Any]) -> tuple[str, str, str]:
    return cell["table"], cell["feature"], cell["engine"]


def read_results(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write_results(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Times differ from run to run and say nothing here.
    kept = content | {"cells": [{k: v for k, v in cell.items() if k != "seconds"} for cell in content["cells"]]}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def markdown(content: dict[str, Any]) -> str:
    """The whole page."""
    sections = [HEADING, *(_section(table, content) for table in TITLES), _known(content["known"])]
    run = content["run"]
    engines = ", ".join(f"{name} {found}" for name, found in content["engines"].items())
    place = f"Ebbtide {run['ebbtide']} on PySpark {run['pyspark']} and Python {run['python']}"
    short = "`.ci/run` asks all engines about fewer tables, with shorter histories (`make interop ARGS=--short`)."
    sections.append(f"## The run\n\n`make interop`, {run['date']}: {place}; {engines}. {short}\n")
    return "\n".join(sections)


def _section(table: str, content: dict[str, Any]) -> str:
    cells = [cell for cell in content["cells"] if cell["table"] == table]
    features = list(dict.fromkeys(cell["feature"] for cell in cells))
    engines = list(content["engines"])
    found = {(cell["feature"], cell["engine"]): cell for cell in cells}
    rows = [[feature, *(_shown(found.get((feature, engine))) for engine in engines)] for feature in features]
    lines = [["", *engines], ["---"] * (len(engines) + 1), *rows]
    return f"## {TITLES[table]}\n\n{ABOUT[table]}\n\n" + "\n".join(_line(line) for line in lines) + "\n"


def _shown(cell: dict[str, Any] | None) -> str:
    if cell is None or cell["verdict"] == NOT_OFFERED:
        return "—"
    links = " ".join(f"[{place + 1}](#{place + 1})" for place in cell["known"])
    match cell["verdict"]:
        case "agrees" if cell["table"] == HISTORIES:
            return f"agrees: {cell['note']}" + (f"; not its {links}" if links else "")
        case "agrees":
            return ", ".join(filter(None, [AGREES, cell["note"], f"but {links}" if links else ""]))
        case "FAILS":
            return f"**{FAILS}**"
    return f"{cell['verdict']} {links}"


def _known(known: Sequence[dict[str, Any]]) -> str:
    """Headings that are numbers, so that a cell can point at them."""
    parts = [f"### {place}\n\n{_sentence(each)}\n" for place, each in enumerate(known, start=1)]
    return "\n".join(["## What goes wrong elsewhere, and what is refused\n", *parts])


def _sentence(each: dict[str, Any]) -> str:
    example = f"\n\n```text\n{each['example']}\n```" if each["example"] else ""
    return f"**{each['engine']}** {each['verdict']}: {each['reason']}{example}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
