"""Every way to a broker that this machine has."""

from collections.abc import Callable

import pytest

from stream_dedup.dev.broker import BrokerSettings, DevBroker
from stream_dedup.dev.broker.base import SMALL_HEAP_MIB
from stream_dedup.dev.broker.container import ContainerBroker, engine_answers, missing_image
from stream_dedup.dev.broker.jvm import JvmBroker, find_java, install_jars
from stream_dedup.dev.broker.ways import can_run_broker, image_name

LOCAL_IMAGE = "stream-dedup/kafka:4.3.1"
"""What `make kafka-image` builds."""

MakeBroker = Callable[..., DevBroker]


def usable_image() -> str | None:
    """Return the image to test with: the one in use, else the one built here."""
    if not engine_answers():
        return None
    return next((image for image in (image_name(), LOCAL_IMAGE) if missing_image(image) is None), None)


def make_jvm(**settings: object) -> DevBroker:
    java = find_java()
    assert java is not None
    return JvmBroker(BrokerSettings(heap_mib=SMALL_HEAP_MIB, short_lived=True, **settings), java, install_jars())  # type: ignore[arg-type]


def make_container(**settings: object) -> DevBroker:
    image = usable_image()
    assert image is not None
    return ContainerBroker(BrokerSettings(heap_mib=SMALL_HEAP_MIB, short_lived=True, **settings), image)  # type: ignore[arg-type]


WAYS = {"container": make_container, "java": make_jvm}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``way`` on each way that there is here; at least one where a broker can run."""
    if "way" in metafunc.fixturenames:
        names = [name for name, here in (("container", usable_image()), ("java", find_java())) if here]
        if not names and can_run_broker():
            names = ["java"]  # fails, with the reason
        metafunc.parametrize("way", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest) -> MakeBroker:
    return WAYS[request.param]
