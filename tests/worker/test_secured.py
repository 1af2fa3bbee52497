"""The pipeline on a broker that wants TLS and a password, as those of companies do."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_dedup.dev.broker import BrokerSettings
from stream_dedup.dev.broker.jars import find_java, install_jars
from stream_dedup.dev.broker.jvm import JvmBroker
from stream_dedup.dev.broker.ports import free_ports
from stream_dedup.dev.broker.settings import SMALL_HEAP_MIB
from tests.worker.mixture import records
from tests.worker.pipeline import Keys, pipeline, toml_of

USER, PASSWORD = "worker", "worker-secret"
TLS = ("security_protocol", "ssl_cafile")
LOGIN = ("sasl_mechanism", "sasl_username", "sasl_password_file")
STORE_PASSWORD = "store-secret"  # noqa: S105 - of a store that ends with the tests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(find_java() is None or shutil.which("keytool") is None, reason="no Java 17 here to run it with"),
]


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments, "-storepass", STORE_PASSWORD], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the secured address of a broker of our own, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("secured")
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    keytool(
        *("-genkeypair", "-keystore", str(store), "-storetype", "PKCS12", "-alias", "broker", "-keyalg", "RSA"),
        *("-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost", "-validity", "2"),
    )
    keytool("-exportcert", "-keystore", str(store), "-alias", "broker", "-rfc", "-file", str(certificate))
    port, plain, controller = free_ports(3)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
    }
    java = find_java()
    assert java is not None
    settings = BrokerSettings(plain, heap_mib=SMALL_HEAP_MIB, properties=properties, short_lived=True)
    with JvmBroker(settings, java, install_jars()):
        yield f"127.0.0.1:{port}", certificate


def _kafka(certificate: Path, folder: Path, password: str) -> Keys:
    secret = folder / "password"
    secret.write_text(password + "\n", "utf-8")
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificate),
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password_file": str(secret),
        "broker_wait_s": 60,
    }


def test_articles_through_a_secured_broker(secured: tuple[str, Path], tmp_path: Path) -> None:
    """Every client that the worker and the audit make comes in by TLS and password."""
    address, certificate = secured
    with pipeline(address, tmp_path, "secured", kafka=_kafka(certificate, tmp_path, PASSWORD)) as made:
        made.produce(records(100, 3))
        worker = made.start()
        made.wait_done()
        made.stop(worker)
        made.assert_sound()
        assert len(made.stamps()) == sum(made.ends().values())
        assert PASSWORD not in made.log()


@pytest.mark.parametrize(
    ("given", "password", "broker_wait_s", "message"),
    [
        ((*TLS, *LOGIN), "mistaken", 60, "Authentication failed"),
        (("security_protocol", *LOGIN), PASSWORD, 60, "certificate verify failed"),
        ((), PASSWORD, 3, "no Kafka"),
    ],
    ids=["wrong password", "unknown authority", "plain text"],
)
def test_a_client_that_is_refused_says_why(
    secured: tuple[str, Path],
    tmp_path: Path,
    given: tuple[str, ...],
    password: str,
    broker_wait_s: int,
    message: str,
) -> None:
    """The worker ends with one clear error, and prints no secret."""
    address, certificate = secured
    kafka = _kafka(certificate, tmp_path, password)
    chosen = {name: kafka[name] for name in given}
    values = {"kafka": {"brokers": address, "broker_wait_s": broker_wait_s} | chosen}
    (tmp_path / "worker.toml").write_text(toml_of(values), "utf-8")
    command = [sys.executable, "-m", "stream_dedup", "run", "--config", "worker.toml", "--metrics", "off"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 5, done.stderr
    error = done.stderr.rstrip().rpartition("stream-dedup: error: ")[2]
    assert message in error
    assert "security_protocol" in error
    assert PASSWORD not in done.stderr + done.stdout
    assert password not in done.stderr + done.stdout
