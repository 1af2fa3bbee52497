"""A selector that goes on watching a file that nobody waits for at the moment, and answers at once about its files."""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class QuickSelector(selectors.DefaultSelector):
    """The system's selector, with its keys by file object.

    Before each wait for a socket the client asks for the socket's key, which is not there then. The error of the
    standard library describes the socket, twice, by four system calls: a quarter of what the client's threads take.

    The client adds a socket for each wait, and removes it when there is something to read. Both are system calls that
    give the interpreter to other threads. Most sockets come back for the same events before they have any: a file that
    was removed is therefore watched until it has one.

    A process that is forked while a client is open must not outlive its sockets: what it holds of one that was closed
    here is watched for ever. This program forks nothing.
    """

    def __init__(self) -> None:
        """Have no file yet."""
        super().__init__()
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self._removed: dict[int, selectors.SelectorKey] = {}
        """What was removed and is still watched, by file descriptor."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401 - as the base
        """Add a file."""
        removed = self._removed_like(fileobj)
        if removed is not None and removed.fileobj is fileobj and removed.events == events and _is_open(fileobj):
            del self._removed[removed.fd]
            key = super().modify(fileobj, events, data)
            self._keys[fileobj] = key
            return key
        if removed is not None:
            self._forget(removed)
        self._keys[fileobj] = key = super().register(fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:  # noqa: ANN401 - as the base
        """Remove a file.

        Raises:
            KeyError: it was not added.
        """
        key = self._keys.pop(fileobj)
        self._removed[key.fd] = super().modify(fileobj, key.events, None)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:  # noqa: ANN401 - as the base
        """Change what is waited for.

        Raises:
            KeyError: it was not added.
        """
        del self._keys[fileobj]  # where the change fails, the system's has none either
        self._keys[fileobj] = key = super().modify(fileobj, events, data)
        return key

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:  # noqa: ANN401 - as the base
        """Return the key of a file.

        Raises:
            KeyError: it was not added.
        """
        return self._keys[fileobj]

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the keys by file."""
        return MappingProxyType(self._keys)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events. One of a file that was removed ends the wait, too; it is not returned, and is the last."""
        ready = super().select(timeout)
        for removed in [key for key, _ in ready if key.fd in self._removed]:
            self._forget(removed)
            ready = [one for one in ready if one[0] is not removed]
        return ready

    def close(self) -> None:
        """Close, and have no file."""
        super().close()
        self._keys.clear()
        self._removed.clear()

    def _removed_like(self, fileobj: Any) -> selectors.SelectorKey | None:  # noqa: ANN401 - as the base
        """Return what was removed of this file, or of another that had its descriptor before."""
        descriptor = fileobj.fileno()
        if descriptor >= 0:
            return self._removed.get(descriptor)
        return next((key for key in self._removed.values() if key.fileobj is fileobj), None)  # it was closed

    def _forget(self, removed: selectors.SelectorKey) -> None:
        """Watch a file that was removed no more."""
        del self._removed[removed.fd]
        super().unregister(removed.fileobj)


def _is_open(fileobj: Any) -> bool:  # noqa: ANN401 - as the selector's
    return bool(fileobj.fileno() >= 0)
