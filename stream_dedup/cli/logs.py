"""The log: on standard error, one line for each record; the lines of a traceback follow, indented.

A level says what the operator must do. WARNING: nothing is lost, have a look. ERROR: act. Lines of the Kafka client
below WARNING are never written. While a broker is unreachable, the client repeats a line several times a second: each
of its lines is written once in ``QUIET_S``. Lines about what the client tries again by itself, and about its own code,
are not written: nobody can do anything about them, and what fails in the end is an error of the program.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable

from stream_dedup.terminal import visible

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET_S = 30.0
"""Seconds between two lines from the same statement of the Kafka client."""
_UNWANTED = re.compile(
    # A batch is sent again to a leader that has just moved, or whose broker is being let in. An append that fails is an
    # error; other reasons, too few replicas for example, are written.
    r".* Got error produce response on topic-partition .*, retrying .*: NotLeaderForPartitionError"
    # The broker that was asked is being let in by the controller; the client asks again.
    r"|No broker metadata found in MetadataResponse"
    # A broker is not there: the program says so itself, with its address and for how long it waits.
    r"|(?:Connection failed|Bootstrap connection to .*|<KafkaConnection node_id=bootstrap-.*): .*ECONNREFUSED"
    r"|Bootstrap .* not ready; waiting|Bootstrap failed: KafkaTimeoutError"
    # One step of the client took 0.1 s or more: it unpacks a fetch of 8 MB, or the machine is busy.
    r"|Task <"
)
"""How lines of the Kafka client begin that are not written."""
_HANDLER = "stream-dedup"
_CLIENTS = ("kafka", "confluent_kafka")
_CHATTY = (*_CLIENTS, "jieba")


class ClientThinned(logging.Filter):
    """Passes every line of the program, and in ``QUIET_S`` one line from each wanted statement of the Kafka client."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now`` gives seconds."""
        super().__init__()
        self._now = now
        self._last_written: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        if record.name.partition(".")[0] not in _CLIENTS:
            return True
        if _UNWANTED.match(record.getMessage()):
            return False
        statement, now = (record.pathname, record.lineno), self._now()
        if now - self._last_written.get(statement, -QUIET_S) < QUIET_S:
            return False
        self._last_written[statement] = now
        return True


class OneLine(logging.Formatter):
    """Escapes hidden characters, in lines of the program and of the Kafka client."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the message on one line, whatever its arguments contain."""
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the lines of a traceback indented, so that they cannot look like log lines."""
        return "\n  ".join(map(visible, super().format(record).split("\n")))


def set_up_logging(level: str) -> None:
    """Write lines from this level on to standard error. A second call replaces the first."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if one.name == _HANDLER]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.name = _HANDLER
    handler.setFormatter(OneLine(FORMAT))
    handler.addFilter(ClientThinned())
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
