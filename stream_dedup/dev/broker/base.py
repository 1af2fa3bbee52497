"""The development broker as its users see it, whatever it runs on.

Contract of every way (one suite of tests holds all of them to it):

* ``start`` returns when an admin request was answered; before that it raises ``UnavailableError``, with
  the tail of the broker's log, after a named time or as soon as the broker has ended.
* ``stop`` is orderly and ``kill`` is not; both are done when they return. ``freeze`` stops it from answering
  without closing a connection; ``thaw`` undoes that. ``restart`` starts it again on the same data and port.
* ``close`` ends it and removes what it made; it may be called at any time and more than once.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from stream_dedup.dev.broker.ready import wait_until_ready
from stream_dedup.dev.broker.settings import BROKERS_VARIABLE, READY_LIMIT_S
from stream_dedup.errors import UnavailableError, UserError


class DevBroker(ABC):
    """A broker for development. Use it as a context manager, or call ``start`` and ``close``."""

    bootstrap: str
    """Where clients connect, ``127.0.0.1:PORT``."""
    description: str
    """What it is, for people: ``Kafka 4.3.1 from Maven's jars``."""

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            UnavailableError: it ended, or did not answer in time; the message shows the end of its log.
        """
        self.launch()
        if not wait_until_ready(self.bootstrap, self.running, READY_LIMIT_S):
            what = f"did not answer within {READY_LIMIT_S} s" if self.running() else "ended before it was ready"
            msg = f"the development broker ({self.description}) at {self.bootstrap} {what}; its log ends:\n"
            raise UnavailableError(msg + self.log_tail())

    def restart(self) -> None:
        """Start it again on the same data and port; stop it first where it runs."""
        if self.running():
            self.thaw()
            self.stop()
        self.start()

    @abstractmethod
    def launch(self) -> None:
        """Start it without waiting for an answer."""

    @abstractmethod
    def running(self) -> bool:
        """Tell whether it runs (frozen counts as running)."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it in order, within ``STOP_LIMIT_S``; keep its data."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it at once, as a crash would (SIGKILL); keep its data."""

    @abstractmethod
    def freeze(self) -> None:
        """Hold it: connections stay open and nobody answers."""

    @abstractmethod
    def thaw(self) -> None:
        """Let it go on; no effect where it is not frozen."""

    @abstractmethod
    def close(self) -> None:
        """End it and remove what it made (a folder that the caller chose for its data stays)."""

    @abstractmethod
    def log_tail(self) -> str:
        """Return the end of its log."""

    def __enter__(self) -> Self:
        """Start it; what a failed start made is removed."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ExternalBroker(DevBroker):
    """A broker that somebody else runs: it can be used, and nothing else."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.description = f"named by {BROKERS_VARIABLE}"

    def launch(self) -> None:
        """It runs already."""

    def running(self) -> bool:
        """Nobody here can know; ``start`` finds out whether it answers."""
        return True

    def stop(self) -> None:
        """Refuse."""
        self._refuse("stopped")

    def kill(self) -> None:
        """Refuse."""
        self._refuse("killed")

    def freeze(self) -> None:
        """Refuse."""
        self._refuse("frozen")

    def thaw(self) -> None:
        """It never is frozen by us."""

    def restart(self) -> None:
        """Refuse."""
        self._refuse("restarted")

    def close(self) -> None:
        """Nothing here is ours."""

    def log_tail(self) -> str:
        """Say where to look."""
        return "(its log is where it runs)"

    def _refuse(self, what: str) -> None:
        msg = f"the broker at {self.bootstrap} is {self.description} and cannot be {what} from here: unset it"
        raise UserError(msg)
