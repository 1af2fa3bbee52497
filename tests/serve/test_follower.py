"""The service beside a log that changes: trimmed, replaced, damaged, unreachable; and an index of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stream_dedup import Index, fingerprint
from stream_dedup.config.effective import rules_of
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.errors import DefectError, UserError
from stream_dedup.index import LogIndex, mark_corrupt
from stream_dedup.ports import Partition, PassingError
from stream_dedup.serve.follower import Position, opened_log
from stream_dedup.serve.problems import ProblemError
from stream_dedup.serve.schemes import SchemeFingerprinter
from tests.index.panics import SAID, planted_panic
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.runtime import Phase
from tests.profiles import profile_with
from tests.serve.served import MemoryService
from tests.waiting import wait_until

STORIES = [
    "渡口的船今天早上开了，船上有三十二名乘客，他们大多去对岸的市场卖菜，傍晚再坐同一条船回来。",
    "The council approved the new bridge after a long debate, and the works will begin in the spring of next year.",
    "Die Bibliothek bleibt im Winter länger geöffnet, damit Schüler sich auf ihre Prüfungen vorbereiten können.",
]
WAIT_S = 60.0


def value(number: int) -> bytes:
    return json.dumps({"id": f"story {number}", "text": STORIES[number]}).encode()


def verdicts(made: MemoryService) -> list[str]:
    """The verdict of each story."""
    answer = made.call("POST", "/v1/check", {"articles": [{"text": text} for text in STORIES]})
    assert answer.status == 200, answer.body
    return [one["verdict"] for one in answer.json["results"]]


@pytest.fixture
def made(tmp_path: Path) -> MemoryService:
    """A log with the first story."""
    service = MemoryService(tmp_path)
    service.begin_log()
    service.log_articles([value(0)])
    return service


@pytest.mark.slow
def test_a_restarted_service_goes_on_where_it_was(made: MemoryService) -> None:
    """Its index is kept; what was logged meanwhile is applied."""
    with made.serve():
        assert verdicts(made) == ["duplicate", "unique", "unique"]
    made.log_articles([value(1)])
    with made.serve():
        assert verdicts(made) == ["duplicate", "duplicate", "unique"]


@pytest.mark.slow
@pytest.mark.expect_log("is damaged .* it is built from the log again")
def test_a_damaged_index_is_built_again(made: MemoryService) -> None:
    """It is a cache of the log."""
    with made.serve():
        pass
    mark_corrupt(made.config.serve.data_dir / "index")
    with made.serve():
        assert verdicts(made) == ["duplicate", "unique", "unique"]


@pytest.mark.slow
def test_an_index_of_the_python_api_is_refused(made: MemoryService) -> None:
    """It is the only copy of what it holds, even where nothing of it can be read."""
    folder = made.config.serve.data_dir / "index"
    with Index(folder) as index:
        index.add("a", 1)
    table = max(folder.rglob("*.sst"))
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(UserError, match="is the only place of what it holds"), made.serve():
        pass
    assert list(folder.rglob(table.name)) == [table]


@pytest.mark.slow
@pytest.mark.expect_log("is another log and that one is gone.*what it had is kept in .*kept-1")
def test_the_index_of_a_log_that_is_gone_is_kept_aside(made: MemoryService) -> None:
    """It may be the last copy of a history: the service follows the new log, and deletes nothing."""
    with made.serve():
        pass
    made.cluster.delete_topic(made.config.log_topic)
    made.begin_log()
    made.log_articles([value(2)])
    with made.serve():
        assert verdicts(made) == ["unique", "unique", "duplicate"]
    with LogIndex.read(made.config.serve.data_dir / "index" / "kept-1", scheme=None) as kept:
        assert kept.stats().articles == 1


@pytest.mark.slow
@pytest.mark.expect_log(
    "the log is opened again", "is another log", "topic .* was recreated", "clusters are not followed"
)
def test_a_log_that_is_recreated_under_a_running_service_is_followed(made: MemoryService) -> None:
    """Nobody starts the service again."""
    made.log_articles([value(1)])
    made.connection.notices = lambda: True
    with made.serve():
        assert verdicts(made) == ["duplicate", "duplicate", "unique"]
        made.cluster.delete_topic(made.config.log_topic)
        made.begin_log()
        made.log_articles([value(2)])

        def follows() -> bool:
            answer = made.call("POST", "/v1/check", {"text": STORIES[2]})
            return answer.status == 200 and answer.json["results"][0]["verdict"] == "duplicate"

        wait_until(follows, WAIT_S, "the new log is followed")
        assert verdicts(made) == ["unique", "unique", "duplicate"]


@pytest.mark.slow
@pytest.mark.expect_log("recreated|wait for the broker|is built from the log again")
def test_another_log_that_is_longer_is_not_taken_for_the_same(made: MemoryService) -> None:
    """It was made while no broker answered, and has a record at the next offset: its name alone says nothing."""
    away = threading.Event()
    before = made.connection.hook

    def hook(call: str, phase: Phase) -> None:
        if away.is_set() and phase is Phase.BEGIN:
            raise PassingError("the broker is away")
        before(call, phase)

    with made.serve():
        made.connection.hook = hook
        away.set()
        made.cluster.delete_topic(made.config.log_topic)
        made.begin_log()
        for number in (1, 1, 2):
            made.log_articles([value(number)])
        away.clear()

        def follows() -> bool:
            answer = made.call("POST", "/v1/check", {"articles": [{"text": text} for text in STORIES]})
            found = [one["verdict"] for one in answer.json["results"]] if answer.status == 200 else []
            return found == ["unique", "duplicate", "duplicate"]

        wait_until(follows, WAIT_S, "the new log is followed, and the other one forgotten")


def test_opening_says_how_far_the_log_is_read(made: MemoryService) -> None:
    """After each record: the records that are read, and all of them."""
    made.log_articles([value(1)])
    topic = MemoryLogTopic(made.cluster, made.connection, made.config.kafka.group, made.config.log_topic)
    log_id = topic.find().log_id
    said: list[Position] = []
    assert log_id is not None
    with opened_log(made.config, topic, log_id, lambda *values: said.append(Position(*values))):
        assert [one.phase for one in said] == ["opening", "reading", "reading", "reading"]
        assert [one.progress for one in said] == [None, (1, 3), (2, 3), (3, 3)]
        assert [one.lag for one in said] == [0, 2, 1, 0]


@pytest.mark.slow
@pytest.mark.expect_log("clusters wait for the broker")
def test_answers_go_on_while_no_broker_answers(made: MemoryService) -> None:
    """As of the offset that was read; /readyz says that they are not up to date, and when they are again."""
    with made.serve():

        def away(_call: str, phase: Phase) -> None:
            if phase is Phase.BEGIN:
                raise PassingError("the broker is away")

        before, made.connection.hook = made.connection.hook, away
        wait_until(lambda: made.call("GET", "/readyz").status == 503, WAIT_S, "the service notices")
        assert made.call("GET", "/readyz").body == b"no broker answers\n"
        assert made.call("GET", "/healthz").status == 200
        assert verdicts(made) == ["duplicate", "unique", "unique"]
        made.log_articles([value(1)])
        made.connection.hook = before
        made.wait_ready()
        assert verdicts(made) == ["duplicate", "duplicate", "unique"]


@pytest.mark.slow
def test_the_rules_are_those_of_the_log(tmp_path: Path) -> None:
    """A configuration with another profile or other rules is no reason to stop: the log's scheme is found."""
    made = MemoryService(tmp_path, match={"profile": "comment"})
    made.begin_log()
    made.log_articles([value(0)])
    other = MemoryService(tmp_path / "other", match={"profile": profile_with(search={"limit": 3}), "window": "1m"})
    other.cluster, other.config = made.cluster, other.config
    with other.serve():
        answer = other.call("POST", "/v1/check", {"text": STORIES[0]}).json
    assert answer["results"][0]["match"]["id"] == "story 0"
    assert answer["rules"]["scheme"].startswith("comment/")


@pytest.mark.slow
def test_texts_of_another_scheme_cannot_be_checked(tmp_path: Path) -> None:
    """The answer names the difference; the rest of the service works."""
    made = MemoryService(tmp_path, match={"profile": profile_with(features={"seed": 7})})
    made.begin_log()
    made.log_articles([value(0)])
    other = MemoryService(tmp_path / "other")
    other.cluster = made.cluster
    with other.serve():
        answer = other.call("POST", "/v1/check", {"text": STORIES[0]})
        assert (answer.status, answer.json["type"]) == (409, "urn:stream-dedup:problem:other-scheme")
        assert "seed" in answer.json["detail"]
        assert other.call("GET", "/readyz").status == 200


def test_a_folder_of_filter_is_not_touched(tmp_path: Path, fill: Callable[[Path], None]) -> None:
    """Its index is the only copy of what it holds."""
    made = MemoryService(tmp_path)
    made.begin_log()
    fill(made.config.serve.data_dir / "index")
    with pytest.raises(UserError, match="is the only place of what it holds"), made.serve():
        pass


@pytest.fixture
def fill() -> Callable[[Path], None]:
    """Makes an index as the Python API keeps it."""

    def make(path: Path) -> None:
        from stream_dedup import Index  # noqa: PLC0415 - loads RocksDB

        path.parent.mkdir(parents=True)
        with Index(path) as index:
            index.add("a", STORIES[0])

    return make


def test_an_index_that_another_process_uses_is_refused(made: MemoryService) -> None:
    """Two services need two folders."""
    with made.serve(), pytest.raises(UserError, match="index"), made.serve():
        pass


def test_a_log_is_only_read(made: MemoryService) -> None:
    """The service appends nothing, cuts nothing, and commits no offset."""
    partition = made.cluster.partition(Partition(made.config.log_topic, 0))
    before = (partition.start, partition.end, dict(made.cluster.group("group").committed))
    calls: set[str] = set()
    hook = made.connection.hook

    def note(call: str, phase: Phase) -> None:
        calls.add(call)
        hook(call, phase)

    made.connection.hook = note
    with made.serve():
        assert verdicts(made) == ["duplicate", "unique", "unique"]
    assert (partition.start, partition.end, dict(made.cluster.group("group").committed)) == before
    assert calls.isdisjoint({"log.append", "log.cut", "log-topic.prepare"})


def test_what_is_asked_of_a_follower_that_has_failed_is_refused(
    made: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread asks before the service is told to stop: its request would wait for ever."""
    with made.serve() as running:
        monkeypatch.setattr("stream_dedup.serve.follower.LogFollower._step", _failing)
        running._thread.join(WAIT_S)
        with pytest.raises(ProblemError, match="the service ends"):
            running.follower.ask(lambda index: index.next_offset).result(WAIT_S)
        running._failures.clear()


@pytest.mark.expect_log("stopped|is opened again|cannot be answered")
def test_a_panic_of_the_native_core_ends_one_answer(made: MemoryService) -> None:
    """The error names the article; the index is opened again, and the service goes on."""
    asked = made.maker([RawRecord(None, value(1), "a-0-1")])
    scheme = rules_of(made.config).scheme
    with made.serve() as running:
        with planted_panic(fingerprint(STORIES[1])), pytest.raises(DefectError, match=f"^article 'story 1'.*{SAID}"):
            running.follower.check(asked, scheme, 1).result(WAIT_S)
        check = {"text": STORIES[1]}
        wait_until(lambda: made.call("POST", "/v1/check", check).status == 200, WAIT_S, "checks are answered again")
        assert verdicts(made) == ["duplicate", "unique", "unique"]


def _failing(*_: object) -> None:
    raise ValueError("a bug")


def test_what_could_not_be_loaded_is_loaded_again(made: MemoryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of words was missing at first: checks are answered, and do not say that the log has another scheme."""
    warm, calls = Fingerprinter.warm, list[int]()

    def fail_once(fingerprinter: Fingerprinter) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise UserError("the file of words is missing")
        warm(fingerprinter)

    monkeypatch.setattr(Fingerprinter, "warm", fail_once)
    fingerprinter = SchemeFingerprinter(made.config)
    try:
        scheme = rules_of(made.config).scheme
        with pytest.raises(UserError):
            fingerprinter.use(scheme)
        fingerprinter.use(scheme)
        assert fingerprinter.get().scheme == scheme
    finally:
        fingerprinter.close()


def test_entries_of_another_scheme_are_refused(made: MemoryService) -> None:
    """The log was recreated between fingerprinting and judging: the widths are equal, and the bits mean others."""
    with made.serve() as running:
        columns = made.maker([RawRecord(None, value(0), "a-0-0")])
        scheme = rules_of(made.config).scheme
        other = replace(scheme, version=scheme.version + 1)
        assert running.follower.check(columns, scheme, 1).result(WAIT_S).articles[0].judgement.verdict == "duplicate"
        with pytest.raises(ProblemError, match="another scheme"):
            running.follower.check(columns, other, 1).result(WAIT_S)
        assert verdicts(made) == ["duplicate", "unique", "unique"]


@pytest.mark.expect_log("an answer is without clusters|cannot be answered|clusters are not followed any more")
def test_checks_need_no_clusters(made: MemoryService) -> None:
    """A damaged store of clusters, or one that is closed for another log, ends no check that has a match."""
    with made.serve() as running:
        store = running._clusters.store
        assert store is not None
        store.close()
        assert verdicts(made) == ["duplicate", "unique", "unique"]
        assert made.call("GET", "/v1/clusters").status == 503
