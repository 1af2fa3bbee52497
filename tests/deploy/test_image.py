"""The worker's image has what the program imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
IMPORTS = """
import ast, importlib, pathlib, sys
import stream_dedup

LEFT_OUT = sys.argv[1:]

class LeftOut:
    def find_spec(self, name, path=None, target=None):
        if any(name == left_out or name.startswith(left_out + ".") for left_out in LEFT_OUT):
            raise ModuleNotFoundError(f"{name} is not in the image")

def imported(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module

sys.meta_path.insert(0, LeftOut())
root = pathlib.Path(stream_dedup.__file__).parent
for path in root.rglob("*.py"):
    if path.is_relative_to(root / "spark"):  # no command imports it, and the image has no PySpark
        continue
    for name in imported(path.read_text("utf-8")):
        if name != "_typeshed":  # for type checkers only
            importlib.import_module(name)
from stream_dedup.cli import run
sys.exit(run(["filter"]))
"""
"""Imports what any function of the program imports, without the packages that are its arguments; filters a line."""


def left_out() -> list[str]:
    """Packages that the Dockerfile removes by name, and those that only building and testing need."""
    removed = re.search(r"rm -r (numpy/.*) \\$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    assert removed is not None
    names = [path.replace("/", ".") for path in removed[1].split() if "*" not in path]
    built_with = ["setuptools", "pkg_resources", "pip", "jieba", "opencc"]
    return [*names, *built_with, "rjieba", "selectolax", "pyspark", "pandas"]


@pytest.mark.slow
def test_nothing_is_left_out_that_is_imported() -> None:
    """All that the program imports can be imported without the packages that the image lacks; a line is filtered."""
    found = subprocess.run(
        [sys.executable, "-P", "-c", IMPORTS, *left_out()],
        cwd=ROOT,
        input='{"id": 1, "text": "news"}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert '"verdict":"unique"' in found.stdout
