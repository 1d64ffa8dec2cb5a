"""A DELETE in a process of its own that waits to be interrupted: `interrupted_delete.py KIND DIRECTORY`.

The condition waits inside Spark until the job is cancelled. When it is reached, the file `searching` appears in the
directory. What the DELETE raised, and what the table is afterwards, is the last line that is printed, as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from tests.support.spark_session import open_session

import ebbtide

LONGEST_WAIT_SECONDS = 120


def main(kind: str, directory: Path) -> None:
    from pyspark.sql import functions as F

    marker = str(directory / "searching")

    def waits(number: int) -> bool:
        Path(marker).touch()
        time.sleep(LONGEST_WAIT_SECONDS)
        return number > 0

    with open_session(kind, directory / "spark") as spark:
        path = directory / "t"
        ebbtide.write(spark.range(10), path, properties={"delta.enableDeletionVectors": "true"})
        before = files_of(path)
        table = ebbtide.DeltaTable.forPath(spark, path)
        raised = None
        try:
            table.delete(F.udf(waits, "boolean")(F.col("id")))
        except BaseException as error:
            raised = error
        answer = {
            "raised": type(raised).__name__,
            "left behind": sorted(files_of(path) ^ before),
            "rows": sorted(row.id for row in table.toDF().collect()),
            "version": table.version(),
        }
    print(json.dumps(answer))


def files_of(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


if __name__ == "__main__":
    # A shell that runs the tests in the background lets its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1], Path(sys.argv[2]))
