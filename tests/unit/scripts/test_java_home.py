"""Is a usable Java found where one is, and the right thing said or done where none is?"""

from __future__ import annotations

import pytest

import java_home
from java_home import Machine, find_java_home, install_java, major_version, may_install


def put_java(home, version, *, release_file=True):
    """A Java that says its version, as the real ones do: in a file, or when asked."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    if release_file:
        (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    return home


def machine(root, *, is_superuser=False, commands=None, exit_code=0, **environ):
    def run(command):
        if commands is not None:
            commands.append(list(command))
        return exit_code

    return Machine(environ={"PATH": "", **environ}, root=root, is_superuser=is_superuser, run=run)


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8), ("unknown", None)]
)
def test_version_text_gives_the_major_version(text, major):
    assert major_version(text) == major


def test_java_home_wins_over_path_and_usual_places(tmp_path):
    chosen = put_java(tmp_path / "chosen", "21.0.2")
    on_path = put_java(tmp_path / "on_path", "17.0.1")
    put_java(tmp_path / "usr/lib/jvm/java-17", "17.0.1")
    found = find_java_home(machine(tmp_path, JAVA_HOME=str(chosen), PATH=str(on_path / "bin")))
    assert found == chosen


def test_java_on_path_is_followed_through_its_links(tmp_path):
    real = put_java(tmp_path / "opt/real", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(real / "bin/java")
    assert find_java_home(machine(tmp_path, PATH=str(tmp_path / "bin"))) == real


def test_too_old_java_home_and_path_are_passed_over_for_a_usual_place(tmp_path):
    old = put_java(tmp_path / "old", "11.0.20")
    usual = put_java(tmp_path / "usr/lib/jvm/java-17-openjdk", "17.0.1")
    assert find_java_home(machine(tmp_path, JAVA_HOME=str(old), PATH=str(old / "bin"))) == usual


def test_usual_places_give_the_oldest_java_that_is_new_enough(tmp_path):
    for version in ("25.0.1", "17.0.9", "11.0.2", "21.0.1"):
        put_java(tmp_path / "usr/lib/jvm" / f"java-{version}", version)
    assert find_java_home(machine(tmp_path)) == tmp_path / "usr/lib/jvm/java-17.0.9"


def test_java_of_the_home_directory_is_found(tmp_path):
    mine = put_java(tmp_path / "home/me/.sdkman/candidates/java/21-tem", "21.0.1")
    assert find_java_home(machine(tmp_path, HOME=str(tmp_path / "home/me"))) == mine


def test_java_without_a_release_file_is_asked_for_its_version(tmp_path):
    asked = put_java(tmp_path / "usr/lib/jvm/silent", "17.0.1", release_file=False)
    assert find_java_home(machine(tmp_path)) == asked


def test_directory_without_a_java_program_is_no_java(tmp_path):
    (tmp_path / "usr/lib/jvm/empty").mkdir(parents=True)
    (tmp_path / "usr/lib/jvm/empty/release").write_text('JAVA_VERSION="17.0.1"\n')
    assert find_java_home(machine(tmp_path, JAVA_HOME=str(tmp_path / "usr/lib/jvm/empty"))) is None


@pytest.mark.parametrize(
    ("is_superuser", "has_apt", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_only_root_on_debian_may_install(tmp_path, is_superuser, has_apt, expected):
    if has_apt:
        (tmp_path / "apt-get").write_text("#!/bin/sh\n")
        (tmp_path / "apt-get").chmod(0o755)
    assert may_install(machine(tmp_path, is_superuser=is_superuser, PATH=str(tmp_path))) is expected


def test_installing_takes_the_first_package_that_debian_knows(tmp_path):
    commands: list[list[str]] = []
    install_java(machine(tmp_path, is_superuser=True, commands=commands))
    assert commands[0][-1] == "update"
    assert [command[-1] for command in commands[1:]] == ["openjdk-17-jre-headless"]


def test_installing_goes_on_to_the_next_package_when_one_is_unknown(tmp_path):
    commands: list[list[str]] = []
    install_java(machine(tmp_path, is_superuser=True, commands=commands, exit_code=100))
    assert [command[-1] for command in commands[1:]] == list(java_home.DEBIAN_PACKAGES)


def test_machine_without_java_gets_one_sentence_and_a_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(java_home, "Machine", lambda: machine(tmp_path))
    assert java_home.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == java_home.ADVICE + "\n"
    assert "Java 17 or newer" in said.err


def test_root_without_java_gets_one_installed_and_is_told_where(tmp_path, monkeypatch, capsys):
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    home = tmp_path / "usr/lib/jvm/java-17-openjdk"

    def apt(command):
        if "install" in command:
            put_java(home, "17.0.15")
        return 0

    debian = Machine(environ={"PATH": str(tmp_path)}, root=tmp_path, is_superuser=True, run=apt)
    monkeypatch.setattr(java_home, "Machine", lambda: debian)
    assert java_home.main() == 0
    assert capsys.readouterr().out == f"{home}\n"
