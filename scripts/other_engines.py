"""How is something run beside the other engines? Makes what they need, and runs a module where they are.

    python scripts/other_engines.py interop --short
    python scripts/other_engines.py bench.peers point_delete

The engines that `make test` does not need lie in `.venvs/interop`, an environment over the one that runs this;
delta-spark's JARs come with Maven. When those cannot be had the others are asked all the same, and the module says who
is missing.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import environment
import reference_jars

VENV = Path(".venvs/interop")
JARS = "build/reference"


def main(arguments: Sequence[str]) -> int:
    VENV.parent.mkdir(exist_ok=True)
    if environment.main([str(VENV), "--editable", ".[dev,interop]", *environment.over_this()]) != 0:
        return 1
    # Says itself why there are none.
    reference_jars.main([JARS])
    command = ["sh", "scripts/with_spark.sh", str(VENV / "bin" / "python"), "-m", *arguments]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
