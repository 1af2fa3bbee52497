"""The interface of a development broker, in a container or not.

Contract of every implementation; one suite of tests checks all of them:

* ``start`` returns when the broker has answered an admin request. It raises ``UnavailableError``, with the end of the
  broker's log, after a time limit or as soon as the broker has ended.
* ``stop`` shuts the broker down, ``kill`` ends it as a crash would; both return when the broker has ended. ``freeze``
  stops it from answering without closing a connection; ``thaw`` undoes that. ``restart`` starts it again on the same
  data and port.
* ``close`` ends the broker and removes everything that it made; it may be called at any time and more than once.
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
    """The address for clients, ``127.0.0.1:PORT``; of a cluster those of all nodes, with commas."""
    nodes: int = 1
    """The number of nodes that must answer before it counts as started."""
    description: str
    """For messages: ``Kafka 4.3.1 from Maven's jars``."""

    def start(self) -> None:
        """Start the broker and wait until it answers.

        Raises:
            UnavailableError: the broker ended, or did not answer in time; the message shows the end of its log.
        """
        self.launch()
        limit_s = READY_LIMIT_S * self.nodes  # they share the cores
        if not wait_until_ready(self.bootstrap, self.running, limit_s, self.nodes):
            what = f"did not answer within {limit_s} s" if self.running() else "ended before it was ready"
            msg = f"the development broker ({self.description}) at {self.bootstrap} {what}; its log ends:\n"
            raise UnavailableError(msg + self.log_tail())

    def restart(self) -> None:
        """Start the broker again on the same data and port; stop it first if it runs."""
        if self.running():
            self.thaw()
            self.stop()
        self.start()

    @abstractmethod
    def launch(self) -> None:
        """Start the broker without waiting for an answer."""

    @abstractmethod
    def running(self) -> bool:
        """Return whether the broker runs; a frozen broker runs."""

    @abstractmethod
    def stop(self) -> None:
        """Shut the broker down within ``STOP_LIMIT_S``; keep its data."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the broker with SIGKILL; keep its data."""

    @abstractmethod
    def freeze(self) -> None:
        """Stop the broker from answering; its connections stay open."""

    @abstractmethod
    def thaw(self) -> None:
        """Undo ``freeze``; does nothing to a broker that is not frozen."""

    @abstractmethod
    def close(self) -> None:
        """End the broker and remove everything that it made, except a data folder of the caller."""

    @abstractmethod
    def log_tail(self) -> str:
        """Return the end of the broker's log."""

    def __enter__(self) -> Self:
        """Start the broker; remove everything that a failed start made."""
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
    """A broker that runs already; it can be used, but not started or stopped."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.description = f"named by {BROKERS_VARIABLE}"

    def launch(self) -> None:
        """Do nothing: the broker runs already."""

    def running(self) -> bool:
        """Return true; ``start`` finds out whether the broker answers."""
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
        """Do nothing: this class never freezes it."""

    def restart(self) -> None:
        """Refuse."""
        self._refuse("restarted")

    def close(self) -> None:
        """Do nothing: the broker belongs to somebody else."""

    def log_tail(self) -> str:
        """Return a note: the log is on the broker's machine."""
        return "(its log is where it runs)"

    def _refuse(self, what: str) -> None:
        msg = f"the broker at {self.bootstrap} is {self.description} and cannot be {what} from here: unset it"
        raise UserError(msg)
