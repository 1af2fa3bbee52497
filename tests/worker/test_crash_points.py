"""A crash between any two steps loses no article, repeats none, and makes none the duplicate of itself."""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from stream_dedup.kafka.clients import connect_log
from stream_dedup.worker import Step
from tests.amount import FULL
from tests.contract.kafka_world import CLIENTS
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline

ARTICLES = 60
"""For each crash: several batches of ``BATCH``."""
BATCH = 10
MOST_PORTIONS = 20
"""Fed to a worker that has not died yet: each takes it through every step once."""
SEED = 7
LIMIT_S = 60
TRIM_STEPS = (Step.RESTATED, Step.TRIM_APPENDED, Step.CUT)
STEPS = [step for step in Step if step not in TRIM_STEPS]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.full)])
def test_crash_at_every_step(make_pipeline: MakePipeline, times: int, client: str) -> None:
    """One worker after the other dies, each at the next step: the audit of the whole stream finds no fault.

    In a sample each client takes every other step. Each worker recovers from the crash before its own. An article that
    a crash loses or repeats stays so, and so does a delete: the audit at the end finds it. Articles are deleted and
    published again all along.
    """
    made = make_pipeline(worker={"batch_records": BATCH}, kafka={"client": client}, input={"deletes": "withdraw"})
    stream = with_deletes(itertools.cycle(records(ARTICLES, SEED)))
    steps = STEPS if FULL else STEPS[CLIENTS.index(client) :: len(CLIENTS)]
    for step in steps:
        made.produce(itertools.islice(stream, ARTICLES))
        die_at(made, step, times, stream)
    deletes = sum(record.value is None for record in made.read(made.topic))
    assert deletes > len(steps)
    finish(made, deletes=deletes)


def with_deletes(stream: Iterator[tuple[bytes, bytes | None]]) -> Iterator[tuple[bytes, bytes | None]]:
    """Delete now and then what has just come, and publish it again."""
    for number, (key, value) in enumerate(stream):
        yield key, value
        if number % 7 == 0:
            yield from ((key, None), (key, value))


def die_at(made: Pipeline, step: Step, times: int, stream: Iterator[tuple[bytes, bytes | None]]) -> None:
    """Run a worker until it dies at a step; feed it more where batches were judged together."""
    dying = made.start(die_at=step, times=times)

    def ended() -> bool:
        return dying.poll() is not None or made.done()

    wait_until(ended, LIMIT_S, f"the stream is judged, or the worker died at {step}")
    for _ in range(MOST_PORTIONS):
        if dying.poll() is not None:
            break
        made.produce(itertools.islice(stream, BATCH))
        wait_until(ended, LIMIT_S, f"the worker dies at {step}")
    assert dying.returncode == -signal.SIGKILL, made.log()


def finish(made: Pipeline, index: str = "main", *, deletes: int = 0) -> None:
    last = made.start(index)
    made.wait_done()
    made.stop(last)
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values()) - deletes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_crash_at_every_step_of_a_trim(make_pipeline: MakePipeline) -> None:
    """Workers die after each effect of a trim: the next one trims on, and cuts the log further.

    A worker without an index then starts from the trimmed log. The audit finds no fault in the verdicts of all.
    """
    made = make_pipeline(match={"window": "2s"}, worker={"clock_allowance_s": 0})
    stream = itertools.cycle(records(ARTICLES, SEED))

    def feed(until: Callable[[], bool], what: str) -> None:
        def fed() -> bool:
            made.produce(itertools.islice(stream, 10))
            threading.Event().wait(0.3)  # log time must pass
            return until()

        wait_until(fed, LIMIT_S, what)

    for times, step in itertools.product((1, 2) if FULL else (1,), TRIM_STEPS):
        dying = made.start(die_at=step, times=times)
        feed(lambda dying=dying: dying.poll() is not None, f"the worker dies at {step}")  # type: ignore[misc]
        assert dying.returncode == -signal.SIGKILL, made.log()
    last = made.start()
    with closing(connect_log(made.config())) as log:
        first = log.bounds()[0]
        feed(lambda: log.bounds()[0] > first, "the log is cut further")
    made.stop(last)
    made.produce(itertools.islice(stream, ARTICLES))
    finish(made, "rebuilt")
