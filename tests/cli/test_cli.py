"""The command line as a whole: help, exit codes, what is loaded when."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stream_dedup import cli as cli_package
from stream_dedup.cli import COMMANDS, COMPLETION_VARIABLE, run
from stream_dedup.errors import (
    EXIT_OK,
    CorruptError,
    RefusedError,
    StreamDedupError,
    UnavailableError,
    UserError,
)
from tests.amount import FULL

ROOT = Path(__file__).resolve().parents[2]


def loaded_by(*args: str) -> set[str]:
    """Top-level packages that a call of the program imports."""
    code = (
        "import sys; from stream_dedup.cli import run; run(sys.argv[1:]); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stderr.split())


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with a line of its own."""
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    for name, entry in COMMANDS.items():
        assert f"{name} " in told
        assert entry.help.split(" ")[0] in told


def test_help_loads_no_command() -> None:
    """Neither Kafka nor RocksDB nor NumPy is loaded to show the list."""
    assert loaded_by("--help").isdisjoint({"kafka", "rocksdict", "numpy", "pydantic"})


def test_fingerprints_load_no_numpy() -> None:
    """Texts are read by the native core alone."""
    loaded = loaded_by("fingerprint", "--json", "--signature", "--margins", "The ferry left.")
    assert loaded & {"kafka", "multiprocessing", "numpy", "rocksdict"} == set()


@pytest.mark.slow
def test_filter_does_not_load_kafka(tmp_path: Path) -> None:
    """Files need no client."""
    (tmp_path / "a").write_bytes(b"")
    packages = loaded_by("filter", str(tmp_path / "a"))
    assert "kafka" not in packages
    assert "rocksdict" in packages


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("the flag is wrong; mend it"), 2),
        (RefusedError("the log has other rules; apply them"), 4),
        (UnavailableError("no broker answers; start one"), 5),
        (CorruptError("the index is damaged; rebuild it"), 6),
    ],
)
def test_errors_become_one_line_and_a_code(
    error: StreamDedupError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each class has its exit code; the message is told without a traceback."""
    monkeypatch.setattr(cli_package.cli, "get_command", lambda *_: click.Command("run", callback=lambda: _raise(error)))
    assert run(["run"]) == code
    assert capsys.readouterr().err == f"stream-dedup: error: {error}\n"


def test_a_bug_is_told_in_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody foresaw has exit code 1 and its traceback."""
    bug = ZeroDivisionError("0/0")
    monkeypatch.setattr(cli_package.cli, "get_command", lambda *_: click.Command("run", callback=lambda: _raise(bug)))
    assert run(["run"]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "this is a bug: ZeroDivisionError: 0/0" in told


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("args", [["nonsense"], ["run", "--nonsense"], ["filter", "--profile"]])
def test_wrong_use_exits_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With what is wrong on standard error and nothing on standard output."""
    assert run(args) == 2
    told = capsys.readouterr()
    assert "stream-dedup: error: " in told.err
    assert told.out == ""


@pytest.mark.parametrize("args", [[], ["config"], ["index"]])
def test_a_group_alone_shows_its_help(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, with exit code 2: nothing was done."""
    assert run(args) == 2
    assert "Commands:" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """As the package has it."""
    assert run(["--version"]) == 0
    assert "0." in capsys.readouterr().out


def test_python_m_is_the_program() -> None:
    """`python -m stream_dedup` does the same."""
    done = subprocess.run(
        [sys.executable, "-m", "stream_dedup", "config", "check"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", *(["<&-", ">&-", "2>&-"] if FULL else [])])
def test_closed_standard_streams_do_not_matter(closed: str, tmp_path: Path) -> None:
    """A closed one is as good as /dev/null: no file opened later takes its number."""
    (tmp_path / "a").write_text('{"text":"ferry"}\n')
    command = f'"{sys.executable}" -m stream_dedup filter --index "{tmp_path}/i" --unique "{tmp_path}/u" "{tmp_path}/a"'
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0
    assert json.loads((tmp_path / "u").read_text())["dedup"]["verdict"] == "unique"


def test_arguments_that_are_no_utf8_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's name and a text may be any bytes; what is no text is written out."""
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    path.write_text('{"text":"ferry"}\n{"text":"ferry"}\n')
    assert run(["filter", str(path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["dedup"]["match"]["id"] == f"{tmp_path}/\\xff.jsonl:1"
    assert run(["fingerprint", "--json", os.fsdecode(b"a\xff")]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "a\\xff"


def test_fingerprint_of_equal_texts_is_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each text: 16 hex digits and the text; white space and case do not count."""
    assert run(["fingerprint", "The ferry runs again", "the  FERRY runs again", "另一篇文章"]) == 0
    one, two, other = (line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert one[0] == two[0] != other[0]
    assert (len(one[0]), one[1], other[1]) == (16, "The ferry runs again", "另一篇文章")


def test_fingerprint_as_json_with_all_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """The signature begins with the fingerprint; there are 64 margins of 4 bits."""
    assert run(["fingerprint", "--json", "--signature", "--margins", "ferry"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["signature"].startswith(said["fingerprint"])
    assert (len(said["signature"]), len(said["margins"]), said["text"]) == (64, 64, "ferry")
    assert all(0 <= margin <= 15 for margin in said["margins"])


def test_fingerprint_reads_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file is one text, or with --lines each line is one."""
    path = tmp_path / "texts"
    path.write_text("ferry\n\nbridge\n", "utf-8")
    assert run(["fingerprint", "--file", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"  {path}\n")
    assert run(["fingerprint", "--lines", "--file", str(path)]) == 0
    assert [line.split("  ")[1] for line in capsys.readouterr().out.splitlines()] == [f"{path}:1", f"{path}:3"]


def test_fingerprint_of_a_missing_file_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """And names it."""
    assert run(["fingerprint", "--file", "no-such-file"]) == 2
    assert "no-such-file" in capsys.readouterr().err


@pytest.fixture
def kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An index with two articles."""
    (tmp_path / "a").write_text('{"text":"ferry and bridge"}\n{"text":"ferry and bridge"}\n', "utf-8")
    index = tmp_path / "index"
    assert (
        run(["filter", "--index", str(index), "--unique", "/dev/null", "--duplicate", "/dev/null", str(tmp_path / "a")])
        == 0
    )
    capsys.readouterr()
    return index


def test_index_stats_tells_what_it_holds(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As lines for people and as JSON for programs."""
    assert run(["index", "stats", "--json", "--index", str(kept)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 2 in said.values()
    assert run(["index", "stats", "--index", str(kept)]) == 0
    assert [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()] == list(said)


def test_index_verify_of_a_whole_one(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and a word."""
    assert run(["index", "verify", "--index", str(kept)]) == 0
    assert "is intact" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["stats", "verify"])
def test_looking_at_no_index_makes_none(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there is told and not made."""
    path = tmp_path / "none"
    assert run(["index", name, "--index", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
    assert not path.exists()


def offered(shell: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What a shell offers at the end of a command line."""
    *_, last = line.split(" ")
    monkeypatch.setenv(COMPLETION_VARIABLE, f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", last if shell == "fish" else str(line.count(" ")))
    assert run([]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    if shell == "zsh":  # three lines for each: type, word, help
        return set(lines[1::3])
    return {one.partition(",")[2].partition("\t")[0] for one in lines}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_offers_the_commands(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command, the commands of a group, and the flags of a command."""
    assert offered(shell, "stream-dedup ", monkeypatch, capsys) == set(COMMANDS)
    assert offered(shell, "stream-dedup offsets s", monkeypatch, capsys) == {"show", "set"}
    assert offered(shell, "stream-dedup filter --pl", monkeypatch, capsys) == {"--plain"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_the_shells(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It asks this program by its variable, and the shell reads it without an error, where it is installed."""
    monkeypatch.setenv(COMPLETION_VARIABLE, f"{shell}_source")
    assert run([]) == EXIT_OK
    script = capsys.readouterr().out
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in script
    assert "stream-dedup" in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        done = subprocess.run([shell, "-n", str(tmp_path / "script")], env=os.environ, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
