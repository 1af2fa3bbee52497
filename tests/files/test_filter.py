"""`filter`, one behaviour after the other, called as a user calls it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.index import LogIndex

STORY = (
    "市图书馆周末恢复夜间开放,读者可以在二楼阅览室看书到晚上十点。馆长说,去年因为维修,夜间服务停了八个月,"
    "这次换了新的灯和座椅,还添了三十台可以借用的电脑。附近的学生听到消息都很高兴。"
)
EDITED = STORY.replace("三十台", "四十台")
OTHER = (
    "The harbour ferry will run every twenty minutes from June, the council said on Monday. "
    "Commuters had asked for a denser timetable since the bridge was closed for repairs last autumn."
)


def record(article: object, text: str, **more: object) -> dict[str, Any]:
    return {"id": article, "text": text, **more}


def write(path: Path, *records: dict[str, Any] | bytes) -> str:
    lines = [line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() for line in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


class Filter:
    """Calls `filter` in this process and keeps what it says."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture
        self.code = 0
        self.raw = b""
        self.err = ""

    def __call__(self, *args: object) -> list[dict[str, Any]]:
        self._capture.readouterr()
        self.code = run(["filter", *map(str, args)])
        told = self._capture.readouterr()
        self.raw, self.err = told.out, told.err.decode()
        return [json.loads(line) for line in self.raw.splitlines()]

    def verdicts(self, *args: object) -> list[str]:
        return [line["dedup"]["verdict"] for line in self(*args)]


@pytest.fixture
def call(capsysbinary: pytest.CaptureFixture[bytes]) -> Filter:
    return Filter(capsysbinary)


def started(*args: object, **more: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - as Popen's
    """`filter` as a process of its own."""
    command = [sys.executable, "-m", "stream_dedup", "filter", *map(str, args)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), **more
    )


def environment() -> dict[str, str]:
    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": str(root)}


@pytest.fixture
def piped() -> Iterator[Any]:
    """Starts `filter` on pipes; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*args: object) -> subprocess.Popen[bytes]:
        running.append(started(*args))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


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
    """The limit is the worker's; the record is not lost."""
    (out,) = call(write(tmp_path / "a", record("a", "x" * 1_000_001)))
    assert (len(out["text"]), out["dedup"]["verdict"]) == (1_000_001, "rejected")


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


def test_distance_is_a_limit_in_bits(tmp_path: Path, call: Filter) -> None:
    """In exact search, at the distance that a match has it is one, below it is none."""
    source = write(tmp_path / "a", record("a", STORY), record("b", EDITED))
    exact = ("--profile", "simhash", "--distance")
    distance = call(*exact, 11, source)[1]["dedup"]["match"]["distance"]
    assert 0 < distance <= 11
    assert call.verdicts(*exact, distance, source) == ["unique", "duplicate"]
    assert call.verdicts(*exact, distance - 1, source) == ["unique", "unique"]


@pytest.mark.parametrize(("copies", "flag"), [(1, "--short-limit"), (4, "--limit")])
def test_limits_are_bits_of_the_signature(tmp_path: Path, call: Filter, copies: int, flag: str) -> None:
    """In directed search too, one limit for short texts and one for long ones; the similarity goes with it."""
    long, edited = STORY * copies, EDITED + STORY * (copies - 1)
    source = write(tmp_path / "a", record("a", long), record("b", edited))
    match = call(source)[1]["dedup"]["match"]
    assert match["similarity"] == round(math.cos(math.pi * match["distance"] / 256), 4)
    assert call.verdicts(flag, match["distance"], source) == ["unique", "duplicate"]
    assert call.verdicts(flag, match["distance"] - 1, source) == ["unique", "unique"]


def test_the_classic_on_demand(tmp_path: Path, call: Filter) -> None:
    """Profile simhash: a text that differs in many words is unique, an equal one is a duplicate at distance 0."""
    source = write(tmp_path / "a", record("a", STORY), record("b", OTHER), record("c", STORY.lower()))
    assert call.verdicts("--profile", "simhash", source) == ["unique", "unique", "duplicate"]


def test_a_scope_parts_articles(tmp_path: Path, call: Filter) -> None:
    """The same text in another scope, or in none, is another article."""
    source = write(
        tmp_path / "a",
        record("a", STORY, site="x"),
        record("b", STORY, site="y"),
        record("c", STORY),
        record("d", STORY, site="x"),
    )
    outs = call("--scope", "site", source)
    assert [out["dedup"].get("match", {}).get("id") for out in outs] == [None, None, None, "a"]


def test_an_update_is_unique_and_names_its_earlier_version(tmp_path: Path, call: Filter) -> None:
    """With --recrawl update an edited record under its own id leaves as unique, a copy under another does not."""
    source = write(tmp_path / "a", record("a", STORY), record("b", STORY), record("a", EDITED), record("c", OTHER))
    outs = call("--recrawl", "update", source)
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", "duplicate", "unique", "unique"]
    assert [out["dedup"].get("match", {}).get("id") for out in outs] == [None, "a", "a", None]
    assert call.verdicts(source) == ["unique", "duplicate", "duplicate", "unique"]


def test_observing_writes_everything_where_unique_ones_go(tmp_path: Path, call: Filter) -> None:
    """With its verdict; files that would stay empty are refused."""
    config = tmp_path / "c.toml"
    config.write_text("[match]\nobserve = true\n")
    source = write(tmp_path / "a", record("a", STORY), record("b", STORY), b"bad")
    assert call("--config", config, "--unique", tmp_path / "u", source) == []
    told = [json.loads(line)["dedup"]["verdict"] for line in (tmp_path / "u").read_bytes().splitlines()]
    assert told == ["unique", "duplicate", "rejected"]
    assert call("--config", config, "--duplicate", tmp_path / "d", source) == []
    assert call.code == 2
    assert "match.observe" in call.err


def test_fields_and_html_make_one_text(tmp_path: Path, call: Filter) -> None:
    """A page is the text that it shows, whichever of the fields it stands in."""
    config = tmp_path / "c.toml"
    config.write_text('[input]\nfields = { text = 1, page = 1 }\nhtml_fields = ["page"]\n')
    page = (
        f"<html><head><script>var x = 1;</script></head><body><p><b>{STORY[:9]}</b>{STORY[9:]}&nbsp;</p></body></html>"
    )
    source = write(tmp_path / "a", record("a", STORY), {"id": "b", "page": page}, {"id": "c", "title": STORY})
    outs = call("--config", config, source)
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", "duplicate", "rejected"]
    assert outs[1]["page"] == page


def test_a_kept_index_knows_earlier_calls(tmp_path: Path, call: Filter) -> None:
    """What one call saw is a match in the next; the same file again is all duplicates."""
    source, index = write(tmp_path / "a", record("a", STORY), record("b", OTHER)), tmp_path / "index"
    assert call.verdicts("--index", index, source) == ["unique", "unique"]
    again = call("--index", index, source)
    assert [out["dedup"]["match"]["id"] for out in again] == ["a", "b"]


def test_without_an_index_nothing_is_kept(tmp_path: Path, call: Filter) -> None:
    """Two calls know nothing of each other."""
    source = write(tmp_path / "a", record("a", STORY))
    assert call.verdicts(source) == call.verdicts(source) == ["unique"]


def test_rules_are_those_of_the_call(tmp_path: Path, call: Filter) -> None:
    """On one index each call's limit holds for its own lines."""
    index = tmp_path / "index"
    one, two = write(tmp_path / "1", record("a", STORY)), write(tmp_path / "2", record("b", EDITED))
    call("--index", index, one)
    assert call.verdicts("--index", index, "--short-limit", 0, two) == ["unique"]
    three = write(tmp_path / "3", record("c", EDITED))
    assert call("--index", index, "--short-limit", 100, three)[0]["dedup"]["match"]["id"] == "b"


def test_another_scheme_is_refused(tmp_path: Path, call: Filter) -> None:
    """An index made with other weights cannot be gone on with; it stays as it is."""
    source, index = write(tmp_path / "a", record("a", STORY)), tmp_path / "index"
    call("--index", index, source)
    other = tmp_path / "other.toml"
    other.write_text('[features]\nweights = "tf"\n')
    assert call("--config", other, "--index", index, source) == []
    assert call.code == 2
    assert str(index) in call.err
    assert call.verdicts("--index", index, source) == ["duplicate"]


def test_an_index_of_a_worker_is_refused(tmp_path: Path, call: Filter) -> None:
    """It is a cache of a log in Kafka: what a file holds must not get into it."""
    config = load_config(None, {}, {})
    with LogIndex.open(tmp_path / "index", scheme=rules_of(config).scheme) as index:
        index.begin("8b8d2f6e-0000-4000-8000-000000000000")
    assert call("--index", tmp_path / "index", write(tmp_path / "a", record("a", STORY))) == []
    assert call.code == 2
    assert "belongs to a worker's log" in call.err


def test_a_failed_call_leaves_a_kept_index_as_it_was(tmp_path: Path, call: Filter) -> None:
    """An output that fails at the end: nothing of the call is remembered, its files are not there."""
    one, two, index = (
        write(tmp_path / "1", record("a", OTHER)),
        write(tmp_path / "2", record("b", STORY)),
        tmp_path / "i",
    )
    call("--index", index, one)
    call("--index", index, "--unique", "/dev/full", "--duplicate", tmp_path / "d", two)
    assert call.code == 5
    assert not (tmp_path / "d").exists()
    assert call.verdicts("--index", index, two, one) == ["unique", "duplicate"]


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_call_leaves_a_kept_index_as_it_was(tmp_path: Path, call: Filter, piped: Any, stop: int) -> None:  # noqa: ANN401
    """Ended by a signal after it answered, it has kept nothing, and the next call works."""
    one, index = write(tmp_path / "1", record("a", OTHER)), tmp_path / "index"
    call("--index", index, one)
    process = piped("--index", index, "--processes", 0)
    process.stdin.write(json.dumps(record("b", STORY)).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["dedup"]["verdict"] == "unique"
    process.send_signal(stop)
    process.wait(30)
    two = write(tmp_path / "2", record("c", STORY), record("d", OTHER))
    assert call.verdicts("--index", index, two) == ["unique", "duplicate"]


def test_slow_input_is_answered_at_once(piped: Any) -> None:  # noqa: ANN401
    """Each line has its answer before the next one is written."""
    process = piped("--processes", 0)
    for number, verdict in enumerate(["unique", "duplicate", "duplicate"]):
        process.stdin.write(json.dumps(record(number, STORY)).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["dedup"]["verdict"] == verdict
    process.stdin.close()
    assert process.wait(30) == 0


def test_ids_from_standard_input(piped: Any) -> None:  # noqa: ANN401
    """A missing id on standard input is stdin and the line."""
    process = piped("--processes", 0)
    line = json.dumps({"text": STORY}).encode() + b"\n"
    out, _ = process.communicate(line * 2, 60)
    assert json.loads(out.splitlines()[1])["dedup"]["match"]["id"] == "stdin:1"


def test_many_processes_keep_the_order(tmp_path: Path, call: Filter) -> None:
    """Lines leave in their order, with the verdicts of one process."""
    texts = [f"{OTHER} Part {number % 700} of the series, number {number % 700 * 7919}." for number in range(2000)]
    source = write(tmp_path / "a", *(record(number, text) for number, text in enumerate(texts)))
    outs = call("--processes", 2, source)
    assert [out["id"] for out in outs] == list(range(2000))
    assert outs == call("--processes", 0, source)


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, piped: Any) -> None:  # noqa: ANN401
    """`filter | head -1` says nothing on standard error."""
    source = write(tmp_path / "a", *(record(number, OTHER * 20) for number in range(3000)))
    process = piped("--processes", 0, source)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


def test_a_window_forgets_by_the_time_field(tmp_path: Path, call: Filter) -> None:
    """A copy within the window is a duplicate, one past it is unique; the log time is the field's alone."""
    times = ["2024-05-01T00:00:00Z", "2024-05-01T01:00:00Z", "2024-05-01T02:00:00.001Z"]
    source = write(tmp_path / "a", *(record(time, STORY, at=time) for time in times))
    assert call.verdicts("--window", "1h", "--time-field", "at", source) == ["unique", "duplicate", "unique"]


@pytest.mark.parametrize("late", ["2024-05-01T08:00:00+08:00", "2024-05-01", 1714521600, 1714521600000, 1714521600.0])
def test_times_are_iso_or_seconds_or_milliseconds(tmp_path: Path, call: Filter, late: object) -> None:
    """Each says the same moment, one second after the window's begin."""
    source = write(tmp_path / "a", record(1, STORY, at="2024-04-30T23:59:59Z"), record(2, STORY, at=late))
    assert call.verdicts("--window", "1s", "--time-field", "at", source) == ["unique", "duplicate"]
    source = write(tmp_path / "a", record(1, STORY, at="2024-04-30T23:59:58.999Z"), record(2, STORY, at=late))
    assert call.verdicts("--window", "1s", "--time-field", "at", source) == ["unique", "unique"]


@pytest.mark.parametrize("time", [None, "yesterday", True, [1], 1e300])
def test_a_record_without_a_time_is_rejected(tmp_path: Path, call: Filter, time: object) -> None:
    """It leaves as it came, with the reason, and is nobody's match."""
    source = write(tmp_path / "a", record(1, STORY, at=time), record(2, STORY, at=5))
    outs = call("--time-field", "at", source)
    assert outs[0]["dedup"] == {"verdict": "rejected", "reason": "no time in field at"}
    assert outs[1]["dedup"]["verdict"] == "unique"


def test_an_article_of_the_future_does_not_expire_the_rest(tmp_path: Path, call: Filter) -> None:
    """Expiry is a matter of two records: one from 2099 between them changes nothing."""
    source = write(
        tmp_path / "a", record(1, STORY, at=1000), record(2, OTHER, at="2099-01-01"), record(3, STORY, at=1001)
    )
    assert call.verdicts("--window", "1h", "--time-field", "at", source) == ["unique", "unique", "duplicate"]


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--window", "1h"], "--time-field"),
        (["--window", "soon", "--time-field", "at"], "match.window"),
        (["--distance", "5"], "match.limit"),
        (["--profile", "simhash", "--distance", "12"], "match.distance"),
        (["--profile", "simhash", "--probes", "9"], "match.distance"),
        (["--profile", "none"], "match.profile"),
        (["no-such-file"], "no-such-file"),
        (["."], "folder"),
        (["--unique", "no/such/folder/u"], "no/such/folder/u"),
        (["--bad-flag"], "--bad-flag"),
    ],
)
def test_wrong_use_exits_2_with_a_remedy(call: Filter, args: list[str], named: str) -> None:
    """Nothing is written; the message names what is wrong."""
    assert call(*args, *([] if args[-1] in {"no-such-file", "."} else [os.devnull])) == []
    assert call.code == 2
    assert named in call.err


def test_the_index_is_opened_before_a_line_is_read(tmp_path: Path, piped: Any) -> None:  # noqa: ANN401
    """An index that another process has makes the call end though its input never comes."""
    index = tmp_path / "index"
    first = piped("--index", index, "--processes", 0)
    first.stdin.write(json.dumps(record("a", STORY)).encode() + b"\n")
    first.stdin.flush()
    first.stdout.readline()
    second = piped("--index", index, "--processes", 0)
    assert second.wait(30) == 2
    assert str(first.pid).encode() in second.stderr.read()


def test_an_input_that_is_missing_ends_it_before_any_work(tmp_path: Path, call: Filter) -> None:
    """Of two inputs the second is missing: the first is not answered."""
    source = write(tmp_path / "a", record("a", STORY))
    assert call(source, tmp_path / "none") == []
    assert call.code == 2


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, call: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a call without --index goes with it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    call(write(tmp_path / "a", record("a", STORY)))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_fields_are_configurable(tmp_path: Path, call: Filter) -> None:
    """Other names of id and text by the configuration file."""
    config = tmp_path / "c.toml"
    config.write_text('[input]\nid_field = "url"\ntext_field = "body"\n')
    source = write(tmp_path / "a", {"url": "u1", "body": STORY}, {"url": "u2", "body": STORY})
    assert call("--config", config, source)[1]["dedup"]["match"]["id"] == "u1"
