"""Many clients at once: nobody is shut out, and each gets its own answer; afterwards the service answers as before."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import pytest

from stream_dedup.config.model import ServeConfig
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.errors import DefectError
from stream_dedup.serve.checking import _Batches
from stream_dedup.serve.server import ACCEPT_FAILED, HttpServer
from tests.serve.served import CUT_S, HOST, MARKUP, THREADS, MemoryService, assert_answers, limited_service
from tests.waiting import wait_until

LARGE = 20_000
"""Bytes above which a text is large here: no body may have so many as in truth."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryService]:
    """A service with small limits."""
    with limited_service(tmp_path_factory.mktemp("many")) as made:
        yield made


@pytest.fixture(autouse=True)
def answers_after_many(service: MemoryService) -> Iterator[None]:
    """After each test the service answers a new client."""
    yield
    assert_answers(service)


def test_slow_clients_shut_nobody_out(service: MemoryService) -> None:
    """Some send nothing, some a part of a body: a client with a request is answered meanwhile."""
    begun = b"POST /v1/check HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    with ExitStack() as stack:
        for sent in (b"", begun) * 100:
            stack.enter_context(closing(service.connect())).sendall(sent)
        for _ in range(10):
            assert service.call("POST", "/v1/check", {"text": MARKUP}).status == 200


def test_large_texts_shut_nobody_out(service: MemoryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several clients each has a large text that takes long: the threads of the others are free."""
    make, ends, slow = EntryMaker.__call__, threading.Event(), list[int]()

    def slowly(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        if len(records[0].value or b"") > LARGE:
            slow.append(len(records))
            assert ends.wait(CUT_S)
        return make(maker, records)

    monkeypatch.setattr("stream_dedup.threads.CHUNK_BYTES", LARGE)
    monkeypatch.setattr("stream_dedup.serve.checking.BATCHED_BYTES", LARGE)
    monkeypatch.setattr(EntryMaker, "__call__", slowly)
    body = {"text": MARKUP + "a" * LARGE}
    answers: list[int] = []
    clients = [
        threading.Thread(target=lambda: answers.append(service.call("POST", "/v1/check", body).status))
        for _ in range(THREADS + 1)
    ]
    try:
        for client in clients:
            client.start()
        wait_until(lambda: len(slow) == THREADS, CUT_S, "large texts occupy all threads that there are for them")
        for _ in range(3):
            assert service.call("POST", "/v1/check", {"text": MARKUP}).status == 200
    finally:
        ends.set()
        for client in clients:
            client.join()
    assert answers == [200] * (THREADS + 1)


def test_what_waits_for_a_thread_when_the_scheme_changes_is_to_be_tried_again(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was recreated with other rules: a request whose text was not begun is not an error of the service."""
    assert service.running is not None
    fingerprinter = service.running._fingerprinter
    started = fingerprinter.get()
    make, ends, begun = EntryMaker.__call__, threading.Event(), list[int]()

    def slowly(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        begun.append(len(records))
        assert ends.wait(CUT_S)
        return make(maker, records)

    monkeypatch.setattr(EntryMaker, "__call__", slowly)
    monkeypatch.setattr("stream_dedup.serve.checking.BATCHED_BYTES", 0)  # each by itself
    answers: list[Any] = []
    closing_threads = threading.Thread(target=started.records.close)
    clients = [
        threading.Thread(target=lambda: answers.append(service.call("POST", "/v1/check", {"text": MARKUP})))
        for _ in range(THREADS + 1)
    ]
    try:
        for client in clients:
            client.start()
        wait_until(lambda: len(begun) == THREADS, CUT_S, "all threads are at work")
        gauge = f"stream_dedup_serve_articles_waiting {THREADS + 1}.0"
        wait_until(lambda: gauge in service.call("GET", "/metrics").body.decode(), CUT_S, "one more waits")
        closing_threads.start()
        wait_until(lambda: len(answers) == 1, CUT_S, "what waited is answered")
    finally:
        ends.set()
        for client in clients:
            client.join()
        started.records.close()
        fingerprinter._scheme = None
        fingerprinter.use(started.scheme)
    assert (answers[0].status, answers[0].json["type"]) == (503, "urn:stream-dedup:problem:not-ready")
    assert [one.status for one in answers[1:]] == [200] * THREADS


def refused(service: MemoryService) -> float:
    """Checks that were answered with 503."""
    text = service.call("GET", "/metrics").body.decode()
    series = '\nstream_dedup_serve_requests_total{route="/v1/check",status="503"} '
    return float(text.partition(series)[2].partition("\n")[0] or 0)


def test_a_full_queue_refuses_at_once(service: MemoryService) -> None:
    """While 500 articles wait, the next one is answered with 503 and the time to try again."""
    assert service.running is not None
    held = threading.Event()
    answers: list[Any] = []
    service.running.follower.ask(lambda _: held.wait(CUT_S))
    large = threading.Thread(
        target=lambda: answers.append(service.call("POST", "/v1/check", {"articles": [{"text": "a"}] * 500}))
    )
    try:
        before = refused(service)
        large.start()
        gauge = "stream_dedup_serve_articles_waiting 500.0"
        wait_until(lambda: gauge in service.call("GET", "/metrics").body.decode(), CUT_S, "the queue is full")
        answer = service.call("POST", "/v1/check", {"text": "a"})
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.json["type"] == "urn:stream-dedup:problem:busy"
        assert service.call("GET", "/healthz").status == 200
        assert refused(service) == before + 1
    finally:
        held.set()
        large.join()
    assert [one.status for one in answers] == [200]


def test_answers_are_sent_at_once(service: MemoryService) -> None:
    """Nagle's algorithm is off: the second part of an answer does not wait 40 ms for a client's acknowledgement."""
    assert service.running is not None
    with service.connect():
        state = service.running._server._server.server_state
        wait_until(lambda: bool(state.connections), CUT_S, "the connection is accepted")
        (one, *_) = state.connections
        accepted = one.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_clients_that_are_judged_together_get_their_own_answers(service: MemoryService) -> None:
    """Twelve requests wait for the index; each gets the verdicts of its own articles."""
    assert service.running is not None
    held = threading.Event()
    answers: dict[int, list[str]] = {}

    def ask(number: int) -> None:
        new = {"text": f"{number} is a number, and nothing like the story"}
        articles = [new] * (number % 3) + [{"text": MARKUP}] + [new] * (number % 4)
        results = service.call("POST", "/v1/check", {"articles": articles, "top": number % 2}).json["results"]
        answers[number] = [f"{one['verdict']} {len(one['nearest'])}" for one in results]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    service.running.follower.ask(lambda _: held.wait(CUT_S))
    try:
        for thread in threads:
            thread.start()
        waiting = sum(number % 3 + 1 + number % 4 for number in range(len(threads)))
        gauge = f"stream_dedup_serve_articles_waiting {waiting}.0"
        wait_until(lambda: gauge in service.call("GET", "/metrics").body.decode(), CUT_S, "all wait")
    finally:
        held.set()
        for thread in threads:
            thread.join()
    for number, said in answers.items():
        assert said == ["unique 0"] * (number % 3) + [f"duplicate {number % 2}"] + ["unique 0"] * (number % 4)
    assert len(answers) == 12


@pytest.mark.expect_log("the native core failed")
def test_a_defect_at_one_text_ends_one_answer(service: MemoryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests that are fingerprinted together, the others are answered."""
    make, sizes, held = EntryMaker.__call__, list[int](), threading.Event()

    def failing(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        sizes.append(len(records))
        if any(b"defect" in (record.value or b"") for record in records):
            raise DefectError("the native core failed")
        return make(maker, records)

    def ask(text: str) -> None:
        statuses.append((text == "defect", service.call("POST", "/v1/check", {"text": text}).status))

    assert service.running is not None
    monkeypatch.setattr(EntryMaker, "__call__", failing)
    statuses: list[tuple[bool, int]] = []
    clients = [threading.Thread(target=ask, args=(text,)) for text in ("defect", *[MARKUP] * 7)]
    first = threading.Thread(target=ask, args=(MARKUP,))
    service.running.follower.ask(lambda _: held.wait(CUT_S))
    try:
        first.start()
        wait_until(lambda: sizes == [1], CUT_S, "a batch is under way")
        for client in clients:
            client.start()
        gauge = "stream_dedup_serve_articles_waiting 9.0"
        wait_until(lambda: gauge in service.call("GET", "/metrics").body.decode(), CUT_S, "all wait")
    finally:
        held.set()
        for client in (first, *clients):
            client.join()
    assert sorted(statuses) == [(False, 200)] * 8 + [(True, 503)]
    assert 8 in sizes


@pytest.mark.expect_log("connections cannot be accepted")
def test_connections_that_cannot_be_accepted_are_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Asyncio reports each of a backlog of hundreds, every second, while no file descriptor is left."""

    async def app(_scope: object, _receive: object, _send: object) -> None:
        raise AssertionError

    server, error = HttpServer(app, ServeConfig(address="127.0.0.1:0"), None), OSError(24, "Too many open files")
    with closing(server), closing(asyncio.new_event_loop()) as loop:
        for _ in range(300):
            server._on_loop_error(loop, {"message": ACCEPT_FAILED, "exception": error})
    assert [one.getMessage() for one in caplog.records] == [f"connections cannot be accepted: {error}; see ulimit -n"]


def test_a_request_whose_client_waited_too_long_leaves_the_queue() -> None:
    """While a batch stands still, the requests that wait behind it must not pile up."""
    stuck: Future[Columns] = Future()
    threads = SimpleNamespace(submit=lambda _records: stuck)
    fingerprinter: Any = SimpleNamespace(get=lambda: SimpleNamespace(records=threads, scheme=None))
    unused: Any = None

    async def cut() -> int:
        batches = _Batches(unused, fingerprinter, unused, threads=2)
        waiting = [asyncio.create_task(batches.judged([RawRecord(None, b"{}", "x")], 1)) for _ in range(5)]
        await asyncio.sleep(0)
        assert len(batches._waiting) == len(waiting) - 1
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        stuck.set_exception(DefectError("the end of the test"))
        return len(batches._waiting)

    assert asyncio.run(cut()) == 0
