"""Errors of libraries, as a user sees them: input, reason and remedy, without the library's words."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_USER
from tests.files.filtering import STORY, record, write

LIBRARY_WORDS = (
    "<class",
    "Config;",
    "Errno",
    "Error",
    "Input should",
    "Traceback",
    "datetime",
    "decompress",
    "dictionary",
    "integer",
    "instance of",
    "parse",
    "string",
)


def message(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The error of a call that is wrong."""
    assert run(list(args)) == EXIT_USER
    found = capsys.readouterr().err
    assert [word for word in LIBRARY_WORDS if word in found] == []
    return found


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("kafka.group = 7", "kafka.group = 7 (file FILE): must be text; give letters"),
        ("kafka.client_id = ''", "kafka.client_id = '' (file FILE): must not be empty; give text"),
        ("kafka.group = 1979-05-27", "kafka.group = 1979-05-27 (file FILE): must be text; give letters"),
        ("kafka.ssl_cafile = 7", "kafka.ssl_cafile = 7 (file FILE): must be a path; give a PEM file"),
        ("kafka.compression = 'brotli'", "kafka.compression = 'brotli' (file FILE): unknown value; give none, gzip"),
        ("kafka.session_timeout_s = 'x'", "kafka.session_timeout_s = 'x' (file FILE): must be a number; give seconds"),
        ("kafka.session_timeout_s = nan", "kafka.session_timeout_s = nan (file FILE): must be a finite number; give"),
        ("topics.partitions = 1.5", "topics.partitions = 1.5 (file FILE): must be a whole number; give 1 to 10000"),
        ("topics.partitions = {}", "topics.partitions = {} (file FILE): must be a whole number; give 1 to 10000"),
        ("topics.input = 7", "topics.input = 7 (file FILE): must be a list; give"),
        ("match.observe = 'maybe'", "match.observe = 'maybe' (file FILE): must be true or false; give true or false"),
        ("metrics = 3", "metrics (file FILE): must be a table; give a table of keys"),
        ("[[kafka]]\ngroup = 'a'", "kafka (file FILE): must be a table; give a table of keys"),
    ],
)
def test_a_wrong_value_of_the_configuration(
    content: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Key, value and source, the reason in words of ours, and what to give instead."""
    path = tmp_path / "c.toml"
    path.write_text(content)
    assert problem.replace("FILE", str(path)) in message(capsys, "config", "check", "--config", str(path))


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("calibrate", "--pairs", "x", "FILE"), "Invalid value for '--pairs': 'x' is not a valid whole number."),
        (("audit", "--sample", "1.5"), "Invalid value for '--sample': '1.5' is not a valid whole number."),
        (("status", "--interval", "x"), "Invalid value for '--interval': 'x' is not a valid number of seconds."),
        (("status", "--interval", "nan"), "Invalid value for '--interval': 'nan' is not a valid number of seconds."),
        (("filter", "--index", "FILE", "FILE"), "index folder FILE cannot be made or written: File exists; name"),
    ],
)
def test_a_wrong_option(
    args: tuple[str, ...], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name, the value, and what it takes; of a file the system's reason."""
    path = write(tmp_path / "a.jsonl", record("a", STORY))
    given = [path if arg == "FILE" else arg for arg in args]
    assert problem.replace("FILE", path) in message(capsys, *given)


def test_damaged_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file, what is wrong with it, and the remedy."""
    packed = bytearray(gzip.compress(STORY.encode()))
    packed[-6] ^= 1
    for name, data, reason in (
        ("gzip", bytes(packed), "incorrect data check"),
        ("zstd", zstandard.compress(b"x")[:4] + b"\xff" * 20, "Unsupported frame parameter"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        expected = f"input {path}: its {name} data are damaged ({reason}); get the file again, or repair it"
        assert expected in message(capsys, "filter", str(path))
