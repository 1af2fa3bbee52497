"""An archive, and ``seed`` in batches of a few lines, few of them under way, so that it can be killed in the middle."""

from __future__ import annotations

import json
import random
from unittest.mock import patch

from stream_dedup.cli import run
from stream_dedup.files import inputs
from stream_dedup.kafka import log

BATCH_LINES = 10
SEED = 7
WORDS = ("ferry", "bridge", "harvest", "museum", "council", "engineer", "river", "comet", "library", "tunnel")


def archive_lines(count: int) -> list[str]:
    """Articles that are near no other."""
    rng = random.Random(SEED)
    names = [f"{word}{number}" for word in WORDS for number in range(100)]
    return [json.dumps({"id": f"old-{number}", "text": " ".join(rng.sample(names, 40))}) for number in range(count)]


def main(config: str, archive: str) -> int:
    with patch.object(inputs, "LINE_BATCH_LINES", BATCH_LINES), patch.object(log, "MOST_UNACKNOWLEDGED", 2):
        return run(["seed", "--config", config, archive])
