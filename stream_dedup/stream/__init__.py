"""Kafka in, log, Kafka out: the only place that imports the Kafka client."""
