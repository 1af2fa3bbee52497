"""The pipeline under test, on the shared broker or on one of the test's own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stream_dedup.dev.broker import DevBroker
from tests.worker.pipeline import Keys, Pipeline, pipeline

MakePipeline = Callable[..., Pipeline]


@pytest.fixture
def make_pipeline(broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str]) -> Iterator[MakePipeline]:
    """Return a function that makes a pipeline on the shared broker, closed after the test."""
    with ExitStack() as stack:

        def make(*, partitions: int = 1, **sections: Keys) -> Pipeline:
            name = topic_name("pipe")
            return stack.enter_context(pipeline(broker.bootstrap, tmp_path, name, partitions=partitions, **sections))

        yield make
