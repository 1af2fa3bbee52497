"""`filter` whose output does not go well: nothing is remembered that did not leave, and the exit code is true."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pytest

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_USER
from stream_dedup.index import LogIndex
from tests.forks import ForkedProcess
from tests.waiting import wait_until

LINES = 120
"""Some 2 KB each: together more than the output buffer, a pipe and a write hold."""
PIPE_BYTES = 4096

Fork = Callable[..., ForkedProcess]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Lines of which each is unlike the others."""
    path = tmp_path / "in.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(LINES):
            words = " ".join(f"{word}x{number * 7919 % 9973 + word}" for word in range(200))
            file.write(json.dumps({"id": number, "text": words}) + "\n")
    return path


def ended(process: ForkedProcess) -> tuple[int, str]:
    """Exit code and what was said on standard error."""
    _, told = process.communicate(timeout=60)
    assert process.returncode is not None
    return process.returncode, told.decode()


def flags(tmp_path: Path, *, indexed: bool) -> list[object]:
    return ["filter", *(["--index", tmp_path / "index"] if indexed else [])]


def verdicts_of_the_next_call(tmp_path: Path, source: Path) -> set[str]:
    """What another call on the same index says of the same lines, and that it succeeds."""
    out = tmp_path / "next.jsonl"
    out.unlink(missing_ok=True)
    args = ["--unique", out, "--duplicate", out, "--rejected", out, "--index", tmp_path / "index", source]
    assert run(["filter", *map(str, args)]) == 0
    lines = out.read_bytes().splitlines()
    assert len(lines) == LINES
    return {json.loads(line)["dedup"]["verdict"] for line in lines}


def small_pipe() -> tuple[int, int]:
    """Ends of a pipe that a few lines fill."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.glob(".stream-dedup-*"))


either = pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])


def test_a_full_device(tmp_path: Path, source: Path, fork: Fork) -> None:
    """Exit code 5, with the reason; the index remembers nothing."""
    with Path("/dev/full").open("wb") as full:
        process = fork([*flags(tmp_path, indexed=True), source], full.fileno())
    code, told = ended(process)
    assert code == 5
    assert told == (
        "stream-dedup: error: output standard output: No space left on device; "
        "make room or name another file, and repeat the call\n"
    )
    assert verdicts_of_the_next_call(tmp_path, source) == {"unique"}


@pytest.mark.parametrize(
    ("missing", "unbuffered"),
    [(1, False), (1, True), (60_000, False)],
    ids=["at the last byte", "at the last byte, unbuffered", "early"],
)
def test_a_disk_that_gets_full(tmp_path: Path, source: Path, fork: Fork, missing: int, unbuffered: bool) -> None:
    """A write that the disk takes only in part is an error, also where it is the last one."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert run(["filter", "--unique", str(whole), str(source)]) == 0
    room = whole.stat().st_size - missing
    with out.open("wb") as file:
        args = [*flags(tmp_path, indexed=True), source]
        process = fork(args, file.fileno(), most_bytes=room, unbuffered=unbuffered)
    code, told = ended(process)
    assert code == 5, told
    assert "output standard output: File too large" in told
    assert out.stat().st_size == room
    assert verdicts_of_the_next_call(tmp_path, source) == {"unique"}


@either
def test_a_non_blocking_pipe(tmp_path: Path, source: Path, fork: Fork, unbuffered: bool) -> None:
    """`filter` waits for a slow reader of a non-blocking pipe, and every line arrives."""
    reader, writer = small_pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    process = fork([*flags(tmp_path, indexed=True), source], writer, unbuffered=unbuffered)
    wait_until(lambda: _waiting_bytes(reader) == PIPE_BYTES, 60, "a full pipe")
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        lines = file.read().splitlines()
    assert ended(process) == (0, "")
    assert [json.loads(line)["id"] for line in lines] == list(range(LINES))
    assert verdicts_of_the_next_call(tmp_path, source) == {"duplicate"}


def test_a_reader_that_has_gone(tmp_path: Path, source: Path, fork: Fork) -> None:
    """Exit code 141, as for a program that SIGPIPE ended, and no message."""
    reader, writer = small_pipe()
    process = fork([*flags(tmp_path, indexed=True), source], writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        file.readline()
    assert ended(process) == (141, "")
    assert verdicts_of_the_next_call(tmp_path, source) == {"unique"}


def test_a_closed_standard_output(tmp_path: Path, source: Path, fork: Fork) -> None:
    """The call fails, because its output would be lost."""
    process = fork([*flags(tmp_path, indexed=True), source], 1, no_output=True)
    code, told = ended(process)
    assert (code, "output standard output: Bad file descriptor" in told) == (5, True)
    assert verdicts_of_the_next_call(tmp_path, source) == {"unique"}


def test_the_null_device_is_an_output_beside_a_closed_standard_output(tmp_path: Path, source: Path, fork: Fork) -> None:
    """Nothing goes to standard output, so it does not matter that it is closed."""
    args = ["--unique", tmp_path / "unique", "--duplicate", "/dev/null", "--rejected", "/dev/null", source, source]
    process = fork([*flags(tmp_path, indexed=False), *args], 1, no_output=True)
    assert ended(process) == (0, "")
    assert (tmp_path / "unique").read_bytes().count(b"\n") == LINES


@pytest.mark.parametrize(
    ("number", "expected", "indexed"),
    [
        (signal.SIGTERM, 143, True),
        (signal.SIGTERM, 143, False),
        (signal.SIGHUP, 129, True),
        (signal.SIGINT, 130, True),
        (signal.SIGKILL, -9, True),
    ],
)
def test_a_signal_while_it_waits_for_its_reader(
    tmp_path: Path, source: Path, fork: Fork, number: int, expected: int, indexed: bool
) -> None:
    """It ends at once though nobody reads; no file of it is left, but for what SIGKILL gives no time to remove."""
    reader, writer = small_pipe()
    unique = tmp_path / "out" / "unique.jsonl"
    unique.parent.mkdir()
    args = ["--duplicate", unique, source]
    process = fork([*flags(tmp_path, indexed=indexed), *args], writer)
    os.close(writer)
    wait_until(lambda: _waiting_bytes(reader) == PIPE_BYTES, 60, "a full pipe")
    assert len(temporary_files(unique.parent)) == 1
    process.send_signal(number)
    code, told = ended(process)
    os.close(reader)
    assert (code, told) == (expected, "stream-dedup: interrupted\n" if number == signal.SIGINT else "")
    assert not unique.exists()
    assert len(temporary_files(unique.parent)) == (number == signal.SIGKILL)
    if indexed:
        assert verdicts_of_the_next_call(tmp_path, source) == {"unique"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_crash_between_any_two_effects_of_the_end(tmp_path: Path, source: Path, fork: Fork) -> None:
    """What the index remembers is in the files, whole: they have their names before it is committed.

    1. The files reach the disk, then standard output does. 2. They get their names. 3. The index is committed.
    """
    out, index, unique = tmp_path / "stdout", tmp_path / "index", tmp_path / "unique.jsonl"
    steps = []
    for step in range(100):
        for path in (out, unique):
            path.unlink(missing_ok=True)
        shutil.rmtree(index, ignore_errors=True)
        with out.open("wb") as file:
            args = ["--unique", unique, "--duplicate", tmp_path / "d", source, source]
            process = fork([*flags(tmp_path, indexed=True), *args], file.fileno(), dies_at=step)
        code, told = ended(process)
        assert code in {0, -9}, told
        remembered = verdicts_of_the_next_call(tmp_path, source) == {"duplicate"}
        whole = unique.exists() and unique.read_bytes().count(b"\n") == LINES
        assert whole == unique.exists()
        assert whole or not remembered
        steps.append((whole, remembered))
        if code == 0:
            break
    assert steps == sorted(steps)
    assert {(False, False), (True, False), (True, True)} == set(steps)
    assert len(steps) > 8


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("where", [(os, "replace"), (LogIndex, "commit"), (LogIndex, "close")])
def test_a_signal_after_the_last_line_has_left_does_not_deny_the_call(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str], number: int
) -> None:
    """A caller who is told that it was ended calls again, and finds all of it seen: an empty file of unique ones."""
    before = signal.getsignal(number)
    real = getattr(*where)

    def interrupted(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - of any function
        os.kill(os.getpid(), number)
        return real(*args, **more)

    monkeypatch.setattr(*where, interrupted)
    unique = tmp_path / "unique.jsonl"
    assert run([*map(str, flags(tmp_path, indexed=True)), "--unique", str(unique), str(source)]) == 0
    monkeypatch.undo()
    assert unique.read_bytes().count(b"\n") == LINES
    assert verdicts_of_the_next_call(tmp_path, source) == {"duplicate"}
    assert signal.getsignal(number) is before


def test_signals_that_are_ignored_stay_ignored(tmp_path: Path, source: Path, fork: Fork) -> None:
    """`nohup stream-dedup filter` goes on when its terminal goes away."""
    reader, writer = small_pipe()
    process = fork([*flags(tmp_path, indexed=False), source], writer, ignores=signal.SIGHUP)
    os.close(writer)
    wait_until(lambda: _waiting_bytes(reader) > 0, 60, "the first lines")
    process.send_signal(signal.SIGHUP)
    lines: list[bytes] = []
    with os.fdopen(reader, "rb") as file:
        lines += file
    assert (ended(process), len(lines)) == ((0, ""), LINES)


def test_standard_output_may_be_a_file_of_the_call(tmp_path: Path, source: Path, fork: Fork) -> None:
    """`filter --unique out a b > out`: neither the verdicts of the file nor those of standard output are lost."""
    out = tmp_path / "out"
    with out.open("wb") as file:
        process = fork([*flags(tmp_path, indexed=False), "--unique", out, source, source], file.fileno())
    assert ended(process) == (0, "")
    told = [json.loads(line)["dedup"]["verdict"] for line in out.read_bytes().splitlines()]
    assert told == ["unique"] * LINES + ["duplicate"] * LINES


@pytest.mark.parametrize("opened", ["ab", "r+b"])
@pytest.mark.parametrize("named", [True, False])
def test_standard_output_that_is_an_input_is_refused(
    tmp_path: Path, source: Path, fork: Fork, opened: str, named: bool
) -> None:
    """`filter a >> a`, `filter < a >> a`: it would read what it writes."""
    before = source.read_bytes()
    stdin: IO[bytes]
    with source.open(opened) as stdout, source.open("rb") as stdin:
        args = [source] if named else []
        process = fork([*flags(tmp_path, indexed=False), *args], stdout.fileno(), stdin.fileno())
    code, told = ended(process)
    assert (code, "output standard output: it is also an input" in told) == (2, True)
    assert source.read_bytes() == before


@pytest.mark.parametrize("flag", ["--unique", "--duplicate", "--rejected"])
def test_a_dash_is_standard_output(
    tmp_path: Path, flag: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is standard input among the inputs: no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text('{"text":"the ferry runs"}\n' * 2 + "bad\n")
    assert run(["filter", flag, "-", "a"]) == 3
    assert len(capsysbinary.readouterr().out.splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_output_that_destroys_what_is_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An input, a second name of it, the configuration, profile, its word lists, and files of the index stay."""
    (tmp_path / "a").write_text('{"text":"the ferry runs"}\n')
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "words").write_text("ferry\n")
    (tmp_path / "p.toml").write_text('from = "article"\n[features]\nstop_words = "words"\n')
    (tmp_path / "c.toml").write_text(f'[match]\nprofile = "{tmp_path}/p.toml"\n')
    given = ["filter", "--config", str(tmp_path / "c.toml"), "--index", str(tmp_path / "index")]
    assert run([*given, str(tmp_path / "a")]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("a", "hard", "words", "p.toml", "c.toml", "index/current", "index/new"):
        assert run([*given, "--unique", str(tmp_path / name), str(tmp_path / "a")]) == 2
        assert f"output {tmp_path / name}: it is " in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_named_pipe_is_read_once(tmp_path: Path, source: Path, fork: Fork) -> None:
    """`filter` opens it once: its writer does not lose its reader before the first line."""
    pipe, out = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(source.read_bytes()))
    writer.start()
    with out.open("wb") as file:
        process = fork([*flags(tmp_path, indexed=False), pipe, source], file.fileno())
    assert ended(process) == (0, "")
    writer.join()
    verdicts = [json.loads(line)["dedup"]["verdict"] for line in out.read_bytes().splitlines()]
    assert verdicts == ["unique"] * LINES + ["duplicate"] * LINES


def _waiting_bytes(reader: int) -> int:
    """Bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("name", ["absent/out.jsonl", "folder"])
def test_outputs_that_cannot_be_written_leave_no_index(tmp_path: Path, source: Path, name: str) -> None:
    """They are refused before the folder of the index is made."""
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert run([*map(str, flags(tmp_path, indexed=True)), "--unique", str(tmp_path / name), str(source)]) == EXIT_USER
    assert sorted(tmp_path.rglob("*")) == before
