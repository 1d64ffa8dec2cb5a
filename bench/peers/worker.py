"""What does an engine's process do? It starts the engine and then does what each line on its input says.

    python -m bench.peers.worker 'delta-spark without vectors' SCRATCH

Lines are JSON. The first line out tells the versions, once the engine is ready. Then each task in, such as {"do":
"delete", "path": ..., "where": ...}, gives one answer out: {"seconds": ..., "result": ...}, or {"error": ...}. The
end of the input is the end of the process. Whatever an engine prints goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.line_worker import answers

from bench.peers.engines import named
from bench.peers.race import race

if TYPE_CHECKING:
    from bench.peers.adapters.adapter import Adapter

Task = dict[str, Any]

# What a task may ask for; each takes the adapter and the task.
DEEDS: dict[str, Callable[[Any, Task], Any]] = {
    "delete": lambda adapter, task: adapter.delete(task["path"], task["where"]),
    "update": lambda adapter, task: adapter.update(task["path"], task["set"], task["where"]),
    "merge": lambda adapter, task: adapter.merge(task["path"], task["source"]),
    "query": lambda adapter, task: adapter.query(task["path"], task["select"], task.get("where")),
    "open": lambda adapter, task: adapter.open(task["path"]),
    "optimize": lambda adapter, task: adapter.optimize(task["path"], task.get("zorder", [])),
    "purge": lambda adapter, task: adapter.purge(task["path"]),
    "vacuum": lambda adapter, task: adapter.vacuum(task["path"], task.get("options")),
    "restore": lambda adapter, task: adapter.restore(task["path"], task["version"], task.get("options")),
    "race": race,
}


def main(name: str, scratch: str) -> int:
    say = answers()
    engine = named(name)
    adapter = importlib.import_module(f"bench.peers.adapters.{engine.adapter}").opened(engine, Path(scratch))
    say({"versions": adapter.versions()})
    for line in sys.stdin:
        say(answer(adapter, json.loads(line)))
    adapter.close()
    return 0


def answer(adapter: Adapter, task: Task) -> dict[str, Any]:
    """Does the task; an engine that cannot says so in its own words."""
    before = adapter.jobs() if task.get("count_jobs") else None
    started = time.perf_counter()
    try:
        result = DEEDS[task["do"]](adapter, task)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    seconds = time.perf_counter() - started
    told: dict[str, Any] = {"seconds": seconds, "result": result}
    if before is not None:
        told["jobs"] = (adapter.jobs() or 0) - before
    return told


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
