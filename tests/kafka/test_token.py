"""Users who come in by a token (OAUTHBEARER), which the client reads from a file."""

from __future__ import annotations

import base64
import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.config.model import KafkaConfig
from stream_dedup.errors import UnavailableError
from stream_dedup.kafka.confluent.client import make_member
from stream_dedup.kafka.connection import make_admin, wait_for_broker
from tests.secured import ADMITTED, Secured

LIFETIME_S = 600


def token(user: str, ends_in_s: float) -> str:
    """Return a token without a signature."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": user, "iat": now - LIFETIME_S, "exp": now + ends_in_s}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


@pytest.fixture
def kafka(secured: Secured, tmp_path: Path) -> KafkaConfig:
    path = tmp_path / "token"
    path.write_text(token(ADMITTED, LIFETIME_S) + "\n")
    return KafkaConfig(
        brokers=secured.users,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_token_file=path,
        broker_wait_s=5,
    )


def test_a_token_lets_its_user_in(kafka: KafkaConfig) -> None:
    """The client has the rights of the user whom the token names."""
    with closing(make_admin(kafka)) as admin:
        assert admin.list_topics() is not None


def test_a_token_lets_a_member_in_with_confluent_kafka(kafka: KafkaConfig) -> None:
    """Its callback reads the same file."""
    consumer = make_member(kafka)
    assert consumer.list_topics(timeout=30).brokers
    consumer.close()


def test_a_token_that_has_ended_is_refused(kafka: KafkaConfig) -> None:
    """The error has what the broker said, and the keys to look at; a new token in the file is taken at once."""
    assert kafka.sasl_token_file is not None
    kafka.sasl_token_file.write_text(token(ADMITTED, -10))
    with pytest.raises(UnavailableError, match=r'SASL_PLAINTEXT: {"status":"invalid_token"}; see .*kafka\.sasl_\*'):
        wait_for_broker(kafka)
    kafka.sasl_token_file.write_text(token(ADMITTED, LIFETIME_S))
    wait_for_broker(kafka)
