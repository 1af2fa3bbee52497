"""Foreign text does nothing to a terminal: hostile ids, texts, names and settings through each command."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import tomllib
import unicodedata
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_dedup import cli as cli_package
from stream_dedup.audit.report import COUNT_KINDS, FAULT_KINDS
from stream_dedup.cli import output as cli_output
from stream_dedup.cli import run
from stream_dedup.cli.logs import set_up_logging
from stream_dedup.core.headers import Stamp, StampedMatch
from stream_dedup.core.model import Coordinates, SourceOffset, Verdict
from stream_dedup.dev.demo import write_output
from stream_dedup.errors import UserError
from stream_dedup.kafka.offsets import PartitionOffsets
from stream_dedup.ports import Partition
from tests.calibrate.corpus import records, write

HOSTILE = "\x1b]0;title\x07\u202egnp\x9b31m\u2028\u200f\x7f\r\nstream-dedup: forged"
"""Sets a title, turns the order of letters around, colours, moves the cursor, begins a line of its own."""
FILE_NAME = HOSTILE.replace("/", "") + "\udcff"


def hidden_in(text: str) -> set[str]:
    return {one for one in text if one != "\n" and unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}


def assert_harmless(text: str) -> None:
    """See that the text was shown, that nothing hidden is left, and that it forged no line."""
    assert hidden_in(text) == set()
    assert "\\u202e" in text
    assert [line for line in text.split("\n") if line.startswith("stream-dedup: forged")] == []


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    """Articles, a third of them edited copies, with hostile ids and texts, in a file of a hostile name."""
    folder = tmp_path / "in"
    folder.mkdir()
    rows = ({**row, "id": f"{row['id']}{HOSTILE}", "text": f"{row['text']} {HOSTILE}"} for row in records(1, 40))
    return write(folder / FILE_NAME, rows)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked for stands on the screen, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "200")


def output(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert run(list(args)) == code
    said = capsys.readouterr()
    return said.out + said.err


def test_fingerprint(articles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a text, a file, its lines; as JSON the text is the same."""
    assert_harmless(output(capsys, "fingerprint", HOSTILE))
    assert_harmless(output(capsys, "fingerprint", "--file", str(articles)))
    assert_harmless(output(capsys, "fingerprint", "--lines", "--file", str(articles)))
    said = output(capsys, "fingerprint", "--json", HOSTILE)
    assert_harmless(said)
    assert json.loads(said)["text"] == HOSTILE


def test_explain_of_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts (shown as they are compared: without most of what is hidden), their words, a scope."""
    path = tmp_path / "text"
    path.write_text(f"the ferry runs {HOSTILE}", "utf-8")
    assert hidden_in(output(capsys, "explain", f"the ferry runs {HOSTILE}", f"@{path}")) == set()
    assert_harmless(output(capsys, "explain", "--words", f"a {HOSTILE}", "--words", "a b"))
    assert_harmless(output(capsys, "explain", "--in-scope", HOSTILE, "a ferry", "a bridge"))
    assert_harmless(output(capsys, "explain", "--json", "--in-scope", HOSTILE, "a ferry", "a bridge"))


def test_explain_of_ids(articles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ids of a kept index, and one that it does not hold."""
    index = str(tmp_path / "index")
    args = ["filter", "--index", index, "--unique", "/dev/null", "--duplicate", "/dev/null", str(articles)]
    output(capsys, *args)
    ids = [json.loads(line)["id"] for line in articles.read_text("utf-8").split("\n")[:2]]
    assert_harmless(output(capsys, "explain", "--index", index, "--id", ids[0], "--id", ids[1]))
    assert_harmless(output(capsys, "explain", "--json", "--index", index, "--id", ids[0], "--id", ids[1]))
    assert_harmless(output(capsys, "explain", "--index", index, "--id", HOSTILE, "a ferry", code=2))


def test_calibrate(articles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File names, ids and passages, for a terminal and on the page, where each is isolated from what is around it."""
    renamed = articles.rename(articles.with_name(HOSTILE))
    page = tmp_path / "page.html"
    assert_harmless(output(capsys, "calibrate", "--html", str(page), str(renamed)))
    html = page.read_text("utf-8")
    assert_harmless(html)
    assert html.count("<bdi>") == html.count("</bdi>") > 4
    assert f"<h1>Calibration of <bdi>{tmp_path}/in/\\x1b]0;title" in html
    assert_harmless(output(capsys, "calibrate", "--json", str(renamed)))


@pytest.mark.parametrize(
    "args",
    [
        ["filter", "{}"],
        ["fingerprint", "--file", "{}"],
        ["explain", "@{}", "a"],
        ["calibrate", "{}"],
        ["index", "stats", "--index", "{}"],
        ["filter", "--config", "{}"],
        ["config", "check", "--brokers", "{}"],
        ["config", "check", "--{}"],
        ["filter", "--window", "{}", "x"],
        ["audit", "--since", "{}"],
        ["{}"],
    ],
)
def test_errors(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What is quoted of files, flags and values; each message begins with the program's name, further lines do not."""
    said = output(capsys, *(arg.replace("{}", HOSTILE) for arg in args), code=2)
    assert_harmless(said)
    assert [line for line in said.split("\n") if line.startswith("stream-dedup: error: ")] != []


def test_a_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback of an error that nobody foresaw quotes it too."""
    monkeypatch.setattr(cli_package.cli, "make_context", _raise)
    assert_harmless(output(capsys, "x", code=1))


def _raise(*_: object, **__: object) -> None:
    raise ZeroDivisionError(HOSTILE)


def test_messages_of_several_lines_are_indented(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end of a broker's log, say."""
    message = "it said:\nstream-dedup: error: all is lost\n\tat Main\n\n  indented"

    def fail(*_: object, **__: object) -> None:
        raise UserError(message)

    monkeypatch.setattr(cli_package.cli, "make_context", fail)
    said = output(capsys, "x", code=2).split("\n")
    assert said == [
        "stream-dedup: error: it said:",
        "  stream-dedup: error: all is lost",
        "  \\tat Main",
        "",
        "  indented",
        "",
    ]


def test_audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Examples name articles by their ids."""
    found = Counter(dict.fromkeys([*FAULT_KINDS, *COUNT_KINDS], 0) | {FAULT_KINDS[0]: 1})
    report = SimpleNamespace(
        articles=1,
        recomputed=1,
        outputs=1,
        texts=1,
        found=found,
        faults=1,
        examples={FAULT_KINDS[0]: [f"id {HOSTILE}"]},
    )
    monkeypatch.setattr("stream_dedup.audit.run.run_audit", lambda *_: report)
    monkeypatch.setattr("stream_dedup.kafka.clients.kafka_audit_ports", nullcontext)
    assert_harmless(output(capsys, "audit", code=3))
    assert_harmless(output(capsys, "audit", "--json", code=3))


def test_offsets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of topics."""
    row = PartitionOffsets(
        partition=Partition(HOSTILE, 0),
        topic_id=bytes(16),
        begin=SourceOffset(0),
        end=SourceOffset(1),
        committed=None,
        committed_id=None,
        logged=None,
        forgotten_before=SourceOffset(0),
    )
    monkeypatch.setattr("stream_dedup.kafka.offsets.read_offsets", lambda *_: [row])
    assert_harmless(output(capsys, "offsets", "show"))
    assert_harmless(output(capsys, "offsets", "show", "--json"))


def test_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An index in a folder of a hostile name."""
    (tmp_path / "a").write_text('{"text":"ferry"}\n', "utf-8")
    index = str(tmp_path / os.fsdecode(HOSTILE.encode()))
    output(capsys, "filter", "--index", index, "--unique", "/dev/null", str(tmp_path / "a"))
    assert_harmless(output(capsys, "index", "verify", "--index", index))


def test_config_show_is_toml_of_the_same_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hidden characters of a value are written as TOML's escapes."""
    monkeypatch.chdir(tmp_path)
    value = f"{HOSTILE}\U000e0041"
    said = output(capsys, "config", "show", "--index", value)
    assert_harmless(said)
    assert tomllib.loads(said)["index"]["path"] == str(tmp_path / value)


def test_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each whatever is logged, by us or by the Kafka client; a traceback's lines are indented."""
    set_up_logging("info")
    logging.getLogger("stream_dedup.test").info("read %s", HOSTILE)
    logging.getLogger("kafka.test").error("broker said %s", HOSTILE)
    try:
        _raise()
    except ZeroDivisionError:
        logging.getLogger("kafka.test").exception("failed")
    said = capsys.readouterr().err
    assert_harmless(said)
    heads = [line.split(" ")[2:4] for line in said.rstrip("\n").split("\n") if not line.startswith("  ")]
    assert heads == [["INFO", "stream_dedup.test:"], ["ERROR", "kafka.test:"], ["ERROR", "kafka.test:"]]


def test_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stage is called; the line's own control characters stay."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(cli_output, "EVERY_S", 0.0)
    cli_output.ProgressLine().show(lambda _: HOSTILE)
    said = terminal.getvalue()
    assert said.startswith("\r")
    assert said.endswith("\x1b[K")
    assert_harmless(said.removeprefix("\r").removesuffix("\x1b[K"))


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, texts, notes and reasons of the stream."""
    coordinates = Coordinates(bytes(16), 0, SourceOffset(1))
    match = StampedMatch(HOSTILE, 3, "0.9000", "t", coordinates, 0)
    unique = Stamp(Verdict.UNIQUE, "s", 1, HOSTILE, coordinates, 0, None, None, None, None, None)
    for stamp in (unique, replace(unique, match=match), replace(unique, verdict=Verdict.REJECTED, reason=HOSTILE)):
        for record in ({"id": HOSTILE, "text": HOSTILE, "what": HOSTILE}, {"html": HOSTILE}):
            write_output(json.dumps(record).encode(), stamp)
    assert_harmless(capsys.readouterr().out)
