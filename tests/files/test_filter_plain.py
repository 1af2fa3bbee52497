"""``filter --plain``: records as they came, split by verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_dedup.exit_codes import EXIT_FOUND, EXIT_OK
from stream_dedup.files import lines
from tests.files.filtering import EDITED, OTHER, STORY, Filter, record, write

BAD = b'{"id": "x", "text": 7}'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A story, an edited copy with a member ``dedup``, another text, and a line without a text."""
    lines = (record("a", STORY), record("b", EDITED, dedup={"verdict": "?"}), record("c", OTHER), BAD)
    return Path(write(tmp_path / "source", *lines))


def test_unique_records_go_to_standard_output_as_they_came(source: Path, call: Filter) -> None:
    """Duplicates and rejected lines are in no output; that lines were rejected is told, and is the exit code."""
    lines = source.read_bytes().splitlines(keepends=True)
    call("--plain", source)
    assert (call.raw, call.code) == (lines[0] + lines[2], EXIT_FOUND)
    assert "1 rejected lines were written nowhere; name a file for them with --rejected" in call.err


def test_each_verdict_has_its_file(source: Path, call: Filter, tmp_path: Path) -> None:
    """Together the outputs have every line, unchanged byte for byte."""
    lines = source.read_bytes().splitlines(keepends=True)
    again, bad = tmp_path / "again", tmp_path / "bad"
    call("--plain", "--duplicate", again, "--rejected", bad, source)
    assert (call.raw, again.read_bytes(), bad.read_bytes()) == (lines[0] + lines[2], lines[1], lines[3])
    assert call.err == ""
    call("--plain", "--unique", tmp_path / "once", "--duplicate", "-", source)
    assert (call.raw, (tmp_path / "once").read_bytes()) == (lines[1], lines[0] + lines[2])


def test_the_output_of_a_plain_call_can_be_filtered_again(source: Path, call: Filter, tmp_path: Path) -> None:
    """Nothing is left to remove."""
    once = tmp_path / "once"
    call("--plain", "--unique", once, source)
    assert call.verdicts(once) == ["unique", "unique"]
    call("--plain", once)
    assert (call.raw, call.code) == (once.read_bytes(), EXIT_OK)


def test_a_line_that_was_cut_is_rejected_with_its_beginning(
    tmp_path: Path, call: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not in memory as a whole, so that it cannot be written as it came."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(lines, "KEPT_BYTES", 10)
    (tmp_path / "source").write_bytes(b"x" * 101 + b"\n")
    bad = tmp_path / "bad"
    call("--plain", "--rejected", bad, tmp_path / "source")
    assert (call.raw, call.code) == (b"", EXIT_FOUND)
    assert json.loads(bad.read_bytes())["dedup"]["reason"] == "line too long: 101 bytes, the fixed limit is 100"


def test_flags_name_the_fields(tmp_path: Path, call: Filter) -> None:
    """`--text-field`, `--id-field` and `--html` set the keys of the configuration."""
    lines = [{"nr": 1, "body": f"<p>{STORY}</p>", "text": OTHER}, {"nr": 2, "body": f"<div><b>{STORY}</b></div>"}]
    source = write(tmp_path / "source", *lines)
    first, second = call("--text-field", "body", "--id-field", "nr", "--html", source)
    assert (first["dedup"]["verdict"], second["dedup"]["match"]["id"]) == ("unique", "1")
    assert second["dedup"]["match"]["distance"] == 0
