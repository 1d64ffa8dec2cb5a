"""Does Ebbtide hold on every PySpark it promises? Runs the short suite on the oldest and on the newest 4.x release.

Each release gets an environment below `.venvs/` that holds what differs from the one that runs this. The short suite is
the tests marked `matrix`. Releases can be named instead of looked up: `make matrix RELEASES='4.1.0 4.2.1'`. `--short`
tries one kind of session per release: classic on the oldest, Connect on the newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import environment
import run_tests

SUPPORTED_MAJOR = 4
VENVS = Path(".venvs")

# A process holds one kind of Spark session (tests/conftest.py).
RUNS = (
    ("--spark=classic", "tests/spark"),
    ("--spark=connect", run_tests.SECOND_KIND, "tests/spark", "tests/connect"),
)
NOTHING_SELECTED = 5
# The short suite is over before a second Spark has warmed up. As with several, a worker that dies costs its test alone.
ONE_WORKER = ("-n", "1")

# Every other pin of constraints.txt holds here too. PySpark itself names the py4j it speaks to, and an old release
# cannot know a major version of its libraries that came after it.
NAMED_BY_SPARK = frozenset({"pyspark", "py4j"})
OLDER_LIBRARIES = {(4, 0): ("pandas==2.3.3",), (4, 1): ("pandas==2.3.3",)}

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==")


def version_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def oldest_and_newest(releases: Iterable[str]) -> list[str]:
    """The two ends of the supported line; one release when there is only one, none when there is none."""
    supported = {r for r in releases if re.fullmatch(rf"{SUPPORTED_MAJOR}(\.\d+)+", r)}
    ordered = sorted(supported, key=version_key)
    return ordered[:1] + ordered[1:][-1:]


def published_releases(python: str) -> list[str]:
    """Every final release of PySpark that pip can see for this Python."""
    command = [python, "-m", "pip", "index", "versions", "pyspark", "--disable-pip-version-check"]
    answer = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    listed = re.search(r"^Available versions: (.+)$", answer.stdout, re.MULTILINE)
    if listed is None:
        sys.stderr.write(answer.stderr)
        return []
    return [release.strip() for release in listed.group(1).split(",")]


def constraints_for(release: str, pins: str) -> str:
    """The text of constraints.txt with what belongs to the Spark release replaced."""
    major, minor = version_key(release)[:2]
    replacements = (f"pyspark=={release}", *OLDER_LIBRARIES.get((major, minor), ()))
    dropped = NAMED_BY_SPARK | {pinned_name(line) for line in replacements}
    kept = [line for line in pins.splitlines() if pinned_name(line) not in dropped]
    return "\n".join([*kept, *replacements]) + "\n"


def pinned_name(line: str) -> str | None:
    pin = _PIN.match(line)
    return pin.group(1) if pin else None


def chosen_runs(releases: Sequence[str], *, short: bool) -> list[tuple[str, Sequence[Sequence[str]]]]:
    """Each release with the kinds of session that it is tried on."""
    if not short:
        return [(release, RUNS) for release in releases]
    return [(release, (RUNS[number % len(RUNS)],)) for number, release in enumerate(releases)]


def run_release(release: str, runs: Sequence[Sequence[str]] = RUNS) -> int:
    started = time.monotonic()
    venv = VENVS / f"pyspark-{release}"
    constraints = VENVS / f"pyspark-{release}.txt"
    VENVS.mkdir(exist_ok=True)
    constraints.write_text(
        constraints_for(release, Path(environment.CONSTRAINTS).read_text(encoding="utf-8")), encoding="utf-8"
    )
    print(f"matrix    PySpark {release}", flush=True)
    arguments = [str(venv), "--constraints", str(constraints), "--editable", ".[dev]", *environment.over_this()]
    if environment.main(arguments) != 0:
        return 1
    codes = {_run_suite(venv, chosen) for chosen in runs}
    verdict = "FAILS" if codes - {0, NOTHING_SELECTED} else "holds" if 0 in codes else "has no test marked `matrix`"
    print(f"matrix    PySpark {release} {verdict}, {round(time.monotonic() - started)}s", flush=True)
    return 0 if verdict == "holds" else 1


def _run_suite(venv: Path, arguments: Sequence[str]) -> int:
    command = [
        "sh",
        "scripts/with_spark.sh",
        str(venv / "bin" / "python"),
        "-m",
        "pytest",
        "--quiet",
        *ONE_WORKER,
    ]
    present = [argument for argument in arguments if argument.startswith("-") or Path(argument).is_dir()]
    return subprocess.run([*command, "-m", "matrix", *present], check=False, stdin=subprocess.DEVNULL).returncode


def main(arguments: Sequence[str]) -> int:
    short = "--short" in arguments
    named = [argument for argument in arguments if argument != "--short"]
    releases = named or oldest_and_newest(published_releases(sys.executable))
    if not releases:
        print("No PySpark 4.x release was found: pip needs a package index, or name releases.", file=sys.stderr)
        return 1
    return max([run_release(release, runs) for release, runs in chosen_runs(releases, short=short)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
