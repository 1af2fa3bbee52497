"""The ports of a worker on confluent-kafka, the client that wraps librdkafka: source, log and sink.

``broker.clients`` chooses between this package and ``broker.adapter``. Only this package imports ``confluent_kafka``,
which is an extra: where it is missing, importing this package fails with the remedy. What a worker asks seldom, about
topics, groups and hanging transactions, it asks with kafka-python whatever the client is.

What was found out about confluent-kafka 2.16 (librdkafka 2.16) is said where it matters, in the module of each port.
"""

from stream_dedup.broker.confluent.client import check_codecs
from stream_dedup.broker.confluent.fingerprint_log import ConfluentLog
from stream_dedup.broker.confluent.sink import ConfluentSink
from stream_dedup.broker.confluent.source import ConfluentSource

__all__ = ["ConfluentLog", "ConfluentSink", "ConfluentSource", "check_codecs"]
