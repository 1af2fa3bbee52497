"""The settings that a client is made with, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from stream_dedup.config.load import load_config
from stream_dedup.config.model import KafkaConfig
from stream_dedup.kafka import connection as client
from stream_dedup.kafka.connection import TokenFile, make_admin, make_consumer, make_producer

REQUEST_BYTES = 100 << 20
"""``socket.request.max.bytes`` of a broker, by default."""


def made(monkeypatch: pytest.MonkeyPatch, **keys: object) -> dict[str, dict[str, Any]]:
    """The settings of each kind of client with these keys of the configuration."""
    kafka: KafkaConfig = load_config(None, {"kafka": keys}, {}).kafka
    seen: dict[str, dict[str, Any]] = {}
    for workaround in (
        "keep_transaction_requests",
        "name_undecoded",
        "ask_anew",
    ):
        monkeypatch.setattr(client, workaround, lambda _client: None)
    monkeypatch.setattr(client, "_constructed", lambda _kafka, kind, settings: seen.update({kind.__name__: settings}))
    for make in (make_admin, make_consumer, make_producer):
        make(kafka)
    return seen


def test_keys_reach_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client has the client id; consumers have the rack, producers the compression."""
    seen = made(monkeypatch, client_id="news", client_rack="zone-b", compression="zstd")
    assert {settings["client_id"] for settings in seen.values()} == {"news"}
    assert seen["KafkaConsumer"]["client_rack"] == "zone-b"
    assert seen["KafkaProducer"]["compression_type"] == "zstd"


def test_the_largest_batch_that_a_broker_takes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response beyond the limit ends the connection, and is asked for again, without an end."""
    assert made(monkeypatch)["KafkaConsumer"]["receive_message_max_bytes"] > 2 * REQUEST_BYTES


def test_defaults_are_those_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rack, no compression, no token."""
    seen = made(monkeypatch)
    assert seen["KafkaConsumer"]["client_rack"] == ""
    assert seen["KafkaProducer"]["compression_type"] is None
    assert all("sasl_oauth_token_provider" not in settings for settings in seen.values())


def test_added_partitions_are_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client looks its topics up anew every few seconds, in place of every five minutes."""
    assert {settings["metadata_max_age_ms"] for settings in made(monkeypatch).values()} == {5_000}


def test_a_token_is_read_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A token that was renewed is the next one; a file that cannot be read is an error that passes, with its name."""
    path = tmp_path / "token"
    path.write_text("first\n")
    keys = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_token_file": str(path)}
    provider = made(monkeypatch, **keys)["KafkaProducer"]["sasl_oauth_token_provider"]
    assert isinstance(provider, TokenFile)
    assert provider.token() == "first"
    path.write_text("second")
    assert provider.token() == "second"
    path.unlink()
    with pytest.raises(KafkaConnectionError, match=rf"token file {path} \(kafka.sasl_token_file\) cannot be read"):
        provider.token()
