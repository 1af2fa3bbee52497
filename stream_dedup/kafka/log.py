"""The log for callers that wait for it: ranges read, records appended, errors that end a command.

The record of an append that failed may be in the log nevertheless, or come into it later. Where it is appended again,
the first one counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stream_dedup.core.entry import LogRecord, Payload, Trim
from stream_dedup.core.model import LogOffset, ReportStage, SourceOffset
from stream_dedup.core.rules import Rules
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.ports import (
    Append,
    FingerprintLog,
    OffsetGoneError,
    PassingError,
    PortError,
    RefusedByBrokerError,
    SourceChangedError,
)

if TYPE_CHECKING:
    from stream_dedup.config.model import Config

READ_BACK_S = 1.0
"""One wait, in seconds, for a record that is known to be in the log."""

MOST_UNACKNOWLEDGED = 64
"""Most log records under way to the broker: some 2 MB of batches, which the client keeps in memory."""


class WaitingLog:
    """A log, with its name and the longest wait for a broker."""

    def __init__(self, log: FingerprintLog, config: Config) -> None:
        self._log = log
        self._topic = config.log_topic
        self._wait_s = config.kafka.broker_wait_s
        self._under_way: deque[Append] = deque()
        self.seek = log.seek
        self.close = log.close

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return the first offset, and the offset after the last record.

        Raises:
            UnavailableError: the broker did not answer in time.
        """
        with log_errors(self._topic):
            return self._log.bounds()

    def read(self, start: LogOffset, end: LogOffset) -> Iterator[list[LogRecord]]:
        """Yield the records from ``start`` up to, not including, ``end``.

        Raises:
            RefusedError: the log was cut past ``start``.
            UnavailableError: no record came for ``broker_wait_s`` although the log has more.
            CorruptError: a record cannot be read.
        """
        self._log.seek(start)
        idle_s = 0.0
        while start < end:
            with log_errors(self._topic):
                records = self._log.poll(READ_BACK_S)
            if records:
                start = LogOffset(records[-1].offset + 1)
                idle_s = 0.0
                yield [record for record in records if record.offset < end]
                continue
            if self._log.position() >= end:
                return
            idle_s += READ_BACK_S
            if idle_s > self._wait_s:
                raise UnavailableError(
                    f"topic {self._topic}: offset {start} of {end} was not delivered within {self._wait_s:g} s"
                )

    def read_all(self, progress: ReportStage) -> Iterator[LogRecord]:
        """Yield every record that the log holds now, in order; raises as ``bounds`` and ``read``."""
        yield from self.follow(*self.bounds(), progress)

    def follow(
        self, start: LogOffset, end: LogOffset, progress: ReportStage, stage: str = "log records read"
    ) -> Iterator[LogRecord]:
        """Yield as ``read`` does, one by one, and report how far it is."""
        for records in self.read(start, end):
            yield from records
            if records:
                progress(stage, records[-1].offset + 1 - start, end - start)

    def append_now(self, payload: Payload) -> LogOffset:
        """Append one record, wait for the acknowledgement, and return its offset.

        Raises:
            UserError: this client has no right to append.
            UnavailableError: no acknowledgement within ``broker_wait_s``; the record may or may not be in the log.
        """
        return self._acknowledged(self._log.append(payload))

    def append_soon(self, payload: Payload) -> None:
        """Append one record without waiting for it; where ``MOST_UNACKNOWLEDGED`` are under way, wait for the oldest.

        Raises as ``append_now``; records sent after the one that failed may be in the log.
        """
        self._under_way.append(self._log.append(payload))
        while len(self._under_way) > MOST_UNACKNOWLEDGED:
            self._acknowledged(self._under_way.popleft())

    def wait_for_appends(self) -> None:
        """Wait until every record that was appended soon is in the log; raises as ``append_now``."""
        while self._under_way:
            self._acknowledged(self._under_way.popleft())

    def _acknowledged(self, append: Append) -> LogOffset:
        try:
            return append.wait(self._wait_s)
        except RefusedByBrokerError as error:
            raise UserError(
                f"topic {self._topic}: the broker refuses appends: {error}; docs/acls.md lists the rights"
            ) from error
        except PortError as error:
            raise UnavailableError(
                f"topic {self._topic}: an append was not acknowledged within {self._wait_s:g} s: {error}"
            ) from error


@contextmanager
def log_errors(topic: str) -> Iterator[None]:
    """Raise the errors of a port that reads the log as those that end a command or a worker.

    Raises:
        RefusedError: the log was cut past the offset to read from, or lost records that were read.
        UserError: this client has no right to read it.
        UnavailableError: the broker did not answer in time.
    """
    try:
        yield
    except OffsetGoneError as error:
        raise RefusedError(
            f"topic {topic}: the offset to read from is no longer there: a worker has trimmed the log meanwhile. "
            "Start again: a worker then rebuilds its index from the log, and a command reads what is left."
        ) from error
    except SourceChangedError as error:
        raise RefusedError(
            f"topic {topic}: the log lost records that were read, and may have others in their place ({error}): "
            "unclean leader elections must be off for it (stream-dedup topics check). Start a worker again: it "
            "says what the log lost, and how to go on."
        ) from error
    except RefusedByBrokerError as error:
        raise UserError(
            f"topic {topic}: the broker does not let this client read it: {error}; docs/acls.md lists the rights"
        ) from error
    except PassingError as error:
        raise UnavailableError(f"topic {topic}: the broker did not answer in time: {error}") from error


@dataclass(slots=True)
class ForgottenOffsets:
    """Which source offsets the trims of a log have forgotten; follows the log from its first record on.

    A trim counts if it was computed under the rules in force. Whether copies make it void is left to the index: what it
    lists was logged all the same.
    """

    before: dict[tuple[bytes, int], SourceOffset] = field(default_factory=dict)
    """By topic id and partition: the offset below which everything is forgotten."""
    rules: Rules | None = None
    """Those in force."""

    def follow(self, payload: Payload) -> None:
        """Take note of the next record of the log."""
        if isinstance(payload, Rules):
            self.rules = payload if payload.takes_force_after(self.rules) else self.rules
        elif isinstance(payload, Trim):
            self._add(payload)

    def below(self, topic_id: bytes, partition: int) -> SourceOffset:
        """Return the offset below which everything of a source partition is forgotten; 0 of none."""
        return self.before.get((topic_id, partition), SourceOffset(0))

    def _add(self, trim: Trim) -> None:
        if self.rules is None or trim.basis.revision != self.rules.revision:
            return
        for source, before in trim.basis.forgotten_before.items():
            self.before[source] = max(before, self.below(*source))
