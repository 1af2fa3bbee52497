"""A crash between each two steps loses nothing, doubles nothing, and makes nothing the duplicate of itself."""

import signal

import pytest

from stream_dedup.stream.flight import Step
from tests.pipeline.conftest import MakePipeline
from tests.pipeline.mixture import records
from tests.waiting import wait_until

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
