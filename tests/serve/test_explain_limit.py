"""Explanations of texts that take too long, or end their process: no thread is held, and the next one is answered."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.core.rules import Rules
from stream_dedup.core.scheme import FingerprintSettings, scheme_of
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, decode
from stream_dedup.explain.process import ExplainRecipe, Pair, PairExplainer
from stream_dedup.pool.limited import LimitedProcess
from stream_dedup.pool.process import DeathError
from tests.serve.clients import Answer
from tests.serve.served import MemoryService
from tests.waiting import wait_until

LIMIT_S = 1.0
LOADING_S = 300.0
STORY = "The council approved the new bridge after a long debate, and the works will begin in the spring of next year."
SPINS, DIES = "this text takes for ever", "this text ends its process"
pytestmark = pytest.mark.slow


class HostileRecipe(ExplainRecipe):
    """Explains, but for two texts."""

    def maker(self) -> HostileExplainer:
        return HostileExplainer(self.settings)


class HostileExplainer(PairExplainer):
    def __call__(self, pair: Pair) -> dict[str, Any]:
        text = str(getattr(pair.b, "texts", ""))
        while SPINS in text:
            sum(range(1_000))
        if DIES in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(pair)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    made = MemoryService(tmp_path_factory.mktemp("explain"), worker={"article_limit_s": LIMIT_S})
    made.begin_log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dedup.serve.explaining.ExplainRecipe", HostileRecipe)
        with made.serve():
            wait_until(lambda: explained(made, STORY).status == 200, LOADING_S, "the process has loaded")
            yield made


def explained(service: MemoryService, text: str) -> Answer:
    return service.call("POST", "/v1/explain", {"a": {"text": STORY}, "b": {"text": text}})


def test_a_text_that_takes_too_long_is_refused(service: MemoryService) -> None:
    """The answer names the limit; the process ends, and the next explanation is right."""
    answer = explained(service, SPINS)
    assert (answer.status, answer.json["type"]) == (422, "urn:stream-dedup:problem:invalid-request")
    assert "longer than 1 s of processor time (worker.article_limit_s)" in answer.json["detail"]
    wait_until(lambda: explained(service, STORY).status == 200, LOADING_S, "explanations are answered again")
    assert explained(service, STORY).json["verdict"] == "duplicate"


def test_many_slow_texts_hold_nothing(service: MemoryService) -> None:
    """They are answered in turn, or refused; checks are answered meanwhile, and afterwards all is as before."""
    before = threading.active_count()
    found: list[int] = []
    clients = [threading.Thread(target=lambda: found.append(explained(service, SPINS).status)) for _ in range(3)]
    for client in clients:
        client.start()
    for _ in range(5):
        assert service.call("POST", "/v1/check", {"text": STORY}).status == 200
    for client in clients:
        client.join()
    assert set(found) <= {422, 503, 504}
    wait_until(lambda: explained(service, STORY).status == 200, LOADING_S, "explanations are answered again")
    wait_until(lambda: threading.active_count() <= before, 10, "no thread is left")


@pytest.mark.expect_log("a request cannot be answered")
def test_a_text_that_ends_its_process(service: MemoryService) -> None:
    """503, and the next explanation gets a new process."""
    assert explained(service, DIES).status == 503
    wait_until(lambda: explained(service, STORY).status == 200, LOADING_S, "explanations are answered again")


def test_no_process_outlives_the_service() -> None:
    """Nor does the service wait for it: the process ends with its work under way."""
    process = LimitedProcess()
    recipe = HostileRecipe(FingerprintSettings(), 600.0)
    failures: list[BaseException] = []
    rules = Rules(scheme_of(recipe.settings))
    started = threading.Event()

    def ask() -> None:
        process.ask(recipe, Pair(article(STORY), article(STORY), rules))
        started.set()
        try:
            process.ask(recipe, Pair(article(STORY), article(SPINS), rules))
        except DeathError as death:
            failures.append(death)

    thread = threading.Thread(target=ask)
    thread.start()
    assert started.wait(LOADING_S)
    pid = process.pid
    assert pid is not None
    time.sleep(0.2)
    process.kill()
    thread.join(10)
    assert not thread.is_alive()
    assert [getattr(one, "late", None) for one in failures] == [False]
    assert not Path(f"/proc/{pid}").exists()


def article(text: str) -> Article:
    found = decode(RawRecord(None, b'{"text": "%s"}' % text.encode(), "x"), InputFormat())
    assert isinstance(found, Article)
    return found
