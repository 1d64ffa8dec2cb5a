"""Where is the reference engine? Fetches the JARs of delta-spark with Maven, once, for `make reference`.

    python3 scripts/reference_jars.py build/reference

Which release that is stands in tests/interop/reference/pom.xml. Where Maven finds it is Maven's own configuration and
is never said here. Ends with 0 when the JARs are there, and with 75 ("try again later") and one sentence when they
cannot be had now.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

POM = Path("tests/interop/reference/pom.xml")
STAMP = "pom.sha256"
NOT_NOW = 75
# Spark brings everything else that delta-spark depends on, in versions of its own.
GROUPS = "io.delta"


def is_current(target: Path, wanted: str) -> bool:
    stamp = target / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def fetch(target: Path) -> str | None:
    """Why it did not work; None when it did."""
    if shutil.which("mvn") is None:
        return "the reference engine is fetched with Maven, and there is no `mvn` on the PATH."
    shutil.rmtree(target, ignore_errors=True)
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DincludeGroupIds={GROUPS}", f"-DoutputDirectory={target.absolute()}"]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return "Maven could not download the reference engine (no network?); its own words are above."
    return None if any(target.glob("*.jar")) else "Maven downloaded no JAR."


def main(arguments: Sequence[str]) -> int:
    target = Path(arguments[0])
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    if is_current(target, wanted):
        return 0
    reason = fetch(target)
    if reason is not None:
        print(f"reference {reason}", file=sys.stderr)
        return NOT_NOW
    (target / STAMP).write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
