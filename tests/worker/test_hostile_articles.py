"""Articles that take long, and articles at which the native core panics, through real workers."""

import json
import re
import signal
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from stream_dedup.core.model import Verdict
from stream_dedup.core.reasons import DEFECT
from stream_dedup.threads import CHUNK_BYTES
from stream_dedup.worker import Step
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline
from tests.worker.planted_worker import WAITING, begun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEED = 11
EACH = 40
LIMIT_S = 200
EXTRA_S = 20
"""For a busy machine."""
COUNTED = re.compile(r'^stream_dedup_(articles|rejected)_total\{\w+="(\w+)"\} ([\d.]+)$', re.MULTILINE)


def article(key: str, text: str) -> tuple[bytes, bytes]:
    return key.encode(), json.dumps({"text": text}).encode()


@pytest.mark.parametrize("threads", [1, 2])
def test_slow_articles_hold_up_their_own_partitions_alone(
    make_pipeline: MakePipeline, tmp_path: Path, threads: int
) -> None:
    """More of them than there are threads, which are all at work on them: another partition is judged to its end."""
    partitions = threads + 2
    made = make_pipeline(partitions=partitions, kafka={"session_timeout_s": 30}, worker={"threads": threads})
    *slow, other = made.partitions()
    half = EACH // 2 * partitions
    stream, done = records(2 * half, SEED), tmp_path / "done"
    text = f"{'long ' * (CHUNK_BYTES // 4)}{WAITING}{done}"
    made.produce([*stream[:half], *(article(f"slow {number}", text) for number in range(len(slow)))])
    worker = made.start(program="tests.worker.planted_worker:waiting")
    wait_until(lambda: len(begun(done)) == threads, LIMIT_S, "all threads for them are at work on slow articles")
    made.produce(stream[half : 2 * half])
    wait_until(lambda: made.committed().get(other, 0) == EACH, LIMIT_S, "the other partition is judged to its end")
    assert all(made.committed().get(partition, 0) <= EACH // 2 for partition in slow)
    assert len(begun(done)) == threads
    done.touch()
    made.wait_done(LIMIT_S)
    made.stop(worker)
    stamps = made.stamps()
    assert len(stamps) == 2 * half + len(slow)
    assert [stamps[partition.partition, EACH // 2].verdict for partition in slow].count(Verdict.UNIQUE) == 1
    made.assert_sound()


def counted(made: Pipeline) -> Counter[str]:
    """What the worker's metrics say of the articles that it judged, by verdict, and by reason of rejection."""
    (url,) = re.findall(r"^metrics: (\S+)$", made.log(), re.MULTILINE)
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - the worker's own
        return Counter({name: int(float(count)) for _, name, count in COUNTED.findall(answer.read().decode())})


def test_a_panic_rejects_its_article_and_is_counted(make_pipeline: MakePipeline) -> None:
    """Each of them once, and nothing else; the articles beside it have the verdicts that they have without it."""
    made = make_pipeline(metrics={"address": "127.0.0.1:0"}, worker={"threads": 2})
    exact = [article(f"exact {number}", "好船渡口"[number % 4]) for number in range(3 * EACH)]
    panicking = [article(f"story {number}", f"the ferry number {number} left at dawn") for number in range(EACH)]
    made.produce([one for number in range(EACH) for one in (*exact[3 * number :][:3], panicking[number])])
    worker = made.start(program="tests.worker.planted_worker:panicking_at_texts")
    made.wait_done(LIMIT_S)
    wait_until(
        lambda: sum(counted(made)[verdict] for verdict in Verdict) == 4 * EACH, LIMIT_S, "all articles are counted"
    )
    assert counted(made) == Counter(unique=4, duplicate=3 * EACH - 4, rejected=EACH, defect=EACH)
    made.stop(worker)
    reasons = Counter((stamp.verdict, stamp.reason) for stamp in made.stamps().values())
    assert reasons[Verdict.REJECTED, DEFECT] == EACH
    made.assert_sound()


def test_a_worker_whose_thread_never_ends_is_ended(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """By its watchdog, some seconds after ``shutdown_s``, with the exit code of a stop; its articles come again."""
    made = make_pipeline(worker={"threads": 2, "shutdown_s": 1})
    done = tmp_path / "done"
    made.produce([article("endless", f"{WAITING}{done}")])
    soon = "stream_dedup.worker.worker.FORCED_EXTRA_S=1"
    worker = made.start("main", Step.POLLED, 0, soon, program="tests.worker.planted_worker:waiting")
    wait_until(lambda: bool(begun(done)), LIMIT_S, "the article is begun")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(1 + 1 + EXTRA_S) == 0
    assert "took more than" in made.log()
    assert not made.stamps()
