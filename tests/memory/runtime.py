"""Virtual time, signals, and the connection of one process to the cluster, by which faults are injected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from stream_dedup.ports import PassingError

P = ParamSpec("P")
T = TypeVar("T")

DELIVERY_TIMEOUT_S = 10.0
"""A request without an answer is given up after so many seconds."""


class Signal:
    """Something that may change; ``fire`` wakes whoever waits for it, in the order in which they began to wait."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Callable[[], None], None] = {}

    def add(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` at the next change."""
        self._waiting[wake] = None

    def remove(self, wake: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._waiting.pop(wake, None)

    def fire(self) -> None:
        """Wake everyone."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()


class Runtime(Protocol):
    """Virtual time: the scheduler of the simulation."""

    def now(self) -> float:
        """Return seconds since the world began."""

    def wait(self, signal: Signal, timeout_s: float) -> None:
        """Block the calling actor until the signal fires or the time has passed."""

    def call_at(self, when: float, run: Callable[[], None]) -> None:
        """Call ``run`` at a time; at once, if it has passed. It may neither block nor raise."""


PAUSE_S = 0.05
"""Between two tries to reach a broker that is away, within one poll."""


def poll_until(runtime: Runtime, changed: Signal, wait_s: float, poll_once: Callable[[], T]) -> T | None:
    """Poll again at each change until something comes, or ``wait_s`` have passed; None where a broker is away then."""
    deadline = runtime.now() + wait_s
    while True:
        found, pause_s = None, wait_s
        try:
            found = poll_once()
        except PassingError:
            pause_s = PAUSE_S
        left_s = deadline - runtime.now()
        if not found and left_s > 0:
            runtime.wait(changed, min(pause_s, left_s))
        if found or runtime.now() >= deadline:
            return found


class Phase(Enum):
    """Where in a call of a port the hook is called."""

    BEGIN = "begin"
    """Nothing is done yet; an error that the hook raises means that nothing will be."""
    END = "end"
    """The effect is there; an error that the hook raises means that its answer is lost."""


class Delivery(NamedTuple):
    """What becomes of a request that is sent without waiting; times are seconds from now."""

    arrives_s: float | None = 0.0
    """When the broker carries it out; None if it is lost."""
    answered_s: float | None = 0.0
    """When its answer comes, after it arrived; None if the answer is lost."""


@dataclass(slots=True)
class Connection:
    """How one process reaches the cluster; the defaults are a connection without faults."""

    hook: Callable[[str, Phase], None] = lambda _call, _phase: None
    """Called at both ends of every call. May block, switch to another actor, raise ``PassingError`` (what a call does
    with it is the call's affair), or end the actor."""
    heartbeats: Callable[[], bool] = lambda: True
    """Whether the process sends heartbeats now: it lives, is not frozen, and reaches the cluster."""
    delivery: Callable[[str], Delivery] = lambda _call: Delivery()
    """Draws what becomes of an append."""
    most_records: Callable[[], int] = lambda: 500
    """Draws the most records of one poll."""
    notices: Callable[[], bool] = lambda: False
    """Draws whether a reader notices at once that its topic was recreated."""


class Connected(Protocol):
    """A port, or a part of one, with its connection."""

    @property
    def connection(self) -> Connection:
        """Its connection."""


def hooked(call: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a method of a port: the hook is called before and after it."""

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            port: Any = args[0]
            hook: Callable[[str, Phase], None] = port.connection.hook
            hook(call, Phase.BEGIN)
            answer = method(*args, **kwargs)
            hook(call, Phase.END)
            return answer

        return run

    return decorate
