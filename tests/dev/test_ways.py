"""Which broker a machine gets, and the error where it gets none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.dev.broker import BROKERS_VARIABLE, IMAGE_VARIABLE, NoMachineryError, find_broker, ways
from stream_dedup.dev.broker.base import DevBroker
from stream_dedup.errors import UnavailableError, UserError

Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that makes this machine look like another, for ``ways`` alone."""
    monkeypatch.delenv(BROKERS_VARIABLE, raising=False)
    monkeypatch.delenv(IMAGE_VARIABLE, raising=False)

    def set_up(*, client: bool = True, engine: bool = False, image: bool = False, java: bool = False) -> None:
        monkeypatch.setattr(ways, "has_client", lambda: client)
        monkeypatch.setattr(ways, "engine_answers", lambda: engine)
        monkeypatch.setattr(ways, "missing_image", lambda name: None if image else f"no image {name}")
        monkeypatch.setattr(ways, "find_java", lambda: "/bin/java" if java else None)
        monkeypatch.setattr(ways, "install_jars", lambda: Path("/jars"))
        monkeypatch.setattr("shutil.which", lambda _: None)
        monkeypatch.setattr(ways, "ContainerBroker", lambda _, image: DevBroker(image))
        monkeypatch.setattr(ways, "JvmBroker", lambda _, java, jars: DevBroker(f"{java} {jars}"))

    return set_up


def test_a_named_broker_comes_first(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's broker is taken before anything is tried."""
    machine(engine=True, image=True, java=True)
    monkeypatch.setenv(BROKERS_VARIABLE, "kafka.example:9092")
    assert find_broker().bootstrap == "kafka.example:9092"


def test_a_named_broker_is_not_ones_own(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants to kill it gets one of their own, whatever the environment names."""
    machine(engine=True, image=True)
    monkeypatch.setenv(BROKERS_VARIABLE, "kafka.example:9092")
    assert find_broker(own=True).bootstrap == "apache/kafka:4.3.1"


@pytest.mark.parametrize("action", [DevBroker.stop, DevBroker.kill, DevBroker.freeze, DevBroker.restart])
def test_a_named_broker_is_left_alone(action: Callable[[DevBroker], None]) -> None:
    """An external broker is never stopped or killed; the error names the variable to unset."""
    name = action.__name__
    with pytest.raises(UserError, match=BROKERS_VARIABLE):
        getattr(DevBroker("kafka.example:9092"), name)()


def test_a_container_before_java(machine: Machine) -> None:
    """Where both are there, the container is taken."""
    machine(engine=True, image=True, java=True)
    assert find_broker().bootstrap == "apache/kafka:4.3.1"


def test_the_image_is_a_setting(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names another image."""
    machine(engine=True, image=True)
    monkeypatch.setenv(IMAGE_VARIABLE, "mirror.example/kafka:1")
    assert find_broker().bootstrap == "mirror.example/kafka:1"


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param({"engine": False}, id="no engine"),
        pytest.param({"engine": True, "image": False}, id="no image"),
        pytest.param({"engine": True, "image": True, "client": False}, id="no testcontainers"),
    ],
)
def test_java_where_no_container_can_be(machine: Machine, lacking: dict[str, bool]) -> None:
    """Java takes over for every reason that a container may have not to be."""
    machine(**{"java": True, **lacking})
    assert find_broker().bootstrap == "/bin/java /jars"


def test_docker_without_image_is_a_failure(machine: Machine) -> None:
    """A machine with Docker that cannot run a broker raises an error that names what is missing."""
    machine(engine=True)
    with pytest.raises(UnavailableError, match="no image apache/kafka"):
        find_broker()
    assert ways.can_run_broker()


def test_neither_docker_nor_java(machine: Machine) -> None:
    """A machine with neither raises ``NoMachineryError``."""
    machine()
    with pytest.raises(NoMachineryError, match="neither Docker nor Java"):
        find_broker()
    assert not ways.can_run_broker()
