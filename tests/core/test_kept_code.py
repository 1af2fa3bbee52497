"""Machine code is kept for the next start, and what cannot be kept or read costs time and changes no result.

Each start is a process of its own that imports a file with one compiled function, as ``tests.core.kept_start`` does. It
reports what the function returned, how often its code was loaded and compiled, and what could not be kept.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numba
import pytest

from stream_dedup.core.kept_code import LIGHT_VERSIONS
from tests.forks import ForkedProcess, forks
from tests.small_disk import small_disk

pytestmark = pytest.mark.slow

FUNCTION = """
from numba import int64
from stream_dedup.core.kernel import compiled

@compiled(int64, int64)
def triple(x):
    return {factor} * x
"""


OF_AN_ARRAY = """
import numpy as np
from numba import int64
from stream_dedup.core.kernel import compiled

LARGE = np.full(1 << 18, 28)

@compiled(int64, int64)
def triple(x):
    return x + LARGE[x]
"""


class Start(NamedTuple):
    """What a start reports."""

    result: int
    loaded: int
    compiled: int
    not_kept: Sequence[str]


LOADS = """
import sys
from stream_dedup.startup import keep_tables
keep_tables()
import stream_dedup.core.fingerprint.words, stream_dedup.core.fingerprint.short
from stream_dedup.core.kept_code import not_kept
print(not_kept, *(name for name in sys.modules if name in {"numba.np.arraymath", "numba.np.arrayobj", "scipy.linalg"}))
"""

FIRST_START = """
import sys
from stream_dedup.startup import keep_tables
keep_tables()
sys.path.insert(0, sys.argv[1])
from one_kernel import triple
print(triple(14))
"""

CALLER = """
from numba import int64
from one_kernel import triple
from stream_dedup.core.kernel import compiled

@compiled(int64, int64)
def six_times(x):
    return 2 * triple(x)
"""

CALLER_START = """
import sys
from unittest.mock import patch
import llvmlite.binding
reading = patch.object(llvmlite.binding, "parse_bitcode", wraps=llvmlite.binding.parse_bitcode).start()
from stream_dedup.startup import keep_tables
keep_tables()
sys.path.insert(0, sys.argv[1])
from one_kernel import triple
from caller_kernel import six_times
print(six_times(7), *(sum(each.stats.cache_hits.values()) for each in (triple, six_times)), reading.call_count)
"""

LOADED = Start(42, 1, 0, [])
COMPILED = Start(42, 0, 1, [])


class Running(NamedTuple):
    """A start, and where its report goes."""

    process: ForkedProcess
    out: IO[bytes]


class Program:
    """A file with a compiled function, and the folder in which its machine code is kept."""

    def __init__(self, folder: Path, kept: Path) -> None:
        """Write the file."""
        self.kept = kept
        self._folder = folder
        self.write(factor=3)

    def write(self, factor: int) -> None:
        """Write the function, which multiplies by this factor of one digit."""
        (self._folder / "one_kernel.py").write_text(FUNCTION.format(factor=factor))

    def begin(self, how: str = "") -> Running:
        """Start it in this way (see ``kept_start``)."""
        arguments = [str(self._folder), str(self.kept), how]
        out = TemporaryFile()  # noqa: SIM115 - ``report`` closes it
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), out.fileno(), 2]
            return Running(forks().start("tests.core.kept_start:main", arguments, streams), out)

    def start(self, how: str = "") -> Start:
        """Start it, and return what it reports."""
        return report(self.begin(how))

    def file(self) -> Path:
        """The file of the code."""
        (found,) = self.kept.rglob("*.kept")
        return found


def report(running: Running) -> Start:
    """What a process reports, once it has ended."""
    with running.out as out:
        assert running.process.wait() == 0
        out.seek(0)
        return Start(*json.loads(out.read()))


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "kept").mkdir()
    return Program(tmp_path, tmp_path / "kept")


def test_code_with_an_address_of_its_process_is_not_kept(tmp_path: Path, program: Program) -> None:
    """A large array of a file is compiled in by its address: another process would read what is there by then."""
    (tmp_path / "one_kernel.py").write_text(OF_AN_ARRAY)
    for _ in range(2):
        start = program.start()
        assert (start.result, start.loaded, len(start.not_kept)) == (42, 0, 1)
    assert list(program.kept.rglob("*.kept")) == []


@pytest.mark.parametrize("left", [0, 0.5])
def test_damaged_code_is_written_anew(left: float, program: Program) -> None:
    """Code that a power failure cut short, to nothing too: compiled once, and loaded at the next start."""
    assert program.start() == COMPILED
    damaged = program.file()
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: int(left * len(whole))])
    assert program.start() == COMPILED
    assert program.start() == LOADED


@pytest.mark.parametrize("magic", [b"\x7fELF", b"BC\xc0\xde"])
def test_zeros_in_kept_code_are_noticed(magic: bytes, program: Program) -> None:
    """In the machine code, and in LLVM's form of it, which only a function that calls this one would read."""
    assert program.start() == COMPILED
    damaged = program.file()
    content = bytearray(damaged.read_bytes())
    begin = content.index(magic) + 64
    assert any(content[begin : begin + 64])
    content[begin : begin + 64] = bytes(64)
    damaged.write_bytes(content)
    assert program.start() == COMPILED
    assert program.start() == LOADED


def test_damaged_code_in_an_image(tmp_path: Path) -> None:
    """In a read-only file system it is compiled at each start, and the reason is there for the warning."""
    (tmp_path / "kept").mkdir()
    with small_disk(tmp_path / "kept") as disk:
        program = Program(tmp_path, disk.folder)
        assert program.start() == COMPILED
        disk.set_writable(False)
        assert program.start() == LOADED
        disk.set_writable(True)
        program.file().write_bytes(b"")
        disk.set_writable(False)
        for _ in range(2):
            found = program.start()
            assert found[:3] == (42, 0, 1)
            assert "Read-only file system" in found.not_kept[0]


def test_a_full_disk(program: Program) -> None:
    """The function is compiled once, not again without a cache; afterwards it is kept."""
    with small_disk(program.kept) as disk:
        program.kept = disk.folder
        disk.fill()
        found = program.start()
        assert found[:3] == (42, 0, 1)
        assert "No space left" in found.not_kept[0]
        disk.free()
        assert program.start() == COMPILED
        assert program.start() == LOADED


def test_no_folder(program: Program) -> None:
    """Where the folder cannot be made, the function is compiled, and the reason is there for the warning."""
    program.kept.rmdir()
    program.kept.write_text("a file")
    found = program.start()
    assert found.result == 42
    assert "Not a directory" in found.not_kept[0]


def test_cold_starts_at_once(program: Program) -> None:
    """One compiles, the others wait for its code, and the next start loads it, too."""
    together = [program.begin() for _ in range(3)]
    assert sorted(map(report, together)) == sorted((COMPILED, LOADED, LOADED))
    assert program.start() == LOADED


def test_a_first_start_says_that_it_compiles(tmp_path: Path, program: Program) -> None:
    """Once, on standard error, and where the code is kept; a start that finds the code says nothing."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(program.kept)}
    command = [sys.executable, "-c", FIRST_START, str(tmp_path)]
    for begin in ("stream-dedup compiles its inner loops, once", ""):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "42\n"
        assert done.stderr.startswith(begin)
        assert done.stderr.count("\n") == done.stderr.count(str(program.kept)) == bool(begin)


def test_a_kill_while_code_is_kept(program: Program) -> None:
    """A new source must not lead to the code of the old one, nor to half of its own."""
    program.write(factor=2)
    assert program.start() == (28, 0, 1, [])
    program.write(factor=3)
    killed = program.begin("killed")
    with killed.out:
        assert killed.process.wait() == -signal.SIGKILL
    assert program.start() == COMPILED
    assert program.start() == LOADED


def test_a_start_loads_no_more_of_numba_than_kept_code_needs() -> None:
    """No implementation of NumPy for compiled functions, nor what these import: a third of a second and 50 MB."""
    for _ in range(2):  # the first one may have to compile
        found = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["[]"]


def test_a_function_is_compiled_that_calls_kept_code(tmp_path: Path, program: Program) -> None:
    """LLVM's form of the kept function is read for that, and not by a start that compiles nothing."""
    assert program.start() == COMPILED
    (tmp_path / "caller_kernel.py").write_text(CALLER)
    command = [sys.executable, "-c", CALLER_START, str(tmp_path)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(program.kept)}
    starts = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    assert [start.stdout.split() for start in starts] == [["42", "1", "0", "1"], ["42", "1", "1", "0"]]


def test_kept_code_is_loaded_as_numba_does_with_other_versions_of_it(program: Program) -> None:
    """The short way is taken with the versions that it was run with, the installed one among them.

    What was kept for the one way is not taken by the other.
    """
    assert numba.__version__.startswith(LIGHT_VERSIONS)
    assert program.start("full") == COMPILED
    assert program.start("full") == LOADED
    assert program.start() == COMPILED
    assert program.start() == LOADED
