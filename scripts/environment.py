"""How does a clone get a virtual environment? Makes one, installs Ebbtide and its pinned dependencies into it, once.

    python3 scripts/environment.py .venv --editable '.[dev]'
    python3 scripts/environment.py .venvs/interop --editable '.[dev,interop]' --over .venv

The second sees whatever the first holds. pip installs into it only what is missing or has another version there.

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
import sysconfig
from collections.abc import Sequence
from pathlib import Path

STAMP = "ebbtide.stamp"
CONSTRAINTS = "constraints.txt"
PATHS_BELOW = "ebbtide-below.pth"


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


def create(venv: Path, below: Path | None = None) -> None:
    """An empty environment, or one that sees the packages of the environment `below`, pip among them."""
    print(f"python    {venv} on Python {sys.version.split()[0]}", flush=True)
    # --clear: an environment left half made by an interrupted run, or made on another Python, is not worth mending.
    command = [sys.executable, "-m", "venv", "--clear", *(["--without-pip"] if below else []), str(venv)]
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
        raise SetupError(f"`{sys.executable} -m venv {venv}` failed; its own words are above.")
    if below:
        # A path of a .pth file comes after the environment's own packages, so those win.
        (site_packages(venv) / PATHS_BELOW).write_text(paths_below(below), encoding="utf-8")


def paths_below(below: Path | None) -> str:
    return f"{site_packages(below).resolve()}\n" if below else ""


def lies_over(venv: Path, below: Path | None) -> bool:
    paths = site_packages(venv) / PATHS_BELOW
    return (paths.read_text(encoding="utf-8") if paths.exists() else "") == paths_below(below)


def site_packages(venv: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(venv), "platbase": str(venv)}))


def over_this() -> list[str]:
    """The arguments for an environment over the one that runs this; none outside of one."""
    return ["--over", sys.prefix] if sys.prefix != sys.base_prefix else []


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


def bring_up_to_date(venv: Path, requirements: Sequence[str], constraints: Path, below: Path | None = None) -> None:
    wanted = fingerprint(venv, [*requirements, *([str(below.absolute())] if below else [])], constraints)
    if not is_current(venv, wanted):
        if not (same_interpreter(venv) and lies_over(venv, below)):
            ensure_venv_module(is_superuser=hasattr(os, "geteuid") and os.geteuid() == 0)
            create(venv, below)
        install(venv, requirements, constraints)
    # Written even when nothing was done: make compares its time with that of the files it was made from.
    (venv / STAMP).write_text(wanted, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Make or refresh a virtual environment.")
    parser.add_argument("venv", type=Path)
    parser.add_argument("--constraints", type=Path, default=Path(CONSTRAINTS))
    parser.add_argument("--editable", default=".[dev]", help="what to install from this clone, with its extras")
    parser.add_argument("--over", type=Path, help="an environment whose packages are seen as well")
    options = parser.parse_args(arguments)
    try:
        bring_up_to_date(options.venv, ["--editable", options.editable], options.constraints, options.over)
    except SetupError as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
