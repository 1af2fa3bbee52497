"""``seed`` of one archive in batches of a few lines, few of them under way, so that it can be killed in the middle."""

from __future__ import annotations

from unittest.mock import patch

from stream_dedup.broker import log
from stream_dedup.cli import run
from stream_dedup.files import inputs

BATCH_LINES = 10


def main(config: str, archive: str) -> int:
    with patch.object(inputs, "LINE_BATCH_LINES", BATCH_LINES), patch.object(log, "MOST_UNACKNOWLEDGED", 2):
        return run(["seed", "--config", config, archive])
