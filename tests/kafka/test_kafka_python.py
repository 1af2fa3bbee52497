"""The adapter of the ports, where no broker is needed: what errors become, and what happens without a connection."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import kafka.errors as kafka_errors
import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka import hanging_transactions
from stream_dedup.kafka.errors import port_error, port_errors
from stream_dedup.kafka.fingerprint_log import KafkaLog
from stream_dedup.kafka.kafka_python.sink import KafkaSink
from stream_dedup.kafka.record import LOG_MESSAGE_BYTES
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
)
from tests.logs import rules

KINDS: list[tuple[KafkaError, type[PortError]]] = [
    (kafka_errors.ProducerFencedError(), FencedError),
    (kafka_errors.CommitFailedError(), NotAMemberError),
    (kafka_errors.RebalanceInProgressError(), NotAMemberError),
    (kafka_errors.MessageSizeTooLargeError(), RecordTooLargeError),
    (kafka_errors.LogTruncationError({}), SourceChangedError),
    (kafka_errors.CorruptRecordError(), PassingError),
    (kafka_errors.TopicAuthorizationFailedError({"articles"}), RefusedByBrokerError),
    (kafka_errors.GroupAuthorizationFailedError("group"), RefusedByBrokerError),
    (kafka_errors.TransactionalIdAuthorizationFailedError(), RefusedByBrokerError),
    (kafka_errors.InvalidTransactionTimeoutError(), RefusedByBrokerError),
    (kafka_errors.FencedInstanceIdError(), RefusedByBrokerError),
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
        raise UnavailableError("no broker")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """A configuration whose broker cannot be reached."""

    def away(_kafka: KafkaConfig, **_settings: object) -> None:
        raise UnavailableError("no broker")

    monkeypatch.setattr(hanging_transactions, "make_admin", away)
    monkeypatch.setattr("stream_dedup.kafka.kafka_python.sink.make_producer", away)
    return load_config(None, {}, {})


def test_a_sink_that_was_not_renewed_says_so(config: Config) -> None:
    with pytest.raises(PassingError, match="renew"):
        KafkaSink(config, "group-id").begin()


def test_a_call_that_fails_lets_go_of_what_its_caller_has(config: Config) -> None:
    """A batch of outputs, at once: a collection of garbage may be late."""
    batches = list[weakref.ref[_Batch]]()

    def refuse(*_: object, **__: object) -> None:
        raise KafkaTimeoutError

    def fail(sink: KafkaSink) -> None:
        batch = _Batch()
        batches.append(weakref.ref(batch))
        with pytest.raises(PassingError):
            sink.begin()

    sink = KafkaSink(config, "group-id")
    producer: Any = SimpleNamespace(begin_transaction=refuse, _transaction_manager=SimpleNamespace(last_error=None))
    sink._producers = [producer]
    gc.disable()
    try:
        for _ in range(3):
            fail(sink)
        assert [batch() for batch in batches] == [None] * 3
    finally:
        gc.enable()


class _Batch:
    """What a caller works on."""


def test_a_sink_without_a_broker_can_be_renewed_later(config: Config) -> None:
    sink = KafkaSink(config, "group-id")
    for _ in range(2):
        with pytest.raises(PassingError, match="no broker"):
            sink.renew()
    with pytest.raises(PassingError, match="no broker"):
        sink.abort_hanging()
    sink.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> KafkaLog:
    """A log whose broker never answers, and takes no record above the client's limit."""

    def producer(_kafka: KafkaConfig, max_request_size: int, **_settings: object) -> SimpleNamespace:
        def send(_topic: str, value: bytes, partition: int) -> FutureRecordMetadata:
            assert partition == 0
            if len(value) > max_request_size:
                raise kafka_errors.MessageSizeTooLargeError
            return FutureRecordMetadata(FutureProduceResult(TopicPartition("log", 0)), -1, None, None, 0, 0, 0)

        def close(timeout: float) -> None:
            assert timeout > 0
            raise kafka_errors.KafkaTimeoutError

        return SimpleNamespace(send=send, partitions_for=lambda _topic: {0}, close=close)

    module = "stream_dedup.kafka.fingerprint_log"
    monkeypatch.setattr(f"{module}.make_producer", producer)
    consumer = SimpleNamespace(assign=lambda _partitions: None, close=lambda **_: None)
    monkeypatch.setattr(f"{module}.make_consumer", lambda *_, **__: consumer)
    monkeypatch.setattr(f"{module}.discard", lambda _producer: None)
    return KafkaLog(KafkaConfig(), "group.fingerprints")


def test_renew_gives_up_the_appends_whose_outcome_is_not_known(log: KafkaLog) -> None:
    """They are done, with a passing error; those after it are under way."""
    append = log.append(rules(1))
    assert (append.done(), append.error()) == (False, None)
    log.renew()
    assert append.done()
    assert isinstance(append.error(), PassingError)
    with pytest.raises(PassingError):
        append.wait(0)
    assert not log.append(rules(2)).done()


def test_an_append_that_is_not_acknowledged_in_time_is_a_passing_error(log: KafkaLog) -> None:
    append = log.append(rules(1))
    with pytest.raises(PassingError):
        append.wait(0)
    assert not append.done()


def test_a_record_that_the_client_does_not_take_is_a_failed_append(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes with the append, as every other: ``append`` itself raises none."""
    monkeypatch.setattr("stream_dedup.kafka.fingerprint_log.encode", lambda _: bytes(LOG_MESSAGE_BYTES + 1))
    append = log.append(rules(1))
    assert append.done()
    assert isinstance(append.error(), RecordTooLargeError)


def test_a_log_with_an_append_under_way_closes_without_an_error(log: KafkaLog) -> None:
    """The client raises for records that it could not send: a stop while the broker is away is no failure."""
    append = log.append(rules(1))
    log.close()
    assert isinstance(append.error(), PassingError)
