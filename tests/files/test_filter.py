"""`filter`: records in, records with their verdicts out."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.core.model import Verdict
from stream_dedup.errors import EXIT_FOUND, EXIT_OK
from stream_dedup.files import lines
from stream_dedup.files.filter import FilterOptions, filter_files
from stream_dedup.files.inputs import LINE_BATCH_LINES
from tests.files.filtering import EDITED, OTHER, STORY, Filter, PipedFilter, record, write
from tests.waiting import wait_until

Piped = Callable[..., PipedFilter]

LONG_TEXTS, TEXT_S = 30, 0.3
"""Texts that take so many seconds of processor time each."""


def test_an_edited_copy_is_a_duplicate_of_the_first(tmp_path: Path, call: Filter) -> None:
    """The match names the earlier record's id, the distance and the similarity."""
    source = write(tmp_path / "a", record("first", STORY), record("other", OTHER), record("edited", STORY + "!"))
    first, other, edited = call(source)
    assert [line["dedup"]["verdict"] for line in (first, other, edited)] == ["unique", "unique", "duplicate"]
    assert edited["dedup"]["match"] == {"id": "first", "distance": 0, "similarity": 1.0}
    assert edited["dedup"]["fingerprint"] == first["dedup"]["fingerprint"]
    assert len(first["dedup"]["fingerprint"]) == 16
    assert call.code == 0


def test_records_leave_as_they_came(tmp_path: Path, call: Filter) -> None:
    """Each output line is the input line with `dedup` before its last brace."""
    lines = [b'{ "id":1.0,"text":"%b", "n": 12345678901234567890 }' % OTHER.encode(), b'{"text":"\\u5929\\u6c14"}']
    call(write(tmp_path / "a", *lines))
    for line, out in zip(lines, call.raw.splitlines(), strict=True):
        assert out.startswith(line[:-1] + b',"dedup":{')


def test_a_missing_id_is_the_inputs_name_and_line(tmp_path: Path, call: Filter) -> None:
    """The match of a copy of line 2 says so."""
    source = write(tmp_path / "a", record("x", OTHER), {"text": STORY}, record("y", STORY))
    assert call(source)[2]["dedup"]["match"]["id"] == f"{source}:2"


def test_unreadable_lines_keep_their_place(tmp_path: Path, call: Filter) -> None:
    """Each comes out rejected, with its line and a reason, and the rest goes on; the exit code is 3."""
    bad = [b"not json", b"[1]", b'{"id":1}', b'{"text":5}', b'"text"', b'{"text":"x"']
    outs = call(write(tmp_path / "a", record("a", STORY), *bad, record("b", STORY)))
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", *["rejected"] * len(bad), "duplicate"]
    assert [out["dedup"]["line"].encode() for out in outs[1:-1]] == bad
    assert all(set(out) == {"dedup"} and out["dedup"]["reason"] for out in outs[1:-1])
    assert call.code == 3


def test_bytes_that_are_no_utf8_stand_in_base64(tmp_path: Path, call: Filter) -> None:
    """A line that JSON cannot say is told in base64."""
    (out,) = call(write(tmp_path / "a", b'{"text":"\xff"}'))
    assert out["dedup"]["line_base64"] == "eyJ0ZXh0Ijoi/yJ9"
    assert "line" not in out["dedup"]
    assert call.code == 3


def test_a_record_with_an_empty_text_is_kept_and_rejected(tmp_path: Path, call: Filter) -> None:
    """It has a text field, so it leaves as it came, with the reason."""
    (out,) = call(write(tmp_path / "a", record("a", " ", more=1)))
    assert (out["id"], out["more"], out["dedup"]) == ("a", 1, {"verdict": "rejected", "reason": "empty text"})


def test_a_record_that_is_too_long_is_kept_and_rejected(tmp_path: Path, call: Filter) -> None:
    """Where a limit is set; the record is not lost."""
    config = tmp_path / "c.toml"
    config.write_text("[input]\nmax_bytes = 1000\n")
    (out,) = call("--config", config, write(tmp_path / "a", record("a", "x" * 1_001)))
    assert (len(out["text"]), out["dedup"]["verdict"]) == (1_001, "rejected")


def test_punctuation_alone_is_unique(tmp_path: Path, call: Filter) -> None:
    """Text without words is near nothing and has fingerprint 0."""
    outs = call(write(tmp_path / "a", record(1, "……!!"), record(2, "……!!")))
    assert [out["dedup"] for out in outs] == [{"verdict": "unique", "fingerprint": "0" * 16}] * 2


def test_an_incoming_dedup_is_replaced(tmp_path: Path, call: Filter) -> None:
    """The output of one call can be the input of the next."""
    once = call(write(tmp_path / "a", record("a", STORY, dedup={"verdict": "old"})))
    first = call.raw
    (tmp_path / "b").write_bytes(first)
    assert call(tmp_path / "b") == once
    assert call.raw == first


def test_splits_write_their_verdicts_and_leave_the_rest(tmp_path: Path, call: Filter) -> None:
    """A verdict with a FILE goes there; one without still goes to standard output."""
    source = write(tmp_path / "a", record("a", STORY), b"bad", record("b", STORY))
    outs = call("--unique", tmp_path / "u", "--rejected", tmp_path / "r", source)
    assert [out["id"] for out in outs] == ["b"]
    assert json.loads((tmp_path / "u").read_bytes())["id"] == "a"
    assert json.loads((tmp_path / "r").read_bytes())["dedup"]["line"] == "bad"
    assert call.code == 3


def test_inputs_are_one_log_in_order(tmp_path: Path, call: Filter) -> None:
    """A record of the second file is a duplicate of one in the first; a file given twice is twice as many."""
    one, two = write(tmp_path / "1", record("a", STORY)), write(tmp_path / "2", record("b", STORY))
    assert [out["dedup"].get("match", {}).get("id") for out in call(one, two, one)] == [None, "a", "a"]


def test_slow_input_is_answered_at_once(piped: Piped) -> None:
    """Each line has its answer before the next one is written."""
    process = piped()
    for number, verdict in enumerate(["unique", "duplicate", "duplicate"]):
        process.stdin.write(json.dumps(record(number, STORY)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["dedup"]["verdict"] == verdict
    process.stdin.close()
    assert process.wait(30) == 0


def test_ids_from_standard_input(piped: Piped) -> None:
    """A missing id on standard input is stdin and the line."""
    process = piped()
    line = json.dumps({"text": STORY}).encode() + b"\n"
    process.stdin.write(line * 2)
    process.stdin.close()
    assert json.loads(process.stdout.read().splitlines()[1])["dedup"]["match"]["id"] == "stdin:1"


@pytest.mark.slow
def test_many_threads_keep_the_order(tmp_path: Path, call: Filter) -> None:
    """Lines leave in their order, with the verdicts of one thread."""
    texts = [f"{OTHER} Part {number % 400} of the series, number {number % 400 * 7919}." for number in range(1000)]
    source = write(tmp_path / "a", *(record(number, text) for number, text in enumerate(texts)))
    outs = call("--threads", 2, source)
    assert [out["id"] for out in outs] == list(range(1000))
    assert outs == call("--threads", 1, source)


def state_of(pid: int) -> tuple[str, float]:
    """The state of a process as the kernel names it, and the seconds of processor time that it has taken."""
    state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return state, sum(map(int, fields[10:12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_while_texts_take_long(tmp_path: Path, piped: Piped, number: int, expected: int) -> None:
    """Texts of 1 MB, of the character that takes longest: it ends with those under way, and begins no other."""
    source = write(tmp_path / "a", *(record(line, "ﷺ" * 320_000) for line in range(LONG_TEXTS)))
    process = piped("--threads", 2, source)
    begun_s = state_of(process.pid)[1]
    wait_until(lambda: state_of(process.pid)[1] - begun_s > 1, 60, "it is at work on the texts")
    sent_s = state_of(process.pid)[1]
    process.send_signal(number)
    wait_until(lambda: state_of(process.pid)[0] == "Z", 60, "it has ended")
    taken_s = state_of(process.pid)[1] - sent_s
    assert process.wait(10) == expected
    assert taken_s < LONG_TEXTS * TEXT_S / 3


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, piped: Piped) -> None:
    """`filter | head -1` says nothing on standard error."""
    source = write(tmp_path / "a", *(record(number, OTHER * 20) for number in range(3000)))
    process = piped(source)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--window", "1h"], "--time-field"),
        (["--window", "soon", "--time-field", "at"], "match.window"),
        (["--profile", "none"], "match.profile"),
        (["--profile", "none.toml"], "file none.toml: cannot be read"),
        (["no-such-file"], "no-such-file"),
        (["."], "Is a directory"),
        (["--unique", "no/such/folder/u"], "no/such/folder/u"),
        (["--bad-flag"], "--bad-flag"),
    ],
)
def test_wrong_use_exits_2_with_a_remedy(call: Filter, args: list[str], named: str) -> None:
    """Nothing is written; the message names what is wrong."""
    assert call(*args, *([] if args[-1] in {"no-such-file", "."} else [os.devnull])) == []
    assert call.code == 2
    assert named in call.err


def test_an_input_that_is_missing_ends_it_before_any_work(tmp_path: Path, call: Filter) -> None:
    """Of two inputs the second is missing: the first is not answered."""
    source = write(tmp_path / "a", record("a", STORY))
    assert call(source, tmp_path / "none") == []
    assert call.code == 2


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


FEW, MANY = LINE_BATCH_LINES // 8, LINE_BATCH_LINES
MOST_MORE_CALLS = (MANY - FEW) * 3 // 2
"""Fewer than two for each further line, which becomes a record by one; a batch of more tasks takes some."""
WAITING = {"stream_dedup.index.store", "contextlib", "threading"}
"""Whose functions do not count: the store looks whether RocksDB has written, as often as time allows."""


def _text(number: int) -> str:
    draw = random.Random(number)
    return " ".join(f"{draw.getrandbits(40):x}" for _ in range(20))


def calls(folder: Path, lines: int) -> Counter[str]:
    """Functions of Python that are called for so many unique lines of one batch."""
    source = write(folder / f"{lines}.jsonl", *(record(number, _text(number)) for number in range(lines)))
    config = load_config(overrides={"worker": {"threads": 1}}, environment={})
    options = FilterOptions((source,), outputs=dict.fromkeys(Verdict, folder / f"{lines}.out"))
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_globals["__name__"] not in WAITING:
            counted[frame.f_code.co_qualname] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        tally = filter_files(config, options, lambda: 0, lambda _tally: None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert tally.verdicts == {Verdict.UNIQUE: lines}
    return counted


def test_a_line_costs_one_call(tmp_path: Path) -> None:
    calls(tmp_path, 1)  # what is loaded once
    few, many = calls(tmp_path, FEW), calls(tmp_path, MANY)
    assert many.total() - few.total() < MOST_MORE_CALLS, (many - few).most_common(10)
