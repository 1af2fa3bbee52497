"""The log topic: appends, reads and deletes of its records."""

from __future__ import annotations

from typing import Protocol

from stream_dedup.core.entry import LogRecord, Payload
from stream_dedup.core.model import LogOffset
from stream_dedup.ports.errors import PortError


class Append(Protocol):
    """The outcome of an append. Any thread."""

    def done(self) -> bool:
        """Return whether the outcome is known."""

    def error(self) -> PortError | None:
        """Return why it failed, None while it is not known or when the record is in the log.

        After a failure the record may be in the log nevertheless, or come into it later, even after ``renew``: a
        request that the broker has received is carried out, whatever becomes of its sender.
        """

    def wait(self, timeout_s: float) -> LogOffset:
        """Block until the record is acknowledged; return its offset.

        Raises:
            PortError: it failed, or is not acknowledged within ``timeout_s``.
        """


class FingerprintLog(Protocol):
    """The log topic of one group: one partition, one total order, append time set by the broker.

    Three threads use it: one reads (``poll``, ``pause``, ``seek``, ``bounds``, ``high_water``), one appends
    (``append``, ``renew``), one cuts (``cut``); they may be different ones.
    """

    def bounds(self) -> tuple[LogOffset, LogOffset]:
        """Return the first offset, and the offset after the last record. May block.

        Every record that was acknowledged to anyone before the call is before the second offset.

        Raises:
            PassingError: the broker did not answer in its time.
        """

    def seek(self, offset: LogOffset) -> None:
        """Read from this offset on."""

    def poll(self, wait_s: float) -> list[LogRecord]:
        """Return the next records in order; blocks up to ``wait_s`` for the first. Offsets may have gaps.

        Raises:
            OffsetGoneError: the offset to read from was cut away, or is past the end.
            SourceChangedError: the log was truncated below the offset that was read.
            RefusedByBrokerError: this client may not read the log.
            StreamDedupError: a record cannot be decoded, or its time was not set by the broker.
        """

    def pause(self) -> None:
        """Fetch nothing until the next ``poll``, which goes on at the same position. Does not block."""

    def position(self) -> LogOffset:
        """Return the offset of the next record that ``poll`` looks for; it moves over gaps, too."""

    def high_water(self) -> LogOffset:
        """Return the offset after the last record, as of the last fetch; 0 before the first. Any thread."""

    def append(self, payload: Payload) -> Append:
        """Send one record behind those sent before; does not block, except where too much is unsent.

        While no append fails, records reach the log in the order of the calls, each once. After a failure, call
        ``renew`` before anything else is appended: records sent after the failed one may be in the log without it.
        """

    def renew(self) -> None:
        """Give up every append whose outcome is not known, and be ready for new ones. May block for some seconds."""

    def cut(self, before: LogOffset) -> None:
        """Delete the records before an offset. May block. Cutting where it is cut already does nothing.

        Raises:
            PassingError: it may or may not be cut.
            RefusedByBrokerError: this client may not delete records.
        """

    def close(self) -> None:
        """Close the connections. May block for some seconds."""
