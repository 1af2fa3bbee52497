"""``stream-dedup compile``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stream_dedup
from stream_dedup.cli import compile as compile_command
from stream_dedup.cli import run
from stream_dedup.cli.compile import kernel_modules
from stream_dedup.exit_codes import EXIT_OK, EXIT_USER

KERNEL = """
from numba import int64
from stream_dedup.core.kernel import compiled

@compiled(int64, int64)
def double(x):
    return 2 * x
"""
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def test_every_module_with_compiled_functions_is_compiled() -> None:
    """They are known by the ends of their names."""
    root = Path(stream_dedup.__file__).parent
    compiled = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if re.search(r"^@compiled\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert compiled
    assert compiled <= set(kernel_modules())


def test_what_is_compiled_is_not_compiled_again() -> None:
    """It says what it did, and nothing of compiling where the code is kept; this process has compiled it."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "stream_dedup", "compile"], capture_output=True, text=True, check=False
        )
    found = re.fullmatch(r"stream-dedup: (\d+) modules are compiled, and their code is kept\n", done.stderr)
    assert found is not None, done.stderr
    assert (done.returncode, done.stdout, int(found[1])) == (EXIT_OK, "", len(kernel_modules()))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (KERNEL, "machine code cannot be kept .*: let NUMBA_CACHE_DIR name"),
        (KILLED, "a process that compiled was killed"),
    ],
)
def test_what_cannot_be_compiled_or_kept_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    source: str,
    message: str,
) -> None:
    """A folder that cannot be made, and a process that the system kills."""
    (tmp_path / "one_kernel.py").write_text(source)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compile_command, "kernel_modules", lambda: ["one_kernel"])
    assert run(["compile"]) == EXIT_USER
    assert re.search(message, capfd.readouterr().err)
