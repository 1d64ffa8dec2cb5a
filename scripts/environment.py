"""How does a clone get a virtual environment? Makes one, installs Ebbtide and its pinned dependencies into it, once.

    python3 scripts/environment.py .venv --editable '.[dev]'

An environment carries a stamp of what it was made from; while that is unchanged, nothing is done. Uses the standard
library only. Where packages come from is pip's own configuration and is never said here.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

STAMP = "ebbtide.stamp"
CONSTRAINTS = "constraints.txt"


class SetupError(Exception):
    """The machine lacks something; the message is one sentence that says what to do about it."""


def fingerprint(venv: Path, requirements: Sequence[str], constraints: Path) -> str:
    """Changes whenever the environment should be brought up to date: other pins, other Python, or moved elsewhere."""
    # The tools' own settings follow the project's tables and change nothing that is installed.
    project = Path("pyproject.toml").read_text(encoding="utf-8").partition("\n[tool.")[0]
    pins = constraints.read_text(encoding="utf-8")
    parts = [sys.version, sys.base_prefix, str(venv.absolute()), *requirements, project, pins]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def ensure_venv_module(*, is_superuser: bool) -> None:
    """Debian ships Python without ensurepip, and `python -m venv` then fails half way; notice it before."""
    if importlib.util.find_spec("ensurepip") is not None and importlib.util.find_spec("venv") is not None:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if is_superuser and shutil.which("apt-get"):
        print(f"python    installing {package}, which `python -m venv` needs", flush=True)
        apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
        subprocess.run([*apt, "update"], check=False, stdin=subprocess.DEVNULL)
        done = subprocess.run([*apt, "install", "-y", package], check=False, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return
    raise SetupError(
        f"This Python cannot make virtual environments: install the rest of it "
        f"(Debian and Ubuntu: `sudo apt-get install {package}`) or choose another with `make PYTHON=...`."
    )


def create(venv: Path) -> None:
    print(f"python    {venv} on Python {sys.version.split()[0]}", flush=True)
    # --clear: an environment left half made by an interrupted run, or made on another Python, is not worth mending.
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=False, stdin=subprocess.DEVNULL)
    if made.returncode != 0:
        raise SetupError(f"`{sys.executable} -m venv {venv}` failed; its own words are above.")


def install(venv: Path, requirements: Sequence[str], constraints: Path) -> None:
    print("packages  installing, a few minutes the first time", flush=True)
    # The variables and not the options, because only they reach the environments that pip builds packages in. The path
    # stays relative: pip splits these variables at blanks, and a clone may live below a directory that has one.
    environ = {**os.environ, "PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # pip itself first, at its pinned version: an old one builds PySpark in a way of its own.
    for wanted in (["pip"], requirements):
        done = subprocess.run([*command, *wanted], check=False, stdin=subprocess.DEVNULL, env=environ)
        if done.returncode != 0:
            raise SetupError("pip could not install the dependencies; its own words are above.")


def is_current(venv: Path, wanted: str) -> bool:
    stamp = venv / STAMP
    return (venv / "bin" / "python").exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def same_interpreter(venv: Path) -> bool:
    """Whether `venv` was made from this Python; one made from another is made anew rather than filled up."""
    if not (venv / "bin" / "python").exists():
        return False
    asked = subprocess.run(
        [str(venv / "bin" / "python"), "-c", "import sys, pip; print(sys.version)"],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return asked.stdout.strip() == sys.version.strip()


def bring_up_to_date(venv: Path, requirements: Sequence[str], constraints: Path) -> None:
    wanted = fingerprint(venv, requirements, constraints)
    if not is_current(venv, wanted):
        if not same_interpreter(venv):
            ensure_venv_module(is_superuser=hasattr(os, "geteuid") and os.geteuid() == 0)
            create(venv)
        install(venv, requirements, constraints)
    # Written even when nothing was done: make compares its time with that of the files it was made from.
    (venv / STAMP).write_text(wanted, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Make or refresh a virtual environment.")
    parser.add_argument("venv", type=Path)
    parser.add_argument("--constraints", type=Path, default=Path(CONSTRAINTS))
    parser.add_argument("--editable", default=".[dev]", help="what to install from this clone, with its extras")
    options = parser.parse_args(arguments)
    try:
        bring_up_to_date(options.venv, ["--editable", options.editable], options.constraints)
    except SetupError as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
