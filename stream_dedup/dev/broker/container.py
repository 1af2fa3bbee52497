"""The development broker in a container, by the command ``docker``.

The image follows Apache Kafka's own convention: it starts its broker from environment variables,
``KAFKA_`` and the property's name in capitals with ``_`` for each dot, and ``CLUSTER_ID``; it formats
``/var/lib/kafka/data`` where that is new, and starts again on what is there.

A folder of the caller's for its data is mounted there, and the broker runs as the caller, not as the image's user: the
data is the caller's own, and no mode has to be changed. What else the image writes to, which is its own user's, lies
elsewhere then: its configuration in the keeper's folder, the logs of Java in the container's ``/tmp``.

The container is its own broker from ``start`` to ``close``: stopped, killed and started again, never made anew,
so its data stays in it. Its name is the keeper's token.
"""

import contextlib
import functools
import os
import shutil
import subprocess
from pathlib import Path

from stream_dedup.dev.broker.base import (
    LOG_TAIL_LINES,
    STOP_LIMIT_S,
    BrokerSettings,
    DevBroker,
    free_ports,
    new_cluster_id,
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


def _docker(*arguments: str, limit_s: float = ENGINE_LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Run a command of Docker to its end; one that takes too long has failed."""
    command = ["docker", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"docker {arguments[0]} took more than {limit_s} s")


@functools.cache
def engine_answers() -> bool:
    """Return whether a Docker engine answers."""
    return shutil.which("docker") is not None and _docker("version").returncode == 0


@functools.cache
def missing_image(image: str) -> str | None:
    """Have the image here, pulled where that is possible; return why not, or None where it is here.

    Asked once in a process: a registry that is away is not waited for again.
    """
    if _docker("image", "inspect", image).returncode == 0:
        return None
    pulled = _docker("pull", "--quiet", image, limit_s=PULL_LIMIT_S)
    if pulled.returncode == 0:
        return None
    return f"the image {image} is not here and cannot be pulled ({pulled.stderr.strip()})"


class ContainerBroker(DevBroker):
    """One node of Kafka in a container; the constructor makes its keeper, and starts nothing."""

    def __init__(self, settings: BrokerSettings, image: str) -> None:
        self._data = None if settings.data is None else usable_folder(settings.data)
        controller_port, chosen_port = free_ports(2)
        port = settings.port or chosen_port
        self.bootstrap = f"127.0.0.1:{port}"
        self.description = f"the container image {image}"
        self._keeper = Keeper(container=True)
        self._name = self._keeper.token
        properties = server_properties("0.0.0.0", port, controller_port, settings.properties)  # noqa: S104  (inside the container; it is bound to loopback outside)
        properties["log.dirs"] = DATA_FOLDER
        environment = {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in properties.items()}
        environment["KAFKA_HEAP_OPTS"] = f"-Xms{settings.heap_mib // 2}m -Xmx{settings.heap_mib}m"
        environment["CLUSTER_ID"] = _cluster_id(self._data)
        # The same port on loopback alone.
        self._run = ["--name", self._name, "--publish", f"127.0.0.1:{port}:{port}", "--stop-signal", "SIGTERM"]
        if self._data is not None:
            environment["LOG_DIR"] = "/tmp"  # noqa: S108  (inside the container: any user can write there)
            self._run += _as_caller(self._data, self._keeper.folder / "config")
        self._run += [f"--env={name}={value}" for name, value in environment.items()] + [image]

    def launch(self) -> None:
        """Make the container the first time; start the same one again later."""
        done = _docker("start", self._name) if self._state() else _docker("run", "--detach", *self._run)
        if done.returncode != 0:
            raise UnavailableError(
                f"the development broker could not start from {self.description}: {done.stderr.strip()}"
            )

    def running(self) -> bool:
        """Return whether the container runs or is paused."""
        return self._state() in {"running", "paused"}

    def stop(self) -> None:
        """Stop it in order; the engine kills it where that takes too long."""
        self.thaw()
        _docker("stop", "-t", str(STOP_LIMIT_S), self._name, limit_s=STOP_LIMIT_S + ENGINE_LIMIT_S)

    def kill(self) -> None:
        """Kill its process with SIGKILL."""
        self.thaw()
        _docker("kill", self._name)
        _docker("wait", self._name, limit_s=STOP_LIMIT_S)

    def freeze(self) -> None:
        """Pause all its processes."""
        _docker("pause", self._name)

    def thaw(self) -> None:
        """Let them go on."""
        _docker("unpause", self._name)

    def close(self) -> None:
        """Stop it in order where its data is kept; the keeper removes it."""
        if self._data is not None and self.running():
            self.stop()
        self._keeper.close()

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        done = _docker("logs", "--tail", str(LOG_TAIL_LINES), self._name)
        return done.stdout + done.stderr

    def _state(self) -> str:
        """Return the state of the container, in Docker's word; empty where there is none."""
        return _docker("container", "inspect", "--format", "{{.State.Status}}", self._name).stdout.strip()


def _as_caller(data: Path, config: Path) -> list[str]:
    """Return the options by which the broker runs as the caller, with its data in a folder of theirs.

    To an engine that itself runs as the caller ("rootless"), the caller is root.
    """
    config.mkdir()
    is_rootless = "name=rootless" in _docker("info", "--format", "{{.SecurityOptions}}").stdout
    user = "0:0" if is_rootless else f"{os.geteuid()}:{os.getegid()}"
    mounts = {DATA_FOLDER: data, CONFIG_FOLDER: config}
    # Fields of CSV: a path may have commas.
    return ["--user", user] + [f'--mount=type=bind,"source={folder}",target={at}' for at, folder in mounts.items()]


def _cluster_id(data: Path | None) -> str:
    """Return the id of the cluster that the folder holds already, else a new one."""
    with contextlib.suppress(OSError):
        for line in (data / "meta.properties").read_text().splitlines() if data else []:
            if line.startswith("cluster.id="):
                return line.removeprefix("cluster.id=").strip()
    return new_cluster_id()
