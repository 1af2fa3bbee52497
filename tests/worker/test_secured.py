"""The pipeline on a broker that wants TLS and a password, as those of companies do."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.errors import EXIT_UNAVAILABLE
from tests.contract.kafka_world import CLIENTS
from tests.forks import ForkedProcess
from tests.secured import ADMITTED, Secured, secret
from tests.worker.mixture import records
from tests.worker.pipeline import Keys, pipeline, toml_of

TLS = ("security_protocol", "ssl_cafile")
LOGIN = ("sasl_mechanism", "sasl_username", "sasl_password_file")
PASSWORD = secret(ADMITTED)
LIMIT_S = 200
"""For a worker that is refused to end."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def _kafka(secured: Secured, folder: Path, password: str) -> Keys:
    file = folder / "password"
    file.write_text(password + "\n", "utf-8")
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": secured.certificate,
        "sasl_mechanism": "PLAIN",
        "sasl_username": ADMITTED,
        "sasl_password_file": str(file),
        "broker_wait_s": 60,
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_articles_through_a_secured_broker(
    secured: Secured, tmp_path: Path, topic_name: Callable[[str], str], client: str
) -> None:
    """Every client that the worker and the audit make comes in by TLS and password."""
    kafka = _kafka(secured, tmp_path, PASSWORD) | {"client": client}
    with pipeline(secured.tls, tmp_path, topic_name("secured"), kafka=kafka) as made:
        made.produce(records(50, 3))
        worker = made.start()
        made.wait_done()
        made.stop(worker)
        made.assert_sound()
        assert len(made.stamps()) == sum(made.ends().values())
        assert PASSWORD not in made.log()


@pytest.mark.parametrize(
    ("given", "password", "message"),
    [
        ((*TLS, *LOGIN), "mistaken", "Authentication failed"),
        (("security_protocol", *LOGIN), PASSWORD, "certificate verify failed"),
        ((), PASSWORD, "no Kafka"),
    ],
    ids=["wrong password", "unknown authority", "plain text"],
)
def test_a_client_that_is_refused_says_why(
    secured: Secured,
    tmp_path: Path,
    fork: Callable[..., ForkedProcess],
    given: tuple[str, ...],
    password: str,
    message: str,
) -> None:
    """The worker ends with one clear error, and prints no secret."""
    kafka = _kafka(secured, tmp_path, password)
    chosen: Keys = {name: kafka[name] for name in given}
    chosen |= {"brokers": secured.tls, "broker_wait_s": 60 if given else 3}  # plain text is never refused in words
    index: Keys = {"path": str(tmp_path / "index")}
    config = tmp_path / "worker.toml"
    config.write_text(toml_of({"kafka": chosen, "index": index}), "utf-8")
    with Path(os.devnull).open("rb") as nothing, (tmp_path / "out").open("wb") as out:
        worker = fork(["run", "--config", config, "--metrics", "off"], out.fileno(), nothing.fileno())
        _, told = worker.communicate(LIMIT_S)
    said = told.decode()
    assert worker.returncode == EXIT_UNAVAILABLE, said
    error = said.rstrip().rpartition("stream-dedup: error: ")[2]
    assert message in error
    assert "security_protocol" in error
    printed = said + (tmp_path / "out").read_text("utf-8")
    assert PASSWORD not in printed
    assert password not in printed
