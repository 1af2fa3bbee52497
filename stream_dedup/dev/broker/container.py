"""The development broker in a container, by testcontainers.

The image follows Apache Kafka's own convention: it starts its broker from environment variables,
``KAFKA_`` and the property's name in capitals with ``_`` for each dot, and ``CLUSTER_ID``; it formats
``/var/lib/kafka/data`` where that is new, and starts again on what is there.

A folder of the caller's for its data is mounted there, and the broker runs as the caller, not as the image's user: the
data is the caller's own, and no mode has to be changed. What else the image writes to, which is its own user's, lies
elsewhere then: its configuration in the keeper's folder, the logs of Java in the container's ``/tmp``.

The container is its own broker from ``start`` to ``close``: stopped, killed and started again, never made anew,
so its data stays in it. Its name is the keeper's token. testcontainers and the Docker client are imported when they are
needed: they belong to the extra ``[broker]``.
"""

import contextlib
import functools
import gc
import importlib.util
import os
import time
import warnings
from pathlib import Path
from typing import Any

from stream_dedup.dev.broker.base import (
    CLUSTER_ID,
    LOG_TAIL_LINES,
    STOP_LIMIT_S,
    BrokerSettings,
    DevBroker,
    free_ports,
    server_properties,
    usable_folder,
)
from stream_dedup.dev.broker.keeper import Keeper
from stream_dedup.errors import UnavailableError

PULL_LIMIT_S = 300
"""Pulling the image, seconds: about 200 MB over a line of 10 Mbit/s."""
ENGINE_LIMIT_S = 10
"""One answer of the Docker engine, seconds: local, so milliseconds are usual."""
DATA_FOLDER = "/var/lib/kafka/data"
CONFIG_FOLDER = "/opt/kafka/config"
"""Where the image writes the properties that it makes of the environment, at every start."""


def has_client() -> bool:
    """Return whether testcontainers, and with it Docker's client, is installed."""
    return importlib.util.find_spec("testcontainers") is not None


@functools.cache
def engine_answers() -> bool:
    """Return whether a Docker engine answers."""
    import docker  # noqa: PLC0415
    import docker.errors  # noqa: PLC0415

    answers = False
    with warnings.catch_warnings():
        # Docker's client drops the socket of a refused connection without closing it: it is collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        with (
            contextlib.suppress(docker.errors.DockerException, OSError),
            contextlib.closing(docker.from_env(timeout=ENGINE_LIMIT_S)) as client,
        ):
            answers = bool(client.ping())
        gc.collect()
    return answers


@functools.cache
def missing_image(image: str) -> str | None:
    """Have the image here, pulled where that is possible; return why not, or None where it is here.

    Asked once in a process: a registry that is away is not waited for again.
    """
    import docker  # noqa: PLC0415
    import docker.errors  # noqa: PLC0415

    with contextlib.closing(docker.from_env(timeout=PULL_LIMIT_S)) as client:
        try:
            client.images.get(image)
        except docker.errors.ImageNotFound:
            try:
                _pull(client, image)
            except (docker.errors.DockerException, OSError) as error:
                return f"the image {image} is not here and cannot be pulled ({error})"
    return None


def _pull(client: Any, image: str) -> None:  # noqa: ANN401  (docker has no types)
    """Pull the image within ``PULL_LIMIT_S``; ``images.pull`` drops the reason of a failure, and has no limit."""
    deadline = time.monotonic() + PULL_LIMIT_S
    repository, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "latest")
    for step in client.api.pull(repository, tag=tag, stream=True, decode=True):
        if "error" in step:
            raise OSError(step["error"])
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done within {PULL_LIMIT_S} s")


class ContainerBroker(DevBroker):
    """One node of Kafka in a container; the constructor makes its keeper, and starts nothing."""

    def __init__(self, settings: BrokerSettings, image: str) -> None:
        self._data = None if settings.data is None else usable_folder(settings.data)
        controller_port, chosen_port = free_ports(2)
        self._port = settings.port or chosen_port
        self.bootstrap = f"127.0.0.1:{self._port}"
        self.description = f"the container image {image}"
        self._image = image
        self._keeper = Keeper(container=True)
        properties = server_properties("0.0.0.0", self._port, controller_port, settings.properties)  # noqa: S104  (inside the container; it is bound to loopback outside)
        properties["log.dirs"] = DATA_FOLDER
        self._environment = {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in properties.items()}
        self._environment["KAFKA_HEAP_OPTS"] = f"-Xms{settings.heap_mib // 2}m -Xmx{settings.heap_mib}m"
        self._environment["CLUSTER_ID"] = CLUSTER_ID
        if self._data is not None:
            self._environment["LOG_DIR"] = "/tmp"  # noqa: S108  (inside the container: any user can write there)
        self._maker: Any = None
        self._container: Any = None

    def launch(self) -> None:
        """Make the container the first time; start the same one again later."""
        if self._container is None:
            self._make()
        else:
            self._container.start()

    def running(self) -> bool:
        """Return whether the container runs or is paused."""
        return self._state() in {"running", "paused"}

    def stop(self) -> None:
        """Stop it in order; the engine kills it where that takes too long."""
        self.thaw()
        self._container.stop(timeout=STOP_LIMIT_S)

    def kill(self) -> None:
        """Kill its process with SIGKILL."""
        self.thaw()
        if self.running():
            self._container.kill()
            self._container.wait(timeout=STOP_LIMIT_S)

    def freeze(self) -> None:
        self._container.pause()

    def thaw(self) -> None:
        if self._state() == "paused":
            self._container.unpause()

    def close(self) -> None:
        """Stop it in order where its data is kept; the keeper removes it."""
        if self._container is not None:
            if self._data is not None and self.running():
                self.stop()
            self._maker.get_docker_client().client.close()
            self._container = None
        self._keeper.close()

    def log_tail(self) -> str:
        if self._container is None:
            return "(no container)"
        return str(self._container.logs(tail=LOG_TAIL_LINES).decode(errors="replace"))

    def _state(self) -> str:
        if self._container is None:
            return "absent"
        self._container.reload()
        return str(self._container.status)

    def _make(self) -> None:
        docker_container = _testcontainers()
        self._maker = docker_container(self._image).with_name(self._keeper.token).with_envs(**self._environment)
        self._maker.ports[f"{self._port}/tcp"] = ("127.0.0.1", self._port)  # loopback alone, the same number
        config = self._keeper.folder / "config"
        self._maker.with_kwargs(stop_signal="SIGTERM", **_run_as_caller(self._data, config))
        try:
            self._maker.start()
        except Exception as error:
            # The client raises errors of three libraries here; for us they mean one thing.
            raise UnavailableError(
                f"the development broker could not start from {self.description}: {error}"
            ) from error
        finally:
            self._container = self._maker.get_wrapped_container()


def _testcontainers() -> Any:  # noqa: ANN401  (a class of an optional dependency)
    """Return testcontainers' class, without Ryuk: the keeper does its work, and its image may not be here."""
    with warnings.catch_warnings():
        # Old names inside testcontainers are its own affair, not an error of our tests.
        warnings.simplefilter("ignore", DeprecationWarning)
        from testcontainers.core.config import testcontainers_config  # noqa: PLC0415
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415
    testcontainers_config.ryuk_disabled = True
    return DockerContainer


def _run_as_caller(data: Path | None, config: Path) -> dict[str, Any]:
    """Return what the engine is asked for beside, where the data lies in a folder of the caller's."""
    if data is None:
        return {}
    from docker.types import Mount  # noqa: PLC0415

    config.mkdir(exist_ok=True)
    mounts = {DATA_FOLDER: data, CONFIG_FOLDER: config}
    return {"user": _caller(), "mounts": [Mount(inside, str(folder), type="bind") for inside, folder in mounts.items()]}


def _caller() -> str:
    """Return the caller as the engine knows them: root, where the engine itself runs as the caller ("rootless")."""
    import docker  # noqa: PLC0415

    with contextlib.closing(docker.from_env(timeout=ENGINE_LIMIT_S)) as client:
        rootless = any("name=rootless" in option for option in client.info().get("SecurityOptions") or ())
    return "0:0" if rootless else f"{os.geteuid()}:{os.getegid()}"
