"""A crash between each two steps loses nothing, doubles nothing, and makes nothing the duplicate of itself."""

import itertools
import signal
import threading
from collections.abc import Callable

import pytest

from stream_dedup.broker.log import LogReader
from stream_dedup.worker.steps import Step, TrimStep
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records

ARTICLES = 150
SEED = 7


@pytest.mark.slow
@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("times", [1, 3])
def test_crash_at_a_step(make_pipeline: MakePipeline, step: Step, times: int) -> None:
    """A worker that dies at this point, and is started again, leaves a stream that the audit finds sound."""
    made = make_pipeline(worker={"processes": 1, "batch_records": 20})
    made.produce(records(ARTICLES, SEED))
    dying = made.start(die_at=step, times=times)
    wait_until(lambda: dying.poll() is not None or made.done(), 60, "the stream is judged, or the worker dead")
    while dying.poll() is None:  # batches are committed together: it takes more of them to come there again
        made.produce(records(ARTICLES // 10, SEED))
        wait_until(lambda: dying.poll() is not None or made.done(), 60, "the worker dies")
    assert dying.returncode == -signal.SIGKILL, made.log()
    again = made.start()
    made.wait_done()
    made.stop(again)
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", list(TrimStep))
@pytest.mark.parametrize("times", [1, 2])
def test_crash_in_a_trim(make_pipeline: MakePipeline, step: TrimStep, times: int) -> None:
    """A worker that dies behind an effect of a trim: the next one trims on, and every verdict is right."""
    made = make_pipeline(match={"window": "3s"}, worker={"processes": 1, "clock_allowance_s": 0})
    stream = itertools.cycle(records(ARTICLES, SEED))

    def feed(until: Callable[[], bool], what: str) -> None:
        def fed() -> bool:
            made.produce(itertools.islice(stream, 10))
            threading.Event().wait(0.3)  # log time must pass
            return until()

        wait_until(fed, 60, what)

    dying = made.start(die_at=step, times=times)
    feed(lambda: dying.poll() is not None, "the worker dies")
    assert dying.returncode == -signal.SIGKILL, made.log()
    again = made.start()
    reader = LogReader(made.config().kafka, made.config().log_topic)
    first = reader.bounds(10)[0]
    feed(lambda: reader.bounds(10)[0] > first, "the log is cut further")
    reader.close()
    made.wait_done()
    made.stop(again)
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())
