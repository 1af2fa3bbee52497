"""Builds the service from a configuration and runs it.

In this order: secrets, address, broker; then the follower opens the log, and what fingerprints is loaded
when its scheme is known. The service answers from the beginning: with 503 and the reason while the log is read.

The routes are those for programs (``api``) and those of the pages (``pages``). ``server.Gate`` is around both: the
token (a browser asks for it, and sends it as the password of ``Basic``), the host, the size of bodies, problems for
errors. It sets ``Content-Security-Policy: default-src 'none'`` where the answer has none; pages set their own.

An endpoint that blocks (SQLite, Kafka) does so off the event loop.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from stream_dedup.clusters.follow import ClusterMetrics
from stream_dedup.config.effective import input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.rules import Rules
from stream_dedup.kafka.admin import KafkaOffsets
from stream_dedup.kafka.clients import SystemClock, kafka_follow_ports
from stream_dedup.kafka.connection import unavailable_on_kafka_error, wait_for_broker
from stream_dedup.kafka.readers import KafkaTopicReader
from stream_dedup.kafka.rules_log import KafkaLogTopic
from stream_dedup.ports import Clock, FollowPorts
from stream_dedup.serve.api import Service, api_routes
from stream_dedup.serve.checking import Checker, name_paths
from stream_dedup.serve.clusters import ServiceClusters
from stream_dedup.serve.explaining import Explainer
from stream_dedup.serve.follower import LogFollower, TopicPorts
from stream_dedup.serve.pages.backend import PageBackend
from stream_dedup.serve.pages.routes import page_routes
from stream_dedup.serve.reading import GroupStatus, SourceTexts
from stream_dedup.serve.routing import Router
from stream_dedup.serve.schemes import SchemeFingerprinter
from stream_dedup.serve.serve_metrics import ServeMetrics
from stream_dedup.serve.server import Gate, HttpServer, read_token, tls_context
from stream_dedup.worker.app import stopping_signals
from stream_dedup.worker.opening import LogTopic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServePorts:
    """What the service reads of Kafka, and its clock."""

    topic: LogTopic
    clock: Clock
    connect_topics: Callable[[], TopicPorts]
    """For the end of the log, and for texts."""
    connect_outputs: Callable[[], AbstractContextManager[FollowPorts]]


FAILURE_LOOK_S = 0.2
"""Seconds between two looks whether a thread has failed."""


def run_service(config: Config) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit code.

    Raises:
        StreamDedupError: the error that ended the service.
    """
    stop = threading.Event()
    with ExitStack() as stack:
        running = stack.enter_context(stopping_signals(stop))
        stack.enter_context(unavailable_on_kafka_error(config.kafka))
        running()
        service = stack.enter_context(RunningService(config, _kafka_ports(config)))
        print(f"serve: {service.url}/", file=sys.stderr, flush=True)  # noqa: T201 - asked for by a port of 0
        wait_for_broker(config.kafka, stop.is_set)
        if not stop.is_set():
            service.follow()
        while not stop.wait(FAILURE_LOOK_S):
            service.raise_failure()
    log.info("stopped")
    return 0


def _kafka_ports(config: Config) -> ServePorts:
    return ServePorts(
        topic=KafkaLogTopic(config),
        clock=SystemClock(),
        connect_topics=lambda: TopicPorts(KafkaTopicReader(config.kafka), KafkaOffsets(config.kafka)),
        connect_outputs=lambda: kafka_follow_ports(config),
    )


class RunningService:
    """The service with its threads. As a context manager, it ends them; then it raises what one of them failed with."""

    def __init__(self, config: Config, ports: ServePorts) -> None:
        """Listen; the log is not read before ``follow``.

        Raises:
            UserError: a secret cannot be used, or the address not be bound.
        """
        token, context = read_token(config.serve.token_file), tls_context(config.serve)
        metrics = ServeMetrics(CollectorRegistry())
        metrics.watch_disk(config.serve.data_dir)
        self._fingerprinter = SchemeFingerprinter(config)
        self.follower = LogFollower(config, ports.topic, ports.connect_topics, ports.clock, metrics)
        self._clusters = ServiceClusters(config, ports.connect_outputs, ClusterMetrics(metrics.registry))
        texts = SourceTexts(config, ports.connect_topics)
        follower, fingerprinter, clusters = self.follower, self._fingerprinter, self._clusters
        service = Service(
            config=config,
            clock=ports.clock,
            follower=follower,
            fingerprinter=fingerprinter,
            checker=Checker(config, follower, fingerprinter, clusters, metrics),
            explainer=Explainer(config, follower, fingerprinter, clusters, texts),
            clusters=clusters,
            texts=texts,
            group_status=GroupStatus(config, follower, ports.clock),
            metrics=metrics,
        )
        self._closing = (service.explainer, service.texts, service.group_status, self._fingerprinter, self._clusters)
        routes = [*api_routes(service), *page_routes(PageBackend(service))]
        gate = Gate(Router(routes, name_paths(input_format_of(config))), config.serve, token, metrics)
        self._server = HttpServer(gate, config.serve, context)
        self.url, self.port = self._server.url, self._server.port
        metrics.serve_connections.set_function(lambda: self._server.connections)
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.follower.stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._server.close()
        for part in self._closing:
            part.close()
        if error is None:
            self.raise_failure()

    def follow(self) -> None:
        """Begin to follow the log."""
        self._thread.start()

    def raise_failure(self) -> None:
        """Raise what a thread failed with, if one did."""
        failures = [*self._failures, self._server.failure]
        for failure in failures:
            if failure is not None:
                raise failure

    def _follow(self) -> None:
        try:
            self.follower.run(self._on_open)
        except BaseException as error:  # noqa: BLE001 - raised by ``raise_failure``
            self._failures.append(error)

    def _on_open(self, log_id: str, rules: Rules) -> None:
        """Load what the log needs."""
        self._clusters.open(log_id)
        self._fingerprinter.use(rules.scheme)
