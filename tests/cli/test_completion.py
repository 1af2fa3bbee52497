"""The completion of each shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stream_dedup.cli import COMMANDS, COMPLETION_VARIABLE, SHELLS, run
from stream_dedup.exit_codes import EXIT_OK, EXIT_USER


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
    """Every command, the commands of a group, and the flags of a command; ``completion`` knows the shell."""
    assert offered(shell, f"stream-dedup completion {shell[:2]}", monkeypatch, capsys) == {shell}
    assert offered(shell, "stream-dedup ", monkeypatch, capsys) == set(COMMANDS)
    assert offered(shell, "stream-dedup offsets s", monkeypatch, capsys) == {"show", "set"}
    assert offered(shell, "stream-dedup filter --pl", monkeypatch, capsys) == {"--plain"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_the_shells(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It asks this program by its variable, and the shell reads it without an error, where it is installed."""
    assert run(["completion", shell]) == EXIT_OK
    script = capsys.readouterr().out
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in script
    assert "stream-dedup" in script
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(script)
        done = subprocess.run([shell, "-n", str(tmp_path / "script")], env=os.environ, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names those that there are."""
    assert run(["completion", "tcsh"]) == EXIT_USER
    assert "bash" in capsys.readouterr().err
