"""Standard output of every command: complete or a true exit code; JSON that every reader takes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from stream_dedup.cli import run
from stream_dedup.cli.output import json_text
from tests.forks import ForkedProcess

ROOT = Path(__file__).resolve().parents[2]
NO_SPACE = b"output standard output: No space left on device; make room or name another file, and repeat the call\n"
Fork = Callable[..., ForkedProcess]
LONG = "the ferry runs to the island and back " * 4000

COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "fingerprint": ["fingerprint", "ferry"],
    "explain": ["explain", "the ferry", "the bridge"],
    "explain --json": ["explain", "--json", "the ferry", "the bridge"],
    "config show": ["config", "show"],
    "config check": ["config", "check"],
    "calibrate": ["calibrate", "{two}"],
    "calibrate --json": ["calibrate", "--json", "{two}"],
    "calibrate --html -": ["calibrate", "--html", "-", "{two}"],
    "index stats": ["index", "stats", "--index", "{index}"],
    "index verify": ["index", "verify", "--index", "{index}"],
}


def called(command: list[str], *, unbuffered: bool, **more: Any) -> subprocess.CompletedProcess[bytes]:  # noqa: ANN401
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    args = [sys.executable, "-m", "stream_dedup", *command]
    return subprocess.run(args, env=env, stderr=subprocess.PIPE, check=False, timeout=60, **more)


@pytest.fixture(scope="module")
def positions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file of two articles, and an index of them."""
    folder = tmp_path_factory.mktemp("positions")
    two, index = folder / "two.jsonl", folder / "index"
    two.write_text('{"id":1,"text":"the ferry runs to the island"}\n{"id":2,"text":"the ferry sails to the island"}\n')
    args = ["filter", "--index", str(index), "--unique", "/dev/null", "--duplicate", "/dev/null", str(two)]
    assert run(args) == 0
    return {"two": two, "index": index}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_reports_a_full_disk(name: str, positions: dict[str, Path], fork: Fork) -> None:
    """Exit code 5, with the reason."""
    command = [part.format(**positions) for part in COMMANDS[name]]
    with Path("/dev/full").open("wb") as full:
        process = fork(command, full.fileno())
    _, said = process.communicate()
    assert process.returncode == 5
    assert said.endswith(NO_SPACE)


def test_a_full_disk_is_reported_where_python_does_not_buffer() -> None:
    """A short write of Python's unbuffered standard output would go unnoticed."""
    with Path("/dev/full").open("wb") as full:
        done = called(COMMANDS["version"], unbuffered=True, stdout=full)
    assert (done.returncode, done.stderr.endswith(NO_SPACE)) == (5, True)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_non_blocking_reader_gets_all_of_a_long_line(unbuffered: bool, fork: Fork) -> None:
    """`click.echo` of more than a pipe holds."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    process = fork(["fingerprint", "--json", LONG[:120_000]], writer, unbuffered=unbuffered)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert json.loads(file.read())["text"] == LONG[:120_000]
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    "command",
    [
        ["calibrate", "{file}"],
        ["filter", "{file}"],
        ["filter", "--config", "{file}", "/dev/null"],
    ],
    ids=["calibrate", "filter", "configuration"],
)
def test_a_file_that_is_read_is_no_standard_output(command: list[str], tmp_path: Path, fork: Fork) -> None:
    """`stream-dedup filter file >> file` would read what it writes: refused, the file as it was."""
    file = tmp_path / "file"
    file.write_text('log_level = "info"\n')
    with file.open("ab") as out:
        process = fork([part.format(file=file) for part in command], out.fileno())
    _, said = process.communicate()
    assert (process.returncode, b"output standard output: it is also an input" in said) == (2, True)
    assert file.read_text() == 'log_level = "info"\n'


@pytest.mark.slow
def test_a_full_standard_error_does_not_change_the_exit_code() -> None:
    """What cannot be said is still told by the code."""
    args = [sys.executable, "-m", "stream_dedup", "filter", "no-such-file"]
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run(args, cwd=ROOT, stderr=full, check=False, timeout=60).returncode == 2


@pytest.mark.parametrize("value", ["\ud83d", "a\udcffb", "\ude00\ud83d", "\\ud83d", '"\ud83d"', "天😀\x00\u2028\x7f"])
def test_any_text_becomes_json(value: str) -> None:
    """Half surrogates are written out; all else comes back as it was. A strict reader takes it, as UTF-8."""
    told = orjson.loads(json_text({value: [value, {"x": value}]}).encode())
    shown = (
        value.encode("utf-8", "backslashreplace").decode()
        if any("\ud800" <= one <= "\udfff" for one in value)
        else value
    )
    assert told == {shown: [shown, {"x": shown}]}


def test_half_surrogates_do_not_stop_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], fork: Fork) -> None:
    """`explain --json` of records that a crawler cut, and in words for a person."""
    for name in ("a", "b"):
        (tmp_path / name).write_text('{"id":"\\ud83d","site":"\\ude00","text":"the ferry \\ud83d runs"}')
    (tmp_path / "c.toml").write_text('[input]\nscope_field = "site"\n')
    args = ["explain", "--records", "--config", f"{tmp_path}/c.toml", f"@{tmp_path}/a", f"@{tmp_path}/b"]
    assert run([*args, "--json"]) == 0
    said = orjson.loads(capsys.readouterr().out)
    assert (said["a"]["text"], said["a"]["scope"]) == ("the ferry \\ud83d runs", "\\ude00")
    with (tmp_path / "out").open("wb") as out:
        process = fork(args, out.fileno())
    assert (process.communicate()[1], process.returncode) == (b"", 0)


@pytest.mark.parametrize("args", [["audit", "--since"], ["offsets", "set", "--to"]])
def test_a_number_that_is_no_offset_is_wrong_use(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of however many digits."""
    assert run([*args, "9" * 5000]) == 2
    assert re.search("neither an? (log )?offset", capsys.readouterr().err)
