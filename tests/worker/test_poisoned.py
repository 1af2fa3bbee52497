"""Articles that kill their fingerprinting process or take long, through a real worker of one process."""

import json
from pathlib import Path

import pytest

from stream_dedup.core.model import Verdict
from stream_dedup.core.reasons import KILLED_TWICE
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.poisoned_worker import CRASHING, WAITING

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEED = 11
EACH = 40
LIMIT_S = 200
POISONED_WORKER = "tests.worker.poisoned_worker:main"


def article(text: str) -> tuple[bytes, bytes]:
    return text[:5].encode(), json.dumps({"text": text}).encode()


def test_poison_holds_up_its_own_partition_alone(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """While an article takes long, the other partition is judged to its end. An article that crashes is rejected."""
    made = make_pipeline(
        partitions=2, kafka={"session_timeout_s": 30}, worker={"processes": 1, "article_limit_s": 3600}
    )
    slow, other = made.partitions()
    stream = records(2 * EACH, SEED)[: 2 * EACH]
    stream[EACH // 2 * 2] = article(f"{WAITING}{tmp_path / 'done'}")
    made.produce(stream)
    worker = made.start(program=POISONED_WORKER)
    wait_until(lambda: made.committed().get(other, 0) == EACH, LIMIT_S, "the other partition is judged to its end")
    assert made.committed().get(slow, 0) <= EACH // 2
    (tmp_path / "done").touch()
    made.produce([article("one"), article(CRASHING), article("two")])
    made.wait_done(LIMIT_S)
    made.stop(worker)
    stamps = made.stamps()
    assert len(stamps) == len(stream) + 3
    assert stamps[slow.partition, EACH // 2].verdict is Verdict.UNIQUE
    crashing = (other.partition, EACH)
    assert [(at, stamp.verdict) for at, stamp in stamps.items() if stamp.reason == KILLED_TWICE] == [
        (crashing, Verdict.REJECTED)
    ]
    made.assert_sound()
