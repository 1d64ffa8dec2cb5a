"""Where is a Java that Spark can run on? Prints a JAVA_HOME, or one sentence that says what to install.

Looks at JAVA_HOME, then PATH, then the usual places. As root on a Debian system without a Java, installs the headless
runtime. Uses the standard library only, because it runs before anything is installed. Everything it learns about the
machine comes in through `Machine`, so a test can describe one that does not exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OLDEST_JAVA = 17
ADVICE = (
    f"Ebbtide runs on Spark, which needs Java {OLDEST_JAVA} or newer, and none was found: install one "
    "(Debian and Ubuntu: `sudo apt-get install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`) "
    "or point JAVA_HOME at it."
)

# A distribution carries one or two of these; the first that it knows is taken.
DEBIAN_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")

# Relative to the file system's root; SDKMAN and IntelliJ keep theirs in the home directory.
SYSTEM_PLACES = (
    "usr/lib/jvm/*",
    "usr/java/*",
    "usr/local/openjdk-*",
    "opt/java/*",
    "opt/*jdk*",
    "opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
)
HOME_PLACES = (".sdkman/candidates/java/*", ".jdks/*")

_RELEASE_FILE_VERSION = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED_VERSION = re.compile(r'version "([^"]+)"')


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode


@dataclass(frozen=True)
class Machine:
    """What the search may know: the environment, the file system's root, who we are, and how to run a command."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")
    is_superuser: bool = field(default_factory=lambda: hasattr(os, "geteuid") and os.geteuid() == 0)
    run: Callable[[Sequence[str]], int] = _run

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self.environ.get("PATH", ""))


def major_version(text: str) -> int | None:
    """17 for "17.0.15", 8 for "1.8.0_402", None for anything that is not a version."""
    found = re.match(r"(?:1\.)?(\d+)", text)
    return int(found.group(1)) if found else None


def java_version(home: Path) -> int | None:
    """The major version of the Java at `home`, or None when no Java can be run there."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        # Starting a JVM takes a noticeable moment; nearly every Java says what it is in a text file.
        found = _RELEASE_FILE_VERSION.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        found = None
    return major_version(found.group(1)) if found else _printed_version(java)


def _printed_version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _PRINTED_VERSION.search(answer.stderr + answer.stdout)
    return major_version(found.group(1)) if found else None


def is_usable(home: Path) -> bool:
    version = java_version(home)
    return version is not None and version >= OLDEST_JAVA


def chosen_homes(machine: Machine) -> Iterator[Path]:
    """What the user chose, in the order of how plainly it was said: JAVA_HOME, then the `java` on PATH."""
    if machine.environ.get("JAVA_HOME"):
        yield Path(machine.environ["JAVA_HOME"])
    on_path = machine.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent


def installed_homes(machine: Machine) -> list[Path]:
    """Every usable Java in the usual places, oldest first, because more Spark releases know an older one."""
    homes = [found for place in SYSTEM_PLACES for found in machine.root.glob(place)]
    if machine.environ.get("HOME"):
        homes += [found for place in HOME_PLACES for found in Path(machine.environ["HOME"]).glob(place)]
    usable = {home.resolve() for home in homes if is_usable(home)}
    return sorted(usable, key=lambda home: (java_version(home) or 0, str(home)))


def find_java_home(machine: Machine) -> Path | None:
    for home in chosen_homes(machine):
        if is_usable(home):
            return home
    return next(iter(installed_homes(machine)), None)


def may_install(machine: Machine) -> bool:
    return machine.is_superuser and machine.which("apt-get") is not None


def install_java(machine: Machine) -> None:
    """Install the first headless runtime this Debian knows; the caller looks again to learn whether it worked."""
    print("java      none found; installing Debian's headless runtime", file=sys.stderr)
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    machine.run([*apt, "update"])
    for package in DEBIAN_PACKAGES:
        if machine.run([*apt, "install", "-y", "--no-install-recommends", package]) == 0:
            return


def main() -> int:
    machine = Machine()
    home = find_java_home(machine)
    if home is None and may_install(machine):
        install_java(machine)
        home = find_java_home(machine)
    if home is None:
        print(ADVICE, file=sys.stderr)
        return 1
    asked_for = machine.environ.get("JAVA_HOME")
    if asked_for and Path(asked_for) != home:
        print(f"java      JAVA_HOME={asked_for} is not a Java {OLDEST_JAVA} or newer; using {home}", file=sys.stderr)
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
