"""Apicurio Registry, from its archive on Maven, as a Java process on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_dedup.dev.broker.base import INSTALL_LIMIT_S, free_ports
from stream_dedup.dev.broker.jvm import QUICK_START, cached_jars, find_java
from stream_dedup.dev.broker.keeper import TOKEN_ARGUMENT, Keeper
from tests.waiting import wait_until

VERSION = "3.0.9"
"""The last one for Java 17."""
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
API = "/apis/ccompat/v7"
"""Its interface that is compatible with Confluent's registry."""
READY_LIMIT_S = 90.0
"""Some 6 are usual."""


def can_run() -> bool:
    return find_java() is not None and (shutil.which("mvn") is not None or _folder().is_dir())


class Apicurio:
    """A registry in memory, on a free port."""

    def __init__(self, keeper: Keeper) -> None:
        (self._port,) = free_ports(1)
        command = [find_java() or "java", "-Xmx512m", "-XX:+UseSerialGC", QUICK_START]
        command += [TOKEN_ARGUMENT + keeper.token, "-jar", str(_installed() / JAR)]
        with (keeper.folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "QUARKUS_HTTP_PORT": str(self._port), "QUARKUS_HTTP_HOST": "127.0.0.1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._answers, READY_LIMIT_S, "the registry answers")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{API}"

    def freeze(self) -> None:
        """Answer no more: what is in memory stays."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(READY_LIMIT_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:  # noqa: S310 - of this machine
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def apicurio() -> Iterator[Apicurio]:
    keeper = Keeper()
    made = None
    try:
        made = Apicurio(keeper)
        yield made
    finally:
        if made is not None:
            made.kill()
        keeper.close()


def _folder() -> Path:
    return cached_jars().parent / f"apicurio-{VERSION}"


def _installed() -> Path:
    """The folder of the jars; Maven fetches them where they are missing, and a rename makes the folder the real one."""
    folder = _folder()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
    try:
        command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={unfinished}"]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_LIMIT_S)
        (archive,) = unfinished.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(unfinished, filter="data")
        archive.unlink()
        if not folder.is_dir():  # else another process was first
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
