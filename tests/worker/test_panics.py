"""A panic of the native core ends a worker with an error that names the record, and commits nothing of it."""

import json

import pytest

from stream_dedup import fingerprint
from stream_dedup.worker import Step
from tests.forks import ForkedProcess
from tests.index.panics import SAID
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEED = 17
BEFORE, LATER = 40, 80
"""Articles that are judged before the one is produced, and all of them."""
AT = 57
"""Offset of the one, in the middle of a batch."""
TEXT = "The keeper of the lighthouse counted nine ships that evening, and wrote their names into the old green book."
LIMIT_S = 120


def stream() -> list[tuple[bytes, bytes | None]]:
    """Articles, of which one makes the native core panic."""
    found = records(LATER, SEED)[:LATER]
    found[AT] = (b"nine ships", json.dumps({"id": "nine ships", "text": TEXT}).encode())
    return found


def start(made: Pipeline) -> ForkedProcess:
    program = "tests.worker.planted_worker:panicking_at_a_look_up"
    return made.start("main", Step.POLLED, 0, str(fingerprint(TEXT)), program=program)


def panicked(made: Pipeline) -> int:
    """Run workers into the panic, two of them one after the other; return the committed offset that they leave.

    Each ends with exit code 1 and a message with coordinates and log position.
    """
    articles = stream()
    made.produce(articles[:BEFORE])
    worker = start(made)
    made.wait_done(LIMIT_S)
    made.produce(articles[BEFORE:])
    assert worker.wait(LIMIT_S) == 1, made.log()
    left = committed(made)
    assert BEFORE <= left <= AT
    again = start(made)
    assert again.wait(LIMIT_S) == 1, made.log()
    assert left <= committed(made) <= AT
    named = f"topic {made.topic}, partition 0, offset {AT} (article 'nine ships', entry "
    messages = [line for line in made.log().splitlines() if line.startswith(named)]
    assert len(messages) == 2
    for message in messages:
        assert SAID in message
        assert message.endswith("report this message, and start again with another release")
    return committed(made)


def committed(made: Pipeline) -> int:
    """The committed offset; no output is of an article behind it, and every one before it has its output."""
    (partition,) = made.partitions()
    found = made.committed()[partition]
    assert sorted(offset for _, offset in made.stamps()) == list(range(found))
    return found


def test_a_panic_ends_the_worker_and_commits_nothing(make_pipeline: MakePipeline) -> None:
    """A sound release goes on as if never; no offset is committed without its outputs, nor an output without it."""
    made = make_pipeline(worker={"batch_records": 10}, kafka={"client": "confluent"})
    panicked(made)
    sound = made.start()
    made.wait_done(LIMIT_S)
    made.stop(sound)
    assert committed(made) == LATER
    made.assert_sound()


def test_the_record_is_skipped_and_judged_later(make_pipeline: MakePipeline) -> None:
    """As the operations page says: the offset is set behind it, and back to where it was with a sound release.

    With the other client.
    """
    made = make_pipeline(worker={"batch_records": 10}, kafka={"client": "kafka-python"})
    left = panicked(made)

    def is_set(offset: int) -> bool:
        return (
            made.run("offsets", "set", "--topic", made.topic, "--partition", "0", "--to", str(offset)).returncode == 0
        )

    wait_until(lambda: is_set(AT + 1), LIMIT_S, "the broker has forgotten the dead workers")
    going_on = start(made)
    made.wait_done(LIMIT_S)
    made.stop(going_on)
    assert AT not in {offset for _, offset in made.stamps()}
    wait_until(lambda: is_set(left), LIMIT_S, "the offset is set back")
    sound = made.start()
    made.wait_done(LIMIT_S)
    made.stop(sound)
    made.assert_sound(allow_repeats=True)
    judged = {stamp.coordinates.offset for _, _, stamp in made.outputs()}
    assert judged == set(range(LATER))
