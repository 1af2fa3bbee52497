"""Where log lines go: standard error, one line each; only a traceback adds further ones, which are indented.

A level says what the operator must do: WARNING, nothing is lost, look; ERROR, act. The Kafka
client's own chatter below WARNING is left out, whatever the level, and while a broker is away it says the same
several times a second: each of its lines comes once in ``QUIET_S``.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from stream_dedup.terminal import visible

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET_S = 30.0
"""After a line of the client's, no other from the same place in its code for so many seconds."""
_HANDLER = "stream-dedup"
_CLIENT = "kafka"
_CHATTY = (_CLIENT, "jieba")


class ClientThinned(logging.Filter):
    """Lets every line of ours through, and of the Kafka client's one from each place in ``QUIET_S``."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now`` gives seconds."""
        super().__init__()
        self._now = now
        self._told: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        if record.name.partition(".")[0] != _CLIENT:
            return True
        place, now = (record.pathname, record.lineno), self._now()
        if now - self._told.get(place, -QUIET_S) < QUIET_S:
            return False
        self._told[place] = now
        return True


class OneLine(logging.Formatter):
    """Writes foreign text, of ours and of the Kafka client's lines, so that it can only be read."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, on one line whatever its arguments hold."""
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback's lines indented: none of them looks like a line of the log."""
        return "\n  ".join(map(visible, super().format(record).split("\n")))


def set_up_logging(level: str) -> None:
    """Write lines from this level on to standard error; called again it takes the former one's place."""
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
