"""``produce`` on a real broker: lines as they are, keys, limits."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.future import Future

from stream_dedup.cli import run
from stream_dedup.config.model import Config
from stream_dedup.errors import EXIT_OK, EXIT_USER, UnavailableError, UserError
from stream_dedup.kafka import produce
from stream_dedup.kafka.connection import make_consumer
from stream_dedup.kafka.produce import produce_lines
from stream_dedup.kafka.topics import create_topics
from tests.kafka.operating import follow
from tests.waiting import wait_until

LIMIT_S = 60


def records_of(config: Config, topic: str) -> list[tuple[bytes | None, bytes]]:
    at = TopicPartition(topic, 0)
    with closing(make_consumer(config.kafka)) as consumer:
        consumer.assign([at])
        end = consumer.end_offsets([at])[at]
        consumer.seek(at, 0)
        found: list[tuple[bytes | None, bytes]] = []
        while len(found) < end:
            found += [(record.key, record.value) for record in consumer.poll(timeout_ms=5_000)[at]]
    return found


def nothing(_count: int) -> None:
    """No progress."""


def test_lines_go_as_they_are(
    config: Config, admin: KafkaAdminClient, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes are not touched, broken lines go as well, blank ones do not; the key is the id in the field."""
    create_topics(admin, config)
    file = tmp_path / "lines"
    file.write_bytes(b'{"id": "a", "text": "x"}\r\n\n \t\x0b\r\n{"id": 7.0}\n\xff\xfe\nno json\n[1]\n{"id": "last"}')
    name = config.topics.input[0]
    assert run(["produce", flags[0], f"--topic={name}", "--key-field=id", str(file)]) == EXIT_OK
    assert capsys.readouterr().out == f"6 records sent to {name}\n"
    assert records_of(config, name) == [
        (b"a", b'{"id": "a", "text": "x"}'),
        (b"7", b'{"id": 7.0}'),
        (None, b"\xff\xfe"),
        (None, b"no json"),
        (None, b"[1]"),
        (b"last", b'{"id": "last"}'),
    ]


def test_a_topic_that_does_not_exist(config: Config) -> None:
    """An input topic can be made by the program; of another name, the error shows the input topics."""
    (name,) = config.topics.input
    with pytest.raises(UserError, match=f"topic {name} does not exist: make it: stream-dedup topics create"):
        produce_lines(config, name, [b"{}"], None, nothing)
    with pytest.raises(UserError, match=rf"topic {name}s does not exist: name an input topic .*\({name}\), or make"):
        produce_lines(config, f"{name}s", [b"{}"], None, nothing)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_unpacked(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    tmp_path: Path,
    pack: Callable[[bytes], bytes],
) -> None:
    """Their lines are sent, as those of a plain file; the name of the file is any."""
    create_topics(admin, config)
    (tmp_path / "lines").write_bytes(pack(b'{"id": "a"}\n b \n'))
    name = config.topics.input[0]
    assert run(["produce", flags[0], f"--topic={name}", str(tmp_path / "lines")]) == EXIT_OK
    assert records_of(config, name) == [(None, b'{"id": "a"}'), (None, b" b ")]


def test_memory_is_bounded(config: Config, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than so many records are under way at once, and all arrive."""
    create_topics(admin, config)
    monkeypatch.setattr(produce, "UNACKNOWLEDGED_RECORDS", 10)
    sent: list[Future] = []
    send = KafkaProducer.send

    def send_one(*given: Any, **named: Any) -> Future:  # noqa: ANN401 - as that of the client
        assert sum(not future.is_done for future in sent) < 10
        sent.append(send(*given, **named))
        return sent[-1]

    monkeypatch.setattr(KafkaProducer, "send", send_one)
    name = config.topics.input[0]
    lines = [b"line %d\n" % number for number in range(500)]
    assert produce_lines(config, name, lines, None, nothing) == 500
    assert [value for _, value in records_of(config, name)] == [line.rstrip() for line in lines]


def test_a_record_that_the_client_does_not_take(
    config: Config, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the command at once, when those before it are acknowledged; a record that is too large is a user's."""
    create_topics(admin, config)
    send = KafkaProducer.send
    for error, expected in (
        (KafkaTimeoutError("no leader"), UnavailableError),
        (MessageSizeTooLargeError("too many bytes"), UserError),
    ):

        def send_two(self: KafkaProducer, topic: str, error: KafkaError = error, **named: Any) -> Any:  # noqa: ANN401
            if named["value"] == b"third":
                raise error
            return send(self, topic, **named)

        monkeypatch.setattr(KafkaProducer, "send", send_two)
        lines = iter([b"first\n", b"second\n", b"third\n", b"fourth\n"])
        with pytest.raises(expected, match="record 3 "):
            produce_lines(config, config.topics.input[0], lines, None, nothing)
        assert list(lines) == [b"fourth\n"]


def test_too_large(
    config: Config,
    admin: KafkaAdminClient,
    flags: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A line that the topic does not take is named, with the command after which it does: the outputs come first.

    A worker that met it before its outputs take it would reject it, without its value, for good.
    """
    create_topics(admin, config)
    name, size = config.topics.input[0], 2_000_000
    (tmp_path / "lines").write_bytes(b"x\n" + b"y" * size + b"\n")
    assert run(["produce", flags[0], f"--topic={name}", str(tmp_path / "lines")]) == EXIT_USER
    message = capsys.readouterr().err
    assert f"of {size} bytes is larger" in message
    assert message.index(f"each of their output topics has max.message.bytes of {size + 2 * 16_384}") < message.index(
        "kafka-configs.sh"
    )
    assert follow(admin, message) == [name]

    def works() -> bool:
        return run(["produce", flags[0], f"--topic={name}", str(tmp_path / "lines")]) == EXIT_OK

    # The broker answers before it has applied the change to itself.
    wait_until(works, LIMIT_S, "the topic takes the line")
