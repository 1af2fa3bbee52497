"""The clusters of the service: a store for the log that is followed, and what follows the output topics into it.

Each log has a folder of its own under ``serve.data_dir``, so another log begins with an empty store, and nothing is
deleted. An error of the clusters ends none of the other answers: requests for clusters are answered with it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from stream_dedup.clusters.follow import ClusterFollower, ClusterMetrics, FollowerState
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.model import Config
from stream_dedup.errors import StreamDedupError
from stream_dedup.ports import FollowPorts
from stream_dedup.serve.problems import not_ready

log = logging.getLogger(__name__)

END_S = 10.0
"""Longest wait for the thread that follows the outputs."""


class ServiceClusters:
    """Opens the store of a log and closes it. ``open`` belongs to one thread, ``store`` and ``state`` to any."""

    def __init__(
        self, config: Config, connect: Callable[[], AbstractContextManager[FollowPorts]], metrics: ClusterMetrics
    ) -> None:
        """``connect`` makes the ports of a follower, and closes them."""
        self._config = config
        self._connect = connect
        self._metrics = metrics
        self._log_id: str | None = None
        self._store: ClusterStore | None = None
        self._follower: ClusterFollower | None = None
        self._stack = ExitStack()
        self._error: StreamDedupError | None = None

    def open(self, log_id: str) -> None:
        """Keep the clusters of this log, and of no other; follow its outputs."""
        if log_id == self._log_id and self._follower is not None and self._follower.error is None:
            return
        self.close()
        self._log_id = log_id
        key, path = uuid.UUID(log_id).bytes, self._config.serve.data_dir / f"clusters-{log_id}"
        with ExitStack() as stack:
            try:
                store = ClusterStore.open(path, key, publishes=self._config.topics.clusters is not None)
                stack.callback(store.close)
                ports = stack.enter_context(self._connect())
                follower = ClusterFollower(self._config, store, ports, key, self._metrics)
                stack.callback(follower.stop, END_S)
                follower.start()
            except StreamDedupError as error:
                log.error("clusters are not kept: %s", error)  # noqa: TRY400 - the message says all
                self._error = error
                return
            self._store, self._follower, self._error = store, follower, None
            self._stack = stack.pop_all()

    @property
    def store(self) -> ClusterStore | None:
        """The store; None while there is none."""
        return self._store

    @property
    def state(self) -> FollowerState | None:
        """How far the outputs are read; None while they are not."""
        follower = self._follower
        return None if follower is None or follower.error is not None else follower.state()

    @property
    def error(self) -> BaseException | None:
        """Why clusters are not kept, or not followed any more; None if they are, or the log is not read yet."""
        follower = self._follower
        return self._error if follower is None else follower.error

    def needed(self) -> ClusterStore:
        """Return the store.

        Raises:
            ProblemError: there is none.
        """
        store = self._store
        if store is None:
            raise not_ready(f"clusters are not kept: {self._error or 'the log is not read yet'}")
        return store

    def close(self) -> None:
        """End the follower, and close the store."""
        self._store, self._follower = None, None
        self._stack.close()
        self._stack = ExitStack()
