"""The index of `filter`: kept, refused, unchanged by a call that fails."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup import fingerprint
from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.files.inputs import LINE_BATCH_LINES
from stream_dedup.index import LogIndex
from tests.files.filtering import EDITED, OTHER, STORY, Filter, PipedFilter, record, write
from tests.index.panics import SAID, planted_panic
from tests.profiles import write_profile

Piped = Callable[..., PipedFilter]


def test_a_kept_index_knows_earlier_calls(tmp_path: Path, call: Filter) -> None:
    """What one call saw is a match in the next; the same file again is all duplicates."""
    source, index = write(tmp_path / "a", record("a", STORY), record("b", OTHER)), tmp_path / "index"
    assert call.verdicts("--index", index, source) == ["unique", "unique"]
    again = call("--index", index, source)
    assert [out["dedup"]["match"]["id"] for out in again] == ["a", "b"]


def test_lines_are_logged_in_batches(tmp_path: Path, call: Filter) -> None:
    """The rules are the first log record, and each batch of lines is one, however many threads there are."""
    lines = [record(number, f"{number} {number}") for number in range(2 * LINE_BATCH_LINES + 1)]
    for threads in (1, 2):
        index = tmp_path / f"index-{threads}"
        call("--threads", threads, "--index", index, write(tmp_path / "a", *lines))
        with LogIndex.read(index, scheme=None) as kept:
            assert kept.next_offset == 1 + 3


def test_without_an_index_nothing_is_kept(tmp_path: Path, call: Filter) -> None:
    """Two calls know nothing of each other."""
    source = write(tmp_path / "a", record("a", STORY))
    assert call.verdicts(source) == call.verdicts(source) == ["unique"]


def test_rules_are_those_of_the_call(tmp_path: Path, call: Filter) -> None:
    """On one index each call's limit holds for its own lines."""
    index = tmp_path / "index"
    one, two = write(tmp_path / "1", record("a", STORY)), write(tmp_path / "2", record("b", EDITED))
    call("--index", index, one)
    strict = write_profile(tmp_path, search={"short_limit": 0})
    assert call.verdicts("--index", index, "--profile", strict, two) == ["unique"]
    three = write(tmp_path / "3", record("c", EDITED))
    loose = write_profile(tmp_path, search={"short_limit": 100})
    assert call("--index", index, "--profile", loose, three)[0]["dedup"]["match"]["id"] == "b"


def test_another_scheme_is_refused(tmp_path: Path, call: Filter) -> None:
    """An index made with other weights cannot be gone on with; it stays as it is."""
    source, index = write(tmp_path / "a", record("a", STORY)), tmp_path / "index"
    call("--index", index, source)
    other = write_profile(tmp_path, features={"weights": "tf"})
    assert call("--profile", other, "--index", index, source) == []
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
    assert "belongs to the log of a worker" in call.err


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


def test_a_panic_of_the_native_core_names_the_line(tmp_path: Path, call: Filter) -> None:
    """With its file and its article id; the lines of the batch are not answered, and a kept index stays as it was."""
    index, one = tmp_path / "i", write(tmp_path / "1", record("a", OTHER))
    two = write(tmp_path / "2", record("b", OTHER), b"", record("c", STORY), record("d", EDITED))
    call("--index", index, one)
    with planted_panic(fingerprint(STORY)):
        assert call("--index", index, two) == []
    assert call.code == 1
    named = rf"error: input {two}, line 3 \(article 'c', entry 1 of log record 2\): {SAID}.*: report this message, and "
    assert re.search(named, call.err), call.err
    assert call.verdicts("--index", index, two) == ["duplicate", "unique", "duplicate"]


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_call_leaves_a_kept_index_as_it_was(tmp_path: Path, call: Filter, piped: Piped, stop: int) -> None:
    """Ended by a signal after it answered, it has kept nothing, and the next call works."""
    one, index = write(tmp_path / "1", record("a", OTHER)), tmp_path / "index"
    call("--index", index, one)
    process = piped("--index", index)
    process.stdin.write(json.dumps(record("b", STORY)).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["dedup"]["verdict"] == "unique"
    process.send_signal(stop)
    process.wait(30)
    two = write(tmp_path / "2", record("c", STORY), record("d", OTHER))
    assert call.verdicts("--index", index, two) == ["unique", "duplicate"]


def test_the_index_is_opened_before_a_line_is_read(tmp_path: Path, piped: Piped) -> None:
    """An index that another process has makes the call end though its input never comes."""
    index = tmp_path / "index"
    first = piped("--index", index)
    first.stdin.write(json.dumps(record("a", STORY)).encode() + b"\n")
    first.stdin.flush()
    first.stdout.readline()
    second = piped("--index", index)
    assert second.wait(30) == 2
    assert b"is in use by another process" in second.stderr.read()


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, call: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a call without --index goes with it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    call(write(tmp_path / "a", record("a", STORY)))
    assert list((tmp_path / "tmp").iterdir()) == []
