"""How the clients on kafka-python exchange requests: large reads, writes without a wait, few steps for a poll."""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.future import Future
from kafka.net.transport import KafkaTCPTransport

from stream_dedup.broker import workarounds
from stream_dedup.errors import UserError


@pytest.mark.parametrize("workaround", [workarounds.trust_known_coordinator, workarounds.fetch_in_one_step])
def test_a_name_of_polling_that_is_gone_is_an_error(workaround: Callable[[Any], None]) -> None:
    with pytest.raises(UserError, match=r"kafka-python has no SimpleNamespace\._"):
        workaround(SimpleNamespace())


def test_a_coordinator_that_is_known_and_connected_is_not_asked_for() -> None:
    """Every other one is: one that is not known, and one whose connection has ended."""
    asked: list[float | None] = []
    connected = {1}

    def ask(timeout_ms: float | None) -> bool:
        asked.append(timeout_ms)
        return False

    coordinator = SimpleNamespace(
        coordinator_id=1,
        _client=SimpleNamespace(connected=lambda node: node in connected),
        ensure_coordinator_ready=ask,
    )
    workarounds.trust_known_coordinator(SimpleNamespace(_coordinator=coordinator))
    assert (coordinator.ensure_coordinator_ready(timeout_ms=7), asked) == (True, [])
    connected.clear()
    assert (coordinator.ensure_coordinator_ready(timeout_ms=7), asked) == (False, [7])
    connected.add(1)
    coordinator.coordinator_id = None
    assert (coordinator.ensure_coordinator_ready(timeout_ms=8), asked) == (False, [7, 8])


class SocketInPlace:
    """A socket that counts what is asked of it, and takes only so much at once."""

    def __init__(self, inner: socket.socket, most: int = 1 << 30) -> None:
        self._inner, self._most = inner, most
        self.reads = 0

    def recv(self, most: int) -> bytes:
        self.reads += 1
        return self._inner.recv(most)

    def send(self, data: memoryview) -> int:
        if not self._most:
            raise BlockingIOError
        sent = self._inner.send(data[: self._most])
        self._most -= sent
        return sent


def test_what_a_broker_sends_is_read_in_large_pieces() -> None:
    """One read for each time that there is something; nothing there is no error, and the end of the connection is."""
    workarounds.read_in_large_pieces()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    counted = SocketInPlace(ours)
    reading = SimpleNamespace(_sock=counted)
    with ours:
        with theirs:
            theirs.sendall(b"x" * 20_000)
            assert KafkaTCPTransport._sock_recv(reading) == (b"x" * 20_000, None)
            assert counted.reads == 1
            assert KafkaTCPTransport._sock_recv(reading) == (b"", None)
            assert counted.reads == 2
        data, error = KafkaTCPTransport._sock_recv(reading)
    assert (data, type(error)) == (b"", KafkaConnectionError)


@pytest.mark.parametrize(("most", "waits"), [(1 << 30, 0), (4, 1), (0, 1)])
def test_a_request_is_written_when_it_is_made(most: int, waits: int) -> None:
    """The socket is waited for only if it does not take all of it, and nothing is lost or sent twice."""
    workarounds.write_at_once()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        counted = SocketInPlace(ours, most)
        net = WaitsInPlace(counted)
        transport: Any = object.__new__(KafkaTCPTransport)
        transport._net, transport._sock, transport._protocol = net, counted, None
        transport._write_buffer, transport._writing = deque([b"first ", b"second"]), True
        transport._closed, transport._write = False, True
        _run_to_end(transport._write_to_sock())
        assert theirs.recv(100) == b"first second"
        assert (net.waits, transport._writing) == (waits, False)


def test_a_request_that_cannot_be_written_ends_the_connection() -> None:
    """As one that the client writes itself."""
    workarounds.write_at_once()
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        transport: Any = object.__new__(KafkaTCPTransport)
        transport._net, transport._sock, transport._protocol = WaitsInPlace(SocketInPlace(ours)), ours, None
        transport._write_buffer, transport._writing = deque([b"request"]), True
        transport._closed, transport._write = False, True
        ended: list[Exception] = []
        transport.abort = lambda error: ended.extend([error])
        _run_to_end(transport._write_to_sock())
    assert ([type(error) for error in ended], transport._writing) == ([KafkaConnectionError], False)


def test_a_selector_answers_as_that_of_the_system() -> None:
    """Whatever was added, changed, removed or closed meanwhile; and no file is described that it does not have."""
    ours, theirs = socket.socketpair()
    selector, system = workarounds.QuickSelector(), selectors.DefaultSelector()
    with ours, theirs, closing(selector), closing(system):
        for events, data in ((selectors.EVENT_READ, "one"), (selectors.EVENT_READ | selectors.EVENT_WRITE, "two")):
            for each in (selector, system):
                with pytest.raises(KeyError):
                    each.get_key(ours)
                each.register(ours, selectors.EVENT_READ, "none")
                each.modify(ours, events, data)
                assert each.get_key(ours) == (ours, ours.fileno(), events, data)
                theirs.sendall(b"x")
                assert [(key.data, what & events) for key, what in each.select(0)] == [(data, events)]
                each.unregister(ours)
                with pytest.raises(KeyError):
                    each.unregister(ours)
        with pytest.raises(KeyError) as error:
            selector.get_key(ours)
        assert error.value.args == (ours,)
        selector.register(ours, selectors.EVENT_READ)
        ours.close()
        assert selector.get_key(ours).fileobj is ours
        selector.unregister(ours)
        assert not selector.get_map()


def test_a_change_that_fails_leaves_no_key() -> None:
    """A file of the system's is no socket: epoll refuses it, and the client adds what it needs anew."""
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(workarounds.QuickSelector()) as selector:
        selector.register(ours, selectors.EVENT_READ)
        selector.unregister(ours)
        with pytest.raises(KeyError):
            selector.modify(ours, selectors.EVENT_READ)
        with pytest.raises(KeyError):
            selector.get_key(ours)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a selector asks of the system."""
    made: list[str] = []
    for name in ("register", "unregister"):
        call = getattr(selectors.DefaultSelector, name)

        def note(*given: object, name: str = name, call: Callable[..., object] = call) -> object:
            made.append(name)
            return call(*given)

        monkeypatch.setattr(selectors.DefaultSelector, name, note)
    return made


def test_a_file_that_comes_back_is_watched_all_the_time(calls: list[str]) -> None:
    """The client adds and removes a connection for each answer of the broker."""
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(workarounds.QuickSelector()) as selector:
        for data in range(3):
            selector.register(ours, selectors.EVENT_READ, data)
            assert selector.select(0) == []
            theirs.sendall(b"x")
            assert selector.select(0) == [(selector.get_key(ours), selectors.EVENT_READ)]
            assert selector.get_key(ours).data == data
            assert ours.recv(1) == b"x"
            selector.unregister(ours)
            assert not selector.get_map()
        assert calls == ["register"]
        selector.register(ours, selectors.EVENT_WRITE, "other")
        assert [key.data for key, _ in selector.select(0)] == ["other"]
        assert calls == ["register", "unregister", "register"]


@pytest.mark.parametrize("ends", [False, True])
def test_an_event_of_a_file_that_was_removed_is_the_last(calls: list[str], *, ends: bool) -> None:
    """Nobody hears of it, and it does not come again and again: that would keep a core busy."""
    ours, theirs = socket.socketpair()
    others = socket.socketpair()
    with ours, theirs, others[0], others[1], closing(workarounds.QuickSelector()) as selector:
        selector.register(others[0], selectors.EVENT_READ, "waits")
        selector.register(ours, selectors.EVENT_READ, "waited")
        selector.unregister(ours)
        if ends:
            theirs.close()
        else:
            theirs.sendall(b"x")
        others[1].sendall(b"y")
        assert [key.data for key, _ in selector.select(10)] == ["waits"]
        assert calls == ["register", "register", "unregister"]
        others[0].recv(1)
        assert selector.select(0) == []
        selector.register(ours, selectors.EVENT_READ, "again")
        assert [key.data for key, _ in selector.select(0)] == ["again"]


@pytest.mark.parametrize("removes", [True, False])
def test_a_descriptor_that_is_used_again_is_another_file(*, removes: bool) -> None:
    """The client closes connections that it waits for, and those that it does not."""
    with closing(workarounds.QuickSelector()) as selector:
        ours, theirs = socket.socketpair()
        selector.register(ours, selectors.EVENT_READ, "closed")
        selector.unregister(ours)
        descriptor = ours.fileno()
        ours.close()
        if removes:
            with pytest.raises(ValueError, match="Invalid file descriptor"):
                selector.register(ours, selectors.EVENT_READ, "closed")
        second, other = socket.socketpair()
        moved = socket.socket(fileno=os.dup2(second.detach(), descriptor))
        with theirs, moved, other:
            selector.register(moved, selectors.EVENT_READ, "second")
            other.sendall(b"x")
            assert [key.data for key, _ in selector.select(0)] == ["second"]
            with pytest.raises(KeyError):
                selector.unregister(ours)


class WaitsInPlace:
    """A loop of the client for a transport that writes: the socket takes everything once it was waited for."""

    def __init__(self, sock: SocketInPlace) -> None:
        self._sock = sock
        self.waits = 0

    async def wait_write(self, _sock: object) -> None:
        self.waits += 1
        self._sock._most = 1 << 30


def _run_to_end(coroutine: Coroutine[Any, Any, None]) -> None:
    with pytest.raises(StopIteration):
        coroutine.send(None)


class FetcherInPlace:
    """A fetcher of the client whose fetches are answered when somebody waits for them."""

    def __init__(self, *answers: dict[str, list[int]]) -> None:
        self._answers = deque(answers)
        self._buffered: list[dict[str, list[int]]] = []
        self._fetch_futures: deque[Future] = deque()
        self._reset_task: Future | None = None
        self._net = self._manager = self
        self.steps: list[str] = []

    def fetched_records(self, _most: int | None, *, update_offsets: bool) -> tuple[dict[str, list[int]], bool]:
        assert update_offsets
        return (self._buffered.pop(0), bool(self._buffered)) if self._buffered else ({}, False)

    def send_fetches(self) -> None:
        self.run(self._send_fetches_async)

    async def _send_fetches_async(self) -> None:
        if self._answers:
            self._fetch_futures.append(Future())

    async def wait_for(self, future: Future, timeout_ms: float | None) -> None:
        if timeout_ms == 0:
            raise KafkaTimeoutError
        self._buffered.append(self._answers.popleft())
        self._fetch_futures.popleft().success(None)
        assert future.is_done

    def run(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> Any:  # noqa: ANN401 - of any work
        self.steps.append(work.__name__)
        with pytest.raises(StopIteration) as ended:
            work(*args).send(None)
        return ended.value.value


def test_a_poll_sends_its_fetches_and_waits_in_one_step() -> None:
    """Its outcomes are the client's own: records, none within the time, or nothing to wait for."""
    fetcher = FetcherInPlace({"a": [1]}, {"a": [2]})
    consumer: Any = SimpleNamespace(_fetcher=fetcher)
    workarounds.fetch_in_one_step(consumer)
    poll: Any = fetcher.fetch_records  # type: ignore[attr-defined]
    assert (poll(500, update_offsets=True, timeout_ms=100), fetcher.steps) == (({"a": [1]}, False), ["send_and_wait"])
    assert poll(500, update_offsets=True, timeout_ms=0) == ({}, False)
    fetcher._buffered.append({"a": [3]})
    fetcher.steps.clear()
    assert (poll(500, update_offsets=True, timeout_ms=0), fetcher.steps) == (
        ({"a": [3]}, False),
        ["_send_fetches_async"],
    )
    nothing = FetcherInPlace()
    workarounds.fetch_in_one_step(SimpleNamespace(_fetcher=nothing))
    assert nothing.fetch_records(500, update_offsets=True, timeout_ms=100) == ({}, True)  # type: ignore[attr-defined]


def test_a_poll_waits_for_a_position_that_is_looked_up() -> None:
    """There is nothing to fetch before it is known; once it is, there is nothing to wait for."""
    looking_up = FetcherInPlace()
    looking_up._reset_task = Future()
    workarounds.fetch_in_one_step(SimpleNamespace(_fetcher=looking_up))
    poll: Any = looking_up.fetch_records  # type: ignore[attr-defined]
    assert poll(500, update_offsets=True, timeout_ms=0) == ({}, False)
    looking_up._reset_task.success(None)
    assert poll(500, update_offsets=True, timeout_ms=0) == ({}, True)
