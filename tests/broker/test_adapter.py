"""The adapter of the ports, where no broker is needed: what errors become, and what happens without a connection."""

from __future__ import annotations

import threading

import kafka.errors as kafka_errors
import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.broker import hanging_transactions
from stream_dedup.broker.adapter import KafkaSink, SystemClock
from stream_dedup.broker.adapter.port_errors import port_error, port_errors
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.errors import UnavailableError
from stream_dedup.ports import (
    FencedError,
    NotAMemberError,
    OffsetGoneError,
    Partition,
    PassingError,
    PortError,
    RecordTooLargeError,
    RefusedByBrokerError,
    SourceChangedError,
    UnreadableError,
)

KINDS: list[tuple[KafkaError, type[PortError]]] = [
    (kafka_errors.ProducerFencedError(), FencedError),
    (kafka_errors.CommitFailedError(), NotAMemberError),
    (kafka_errors.RebalanceInProgressError(), NotAMemberError),
    (kafka_errors.MessageSizeTooLargeError(), RecordTooLargeError),
    (kafka_errors.LogTruncationError({}), SourceChangedError),
    (kafka_errors.CorruptRecordError(), UnreadableError),
    (kafka_errors.UnsupportedCodecError(), UnreadableError),
    (kafka_errors.TopicAuthorizationFailedError({"articles"}), RefusedByBrokerError),
    (kafka_errors.GroupAuthorizationFailedError("group"), RefusedByBrokerError),
    (kafka_errors.TransactionalIdAuthorizationFailedError(), RefusedByBrokerError),
    (kafka_errors.InvalidTransactionTimeoutError(), RefusedByBrokerError),
    (kafka_errors.KafkaTimeoutError(), PassingError),
    (kafka_errors.NotLeaderForPartitionError(), PassingError),
    (kafka_errors.UnstableOffsetCommitError(), PassingError),
    (kafka_errors.KafkaConnectionError(), PassingError),
    (kafka_errors.TransactionAbortedError(), PassingError),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", repr(value)))
def test_an_error_of_the_client_becomes_the_one_that_names_the_reaction(
    error: KafkaError, kind: type[PortError]
) -> None:
    """Also where the client wraps it in a text, or in another error."""
    assert type(port_error(error)) is kind
    assert type(port_error(KafkaError("because of an earlier one", error))) is kind
    if isinstance(error, kafka_errors.BrokerResponseError):
        assert type(port_error(KafkaError(f"Unexpected error in a response: {error}"))) is kind


@pytest.mark.parametrize("number", [code for code in range(200) if code not in {0, 1}])
def test_every_error_of_the_broker_becomes_an_error_of_the_ports(number: int) -> None:
    """A text with its name, so that a person finds it in Kafka's documentation."""
    kind = kafka_errors.for_code(number)
    error = port_error(kind())
    assert type(error) is not PortError
    assert kind.__name__ in str(error)


def test_an_offset_out_of_range_names_its_partitions() -> None:
    error = port_error(kafka_errors.OffsetOutOfRangeError({TopicPartition("articles", 3): 7}))
    assert isinstance(error, OffsetGoneError)
    assert error.partitions == {Partition("articles", 3)}


def test_a_wrapped_refusal_says_what_the_broker_means() -> None:
    """The client's text has the number and the class only."""
    wrapped = KafkaError(f"Unexpected error in InitProducerIdResponse: {kafka_errors.InvalidTransactionTimeoutError()}")
    assert "larger than the maximum value allowed by the broker" in str(port_error(wrapped))


def test_a_broker_that_cannot_be_reached_is_a_passing_error() -> None:
    with pytest.raises(PassingError, match="no broker"), port_errors():
        raise UnavailableError("no broker")  # noqa: EM101, TRY003 - any text


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """A configuration whose broker cannot be reached."""

    def away(_kafka: KafkaConfig, **_settings: object) -> None:
        raise UnavailableError("no broker")  # noqa: EM101, TRY003 - any text

    monkeypatch.setattr(hanging_transactions, "make_admin", away)
    monkeypatch.setattr("stream_dedup.broker.adapter.sink.make_producer", away)
    return load_config(None, {}, {})


def test_a_sink_that_was_not_renewed_says_so(config: Config) -> None:
    with pytest.raises(PassingError, match="renew"):
        KafkaSink(config, "group-id").begin()


def test_a_sink_without_a_broker_can_be_renewed_later(config: Config) -> None:
    sink = KafkaSink(config, "group-id")
    for _ in range(2):
        with pytest.raises(PassingError, match="no broker"):
            sink.renew()
    with pytest.raises(PassingError, match="no broker"):
        sink.abort_hanging()
    sink.close()


def test_the_clock_is_the_machines() -> None:
    """Time does not go back, an event ends a wait, and a spawned thread runs."""
    clock = SystemClock()
    before, event = clock.monotonic(), clock.event()
    thread = clock.spawn("sets-it", event.set)
    assert event.wait(30)
    thread.join(30)
    assert not thread.is_alive()
    assert clock.monotonic() >= before
    assert isinstance(thread, threading.Thread)
    assert thread.daemon
