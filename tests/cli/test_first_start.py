"""A first start is helped by other processes, which end with it."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.cli import first_start
from stream_dedup.cli.compile import kernel_modules
from stream_dedup.cli.first_start import HELPER_BYTES, LAST_FIRST, helper_count, modules_of_helper

KERNEL = """
from numba import int64
from stream_dedup.core.kernel import compiled

@compiled(int64, int64)
def double(x):
    return 2 * x
"""
FIRST = """
import sys
from stream_dedup.cli import _help_compiling, first_start
from stream_dedup.core.table_store import table_store
from stream_dedup.startup import keep_tables
first_start.process_count = lambda _: 2
first_start.free_bytes = lambda: 2 * first_start.HELPER_BYTES
started = []
real = first_start.subprocess.Popen
def note(*given, **named):
    started.append(real(*given, **named))
    return started[-1]
first_start.subprocess.Popen = note
keep_tables(_help_compiling)
sys.path.insert(0, sys.argv[1])
table_store().note_compiling()
print(*(process.pid for process in started), flush=True)
sys.stdin.read()
"""
HELPER = """
import os, sys
from stream_dedup.cli import first_start
first_start.kernel_modules = lambda: ["one_kernel"]
sys.path.insert(0, sys.argv[1])
first_start.help_with(0, 1, os.pipe()[0])
"""


@pytest.mark.parametrize(
    ("cores", "free", "helpers"),
    [(1, 99, 0), (2, 99, 1), (4, 99, 3), (64, 99, 7), (4, 2.9, 1), (4, 1.9, 0), (4, 0, 0)],
)
def test_helpers_are_as_many_as_further_cores_and_memory(cores: int, free: float, helpers: int) -> None:
    """None on one core, nor where there is no memory for two processes. ``free``: for so many processes."""
    assert helper_count(cores, int(free * HELPER_BYTES)) == helpers


@pytest.mark.parametrize("helpers", [1, 3])
def test_each_helper_compiles_all_and_begins_with_another_module(helpers: int) -> None:
    """Else all would wait for one."""
    orders = [modules_of_helper(number, helpers) for number in range(helpers)]
    assert all(sorted(order) == kernel_modules() for order in orders)
    assert len({order[0] for order in orders}) == helpers


def test_the_only_helper_begins_where_a_start_ends() -> None:
    """Each of the modules is there."""
    ends = [name.rpartition(".")[2].removesuffix("_kernel") for name in modules_of_helper(0, 1)]
    assert tuple(ends[: len(LAST_FIRST)]) == LAST_FIRST


def test_a_helper_that_cannot_be_started_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised, where the system has no further process and where it has no further thread."""
    tried: list[int] = []
    monkeypatch.setattr(first_start, "helper_count", lambda *_: 2)
    for error in (BlockingIOError("no process"), RuntimeError("can't start new thread")):

        def refuse(number: int, _helpers: int, error: Exception = error) -> None:
            tried.append(number)
            raise error

        monkeypatch.setattr(first_start, "_start", refuse)
        first_start.start_helpers()
    assert tried == [0, 0]


@pytest.mark.slow
def test_a_helper_ends_with_the_process_that_it_helps(tmp_path: Path) -> None:
    """However that ends: the helper is at work, and would be for ever."""
    (tmp_path / "numba.py").write_text("import threading\nthreading.Event().wait()\n")
    command, pipe = [sys.executable, "-c", FIRST, str(tmp_path)], subprocess.PIPE
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as first:
        assert first.stdout is not None
        (helper,) = map(int, first.stdout.readline().split())
        ends = os.pidfd_open(helper)
        assert select.select([ends], [], [], 0)[0] == []
        first.send_signal(signal.SIGKILL)
    assert select.select([ends], [], [], 60)[0] == [ends]
    os.close(ends)


@pytest.mark.slow
def test_a_helper_keeps_what_it_compiles(tmp_path: Path) -> None:
    """In silence: the process that it helps has said it. It calls for no help."""
    (tmp_path / "one_kernel.py").write_text(KERNEL)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    subprocess.run([sys.executable, "-c", HELPER, str(tmp_path)], env=environment, check=True)
    (kept,) = (tmp_path / "kept").rglob("*.kept")
    assert kept.name.startswith("one_kernel.double.")
