"""What a worker reports of applied log records."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from stream_dedup.core.entry import LogRecord, Payload, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.worker.engine import note_applied
from tests.logs import SCHEME

RULES = Rules(SCHEME, distance=3)


def record(offset: int, payload: Payload) -> LogRecord:
    return LogRecord(LogOffset(offset), 0, payload, encode(payload))


def test_a_change_of_rules_is_logged_where_it_takes_force(caplog: pytest.LogCaptureFixture) -> None:
    """Each change is one line with old and new values, from the first rules on; void and repeated ones are none."""
    second, third = replace(RULES, revision=2, distance=5), replace(RULES, revision=3, distance=5, observe=True)
    payloads = [RULES, second, replace(RULES, revision=2, distance=9), third, third]
    metrics = Metrics(CollectorRegistry())
    with caplog.at_level(logging.INFO):
        note_applied([record(7 + at, payload) for at, payload in enumerate(payloads)], RULES, metrics)
    assert [one.getMessage() for one in caplog.records] == [
        "rules: revision 2 in force from log offset 8 on: distance: 3 -> 5",
        "rules: revision 3 in force from log offset 10 on: observe: no -> yes",
    ]
    assert {one.levelno for one in caplog.records} == {logging.INFO}
    assert metrics.log_records.labels("rules")._value.get() == len(payloads)
