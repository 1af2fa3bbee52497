"""A log that was deleted, emptied or truncated is never replaced in silence, and no last copy of it is destroyed."""

from __future__ import annotations

import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from stream_dedup.config.effective import rules_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import LogRecord
from stream_dedup.core.headers import Stamp
from stream_dedup.core.model import LogOffset, SourceOffset, Verdict
from stream_dedup.errors import EXIT_REFUSED, RefusedError
from stream_dedup.index import LogIndex, mark_corrupt
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin
from stream_dedup.kafka.rules_log import FoundLog, PreparedLog
from stream_dedup.kafka.topics import create_topics
from stream_dedup.ports import CommittedOffset, FingerprintLog, Partition
from stream_dedup.worker import Step, opening
from stream_dedup.worker.committer import worker_id
from tests.kafka.operating import delete_topic
from tests.logs import record, trim_record
from tests.random_logs import RandomLog
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline

SEED = 7
LOG_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
OFFSETS = {Partition("articles", 0): CommittedOffset(SourceOffset(1234), None)}
END_LIMIT_S = 60


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config(overrides={"index": {"path": tmp_path / "index"}}, environment={})


class Topics:
    """The log's topic as the opening finds it; ``known`` are the ids of topics that exist."""

    def __init__(self) -> None:
        self.known: set[uuid.UUID] = set()
        self.log: FakeLog | None = None

    def find(self) -> FoundLog:
        raise AssertionError

    def check(self) -> None:
        raise AssertionError

    def prepare(self) -> PreparedLog:
        raise AssertionError

    def exists(self, topic_id: uuid.UUID) -> bool:
        return topic_id in self.known

    def connect(self) -> FingerprintLog:
        return cast("FingerprintLog", self.log)


@pytest.fixture
def topics() -> Topics:
    return Topics()


def history(config: Config) -> list[LogRecord]:
    """A log of rules and one batch of articles."""
    log = RandomLog(random.Random(SEED), scheme=rules_of(config).scheme)
    log.append_rules()
    log.append_articles()
    return log.records


def fill_index(config: Config, log_id: uuid.UUID = LOG_ID) -> LogOffset:
    """Make an index that has read the history; return the offset after it."""
    with LogIndex.open(config.index.path, scheme=rules_of(config).scheme) as index:
        index.begin(str(log_id))
        index.apply(history(config))
        return index.next_offset


def no_log(log_id: uuid.UUID | None = None, *, committed: bool = False) -> FoundLog:
    known, empty = None if log_id is None else log_id.bytes, LogOffset(0)
    return FoundLog("stream-dedup.fingerprints", known, empty, empty, OFFSETS if committed else {})


def steps(config: Config, topics: Topics, *, rebuild: bool = False, new_log: bool = False) -> opening._Opening:
    made = opening._Opening(config, topics, rebuild=rebuild, new_log=new_log)
    made.open_index()
    return made


def content(path: Path) -> tuple[str | None, int]:
    """The log that an index belongs to, and how far it has read it, damaged or not."""
    (path / "corrupt").unlink(missing_ok=True)
    with LogIndex.read(path, scheme=None) as index:
        return index.log_id, index.next_offset


def kept_names(config: Config) -> list[str]:
    return sorted(path.name for path in config.index.path.glob("kept-*"))


# the log is missing or empty


@pytest.mark.parametrize("log_id", [None, OTHER_ID], ids=["missing", "empty"])
@pytest.mark.parametrize("shown_by", ["offsets", "index", "damaged index"])
def test_no_log_is_begun_over_a_history(
    config: Config, topics: Topics, log_id: uuid.UUID | None, shown_by: str
) -> None:
    """Committed offsets, or an index with articles of a log that is gone, stop the worker; the index stays as it is."""
    if shown_by != "offsets":
        fill_index(config)
    if shown_by == "damaged index":
        mark_corrupt(config.index.path)
    found = no_log(log_id, committed=shown_by == "offsets")
    with (
        closing(steps(config, topics)) as made,
        pytest.raises(RefusedError, match=r"accept the log.*--new-log") as told,
    ):
        (made.refuse_offsets_without_log if shown_by == "offsets" else made.refuse_without_log)(found)
    assert ("does not exist" if log_id is None else "has no records") in str(told.value)
    assert ("articles-0: 1234" if shown_by == "offsets" else str(config.index.path)) in str(told.value)
    expected = (None, 0) if shown_by == "offsets" else (str(LOG_ID), history(config)[-1].offset + 1)
    assert content(config.index.path) == expected
    assert kept_names(config) == []


@pytest.mark.expect_log("the log is accepted as it is; the index is kept in .*kept-1")
@pytest.mark.parametrize("damaged", [False, True])
def test_a_new_log_keeps_the_index_aside(config: Config, topics: Topics, damaged: bool) -> None:
    """With ``new_log`` the old index moves, whole, into a folder that can be read; the worker's id stays."""
    end = fill_index(config)
    name = worker_id(config.index.path, config.kafka.group)
    if damaged:
        mark_corrupt(config.index.path)
    with closing(steps(config, topics, new_log=True)) as made:
        made.refuse_without_log(no_log(committed=True))
        assert made.index.log_id is None
        assert made.index.next_offset == 0
        assert made.damage is None  # else it would be emptied again, while it is open
    assert content(config.index.path / "kept-1") == (str(LOG_ID), end)
    assert worker_id(config.index.path, config.kafka.group) == name


def test_the_first_worker_of_a_group_begins_a_log(config: Config, topics: Topics) -> None:
    """Without offsets and without an index that has articles there is no history: a log that began is one, too."""
    with LogIndex.open(config.index.path, scheme=rules_of(config).scheme) as index:
        index.begin(str(LOG_ID))
        index.apply(history(config)[:1])
    with closing(steps(config, topics)) as made:
        made.refuse_without_log(no_log())
    assert not list(config.index.path.glob("kept-*"))


def test_an_index_of_a_log_that_is_there_is_only_a_cache(config: Config, topics: Topics) -> None:
    """An index of another group's log shows no history of this group."""
    fill_index(config)
    topics.known.add(LOG_ID)
    with closing(steps(config, topics)) as made:
        made.refuse_without_log(no_log())


# the log has records


class FakeLog:
    """The log as far as the opening compares an index with it."""

    def __init__(self, found: list[LogRecord], first: int = 0) -> None:
        self._found = [record for record in found if record.offset >= first]
        self._first = first
        self._next = 0

    def bounds(self) -> tuple[int, int]:
        return self._first, self._found[-1].offset + 1

    def seek(self, offset: int) -> None:
        self._next = offset

    def poll(self, wait_s: float) -> list[LogRecord]:
        assert wait_s > 0
        records = [record for record in self._found if record.offset >= self._next]
        self._next = self.bounds()[1]
        return records

    def position(self) -> int:
        return self._next

    def close(self) -> None:
        self._found.clear()


def agree(config: Config, topics: Topics, log: FakeLog, log_id: uuid.UUID = LOG_ID, **flags: bool) -> opening._Opening:
    topics.log = log
    made = steps(config, topics, **flags)
    try:
        made.connect()
        made.agree(log_id.bytes)
    except BaseException:
        made.close()
        raise
    return made


def changed(found: list[LogRecord]) -> list[LogRecord]:
    """The same log, with another record at its last offset."""
    last = found[-1]
    return [*found[:-1], LogRecord(last.offset, last.time, last.payload, last.raw + b" ")]


WRONG: dict[str, tuple[Callable[[list[LogRecord]], list[LogRecord]], uuid.UUID, str]] = {
    "truncated": (lambda found: found[:1], LOG_ID, "the log ends at 1"),
    "truncated and filled": (changed, LOG_ID, "the log has another record at offset"),
    "recreated": (lambda found: found, OTHER_ID, "is another log and that one is gone"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("rebuild", [False, True])
def test_an_index_with_more_than_its_log_is_refused(config: Config, topics: Topics, wrong: str, rebuild: bool) -> None:
    """A log that lost records, or was recreated, leaves its index as the last copy: it is not emptied."""
    end = fill_index(config)
    change, log_id, reason = WRONG[wrong]
    with pytest.raises(RefusedError, match=reason):
        agree(config, topics, FakeLog(change(history(config))), log_id, rebuild=rebuild)
    assert content(config.index.path) == (str(LOG_ID), end)
    assert kept_names(config) == []


@pytest.mark.parametrize("rebuild", [False, True])
def test_an_index_of_what_no_trim_deleted_is_refused(config: Config, topics: Topics, rebuild: bool) -> None:
    """Deletion by age takes away the log behind an index that was away for long: the index is the last copy of it."""
    end = fill_index(config)
    later = history(config)[-1]
    aged = [
        record(end + 3, later.time, later.payload),
        trim_record(end + 9, int(later.time), end + 1, int(later.time)),
    ]
    with pytest.raises(RefusedError, match=r"none of its trims permits that.*--new-log"):
        agree(config, topics, FakeLog(aged, first=end + 3), rebuild=rebuild)
    assert content(config.index.path) == (str(LOG_ID), end)


@pytest.mark.expect_log("the log is accepted as it is; the index is kept in")
@pytest.mark.parametrize("wrong", WRONG)
def test_the_log_is_accepted_on_purpose(config: Config, topics: Topics, wrong: str) -> None:
    """With ``new_log`` the index is kept aside, and an empty one belongs to the log as it is; each time another."""
    change, log_id, _ = WRONG[wrong]
    for number in (1, 2):
        end = fill_index(config)
        reader = FakeLog(change(history(config)))
        with closing(agree(config, topics, reader, log_id, new_log=True)) as made:
            assert made.index.log_id == str(log_id)
            assert made.index.next_offset == 0
        assert content(config.index.path / f"kept-{number}") == (str(LOG_ID), end)
        (config.index.path / "current").unlink()
        shutil.rmtree(next(config.index.path.glob("data-*")))
    assert kept_names(config) == ["kept-1", "kept-2"]


@pytest.mark.expect_log("it is rebuilt from the log")
@pytest.mark.parametrize("why", ["trimmed", "of another group", "without articles"])
def test_a_cache_is_emptied(config: Config, topics: Topics, why: str) -> None:
    """An index that a log can build again is emptied: behind a trim, of a log that is there, without articles."""
    reader, log_id = FakeLog(history(config)), LOG_ID
    if why == "without articles":
        with LogIndex.open(config.index.path, scheme=rules_of(config).scheme) as index:
            index.begin(str(OTHER_ID))
            index.apply(history(config)[:1])
    elif why == "trimmed":
        end = fill_index(config)
        rules, later = history(config)[0], history(config)[-1]
        kept = [
            record(end + 1, later.time, rules.payload),
            trim_record(end + 9, int(later.time), end + 1, int(later.time)),
        ]
        reader = FakeLog(kept, first=end + 1)
    else:
        fill_index(config, OTHER_ID)
        topics.known.add(OTHER_ID)
    with closing(agree(config, topics, reader, log_id)) as made:
        assert made.index.log_id == str(LOG_ID)
        assert made.index.next_offset == 0
    assert kept_names(config) == []


def test_an_index_that_agrees_is_used(config: Config, topics: Topics) -> None:
    """Also with ``new_log``: there is nothing to accept."""
    end = fill_index(config)
    with closing(agree(config, topics, FakeLog(history(config)), new_log=True)) as made:
        assert made.index.next_offset == end


# on a broker


def judge_all(made: Pipeline, index: str = "main", *, new_log: bool = False) -> None:
    worker = made.start(index, Step.POLLED, 0, *(["--new-log"] * new_log))
    made.wait_done()
    made.stop(worker)


def refused(made: Pipeline, index: str = "main") -> str:
    """Start a worker that must refuse; return what it says."""
    worker = made.start(index)
    assert worker.wait(END_LIMIT_S) == EXIT_REFUSED, made.log(index)
    return made.log(index).splitlines()[-1]


@pytest.mark.slow
@pytest.mark.expect_log("")
def test_a_log_deleted_under_stopped_workers(make_pipeline: MakePipeline) -> None:
    """Neither a worker nor a command makes it again; ``--new-log`` does, and each index is kept for itself.

    A worker without an index sees the group's offsets; one with an index is refused, too, when another worker has begun
    a new log meanwhile. The audit excuses what the lost log had judged.
    """
    made = make_pipeline()
    made.produce(records(40, SEED))
    for index in ("main", "second"):
        judge_all(made, index)
    log, count = made.config().log_topic, sum(made.ends().values())
    before = [content(made.folder / index) for index in ("main", "second")]
    with closing(make_admin(made.config().kafka)) as admin:
        delete_topic(admin, log)
        # 1  nothing replaces it
        for index in ("main", "fresh"):
            assert f"group {made.name} has committed offsets ({made.topic}-0: {count}), but its log" in refused(
                made, index
            )
        for command in (("topics", "create"), ("rules", "apply"), ("index", "rebuild")):
            done = made.run(*command)
            assert (done.returncode, "--new-log" in done.stderr) == (EXIT_REFUSED, True), done.stderr
        assert topic_ids(admin, [log]) == {}
        # 2  an empty topic made by hand changes nothing
        create_topics(admin, made.config())
        assert "has no records" in refused(made)
        assert [content(made.folder / index) for index in ("main", "second")] == before
    # 3  on purpose
    made.produce(records(40, SEED))
    judge_all(made, new_log=True)
    assert content(made.folder / "main" / "kept-1") == before[0]
    # 4  the other index is not lost either
    assert "is another log and that one is gone" in refused(made, "second")
    assert content(made.folder / "second") == before[1]
    judge_all(made, "second", new_log=True)
    assert content(made.folder / "second" / "kept-1") == before[1]
    again = [stamp for (_, offset), stamp in made.stamps().items() if offset >= count]
    assert verdict_counts(again) == verdict_counts(made.stamps().values()) - verdict_counts(again)
    # 5  the audit begins behind the outputs of the lost log
    made.assert_sound()


def verdict_counts(stamps: Iterable[Stamp]) -> Counter[Verdict]:
    return Counter(stamp.verdict for stamp in stamps)
