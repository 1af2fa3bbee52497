"""Kafka's jars: whole or not there at all."""

import os
from pathlib import Path

import pytest

from stream_dedup.dev.broker import jvm
from stream_dedup.errors import UnavailableError

COPIES = """#!/bin/sh
for argument; do case $argument in -DoutputDirectory=*) echo jar > "${argument#*=}/kafka.jar";; esac; done
"""
FAILS_HALF_WAY = COPIES + "echo 'no route to the repository'; exit 1\n"


def fake(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(script)
    program.chmod(0o755)
    return program


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH besides the system's shell; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "programs"


def test_fetched_once(programs: Path) -> None:
    """The jars that Maven copied are in the cache, and are not fetched again."""
    fake(programs, "mvn", COPIES)
    folder = jvm.install_jars()
    assert [jar.name for jar in folder.iterdir()] == ["kafka.jar"]
    fake(programs, "mvn", FAILS_HALF_WAY)
    assert jvm.install_jars() == folder


def test_a_half_copy_is_not_kept(programs: Path) -> None:
    """A Maven that fails after some jars leaves an empty cache, and its words are in the error."""
    fake(programs, "mvn", FAILS_HALF_WAY)
    with pytest.raises(UnavailableError, match="no route to the repository"):
        jvm.install_jars()
    assert list(jvm.cached_jars().parent.iterdir()) == []


def test_the_first_of_two_wins(programs: Path) -> None:
    """Where another process installed the jars meanwhile, its folder stays and ours goes."""
    fake(programs, "mvn", COPIES + f'mkdir -p "{jvm.cached_jars()}"; touch "{jvm.cached_jars()}/first.jar"\n')
    assert [jar.name for jar in jvm.install_jars().iterdir()] == ["first.jar"]
    assert len(list(jvm.cached_jars().parent.iterdir())) == 1


def test_no_maven(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Maven and without jars the error says what to install."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(UnavailableError, match="apt install maven"):
        jvm.install_jars()
    assert not programs.exists()


@pytest.mark.parametrize(
    ("said", "usable"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023-09-19', True),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ('java version "1.8.0_292"', False),
        ("no Java here", False),
    ],
)
def test_java_new_enough(programs: Path, said: str, *, usable: bool) -> None:
    """Java 17 and later can run the broker."""
    java = fake(programs, "java", f"#!/bin/sh\necho '{said}' >&2\n")
    found = jvm._java_version(str(java)) >= jvm.JAVA_NEEDED
    assert found is usable


def test_java_home_comes_first(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java of JAVA_HOME is taken before the one on PATH."""
    fake(programs, "java", "#!/bin/sh\necho 'version \"17\"' >&2\n")
    (tmp_path / "home").mkdir()
    ours = fake(tmp_path / "home" / "bin", "java", "#!/bin/sh\necho 'version \"17\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert jvm.find_java() == str(ours)


@pytest.mark.parametrize("cache", ["", ".", "cache"])
def test_jars_of_the_current_folder_are_not_run(cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is not named by an absolute path is not used: jars are run."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jvm.cached_jars().parent == tmp_path / ".cache" / "stream-dedup"
