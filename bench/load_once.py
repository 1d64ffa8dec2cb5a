"""How long does one engine take to load one table, once? A process of its own, for its memory is measured too.

`python -m bench.load_once deltalake|Ebbtide 'open'|'open and list' DIRECTORY` prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from bench.memory import peak_bytes


def loader(engine: str, step: str, directory: str) -> Callable[[], object]:
    """Imports the engine and returns the load."""
    lists = step == "open and list"
    if engine == "deltalake":
        from deltalake import DeltaTable

        return lambda: DeltaTable(directory).get_add_actions().num_rows if lists else DeltaTable(directory)
    from ebbtide.log import load_snapshot
    from ebbtide.storage import open_store

    return lambda: (
        load_snapshot(open_store(directory)).files.num_rows if lists else load_snapshot(open_store(directory))
    )


def main(arguments: list[str]) -> int:
    load = loader(*arguments)
    started = time.perf_counter()
    result = load()
    seconds = time.perf_counter() - started
    peak = peak_bytes(os.getpid())
    files = result if isinstance(result, int) else None
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "files": files}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
