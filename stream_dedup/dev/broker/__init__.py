"""A real Kafka broker for development, one piece for ``make run``, ``stream-dedup broker`` and the tests.

Rules:

1. The broker is Apache Kafka, never an imitation of it.
2. It listens on loopback alone and is handed out only when an admin request was answered.
3. It leaves nothing behind, no process, container or folder, however its owner ends (see ``keeper``).
4. A machine that can run a broker and does not is an error; only a machine with neither Docker
   nor Java is told so by an error of its own (``NoMachineryError``), so that a caller may go on without.

It must never be used for data that matters: one node, no replication, no security.
"""

from stream_dedup.dev.broker.base import DevBroker
from stream_dedup.dev.broker.settings import BROKERS_VARIABLE, IMAGE_VARIABLE, KAFKA_VERSION, BrokerSettings
from stream_dedup.dev.broker.ways import NoMachineryError, can_run_broker, find_broker, prepare_broker

__all__ = [
    "BROKERS_VARIABLE",
    "IMAGE_VARIABLE",
    "KAFKA_VERSION",
    "BrokerSettings",
    "DevBroker",
    "NoMachineryError",
    "can_run_broker",
    "find_broker",
    "prepare_broker",
]
