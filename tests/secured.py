"""The broker of a test run: whoever comes by its plain address may do everything, others need a password and rights.

It has three listeners. The plain one is the one that nearly every test uses. By the other two, one of them with TLS,
users come in by password, and an authorizer allows them only what a test has given them; the user ``ADMITTED`` may do
everything.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from stream_dedup.dev.broker import BrokerSettings
from stream_dedup.dev.broker.base import free_ports
from stream_dedup.dev.broker.jvm import JvmBroker, find_java, install_jars
from tests.kafka.rights import RIGHTS

SECURED_VARIABLE = "STREAM_DEDUP_TEST_SECURED"
"""Environment of the processes of a run: the addresses of the broker that they share."""
ADMITTED = "admitted"
"""May do everything."""
DENIED = "denied"
"""Has the rights that a test gives it, on names of the test."""
MEMBERS = "members"
"""May do everything with topics and groups but what a test denies."""
USERS = {command: command.replace(" ", "-") for command in RIGHTS}
"""A user for each command; it has rights as ``DENIED`` does."""
EVERYBODY = (*USERS.values(), ADMITTED, DENIED, MEMBERS)
STORE_PASSWORD = "store-secret"  # noqa: S105 - of a store that ends with the tests
SELF_SIGNED_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True)
class Secured:
    """Addresses of the broker."""

    plain: str
    users: str
    """With a password, without TLS."""
    tls: str
    """With a password and TLS."""
    certificate: str
    """File of the certificate to trust. Beside it is the password of each user, in a file of its name."""


def can_be_secured() -> bool:
    """Return whether this machine has Java and its tool for certificates."""
    return find_java() is not None and shutil.which("keytool") is not None


def shared_secured() -> Secured | None:
    """Return the broker that the process which hands out the tests has started."""
    given = os.environ.get(SECURED_VARIABLE)
    return None if given is None else Secured(**json.loads(given))


def share(secured: Secured) -> None:
    """Name the broker to the processes that are started from here on."""
    os.environ[SECURED_VARIABLE] = json.dumps(asdict(secured))


def secret(user: str) -> str:
    """Return the password of a user."""
    return f"{user}-secret"


def login(secured: Secured, user: str) -> dict[str, str]:
    """Return the keys with which a user comes in without TLS."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password_file": str(Path(secured.certificate).with_name(user)),
    }


def start_secured(stack: ExitStack, *, heap_mib: int) -> Secured:
    """Start the broker; it ends with the stack."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="secured-")))
    plain, users, tls, controller = free_ports(4)
    java = find_java()
    assert java is not None
    properties = _properties(_key_store(folder), plain, users, tls, controller)
    settings = BrokerSettings(plain, heap_mib=heap_mib, properties=properties, short_lived=True)
    stack.enter_context(JvmBroker(settings, java, install_jars()))
    for user in EVERYBODY:
        (folder / user).write_text(secret(user), "utf-8")
    certificate = folder / "broker.pem"
    certificate.write_text(ssl.get_server_certificate(("127.0.0.1", tls)), "ascii")
    return Secured(f"127.0.0.1:{plain}", f"127.0.0.1:{users}", f"127.0.0.1:{tls}", str(certificate))


def _key_store(folder: Path) -> Path:
    """Make a store with a key and its certificate, signed by itself."""
    store = folder / "broker.p12"
    command = ["keytool", "-J-XX:TieredStopAtLevel=1", "-genkeypair", "-keystore", str(store), "-storetype", "PKCS12"]
    command += ["-storepass", STORE_PASSWORD, "-alias", "broker", "-keyalg", "EC", "-groupname", "secp256r1"]
    command += ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1,dns:localhost", "-validity", "2"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return store


def _properties(store: Path, plain: int, users: int, tls: int, controller: int) -> dict[str, str]:
    """Return Kafka's properties of the three listeners and of the authorizer."""
    listeners = f"PLAINTEXT://127.0.0.1:{plain},USERS://127.0.0.1:{users},TLS://127.0.0.1:{tls}"
    passwords = " ".join(f'user_{user}="{secret(user)}"' for user in EVERYBODY)
    login = f"{LOGIN_MODULE} {passwords};"
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,TLS:SASL_SSL"
        ),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN",
        # Users also come in by a token that they signed themselves: the broker believes every name in it.
        "listener.name.users.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.users.oauthbearer.sasl.jaas.config": f"{SELF_SIGNED_MODULE};",
        "listener.name.users.plain.sasl.jaas.config": login,
        "listener.name.tls.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Who comes by the listener without a password may do everything: the broker itself, and the tests.
        "super.users": f"User:ANONYMOUS;User:{ADMITTED}",
    }
