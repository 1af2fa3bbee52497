"""Which development broker this machine gets: external, container, or Java, in this order."""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial

from stream_dedup.dev.broker.base import DevBroker, ExternalBroker
from stream_dedup.dev.broker.container import ContainerBroker, engine_answers, has_client, missing_image
from stream_dedup.dev.broker.jars import find_java, install_jars
from stream_dedup.dev.broker.jvm import JvmBroker
from stream_dedup.dev.broker.settings import (
    BROKERS_VARIABLE,
    DEFAULT_IMAGE,
    ENGINE_LIMIT_S,
    IMAGE_VARIABLE,
    BrokerSettings,
)
from stream_dedup.errors import UnavailableError, UserError

log = logging.getLogger(__name__)


class NoMachineryError(UserError):
    """This machine has neither Docker nor Java: no broker can run here."""


def can_run_broker() -> bool:
    """Tell whether a broker has to start here: one is named, or there is a Docker engine or a Java 17."""
    return bool(os.environ.get(BROKERS_VARIABLE)) or _has_docker() or find_java() is not None


def find_broker(settings: BrokerSettings | None = None, *, own: bool = False) -> DevBroker:
    """Return a broker that is not started yet.

    ``own`` asks for one that may be killed, so not for an external one.

    Raises:
        NoMachineryError: neither Docker nor Java is here.
        UnavailableError: one of them is, and still no broker can be had.
    """
    external = os.environ.get(BROKERS_VARIABLE)
    if external and not own:
        return ExternalBroker(external)
    return prepare_broker()(settings or BrokerSettings())


def prepare_broker() -> Callable[[BrokerSettings], DevBroker]:
    """Choose the way of a broker of our own and fetch what it needs (image or jars), which may take minutes.

    Raises:
        NoMachineryError: as ``find_broker``.
        UnavailableError: as ``find_broker``.
    """
    no_container = _why_no_container()
    if no_container is None:
        return partial(ContainerBroker, image=image_name())
    if java := find_java():
        log.info("no container for the development broker: %s", no_container)
        return partial(JvmBroker, java=java, jars=install_jars())
    if _has_docker():
        msg = f"no broker can be started: {no_container}, and there is no Java 17 with Maven to do without"
        raise UnavailableError(msg)
    msg = "neither Docker nor Java 17 is on this machine, so no Kafka broker can run: install one of them"
    raise NoMachineryError(msg)


def image_name() -> str:
    """Return the container image of the broker."""
    return os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE


def _why_no_container() -> str | None:
    if not has_client():
        return "the Python package testcontainers is not installed (pip install 'stream-dedup[dev]')"
    if not engine_answers():
        return "no Docker engine answers"
    return missing_image(image_name())


def _has_docker() -> bool:
    if has_client():
        return engine_answers()
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, timeout=ENGINE_LIMIT_S, check=False)
    return asked.returncode == 0
