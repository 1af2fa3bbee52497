"""``seed`` and ``withdraw`` as a user calls them; what they do to a log is tested without the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.cli import run
from stream_dedup.core.model import LogOffset, log_position
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER
from stream_dedup.kafka import withdrawals
from stream_dedup.kafka.withdrawals import Wanted, WithdrawnEntry, WithdrawnId
from stream_dedup.seed import run as seed_run
from stream_dedup.seed.seeding import SeedTally
from tests.logs import at


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Wanted, bool]]:
    """What the log is asked to withdraw; it has the ids a and b, of which b was withdrawn before."""
    calls: list[tuple[Wanted, bool]] = []

    def withdraw(_config: object, wanted: Wanted, _progress: object, *, dry_run: bool) -> list[WithdrawnId]:
        calls.append((wanted, dry_run))
        known = {"a": (2, 0), "b": (0, 1)}
        return [WithdrawnId(one, *known.get(one, (0, 0))) for one in wanted.ids]

    monkeypatch.setattr(withdrawals, "connected_withdraw", withdraw)
    return calls


@pytest.mark.parametrize(
    "args",
    [
        ["withdraw"],
        ["withdraw", "--list", "a"],
        ["withdraw", "--list", "--dry-run"],
        ["withdraw", "--list", "--topic", "t"],
        ["seed"],
        ["seed", "--topic", "t", "file"],
        ["seed", "--topic", "t", "--name", "n"],
    ],
    ids=" ".join,
)
def test_what_contradicts_itself_is_wrong_use(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With the ways that there are."""
    assert run(args) == EXIT_USER
    assert "error: name " in capsys.readouterr().err


def test_ids_come_from_arguments_and_a_file(
    asked: list[tuple[Wanted, bool]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each once, in order; blank lines and the byte order mark are nothing."""
    (tmp_path / "ids").write_bytes(b"\xef\xbb\xbfb\r\n\na\n x y \n")
    assert run(["withdraw", "a", "--file", str(tmp_path / "ids"), "--topic", "t", "--dry-run"]) == EXIT_FOUND
    assert asked == [(Wanted(["a", "b", "x y"], "t"), True)]
    assert capsys.readouterr().out.splitlines() == [
        "a: 2 to withdraw",
        "b: 0 to withdraw, 1 withdrawn before",
        "x y: the log has no article with this id",
    ]


def test_json_of_what_was_withdrawn(asked: list[tuple[Wanted, bool]], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0 where the log knows every id, also those that were withdrawn before."""
    assert run(["withdraw", "a", "b", "--json"]) == EXIT_OK
    assert asked == [(Wanted(["a", "b"], None), False)]
    assert json.loads(capsys.readouterr().out) == [
        {"id": "a", "withdrawn": 2, "withdrawn_before": 0},
        {"id": "b", "withdrawn": 0, "withdrawn_before": 1},
    ]


def test_ids_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file, the byte and the remedy."""
    (tmp_path / "ids").write_bytes(b"a\n\xff\n")
    assert run(["withdraw", "--file", str(tmp_path / "ids")]) == EXIT_USER
    assert "ids: not UTF-8 (byte 2); write one id a line" in capsys.readouterr().err


def test_the_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each article, or JSON."""
    entry = WithdrawnEntry("a", "articles", at(5), log_position(3, 1), LogOffset(9), 1_700_000_000_000)
    monkeypatch.setattr(withdrawals, "connected_list", lambda *_: [entry])
    assert run(["withdraw", "--list"]) == EXIT_OK
    assert capsys.readouterr().out == "a  articles-0-5  withdrawn at log offset 9, 2023-11-14T22:13:20+00:00\n"
    assert run(["withdraw", "--list", "--json"]) == EXIT_OK
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["id"], told["offset"], told["withdrawn_at"]) == ("a", 5, 9)
    monkeypatch.setattr(withdrawals, "connected_list", lambda *_: [])
    assert run(["withdraw", "--list"]) == EXIT_OK
    assert capsys.readouterr().out == "no article of the log is withdrawn\n"


@pytest.mark.parametrize(("rejected", "code"), [(0, EXIT_OK), (1, EXIT_FOUND)])
def test_seed_says_what_it_did(
    rejected: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three numbers on standard output; a rejected line is named on standard error, and is the exit code."""
    tally = SeedTally(1_200, 34, rejected, ["input a, line 3: broken"] * rejected)
    calls: list[tuple[Any, ...]] = []

    def seed_files(_config: object, *args: Any) -> SeedTally:  # noqa: ANN401 - whatever the command passes
        calls.append(args[:2])
        return tally

    monkeypatch.setattr(seed_run, "seed_files", seed_files)
    assert run(["seed", "a", "--name", "n"]) == code
    said = capsys.readouterr()
    assert said.out == f"1,200 entered, 34 already there, {rejected} rejected\n"
    assert said.err == "stream-dedup: rejected: input a, line 3: broken\n" * rejected
    assert calls == [(("a",), "n")]


def test_seed_says_what_it_could_not_compare(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expired articles are counted as there; those of another archive that begins alike would be skipped unseen."""
    monkeypatch.setattr(seed_run, "seed_files", lambda *_: SeedTally(present=34, unchecked=30))
    assert run(["seed", "a"]) == EXIT_OK
    said = capsys.readouterr()
    assert said.out == "0 entered, 34 already there, 0 rejected\n"
    assert "30 of those that are already there have expired" in said.err
    assert "a --name of its own" in said.err


def test_seed_reads_json_lines_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As `filter`: a text file has no line that is an article."""
    monkeypatch.setenv("STREAM_DEDUP_INPUT__FORMAT", "text")
    assert run(["seed", "a"]) == EXIT_USER
    assert "seed reads JSON Lines" in capsys.readouterr().err


def test_seed_names_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Before it asks a broker."""
    assert run(["seed", "no-such-file"]) == EXIT_USER
    assert "input no-such-file: cannot be read" in capsys.readouterr().err
