"""Workers and brokers that are killed, frozen and started again while a stream goes through them."""

import itertools
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import EXIT_UNAVAILABLE
from stream_dedup.worker import Step
from tests.amount import FULL
from tests.contract.kafka_world import CLIENTS
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import SESSION_S, Keys, Pipeline, freeze, is_frozen, pipeline, stop_all, thaw

ARTICLES = 3_600
SEED = 20261121
KILLS = 20 if FULL else 3
PARTITIONS = 6
WORKERS = ("worker-0", "worker-1", "worker-2")
PORTION = 10
"""Records produced at a time."""


@contextmanager
def fed(made: Pipeline) -> Iterator[None]:
    """Produce the mixture in small portions, three a second, until the block ends."""
    ended = threading.Event()

    def feed() -> None:
        stream = itertools.cycle(records(ARTICLES, SEED))
        while not ended.wait(0.3):
            made.produce(itertools.islice(stream, PORTION))

    with ThreadPoolExecutor(1) as thread:
        feeding = thread.submit(feed)
        try:
            yield
        finally:
            ended.set()
    feeding.result()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", CLIENTS)
def test_kills_of_three_workers(make_pipeline: MakePipeline, client: str) -> None:
    """Three workers are killed many times at random moments in a stream: the audit finds no fault."""
    rng = random.Random(SEED)
    made = make_pipeline(partitions=PARTITIONS, kafka={"session_timeout_s": 2, "client": client})
    running = {name: made.start(name) for name in WORKERS}
    with fed(made):
        made.wait_judged(30)
        for _ in range(KILLS):
            name = rng.choice(WORKERS)
            threading.Event().wait(rng.uniform(0.0, 1.0))  # the random moment
            running[name].kill()
            running[name].wait()
            before = sum(made.committed().values())
            running[name] = made.start(name)
            made.wait_judged(before + 1)  # the stream gets on between two kills
    made.wait_done(300)
    stop_all(made, list(running.values()))
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())


@pytest.mark.full  # the simulation freezes and kills brokers, test_hanging_transactions and the soak real ones
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_broker_that_is_frozen_and_killed_and_stays_away(own_broker: DevBroker, tmp_path: Path) -> None:
    """Workers wait for a broker that is frozen past their sessions, or killed in a commit; the audit is clean.

    A worker whose broker stays away ends with one clear error within the named time.
    """
    times: Keys = {"broker_wait_s": 90}
    with pipeline(
        own_broker.bootstrap, tmp_path, "pipe", partitions=2, kafka=times, worker={"batch_records": 20}
    ) as made:
        # 1  frozen
        made.produce(records(150, SEED))
        first = made.start("first")
        made.wait_judged(20)
        own_broker.freeze()
        threading.Event().wait(1.5 * SESSION_S)  # the freeze's length is what is tested
        own_broker.thaw()
        made.wait_done()
        # 2  killed, while one worker stands still in a commit, and so does not know its outcome
        second = made.start("second", die_at=Step.OFFSETS_SENT, times=-1)
        made.wait_joined("second")
        made.produce(records(100, SEED + 1))
        wait_until(lambda: is_frozen(second), 60, "the worker stands still in a commit")
        own_broker.kill()
        thaw(second)
        own_broker.restart()
        made.wait_done()
        stop_all(made, [first, second])
        made.assert_sound()
        assert len(made.stamps()) == sum(made.ends().values())
        # 3  gone
        made.set("kafka", broker_wait_s=10)  # enough for a start on a busy machine
        last = made.start("last")
        made.wait_joined("last")
        own_broker.kill()
        assert last.wait(60) == EXIT_UNAVAILABLE
        assert f"no Kafka broker at {own_broker.bootstrap} answered for 10 s" in made.log("last")


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(300)
def test_worker_frozen_past_its_session(make_pipeline: MakePipeline) -> None:
    """A worker that is frozen past its session and continues loses no article and repeats none."""
    made = make_pipeline(partitions=2, worker={"batch_records": 20})
    frozen = made.start("frozen")
    made.wait_joined("frozen", 2)
    made.produce(records(300, SEED))
    made.wait_judged(20)
    freeze(frozen)
    other = made.start("other")
    made.wait_done()
    made.produce(records(100, SEED + 1))
    thaw(frozen)
    made.wait_done()
    stop_all(made, [frozen, other])
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.full), signal.SIGINT])
def test_graceful_stop(make_pipeline: MakePipeline, number: signal.Signals) -> None:
    """A stop in mid-stream ends with exit code 0, and the next worker goes on where it ended."""
    made = make_pipeline(worker={"batch_records": 20, "shutdown_s": 10})
    made.produce(records(200, SEED))
    first = made.start()
    made.wait_judged(20)
    first.send_signal(number)
    assert first.wait(60) == 0
    second = made.start()
    made.wait_joined(times=2)
    made.wait_done()
    made.stop(second)
    made.assert_sound()
