"""Where log lines go: standard error, one line each.

A level says what the operator must do: WARNING, nothing is lost, look; ERROR, act. The Kafka
client's own chatter below WARNING is left out, whatever the level.
"""

from __future__ import annotations

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_HANDLER = "stream-dedup"
_CHATTY = ("kafka", "jieba")


def set_up_logging(level: str) -> None:
    """Write lines from this level on to standard error; called again it takes the former one's place."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if one.name == _HANDLER]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.name = _HANDLER
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
