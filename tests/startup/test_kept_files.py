"""Tables are kept as files: damage is noticed, what was left is removed, and every program registers the place."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import xxhash

from stream_dedup import api, fingerprint
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.table_store import keep_tables_in, table_store
from stream_dedup.core.text.decode import InputFormat
from stream_dedup.errors import UserError
from stream_dedup.startup import kept_files
from stream_dedup.startup.kept_files import COMPILING, LEFT_S, KeptFiles, keep_tables
from tests.small_disk import small_disk
from tests.table_maker import MADE_KIND, TableMaker

KILLED = """
import os, signal
from pathlib import Path
from stream_dedup.startup.kept_files import KeptFiles
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
KeptFiles().keep("some_table", ("x",), [b"content"])
"""
REGISTERED = """
import os, sys
from contextlib import suppress
from multiprocessing import Pipe
from stream_dedup.core.table_store import table_store
from stream_dedup.startup.kept_files import KeptFiles
assert table_store() is None
{start}
sys.stderr.write(str(isinstance(table_store(), KeptFiles)))
os._exit(0)
"""
STARTS = {
    "command line": "sys.argv[1:] = ['--version']\nfrom stream_dedup.cli import main\n"
    "with suppress(SystemExit): main()",
    "child of the pool": "from stream_dedup.pool.child import serve\nour, their = Pipe()\nour.close()\n"
    "lifeline, held = os.pipe()\nserve(their.fileno(), lifeline)",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which tables are kept; each test begins as a process does."""
    before = table_store()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    keep_tables()
    yield tmp_path
    keep_tables_in(before)


def files_in(folder: Path) -> list[Path]:
    """The files of the table, whole or temporary."""
    return list(folder.rglob(f"{MADE_KIND}-*"))


def file_in(folder: Path) -> Path:
    (found,) = files_in(folder)
    assert found.suffix == ".kept"
    return found


def test_a_table_is_made_once(folder: Path) -> None:
    """The second time it is mapped, in this process and in one that starts then."""
    make = TableMaker()
    for _ in range(2):
        assert not make.kept()["one"].flags.writeable
    keep_tables()
    make.kept()
    assert make.calls == 1
    assert file_in(folder).stat().st_size > 8000


@pytest.mark.parametrize("damage", ["nothing", "half", "a byte", "another end", "no file", "only an end"])
def test_a_damaged_table_is_made_again(damage: str, folder: Path) -> None:
    """Cut short, to nothing too, with another byte, or gone: made again, and kept."""
    make = TableMaker()
    make.kept()
    path = file_in(folder)
    whole = path.read_bytes()
    middle, last = len(whole) // 2, len(whole) - 1
    at = middle if damage == "a byte" else last
    path.unlink()
    if damage != "no file":
        other = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        empty = xxhash.xxh3_128().digest()
        path.write_bytes({"nothing": b"", "half": whole[:middle], "only an end": empty}.get(damage, other))
    make.kept()
    assert make.calls == 2
    assert file_in(folder).read_bytes() == whole
    make.kept()
    assert make.calls == 2


def test_a_table_made_from_something_else_is_made_again(folder: Path) -> None:
    """And the older file is removed."""
    make = TableMaker()
    make.kept()
    make.kept("y")
    assert make.calls == 2
    assert file_in(folder).is_file()


def test_what_was_delivered_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where NUMBA_CACHE_DIR names another folder, and where nothing can be written."""
    monkeypatch.setattr(kept_files, "DELIVERED", folder / "delivered")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    KeptFiles().keep("some_code", ("x",), [b"content"])
    (folder / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder / "file" / "none"))
    found = KeptFiles().find("some_code", ("x",))
    assert found is not None
    assert bytes(found) == b"content"
    with pytest.raises(NotADirectoryError):
        KeptFiles().keep("some_code", ("y",), [b"content"])


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    """What is there is mapped; what is not is made each time."""
    with small_disk(folder) as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(disk.folder))
        make = TableMaker()
        make.kept()
        disk.set_writable(False)
        make.kept()
        assert make.calls == 1
        make.kept("y")
        make.kept("y")
        assert make.calls == 3


def test_a_full_disk(folder: Path) -> None:
    """A table is made and nothing is left of its file; once there is room, it is kept."""
    with small_disk(folder) as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(disk.folder))
        disk.fill()
        make = TableMaker()
        make.kept()
        assert not files_in(disk.folder)
        disk.free()
        make.kept()
        make.kept()
        assert make.calls == 2


def test_processes_at_once(folder: Path) -> None:
    """Those that make a table at the same time all have it, and one file is left."""
    make = TableMaker()
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda _: make.kept(), range(16)):
            pass
    assert file_in(folder).is_file()


def test_what_a_killed_process_leaves_is_removed(folder: Path) -> None:
    """Killed between writing and renaming: the first process that looks an hour later removes the file, and no other.

    Not while it is young, for another process may be writing it, and not what has another name.
    """
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = files_in(folder)
    assert left.suffix == ".tmp"
    others = [left.with_name(name) for name in (f"x{left.name}x", "notes.tmp", "some_table-0.kept.0.tmp")]
    for other in others:
        other.write_bytes(b"")
    for age_s, is_left in ((LEFT_S - 60, True), (LEFT_S + 60, False)):
        for path in (left, *others):
            os.utime(path, (time.time() - age_s,) * 2)
        assert KeptFiles().find("another_table", ()) is None
        assert left.exists() == is_left
    assert all(other.exists() for other in others)


def test_left_files_are_looked_for_once(folder: Path) -> None:
    """A process lists the folder at its first table, not at each."""
    store = KeptFiles()
    store.keep(MADE_KIND, ("x",), [b"content"])
    store.find(MADE_KIND, ("x",))
    later = file_in(folder).with_name(f"{MADE_KIND}-{'0' * 16}.kept.{'0' * 12}.tmp")
    later.write_bytes(b"")
    os.utime(later, (0, 0))
    store.find(MADE_KIND, ("x",))
    assert later.exists()


def test_one_process_after_the_other(tmp_path: Path) -> None:
    """Who is alone with a file holds off the others until it has done; a file that is not there holds off nobody."""
    path, done = tmp_path / "one", []
    path.touch()
    store, other = KeptFiles(), KeptFiles()

    def wait() -> None:
        with other.alone(str(path)):
            done.append("second")

    waiting = threading.Thread(target=wait)
    with store.alone(str(path)), store.alone(str(tmp_path / "no file")):
        waiting.start()
        waiting.join(0.2)
        done.append("first")
    waiting.join()
    assert done == ["first", "second"]


def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a process that is stopped, for example: once the limit is reached there is no more waiting, at any file."""
    monkeypatch.setattr(kept_files, "TURN_S", 0.1)
    (tmp_path / "one").touch()
    store = KeptFiles()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with KeptFiles().alone(str(tmp_path / "one")):
        for _ in range(3):
            with store.alone(str(tmp_path / "one")):
                pass
    assert 0.1 <= sum(slept) < 0.15


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_programs_register_the_files(start: str) -> None:
    """The command line and a child of the pool, before anything else."""
    code = REGISTERED.format(start=start)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True"


def test_the_python_api_registers_the_files() -> None:
    """What makes its fingerprints has registered them."""
    keep_tables_in(None)
    api._idle.clear()
    fingerprint("the cat", "simhash")
    assert isinstance(table_store(), KeptFiles)


def test_an_executor_of_spark_registers_the_files() -> None:
    """Before the first thing that it reads."""
    fingerprinting = pytest.importorskip("stream_dedup.spark.fingerprinting")
    keep_tables_in(None)
    work = fingerprinting.Fingerprinting(PROFILES["simhash"].settings, InputFormat(), 1.0, "another scheme")
    with pytest.raises(UserError, match="makes entries of the scheme"):
        fingerprinting._pool(work)
    assert isinstance(table_store(), KeptFiles)


def test_registering_loads_no_numpy() -> None:
    """Commands that make no fingerprint start quickly."""
    code = "import sys, stream_dedup.startup as s; s.keep_tables(); sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


NOTING = """
import sys
from stream_dedup.startup.kept_files import KeptFiles
files = KeptFiles()
files.note_compiling()
files.note_compiling()
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_of_several_processes_one_says_that_it_compiles(folder: Path) -> None:
    """Once, on standard error, with the folder; a process that comes after its end says it again."""
    for _ in range(2):
        running: list[subprocess.Popen[str]] = []
        for _ in range(2):
            pipe, command = subprocess.PIPE, [sys.executable, "-c", NOTING]
            running.append(subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe))
            assert running[-1].stdout is not None
            assert running[-1].stdout.readline() == "ready\n"
        said = [process.communicate()[1] for process in running]
        (own,) = folder.iterdir()
        assert said == [COMPILING.format(own) + "\n", ""]


def test_a_process_without_standard_error_compiles_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing goes to standard output, which has the result."""
    monkeypatch.setattr(sys, "stderr", None)
    KeptFiles().note_compiling()
    assert capsys.readouterr().out == ""


def test_the_first_process_that_compiles_calls_for_help_once(folder: Path) -> None:
    """Not another one meanwhile: it finds what the first one and its helpers compile."""
    called: list[str] = []
    first, other = KeptFiles(lambda: called.append("first")), KeptFiles(lambda: called.append("other"))
    for store in (first, first, other):
        store.note_compiling()
    assert called == ["first"]
    assert folder.exists()


def test_nobody_is_called_for_help_where_code_cannot_be_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process would compile for itself."""
    called: list[str] = []
    monkeypatch.setattr(kept_files, "_writable", lambda: None)
    KeptFiles(lambda: called.append("any")).note_compiling()
    assert called == []
    assert folder.exists()


def test_numba_colours_no_messages() -> None:
    """Of a kernel it makes thousands that nobody reads, while it looks for the types of what is called."""
    code = "import stream_dedup.startup as s; s.keep_tables(); from numba.core import errors; print(errors.termcolor())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "NOPColorScheme" in done.stdout
