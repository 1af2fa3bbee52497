"""On a broker: a check says what a worker then says, and a service that was killed says what one says that was not."""

from __future__ import annotations

import random
import time

import pytest

from tests.amount import FULL
from tests.serve.comparing import Served, checked_and_judged, served
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records

ARTICLES = 100 if FULL else 20
SEED = 20261123
KILLS = 5


@pytest.mark.parametrize("match", [{}, {"recrawl": "update", "copies": 2, "window": "1h"}], ids=["plain", "versions"])
def test_a_check_says_what_a_worker_then_says(make_pipeline: MakePipeline, match: dict[str, str]) -> None:
    """Verdict, fingerprint, match, distance, similarity, copies and reason of each article, before it is logged."""
    made = make_pipeline(match=match)
    worker = made.start()
    values = [value for _, value in records(ARTICLES, SEED)]
    values += [value.replace(b'"text"', b'"text": 1, "again"') for value in values[:2] if value is not None]
    values += [b'{"id": "empty", "text": "   "}', b'{"id": "dots", "text": "..."}', *values[5:9]]
    with served(made) as service:
        pairs = checked_and_judged(made, service, values)
        service.stop()
    made.stop(worker)
    assert len(pairs) > ARTICLES
    assert {judged.verdict for _, judged in pairs} == {"unique", "duplicate", "rejected"}
    assert [checked for checked, _ in pairs] == [judged for _, judged in pairs]


def answers_of(service: Served, texts: list[str]) -> list[object]:
    """Results of a check of all texts."""
    service.wait_ready()
    with service.client() as client:
        answer = client.call("POST", "/v1/check", {"articles": [{"text": text} for text in texts], "top": 9}).json
        return [answer["log"]["offset"], *answer["results"]]


def test_a_service_that_was_killed_answers_as_another_one(make_pipeline: MakePipeline) -> None:
    """Killed at random moments of its start and its work, while articles are logged; then started again."""
    made = make_pipeline()
    worker = made.start()
    stream = records(600, SEED)
    texts = [f"{value.decode()[:400]}" for _, value in stream[:200] if value is not None and value[:1] == b"{"]
    rng = random.Random(SEED)
    service = Served(made)
    try:
        for part in range(KILLS):
            made.produce(stream[part * 100 : part * 100 + 100])
            service.start()
            time.sleep(rng.uniform(0.1, 1.5))  # the moment is drawn: no condition is waited for
            service.kill()
        made.wait_done()
        made.stop(worker)
        service.start()
        with served(made, "fresh") as fresh:
            # Each follows the log and the outputs on its own: what a check says of groups comes with the outputs.
            wait_until(lambda: answers_of(service, texts) == answers_of(fresh, texts), 60, "both say the same")
    finally:
        service.kill()
