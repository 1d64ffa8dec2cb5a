"""Is an environment made when it must be, and left alone when nothing changed?"""

from __future__ import annotations

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

    def create(venv):
        taken.append("create")
        (venv / "bin").mkdir(parents=True)
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
