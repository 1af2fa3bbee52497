"""The follower: the thread that owns the index of the service, follows the log and answers from the index.

    log-tail  reads the log (``worker.log_tail``)
    log-watch looks whether it is still the same log (``log_watch``)
    follower  applies each record; between two records it does the work that other threads ask for

Rules:

* The index is touched by this thread only. Others ``ask`` for a piece of work, or for a ``check``, and get a future.
* All checks that wait are judged together, as of the same log offset, which their answers name.
* A record is applied or it is not: work never sees a part of one.
* While no broker answers, answers go on, as of the offset that was read. ``position`` says whether they are up to date.
* A log that was cut or replaced, or an index that is damaged or stopped at a defect of the native core, is opened
  again, and the index built again where it must be. If that does not help within ``REOPEN_S``, or anything else fails,
  the error ends the service.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stream_dedup.core.columns import Columns
from stream_dedup.core.model import LogOffset
from stream_dedup.errors import CorruptError, DefectError, RefusedError, StreamDedupError, UnavailableError
from stream_dedup.serve.log_watch import LogWatch
from stream_dedup.serve.opening import ServedLog, opened_log
from stream_dedup.serve.position import FOLLOWING, LOADING, SILENT, Activity, Phase, Position
from stream_dedup.worker.log_tail import LogTail

if TYPE_CHECKING:
    from stream_dedup.config.model import Config
    from stream_dedup.core.logged_scheme import Scheme
    from stream_dedup.core.rules import Rules
    from stream_dedup.index import LogIndex
    from stream_dedup.index.judge import CheckedArticle
    from stream_dedup.ports import Clock
    from stream_dedup.serve.serve_metrics import ServeMetrics
    from stream_dedup.serve.serve_ports import ServePorts

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R", bound="_CheckRequest | _Work")

FOLLOWER_WAIT_S = 0.1
"""Longest wait for work; log records and requests wake the follower at once."""
APPLY_S = 0.02
"""Time for which records are applied while requests wait."""
MOST_JUDGED = 1_000
"""Articles that are judged together: further ones wait for the next round, so that the log is applied meanwhile."""
ASK_END_S = 1.0
"""Seconds between two requests for the log's end, which also show whether a broker answers."""
SILENCE_S = 5.0
"""A broker that has not answered for so long does not answer."""
ABSENT_S = 1.0
"""Seconds between two looks for a log that does not exist yet."""
RETRY_OPEN_S = 2.0
"""Seconds until the log is opened again after no broker answered."""
REOPEN_S = 60.0
"""A log that fails again so soon after it was opened again will not be mended by opening it."""
JOIN_S = 5.0
"""Longest wait for the end of each thread that asks for the log: a request to a broker that is away may last longer."""


class NotReadyError(Exception):
    """The index is not open; the message says why."""


class Checked(NamedTuple):
    """What a check returns: the articles in their order, and what they were compared with."""

    log_id: str
    offset: LogOffset
    """Log offset that the articles would have."""
    time_ms: int
    """Log time that the articles would have."""
    rules: Rules
    articles: list[CheckedArticle]


class _CheckRequest(NamedTuple):
    columns: Columns
    scheme: Scheme
    most: int
    future: Future[Checked]


class _Work(NamedTuple):
    do: Callable[[LogIndex], Any]
    future: Future[Any]

    def complete(self, index: LogIndex) -> None:
        """Do it, and set the future to the result, or to the exception that it raised."""
        try:
            self.future.set_result(self.do(index))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self.future.set_exception(error)


class _ServiceEndsError(Exception):
    """The service ends."""


class LogFollower:
    """``run`` is the thread; every other method may be called from any thread."""

    def __init__(
        self,
        config: Config,
        ports: ServePorts,
        metrics: ServeMetrics,
        on_open: Callable[[str, Rules], None] = lambda log_id, rules: None,  # noqa: ARG005
    ) -> None:
        """``on_open`` is called with the log's id and rules each time it was opened, before anything is answered."""
        self._config = config
        self._topic = ports.topic
        self._clock = ports.clock
        self._connect_offsets = ports.connect_offsets
        self._metrics = metrics
        self._on_open = on_open
        self._wake = ports.clock.event()
        self._stopped = ports.clock.event()
        self._checks: deque[_CheckRequest] = deque()
        self._works: deque[_Work] = deque()
        self.position = Position()

    def check(self, columns: Columns, scheme: Scheme, most: int) -> Future[Checked]:
        """Ask for the verdicts of articles if they were logged next, with up to ``most`` of the nearest entries.

        ``scheme`` is that of the columns. The future raises ``NotReadyError``, also where the log has another scheme:
        it is another log since the columns were made.
        """
        request = _CheckRequest(columns, scheme, most, Future())
        self._checks.append(request)
        self._notify()
        return request.future

    def ask(self, do: Callable[[LogIndex], _T]) -> Future[_T]:
        """Ask for work on the index: short, and without changing it.

        The future raises ``NotReadyError``, or what the work raises.
        """
        work = _Work(do, Future())
        self._works.append(work)
        self._notify()
        return work.future

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        """Follow the log until ``stop``.

        Raises:
            StreamDedupError: the error that ends the service; ``UnavailableError`` only before the log was opened once.
        """
        reopened_at = float("-inf")
        opened_once = False
        try:
            while not self._stopped.is_set():
                try:
                    self._follow()
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
            self._set(ready=False, up_to_date=False)
            self._refuse_all("the service ends")

    # opening

    def _follow(self) -> None:
        log_id = self._found_log()
        with opened_log(self._config, self._topic, log_id, self._say) as opened:
            if opened.index.rules is None:
                return
            self._say(LOADING)
            self._on_open(opened.log_id, opened.index.rules)
            self._follow_opened(opened)

    def _found_log(self) -> bytes:
        """Wait until the log is there and has records; return its id."""
        while True:
            found = self._topic.find()
            if found.absence is None and found.log_id is not None:
                return found.log_id
            self._say(Activity(Phase.NO_LOG, f"there is no log yet: {found.absence}"))
            self._pause(ABSENT_S)

    def _say(self, activity: Activity) -> None:
        """Show what is being done; end if the service does. Refuse what waits: nothing is answered meanwhile."""
        if self._stopped.is_set():
            raise _ServiceEndsError
        self._set(ready=False, up_to_date=False, activity=activity)
        self._refuse_all(activity.detail)

    def _note_failure(self, error: StreamDedupError) -> None:
        log.warning("%s; the log is opened again", error)
        self._set(ready=False, up_to_date=False, activity=Activity(Phase.FAILED, str(error)))
        self._refuse_all(str(error))

    def _pause(self, seconds: float) -> None:
        """Wait; refuse what is asked for meanwhile."""
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until and not self._stopped.is_set():
            self._wake.wait(FOLLOWER_WAIT_S)
            self._wake.clear()
            self._refuse_all(self.position.detail)

    # following

    def _follow_opened(self, opened: ServedLog) -> None:
        topic = self._config.log_topic
        tail = LogTail(opened.log, self._clock, self._wake.set, topic)
        watch = LogWatch(topic, uuid.UUID(opened.log_id).bytes, self._connect_offsets(), self._clock)
        failures: list[BaseException] = []
        threads = [
            self._clock.spawn(name, partial(_guarded, run, failures, self._wake.set))
            for name, run in (("log-tail", tail.run), ("log-watch", watch.run))
        ]
        try:
            following = _Following(opened, tail, self._clock)
            self._show(following)
            while not self._stopped.is_set():
                self._wake.wait(FOLLOWER_WAIT_S)
                self._wake.clear()
                self._step(following)
                if failures:
                    raise failures[0]
        finally:
            tail.stop()
            watch.stop()
            for thread in threads:
                thread.join(JOIN_S)

    def _step(self, following: _Following) -> None:
        """Answer what waits, and apply what was read of the log, in turns."""
        self._answer(following)
        until = self._clock.monotonic() + APPLY_S
        while records := following.tail.next_records():
            for record in records:
                following.index.apply([record])
                if self._is_asked and self._clock.monotonic() >= until:
                    self._answer(following)
                    until = self._clock.monotonic() + APPLY_S
        if following.look():
            self._metrics.show_index(following.index.stats())
        self._show(following)
        if self._is_asked:
            self._wake.set()

    @property
    def _is_asked(self) -> bool:
        return bool(self._checks or self._works)

    def _answer(self, following: _Following) -> None:
        """Do the work that waits, then judge articles that wait together."""
        for _ in range(len(self._works)):
            work = _next_of(self._works)
            if work is not None and work.future.set_running_or_notify_cancel():
                work.complete(following.index)
        requests = self._next_checks(following.index.rules)
        if requests:
            self._judge(following, requests)

    def _next_checks(self, rules: Rules | None) -> list[_CheckRequest]:
        """Return checks that wait, up to ``MOST_JUDGED`` articles; refuse those of another scheme than the log's."""
        requests: list[_CheckRequest] = []
        articles = 0
        while articles < MOST_JUDGED and (request := _next_of(self._checks)) is not None:
            if not request.future.set_running_or_notify_cancel():
                continue
            if rules is None or request.scheme != rules.scheme:
                request.future.set_exception(NotReadyError("the log was made again under another scheme"))
                continue
            requests.append(request)
            articles += len(request.columns)
        return requests

    def _judge(self, following: _Following, requests: list[_CheckRequest]) -> None:
        index, now = following.index, self._clock.time_ms()
        rules, offset = index.rules, index.next_offset
        assert rules is not None  # noqa: S101 - ``_next_checks`` has compared them
        try:
            columns = Columns.concat([request.columns for request in requests])
            checked = index.check(columns, now, max(request.most for request in requests))
        except BaseException as error:
            for request in requests:
                request.future.set_exception(error)
            raise
        start = 0
        for request in requests:
            end = start + len(request.columns)
            own = [one._replace(nearest=one.nearest[: request.most]) for one in checked[start:end]]
            request.future.set_result(Checked(following.log_id, offset, now, rules, own))
            start = end

    # what others see

    def _show(self, following: _Following) -> None:
        index = following.index
        self._set(
            ready=True,
            up_to_date=following.answers and index.next_offset >= following.end,
            activity=FOLLOWING if following.answers else SILENT,
            log_id=following.log_id,
            offset=index.next_offset,
            end=max(following.end, index.next_offset),
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

    def _notify(self) -> None:
        self._wake.set()
        if self._stopped.is_set():
            self._refuse_all("the service ends")

    def _refuse_all(self, detail: str) -> None:
        while (request := _next_of(self._works) or _next_of(self._checks)) is not None:
            future: Future[Any] = request.future
            if future.set_running_or_notify_cancel():
                future.set_exception(NotReadyError(detail))


class _Following:
    """An open log that is followed, and when its broker last answered."""

    def __init__(self, opened: ServedLog, tail: LogTail, clock: Clock) -> None:
        self.index = opened.index
        self.log_id = opened.log_id
        self.tail = tail
        self.end = opened.index.next_offset
        self._clock = clock
        self._answered_at = clock.monotonic()
        self._asked_at = clock.monotonic()
        self._request: Future[LogOffset] | None = None

    @property
    def answers(self) -> bool:
        """Whether a broker has answered lately."""
        return self._clock.monotonic() - self._answered_at < SILENCE_S

    def look(self) -> bool:
        """Take the answer about the log's end, and ask again from time to time; return whether it did."""
        now = self._clock.monotonic()
        if self._request is not None and self._request.done():
            if self._request.exception() is None:
                self.end, self._answered_at = self._request.result(), now
            self._request = None
        if self._request is None and now - self._asked_at >= ASK_END_S:
            self._request, self._asked_at = self.tail.request_end(), now
            return True
        return False


def _next_of(waiting: deque[_R]) -> _R | None:
    """Take the next of what waits, None of nothing: when the service ends, other threads take from it, too."""
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _guarded(run: Callable[[], None], failures: list[BaseException], wake: Callable[[], None]) -> None:
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - raised again by the follower
        failures.append(error)
        wake()
