"""The ports of a worker on confluent-kafka, the client that wraps librdkafka: source and sink.

Only this package imports ``confluent_kafka``, an extra; only ``clients`` imports this package. The log, and what a
worker asks seldom, about topics, groups, their offsets and hanging transactions, go through kafka-python whatever the
client is.

What was found out about confluent-kafka 2.16 (librdkafka 2.16) is said where it matters, in the module of each port.
"""
