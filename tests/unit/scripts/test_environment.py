"""Is an environment made when it must be, and left alone when nothing changed?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import environment


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.ruff]\nline-length = 120\n')
    (tmp_path / "constraints.txt").write_text("numpy==2.4.6\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def steps(monkeypatch, project):
    """The steps that were taken, in order; none of them really is."""
    taken = []

    def create(venv, _below):
        taken.append("create")
        (venv / "bin").mkdir(parents=True, exist_ok=True)
        (venv / "bin" / "python").write_text("")

    monkeypatch.setattr(environment, "create", create)
    monkeypatch.setattr(environment, "install", lambda *_: taken.append("install"))
    monkeypatch.setattr(environment, "same_interpreter", lambda venv: (venv / "bin" / "python").exists())
    return taken


def test_fresh_clone_gets_an_environment(project, steps):
    assert environment.main([".venv"]) == 0
    assert steps == ["create", "install"]


def test_second_run_does_nothing(project, steps):
    environment.main([".venv"])
    steps.clear()
    assert environment.main([".venv"]) == 0
    assert steps == []


def test_changed_lint_settings_install_nothing(project, steps):
    environment.main([".venv"])
    steps.clear()
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.ruff]\nline-length = 80\n')
    environment.main([".venv"])
    assert steps == []


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_changed_dependencies_are_installed_into_the_same_environment(project, steps, file):
    environment.main([".venv"])
    steps.clear()
    (project / file).write_text("changed")
    environment.main([".venv"])
    assert steps == ["install"]


def test_failed_install_is_tried_again_next_time(project, steps, monkeypatch):
    def fail(*_):
        raise environment.SetupError("no network")

    with monkeypatch.context() as broken:
        broken.setattr(environment, "install", fail)
        assert environment.main([".venv"]) == 1
    environment.main([".venv"])
    assert steps == ["create", "install"]


def test_python_without_venv_is_told_which_package_completes_it(monkeypatch):
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(environment.SetupError, match=r"apt-get install python3\.\d+-venv"):
        environment.ensure_venv_module(is_superuser=False)


def test_environment_over_another_sees_its_packages_and_prefers_its_own(tmp_path):
    below = Path(sys.prefix)
    environment.create(tmp_path / "venv", below)
    (environment.site_packages(tmp_path / "venv") / "hypothesis.py").write_text("version = 'of its own'")
    code = "import hypothesis, pytest, sys; print(hypothesis.version, pytest.__file__, sys.prefix, sep='\\n')"
    asked = [str(tmp_path / "venv" / "bin" / "python"), "-c", code]
    answer = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    assert answer[0] == "of its own"
    assert Path(answer[1]).is_relative_to(environment.site_packages(below).resolve())
    assert Path(answer[2]) == tmp_path / "venv"


def test_environment_is_made_anew_when_the_one_below_is_another(project, steps):
    environment.main([".venv"])
    steps.clear()
    environment.main([".venv", "--over", "b"])
    assert steps == ["create", "install"]
