"""Chooses the development broker of this machine: external, container, or Java, in this order.

The nodes of a cluster are Java processes always: containers could not reach each other on loopback.
"""

import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial

from stream_dedup.dev.broker.base import BROKERS_VARIABLE, DEFAULT_IMAGE, IMAGE_VARIABLE, BrokerSettings, DevBroker
from stream_dedup.dev.broker.container import (
    ENGINE_LIMIT_S,
    ContainerBroker,
    engine_answers,
    has_client,
    missing_image,
)
from stream_dedup.dev.broker.jvm import JAVA_REMEDY, DevCluster, JvmBroker, find_java, install_jars
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.extras import pip_command

log = logging.getLogger(__name__)


class NoMachineryError(UserError):
    """This machine has neither Docker nor Java, so no broker can run on it."""


def can_run_broker() -> bool:
    """Return whether a broker must start here: one is named, or there is a Docker engine or Java 17."""
    return bool(os.environ.get(BROKERS_VARIABLE)) or _has_docker() or find_java() is not None


def find_broker(settings: BrokerSettings | None = None, *, own: bool = False) -> DevBroker:
    """Return a broker that is not started yet; with ``own`` one that may be killed, so never an external one.

    Raises:
        NoMachineryError: this machine has neither Docker nor Java.
        UnavailableError: this machine has one of them, but the broker cannot be prepared.
    """
    external = os.environ.get(BROKERS_VARIABLE)
    if external and not own:
        return DevBroker(external)
    chosen = settings or BrokerSettings()
    if chosen.nodes == 1:
        return prepare_broker()(chosen)
    if java := find_java():
        return DevCluster(chosen, java, install_jars())
    raise NoMachineryError(f"several nodes of Kafka run on Java 17, which is not on this machine: {JAVA_REMEDY}")


def prepare_broker() -> Callable[[BrokerSettings], DevBroker]:
    """Choose container or Java and fetch the image or the jars, which may take minutes.

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
        raise UnavailableError(f"no broker can be started: {no_container}, and there is no Java 17: {JAVA_REMEDY}")
    raise NoMachineryError(f"neither Docker nor Java 17 is on this machine, so no Kafka broker can run: {JAVA_REMEDY}")


def image_name() -> str:
    """Return the container image of the broker."""
    return os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE


def _why_no_container() -> str | None:
    if not has_client():
        return f"the Python package testcontainers is not installed ({pip_command('broker')})"
    if not engine_answers():
        return "no Docker engine answers"
    return missing_image(image_name())


def _has_docker() -> bool:
    if has_client():
        return engine_answers()
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=ENGINE_LIMIT_S, check=False).returncode == 0
