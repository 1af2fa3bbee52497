"""A real Kafka broker for development, used by ``make run``, ``stream-dedup broker`` and the tests.

Rules:

1. The broker is Apache Kafka, never an imitation of it.
2. It listens on loopback only, and counts as started only after it has answered an admin request.
3. It leaves no process, container or folder behind, however its owner ends (see ``keeper``).
4. A machine that could run a broker and fails to is an error. A machine with neither Docker nor Java raises
   ``NoMachineryError``, so that a caller may go on without a broker.

It must never be used for data that matters: one machine, no security. One node unless several are asked for.
"""

from stream_dedup.dev.broker.base import BROKERS_VARIABLE, IMAGE_VARIABLE, KAFKA_VERSION, BrokerSettings, DevBroker
from stream_dedup.dev.broker.jvm import DevCluster
from stream_dedup.dev.broker.ways import NoMachineryError, can_run_broker, find_broker, prepare_broker

__all__ = [
    "BROKERS_VARIABLE",
    "IMAGE_VARIABLE",
    "KAFKA_VERSION",
    "BrokerSettings",
    "DevBroker",
    "DevCluster",
    "NoMachineryError",
    "can_run_broker",
    "find_broker",
    "prepare_broker",
]
