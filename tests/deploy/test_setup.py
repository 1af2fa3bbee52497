"""A target of make installs what it needs, by the extras of pyproject.toml, and nothing twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = {"build", "broker", "serve"}
TEST = {"test", "bench", "confluent", "docs", "parquet"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
LATER = 4_102_444_800
"""A time after that of every file, 2100."""


def commands(target: str, venv: Path) -> str:
    """The commands that make would run for a target with this environment."""
    command = ["make", "--dry-run", f"VENV={venv}", target]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


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
