"""Nothing is imported from the current folder: not by the program, and not by a process that it starts."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_dedup.dev.demo import PROGRAM as DEMO_PROGRAM

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).with_name("stream-dedup")
PACKAGES = ("click", "kafka", "numpy", "orjson", "pydantic", "rocksdict", "xxhash")
TRAP = """\
import os
os.write(os.open({ran!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), {line!r})
os._exit(9)
"""

KEEPER = """\
from stream_dedup.dev.broker.keeper import Keeper
keeper = Keeper()
keeper.close()
print(keeper.folder.exists(), keeper._process.returncode)
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with a file for each module of the standard library and of ours; one that is run says so and ends."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *PACKAGES}:
        text = TRAP.format(ran=str(tmp_path / "ran"), line=f"{name}\n".encode())
        (folder / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "input").write_text('{"id":1,"text":"hello world"}\n', "utf-8")
    return folder


def run_in(folder: Path, *command: str) -> str:
    """Standard output of a command that must end well and run nothing of the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    ran = folder.with_name("ran")
    assert (ran.read_text() if ran.exists() else "") == ""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_trap_works(trap: Path) -> None:
    """Python without -P runs a file of the current folder."""
    with pytest.raises(AssertionError, match="signal"):
        run_in(trap, sys.executable, "-c", "import signal")


@pytest.mark.slow
def test_filter(trap: Path) -> None:
    """`stream-dedup filter`, as a user calls it."""
    said = run_in(trap, str(PROGRAM), "filter", "../input")
    assert json.loads(said)["dedup"]["verdict"] == "unique"


@pytest.mark.slow
def test_the_keeper_of_the_development_broker(trap: Path) -> None:
    """It clears up, wherever it was started."""
    assert run_in(trap, sys.executable, "-P", "-c", KEEPER) == "False 0\n"


def test_the_program_as_the_demo_starts_it(trap: Path) -> None:
    """With -P, `python -m` takes nothing from there either."""
    assert "brokers" in run_in(trap, *DEMO_PROGRAM, "config", "show")


def commands_of_python() -> Iterator[tuple[str, list[ast.expr]]]:
    """Every list or tuple in the product that begins with ``sys.executable``."""
    for path in sorted((ROOT / "stream_dedup").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.List | ast.Tuple) and node.elts and ast.unparse(node.elts[0]) == "sys.executable":
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.elts


@pytest.mark.slow
def test_every_python_process_is_started_with_a_safe_path() -> None:
    """Whoever starts Python gives -P first."""
    found = {where: ast.unparse(elements[1]) for where, elements in commands_of_python()}
    assert len(found) >= 2
    assert set(found.values()) == {"'-P'"}
