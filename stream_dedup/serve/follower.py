"""The follower: the thread that owns the index of the service, follows the log and answers from the index.

    log-tail  reads the log (``worker.log_tail``)
    log-watch asks where it ends, and whether it is still the same log (``_LogWatch``)
    follower  opens log and index, applies each record; between two records it does the work that other threads ask for

Rules:

* The index is touched by this thread only. Others ``ask`` for a piece of work, or for a ``check``, and get a future.
* The articles of a check are judged together, as of the same log offset, which the answer names.
* A record is applied or it is not: work never sees a part of one.
* While no broker answers, answers go on, as of the offset that was read. ``position`` says whether they are up to date.
* A log that was cut or replaced, or an index that is damaged or stopped at a defect of the native core, is opened
  again, and the index built again where it must be. If that does not help within ``REOPEN_S``, or anything else fails,
  the error ends the service.

Log and index are opened together (``opened_log``). Nothing is written to Kafka. In order:

    1  look for the log until it is there and has records
    2  open the index, and connect to the log
    3  empty an index that is damaged or of another log; keep one aside that is, or may be, the last copy of a history
    4  read the log to its end

It is what a worker does when it starts (``worker.opening``), except that no log is begun, no topic is made, the rules
of the configuration do not count, and a log that lost its history is no reason to stop: the service promises no
verdict, and follows what the workers follow.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from stream_dedup.config.effective import index_settings_of
from stream_dedup.config.model import SERVED_INDEX, Config
from stream_dedup.core.columns import Columns
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, DefectError, RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.index import IndexSettings, LogIndex, keep_aside, only_copy_in
from stream_dedup.index.judge import CheckedArticle
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.ports import (
    Clock,
    FingerprintLog,
    GroupOffsets,
    Partition,
    PortError,
    RefusedByBrokerError,
    TopicReader,
)
from stream_dedup.serve.problems import ProblemError, not_ready
from stream_dedup.serve.serve_metrics import ServeMetrics
from stream_dedup.worker.log_tail import LogTail
from stream_dedup.worker.opening import Disagreement, LogTopic, disagreement_of

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Phase(StrEnum):
    """What the follower is doing."""

    STARTING = "starting"
    NO_LOG = "no_log"
    """It waits for a log."""
    OPENING = "opening"
    READING = "reading"
    """It reads the log to its end, after the index was opened."""
    LOADING = "loading"
    FOLLOWING = "following"
    SILENT = "silent"
    """The log was read to its end, and no broker answers now."""
    FAILED = "failed"
    """The log cannot be followed; it is opened again."""
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Position:
    """How far the follower is. Any thread may read it."""

    phase: Phase = Phase.STARTING
    detail: str = "starting"
    """What the follower is doing, in English, for ``/readyz``, the log and problems."""
    progress: tuple[int, int] | None = None
    """While the log is read: the records that are read, and all."""
    log_id: str | None = None
    offset: LogOffset = LogOffset(0)
    """Log offset before which every record is applied."""
    end: LogOffset = LogOffset(0)
    """Offset after the log's last record, as of the last answer of a broker."""
    rules: Rules | None = None
    """The rules in force at the end of what is applied."""

    @property
    def ready(self) -> bool:
        """Whether the index is open and was once read to the end of the log."""
        return self.phase in {Phase.FOLLOWING, Phase.SILENT}

    @property
    def up_to_date(self) -> bool:
        """Whether, besides, a broker answers and the index is at the end that it named."""
        return self.phase is Phase.FOLLOWING and self.offset >= self.end

    @property
    def lag(self) -> int:
        """Records that are not applied yet: of those that there were at the opening, while they are read."""
        if self.progress is not None:
            done, total = self.progress
            return total - done
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class TopicPorts:
    """What reads topics, outside any group; both connect at their first use. One thread."""

    reader: TopicReader
    offsets: GroupOffsets
    """For the ids of topics."""

    def close(self) -> None:
        """Close the connections."""
        with closing(self.reader), closing(self.offsets):
            pass


LOG_LOOK_S = 1.0
"""Seconds between two looks at the log: answers may be of both logs for so long."""
SILENCE_S = 5.0
"""A broker that has not answered for so long does not answer."""


class _LogWatch:
    """Asks for the end of the log, and whether it is still the one that was opened. ``run`` is the thread.

    A topic that is deleted and recreated has another id. A reader goes by its name: it would go on in the other log at
    its own offset as soon as that log is long enough, and the index would hold the beginning of one log and the end of
    another.
    """

    def __init__(self, topic: str, opened: _ServedLog, ports: TopicPorts, clock: Clock) -> None:
        """Watch the log that was opened, which has this name, through ``ports``, which ``run`` closes."""
        self._log = Partition(topic, 0)
        self._log_id = uuid.UUID(opened.log_id).bytes
        self._ports = ports
        self._clock = clock
        self._stopped = clock.event()
        self._answered_at = clock.monotonic()
        self.end = opened.index.next_offset
        """Offset after the log's last record, as of the last answer."""

    @property
    def answers(self) -> bool:
        """Whether a broker has answered lately. Any thread."""
        return self._clock.monotonic() - self._answered_at < SILENCE_S

    def stop(self) -> None:
        """Let ``run`` return. Any thread."""
        self._stopped.set()

    def run(self) -> None:
        """Look until ``stop``. A broker that is away, and a log that is gone, are waited for.

        Raises:
            RefusedError: the log was recreated.
            UserError: this client may not describe it.
        """
        with closing(self._ports):
            while not self._stopped.is_set():
                self._look()
                self._stopped.wait(LOG_LOOK_S)

    def _look(self) -> None:
        topic = self._log.topic
        try:
            found = self._ports.offsets.topic_ids([topic]).get(topic)
            if found not in {self._log_id, None}:
                raise RefusedError(f"topic {topic} was deleted and recreated")
            if found is not None:
                self.end = LogOffset(self._ports.reader.bounds([self._log])[self._log][1])
                self._answered_at = self._clock.monotonic()
        except RefusedByBrokerError as error:
            raise UserError(f"topic {topic}: this client may not describe it: {error}") from error
        except PortError as error:
            log.debug("topic %s: %r", topic, error)


Say = Callable[..., None]
"""Takes what is being done, for those who wait: phase, detail, progress of a ``Position``. May raise, to end that."""


@dataclass(frozen=True, slots=True)
class _ServedLog:
    """A log that was read to its end, with the index of the service."""

    index: LogIndex
    log: FingerprintLog
    log_id: str


@contextmanager
def opened_log(config: Config, topic: LogTopic, log_id: bytes, say: Say) -> Iterator[_ServedLog]:
    """Do steps 2 to 4, and close both at the end.

    Raises:
        UserError: the index belongs to another process, or its folder holds other things.
        RefusedError: the log was cut while it was read.
        UnavailableError: the broker did not answer in time.
        CorruptError: a log record cannot be read.
    """
    path, settings = config.serve.data_dir / SERVED_INDEX, index_settings_of(config)
    with ExitStack() as stack:
        # 2
        say(Phase.OPENING, "opening the index")
        index: LogIndex | Disagreement = _open_index(path, settings)
        if isinstance(index, LogIndex):
            stack.enter_context(index)
        port = stack.enter_context(closing(topic.connect()))
        waiting = WaitingLog(port, config)
        # 3
        if isinstance(index, LogIndex):
            found = disagreement_of(index, log_id, waiting, topic, config.log_topic)
            if found is not None:
                index.close()
                index = replace(found, reason=f"index {path}: {found.reason}")
        if isinstance(index, Disagreement):
            index = stack.enter_context(_emptied_index(path, settings, index))
        if index.log_id is None:
            index.begin(str(uuid.UUID(bytes=log_id)))
        # 4
        first, end = waiting.bounds()
        start = max(index.next_offset, first)
        for records in waiting.read(start, end):
            for record in records:
                index.apply([record])
                done, total = record.offset + 1 - start, end - start
                say(Phase.READING, f"reading the log: {done} of {total} records", (done, total))
        port.seek(max(index.next_offset, first))
        yield _ServedLog(index, port, str(index.log_id))


def _open_index(path: Path, settings: IndexSettings) -> LogIndex | Disagreement:
    """Open the index of the service; return the reason if it is damaged."""
    if only_copy_in(path):
        raise UserError(
            f"serve.data_dir: {path} was made by `stream-dedup filter` or stream_dedup.Index and is the only "
            "place of what it holds; name another folder with --data-dir"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return LogIndex.open(path, scheme=None, settings=settings)
    except CorruptError as error:
        return Disagreement(str(error), lost=False)


def _emptied_index(path: Path, settings: IndexSettings, found: Disagreement) -> LogIndex:
    """Open an empty index in place of one that does not agree with the log; keep that aside if it may be the last."""
    where = ""
    if found.lost and (aside := keep_aside(path)) is not None:
        where = f"; what it had is kept in {aside}"
    log.warning("%s; it is built from the log again%s", found.reason, where)
    return LogIndex.open(path, scheme=None, settings=settings, emptied=True)


FOLLOWER_WAIT_S = 0.1
"""Longest wait for work; log records and requests wake the follower at once."""
APPLY_S = 0.02
"""Time for which records are applied while requests wait."""
WORK_S = 0.15
"""Time for which requests are answered while records wait."""
STATS_S = 1.0
"""Seconds between two looks at the size of the index, for the metrics."""
ABSENT_S = 1.0
"""Seconds between two looks for a log that does not exist yet."""
RETRY_OPEN_S = 2.0
"""Seconds until the log is opened again after no broker answered."""
REOPEN_S = 60.0
"""A log that fails again so soon after it was opened again will not be mended by opening it."""
JOIN_S = 5.0
"""Longest wait for the end of each thread that asks for the log: a request to a broker that is away may last longer."""


class Checked(NamedTuple):
    """What a check returns: the articles in their order, and what they were compared with."""

    log_id: str
    offset: LogOffset
    """Log offset that the articles would have."""
    time_ms: int
    """Log time that the articles would have."""
    rules: Rules
    articles: list[CheckedArticle]


class _Work(NamedTuple):
    do: Callable[[LogIndex], Any]
    future: Future[Any]
    ends: bool = False
    """Whether an error is one of the follower, too, beside a problem."""

    def complete(self, index: LogIndex) -> None:
        """Do it, and set the future to the result, or to the exception that it raised."""
        try:
            self.future.set_result(self.do(index))
        except ProblemError as error:
            self.future.set_exception(error)
        except BaseException as error:
            self.future.set_exception(error)
            if self.ends or not isinstance(error, Exception):
                raise


class _ServiceEndsError(Exception):
    """The service ends."""


class LogFollower:
    """``run`` is the thread; every other method may be called from any thread."""

    def __init__(
        self,
        config: Config,
        topic: LogTopic,
        connect_topics: Callable[[], TopicPorts],
        clock: Clock,
        metrics: ServeMetrics,
    ) -> None:
        """``connect_topics`` is for the id and the end of the log."""
        self._config = config
        self._topic = topic
        self._connect_topics = connect_topics
        self._clock = clock
        self._metrics = metrics
        self._wake = clock.event()
        self._stopped = clock.event()
        self._works: deque[_Work] = deque()
        self.position = Position()

    def check(self, columns: Columns, scheme: Scheme, most: int) -> Future[Checked]:
        """Ask for the verdicts of articles if they were logged next, with up to ``most`` of the nearest entries.

        ``scheme`` is that of the columns. The future raises ``ProblemError``, also where the log has another scheme:
        it is another log since the columns were made.
        """

        def judge(index: LogIndex) -> Checked:
            rules = index.rules
            if rules is None or scheme != rules.scheme:
                raise not_ready("the log was recreated under another scheme")
            now = self._clock.time_ms()
            return Checked(str(index.log_id), index.next_offset, now, rules, index.check(columns, now, most))

        return self._put(_Work(judge, Future(), ends=True))

    def ask(self, do: Callable[[LogIndex], _T]) -> Future[_T]:
        """Ask for work on the index: short, and without changing it.

        The future raises ``ProblemError`` where the index is not open, or what the work raises.
        """
        return self._put(_Work(do, Future()))

    def _put(self, work: _Work) -> Future[Any]:
        self._works.append(work)
        self._wake.set()
        if self._stopped.is_set():
            self._refuse_all("the service ends")
        return work.future

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopped.set()
        self._wake.set()

    def run(self, on_open: Callable[[str, Rules], None]) -> None:
        """Follow the log until ``stop``.

        ``on_open`` is called with the log's id and rules each time it was opened, before anything is answered.

        Raises:
            StreamDedupError: the error that ends the service; ``UnavailableError`` only before the log was opened once.
        """
        reopened_at = float("-inf")
        opened_once = False
        try:
            while not self._stopped.is_set():
                try:
                    self._follow(on_open)
                except UnavailableError as error:
                    if not (opened_once or self.position.ready):
                        raise
                    self._note_failure(error)
                    self._pause(RETRY_OPEN_S)
                except (RefusedError, CorruptError, DefectError) as error:
                    now = self._clock.monotonic()
                    if now - reopened_at < REOPEN_S:
                        raise
                    reopened_at = now
                    self._note_failure(error)
                opened_once = True
        except _ServiceEndsError:
            return
        finally:
            self._stopped.set()  # what is asked from now on is refused by who asks
            self._set(phase=Phase.ENDING, detail="the service ends", progress=None)
            self._refuse_all("the service ends")

    # opening

    def _follow(self, on_open: Callable[[str, Rules], None]) -> None:
        log_id = self._found_log()
        with opened_log(self._config, self._topic, log_id, self._say) as opened:
            if opened.index.rules is None:
                return
            self._say(Phase.LOADING, "loading the dictionaries")
            on_open(opened.log_id, opened.index.rules)
            self._follow_opened(opened)

    def _found_log(self) -> bytes:
        """Wait until the log is there and has records; return its id."""
        while True:
            found = self._topic.find()
            if found.absence is None and found.log_id is not None:
                return found.log_id
            self._say(Phase.NO_LOG, f"there is no log yet: {found.absence}")
            self._pause(ABSENT_S)

    def _say(self, phase: Phase, detail: str, progress: tuple[int, int] | None = None) -> None:
        """Show what is being done; end if the service does. Refuse what waits: nothing is answered meanwhile."""
        if self._stopped.is_set():
            raise _ServiceEndsError
        self._set(phase=phase, detail=detail, progress=progress)
        self._refuse_all(detail)

    def _note_failure(self, error: StreamDedupError) -> None:
        log.warning("%s; the log is opened again", error)
        self._say(Phase.FAILED, str(error))

    def _pause(self, seconds: float) -> None:
        """Wait; refuse what is asked for meanwhile."""
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until and not self._stopped.is_set():
            self._wake.wait(FOLLOWER_WAIT_S)
            self._wake.clear()
            self._refuse_all(self.position.detail)

    # following

    def _follow_opened(self, opened: _ServedLog) -> None:
        topic = self._config.log_topic
        tail = LogTail(opened.log, self._clock, self._wake.set, topic)
        watch = _LogWatch(topic, opened, self._connect_topics(), self._clock)
        failures: list[BaseException] = []
        threads = [
            self._clock.spawn(name, partial(_guarded, run, failures, self._wake.set))
            for name, run in (("log-tail", tail.run), ("log-watch", watch.run))
        ]
        shown_at = float("-inf")
        try:
            self._show(opened, watch)
            while not self._stopped.is_set():
                self._wake.wait(FOLLOWER_WAIT_S)
                self._wake.clear()
                self._step(opened.index, tail)
                self._show(opened, watch)
                if (now := self._clock.monotonic()) - shown_at >= STATS_S:
                    shown_at = now
                    self._metrics.show_index(opened.index.stats())
                if failures:
                    raise failures[0]
        finally:
            tail.stop()
            watch.stop()
            for thread in threads:
                thread.join(JOIN_S)

    def _step(self, index: LogIndex, tail: LogTail) -> None:
        """Answer what waits, and apply what was read of the log, in turns."""
        self._answer(index)
        until = self._clock.monotonic() + APPLY_S
        while records := tail.next_records():
            for record in records:
                index.apply([record])
                if self._works and self._clock.monotonic() >= until:
                    self._answer(index)
                    until = self._clock.monotonic() + APPLY_S
        if self._works:
            self._wake.set()

    def _answer(self, index: LogIndex) -> None:
        """Do the work that waits, for ``WORK_S`` at most."""
        until = self._clock.monotonic() + WORK_S
        for _ in range(len(self._works)):
            work = self._next_work()
            if work is not None and work.future.set_running_or_notify_cancel():
                work.complete(index)
                if self._clock.monotonic() >= until:
                    return

    # what others see

    def _show(self, opened: _ServedLog, watch: _LogWatch) -> None:
        index, answers = opened.index, watch.answers
        self._set(
            phase=Phase.FOLLOWING if answers else Phase.SILENT,
            detail="following the log" if answers else "no broker answers",
            progress=None,
            log_id=opened.log_id,
            offset=index.next_offset,
            end=max(watch.end, index.next_offset),
            rules=index.rules,
        )

    def _set(self, **values: Any) -> None:  # noqa: ANN401 - fields of Position
        position = replace(self.position, **values)
        if position == self.position:
            return
        self.position = position
        self._metrics.serve_log_offset.set(position.offset)
        self._metrics.serve_log_lag.set(position.lag)
        self._metrics.serve_up_to_date.set(position.up_to_date)

    def _refuse_all(self, detail: str) -> None:
        while (work := self._next_work()) is not None:
            if work.future.set_running_or_notify_cancel():
                work.future.set_exception(not_ready(detail))

    def _next_work(self) -> _Work | None:
        """Take the next of what waits, None of nothing: when the service ends, other threads take from it, too."""
        try:
            return self._works.popleft()
        except IndexError:
            return None


def _guarded(run: Callable[[], None], failures: list[BaseException], wake: Callable[[], None]) -> None:
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - raised again by the follower
        failures.append(error)
        wake()
