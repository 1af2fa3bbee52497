"""`filter` costs Python a block of lines, not a line: what is done for each one is done by the native core."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from stream_dedup.config.load import load_config
from stream_dedup.core.model import Verdict
from stream_dedup.files.filter import FilterOptions, filter_files
from stream_dedup.files.inputs import LINE_BATCH_LINES
from tests.files.filtering import record, write

FEW, MANY = LINE_BATCH_LINES // 8, LINE_BATCH_LINES
MOST_MORE_CALLS = (MANY - FEW) // 2
"""Fewer than one for each further line; a batch of more tasks takes some."""


def _text(number: int) -> str:
    draw = random.Random(number)
    return " ".join(f"{draw.getrandbits(40):x}" for _ in range(20))


def calls(folder: Path, lines: int) -> Counter[str]:
    """Functions of Python that are called for so many unique lines of one batch."""
    source = write(folder / f"{lines}.jsonl", *(record(number, _text(number)) for number in range(lines)))
    config = load_config(overrides={"worker": {"threads": 1}}, environment={})
    options = FilterOptions((source,), outputs=dict.fromkeys(Verdict, folder / f"{lines}.out"))
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            counted[frame.f_code.co_qualname] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        tally = filter_files(config, options, lambda: 0, lambda _tally: None)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert tally.verdicts == {Verdict.UNIQUE: lines}
    return counted


def test_a_line_costs_no_call(tmp_path: Path) -> None:
    calls(tmp_path, 1)  # what is loaded once
    few, many = calls(tmp_path, FEW), calls(tmp_path, MANY)
    assert many.total() - few.total() < MOST_MORE_CALLS, (many - few).most_common(10)
