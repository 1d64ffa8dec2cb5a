"""Do other engines and Ebbtide understand each other's tables? Makes what `python -m interop` needs, and runs it.

    python scripts/other_engines.py --short

The engines that `make test` does not need have an environment of their own in `.venvs/interop`; delta-spark's JARs
come with Maven. When those cannot be had the others are asked all the same, and the run ends with 75.
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
    if environment.main([str(VENV), "--editable", ".[dev,interop]"]) != 0:
        return 1
    # Says itself why there are none; `interop` then names the engine that is missing.
    reference_jars.main([JARS])
    command = ["sh", "scripts/with_spark.sh", str(VENV / "bin" / "python"), "-m", "interop", *arguments]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
