"""A target of make installs what it needs, by the extras of pyproject.toml, and nothing twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = {"build", "broker", "serve"}
TEST = {"test", "bench", "confluent", "docs", "parquet", "registry"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
LATER = 4_102_444_800
"""A time after that of every file, 2100."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}


def commands(target: str, venv: Path) -> str:
    """The commands that make would run for a target with this environment."""
    command = ["make", "--dry-run", f"VENV={venv}", target]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout


def made(folder: Path, *given: str) -> str:
    """Run make in a folder that has our Makefile; return what it says."""
    done = subprocess.run(["make", *given], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(file: Path, script: str) -> None:
    """Write a program in place of one of an environment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    file.chmod(0o755)


def installed(said: str) -> list[str]:
    """The sets of requirements that the commands install."""
    return [name for found in re.findall(r"deploy/requirements\.py ([a-z ]+?) >", said) for name in found.split()]


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make is here")


@pytest.mark.parametrize(
    ("target", "sets"),
    [
        ("run", RUN),
        ("demo", RUN),
        ("wheel", RUN),
        ("docs", RUN | {"docs"}),
        ("test", RUN | TEST),
        ("bench", RUN | TEST),
        ("test-spark", RUN | TEST | {"spark"}),
        ("test-full", RUN | TEST | {"spark"}),
        ("lint", {"build", *EXTRAS}),
    ],
)
def test_a_target_installs_the_extras_that_it_needs(target: str, sets: set[str], tmp_path: Path) -> None:
    """Each once; the lint rules, which read all code, need every extra."""
    assert sorted(installed(commands(target, tmp_path / "venv"))) == sorted(sets)


@pytest.mark.parametrize("target", ["run", "test", "lint", "test-spark"])
def test_what_is_there_is_not_installed_again(target: str, tmp_path: Path) -> None:
    """Neither a package nor the core; after a change in native/ the core alone is built."""
    for name in {"run", "core", *EXTRAS}:
        (tmp_path / f".{name}").touch()
        os.utime(tmp_path / f".{name}", (LATER, LATER))
    assert "pip" not in commands(target, tmp_path)
    os.utime(tmp_path / ".core", (0, 0))
    said = commands(target, tmp_path)
    assert installed(said) == []
    assert len(re.findall(r"pip .*install", said)) == 1


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose folder has a space in its name, with all but the core set up, and a pip that tells when it runs."""
    folder = tmp_path / "my clone"
    for name in ("Makefile", "pyproject.toml", "deploy/requirements.py", "native/Cargo.toml", "native/Cargo.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name in ("native/src", "native/build"):
        (folder / name).mkdir()
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    (folder / ".venv/.run").touch()
    program(
        folder / ".venv/bin/pip", f"echo begins >>log; command -v python; '{sys.executable}' -c ''; echo ends >>log"
    )
    return folder


def test_a_path_with_a_space(clone: Path) -> None:
    """The core is built with the environment's own Python first on the path."""
    assert made(clone, "setup") == f"{clone}/.venv/bin/python\n"
    assert (clone / ".venv/.core").exists()


def test_one_pip_at_a_time_with_j(clone: Path) -> None:
    """Two that installed the same package into one environment side by side could break it."""
    made(clone, "-j8", *(f".venv/.{name}" for name in sorted(TEST)))
    assert (clone / "log").read_text("utf-8") == "begins\nends\n" * len(TEST)


def test_an_environment_keeps_its_python(clone: Path) -> None:
    """Another one that is given makes it anew; a change of pyproject.toml does not mix two in one environment."""
    assert "-m venv" not in made(clone, "--dry-run", f"PYTHON={sys.executable}", ".venv/.run")
    program(clone / "another", "echo of another version")
    assert "./another -m venv --clear .venv" in made(clone, "--dry-run", "PYTHON=./another", ".venv/.run")
    os.utime(clone / ".venv/.run", (0, 0))
    assert ".venv/bin/python -m venv .venv" in made(clone, "--dry-run", ".venv/.run")


def test_an_edit_while_the_core_is_built_is_built_next(clone: Path) -> None:
    """The build may have read the file before. A time is that of the last tick, at most 10 ms ago: hence the pause."""
    edited, core = clone / "native/src/lib.rs", clone / "stream_dedup/_native.abi3.so"
    core.parent.mkdir(exist_ok=True)
    program(clone / ".venv/bin/pip", f"sleep .05; touch '{edited}' '{core}'; echo built")
    assert made(clone, "setup") == "built\n"
    program(clone / ".venv/bin/pip", f"touch '{core}'; echo built")
    assert made(clone, "setup") == "built\n"
    assert "built" not in made(clone, "setup")
    core.unlink()
    assert made(clone, "setup") == "built\n"
