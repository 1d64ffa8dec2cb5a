"""How does an engine in a process of its own answer? One line of JSON in, one line of JSON out, until the input ends.

    python interop/worker.py interop.sail:Sail

Started by `interop.remote`, in the directory of the tables. Whatever an engine prints goes to the standard error; the
standard output is for answers alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# Run as a file, from another directory: the clone is not on the path yet.
sys.path[0] = str(Path(__file__).parent.parent)

import pyarrow as pa
from tests.support.line_worker import answers

from interop.engines import Engine, Place, load
from interop.features import Definition
from interop.steps import Step


def answer(engine: Engine, call: str, arguments: dict[str, Any], number: int) -> Any:
    match call:
        case "version":
            return engine.version()
        case "create":
            definition = dict(arguments["definition"])
            definition["columns"] = tuple(tuple(column) for column in definition["columns"])
            return engine.create(arguments["path"], Definition(**definition))
        case "run":
            return engine.run(arguments["path"], Step(**arguments["step"]))
        case "read":
            return stored(engine.read(arguments["path"]), Path(f"answer-{os.getpid()}-{number}.arrow").absolute())
    raise ValueError(f"there is no call {call}")


def stored(rows: pa.Table, path: Path) -> str:
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, rows.schema) as writer:
        writer.write_table(rows)
    return str(path)


def main() -> None:
    say = answers()
    engine: Engine | None = None
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        try:
            engine = engine or load(Place(sys.argv[1]))()
            value = {"value": answer(engine, asked["call"], asked["arguments"], number)}
        except BaseException as error:  # a panic of Rust is no Exception
            value = {"error": f"{type(error).__name__}: {error}"}
        say(value)
    if engine is not None:
        engine.close()


if __name__ == "__main__":
    main()
