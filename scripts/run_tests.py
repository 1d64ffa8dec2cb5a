"""Does everything hold? Runs the whole suite and says how many tests passed, failed and were skipped, and
which files took longest.

With arguments, they go to pytest as they are: `make test ARGS='tests/unit -k house'`. `--every-kind` alone runs the
whole suite and leaves out nothing on the second kind of session. `--conformance` alone stands for `tests/conformance`,
which is no part of the suite because it needs material from outside the clone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

EVERYTHING = ("unit", "contracts", "properties", "faults", "spark", "connect", "interop", "concurrency")

# A process holds one kind of Spark session (tests/conftest.py), so what runs on both kinds runs twice.
RUNS = (
    ("classic", EVERYTHING),
    ("connect", ("spark", "connect")),
)
# Leaves out the tests that are marked as settled by one kind (tests/conftest.py).
SECOND_KIND = "--second-kind"
EVERY_KIND = "--every-kind"
NOTHING_COLLECTED = 5
NUM_SLOWEST = 10

# One Spark beside another keeps two cores busy where one alone leaves half of them idle; more than a few need more
# memory than a laptop has. A worker that dies, or hangs until pytest-timeout ends it, is replaced: it costs its test.
PARALLEL = ("-n", "logical", "--maxprocesses", "4", "--dist", "worksteal")


def outcomes(report: Path) -> Counter[str]:
    """Passed, failed and skipped tests of one junit report; none when pytest died before it could write one."""
    counts: Counter[str] = Counter()
    if report.exists():
        for case in ET.parse(report).getroot().iter("testcase"):
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            counts["failed" if kinds & {"failure", "error"} else "skipped" if kinds else "passed"] += 1
    return counts


def seconds_of_files(report: Path) -> dict[str, float]:
    """How long the tests of each module took together, in one junit report."""
    seconds: defaultdict[str, float] = defaultdict(float)
    if report.exists():
        for case in ET.parse(report).getroot().iter("testcase"):
            seconds[_module(case.get("classname", ""))] += float(case.get("time", 0))
    return seconds


def _module(class_name: str) -> str:
    """junit names the class of a test behind its module: `tests.unit.log.test_changes.TestBounds`."""
    parts = class_name.split(".")
    last = next((at for at, part in enumerate(parts) if part.startswith("test_")), len(parts) - 1)
    return "/".join(parts[: last + 1]) + ".py"


def run_folders(session_kind: str, folders: Sequence[str], report: Path, *options: str) -> int:
    """pytest's exit code; folders that do not exist or hold no tests are no failure."""
    present = [f"tests/{name}" for name in folders if Path("tests", name).is_dir()]
    if not present:
        return 0
    command = [sys.executable, "-m", "pytest", "--quiet", *PARALLEL, f"--spark={session_kind}"]
    command += [f"--junit-xml={report}", *options]
    code = subprocess.run([*command, *present], check=False).returncode
    return 0 if code == NOTHING_COLLECTED else code


def run_everything(*, on_every_kind: bool = False) -> int:
    counts: Counter[str] = Counter()
    times: dict[str, float] = {}
    codes: list[int] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for session_kind, folders in RUNS:
            report = Path(scratch, f"{session_kind}.xml")
            options = [] if on_every_kind or not codes else [SECOND_KIND]
            codes.append(run_folders(session_kind, folders, report, *options))
            counts += outcomes(report)
            for module, spent in seconds_of_files(report).items():
                times[f"{module} on {session_kind}"] = spent
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    summary = ", ".join(f"{counts[name]} {name}" for name in ("passed", "failed", "skipped"))
    print("\nthe slowest files, in seconds of a worker")
    for module, spent in sorted(times.items(), key=lambda each: -each[1])[:NUM_SLOWEST]:
        print(f"{spent:8.1f}  {module}")
    print(f"\ntests     {summary}, in {minutes}m{seconds:02d}s")
    if not counts:
        print("no test ran", file=sys.stderr)
        return 1
    return max(codes, key=abs)


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--conformance"]:
        arguments = [*PARALLEL, "tests/conformance"]
    if arguments == [EVERY_KIND]:
        return run_everything(on_every_kind=True)
    if arguments:
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    return run_everything()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
