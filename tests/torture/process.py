"""One worker of a torture as a process: `python -m tests.torture.process '<task as JSON>'`, started by `run`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.spark_session import open_session
from tests.torture.workload import Worker

from ebbtide.storage import open_store


def main(task: dict[str, Any]) -> None:
    plan, number, directory = task["plan"], task["number"], Path(task["directory"])
    has_spark = number >= plan["processes"]
    pa.set_cpu_count(1)
    session = open_session("classic", directory / "spark") if has_spark else nullcontext()
    with session as spark, (directory / f"records-{number}.jsonl").open("w", buffering=1) as records:
        worker = Worker(
            number=number,
            writers=plan["processes"],
            seed=plan["seed"],
            store=open_store(task["place"], task["options"]),
            place=task["place"],
            storage_options=task["options"],
            write=lambda record: print(json.dumps(record), file=records),
            directory=directory,
            spark=spark,
            engine=plan["engine"],
            compactions=plan["compactions"],
            vacuums=plan["vacuums"],
            only_deletes=plan["only_deletes"],
        )
        print("ready", flush=True)
        sys.stdin.readline()
        worker.run(rounds=plan["rounds"], seconds=plan["seconds"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
