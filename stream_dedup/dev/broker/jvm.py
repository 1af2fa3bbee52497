"""The development broker as a Java process on this machine, and several of them as a cluster.

Every topic of a cluster has as many replicas as there are nodes, each in both roles (broker and controller), and an
acknowledged record is on two of them (``min.insync.replicas``), Kafka's own topics included. So one of three nodes may
be away and nothing stops; a second one stops every write until it is back.

Kafka's jars are Maven's, and are kept in the user's cache.

The cache holds a folder only when it is whole: Maven copies into a folder beside it, and a rename makes it
the real one. Two installations at the same time do the work twice; the first rename wins.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from dataclasses import replace
from pathlib import Path

from stream_dedup.dev.broker.base import (
    CLUSTER_ID,
    FORMAT_LIMIT_S,
    INSTALL_LIMIT_S,
    KAFKA_VERSION,
    LOG_TAIL_LINES,
    STOP_LIMIT_S,
    BrokerSettings,
    DevBroker,
    free_ports,
    server_properties,
    usable_folder,
)
from stream_dedup.dev.broker.keeper import TOKEN_ARGUMENT, Keeper
from stream_dedup.errors import UnavailableError

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
QUICK_START = "-XX:TieredStopAtLevel=1"
"""Java compiles fast instead of well: a process that ends soon takes two thirds of the processor time."""


class JvmBroker(DevBroker):
    """One node of Kafka in KRaft mode; the constructor makes its folder and its keeper, and starts no broker."""

    def __init__(self, settings: BrokerSettings, java: str, jars: Path) -> None:
        data = None if settings.data is None else usable_folder(settings.data)
        controller_port, chosen_port = free_ports(2)
        port = settings.port or chosen_port
        self.bootstrap = f"127.0.0.1:{port}"
        self.description = f"Kafka {KAFKA_VERSION} from Maven's jars, {jars}"
        self._keeper = Keeper()
        self._data = data or self._keeper.folder / "data"
        self._keeps_data = data is not None
        self._log = self._keeper.folder / "broker.log"
        self._properties = self._keeper.folder / "server.properties"
        properties = server_properties("127.0.0.1", port, controller_port, settings.properties)
        properties["log.dirs"] = str(self._data)
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._java = [java, f"-Xms{settings.heap_mib // 2}m", f"-Xmx{settings.heap_mib}m", "-XX:+UseSerialGC"]
        self._java += [QUICK_START] if settings.short_lived else []
        self._java += [f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}", TOKEN_ARGUMENT + self._keeper.token]
        self._java += ["-cp", f"{jars}/*"]  # Java expands the star
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Format a new data folder, and start Kafka."""
        if not (self._data / "meta.properties").exists():
            self._format()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal goes to its owner, which stops it
            )

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Stop the process with SIGTERM; kill it if that takes too long."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self._wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the process if its data is kept, otherwise kill it; the keeper removes the rest."""
        if self._keeps_data:
            self.stop()
        self.kill()
        self._keeper.close()

    def log_tail(self) -> str:
        try:
            with self._log.open(errors="replace") as log:
                return "".join(deque(log, LOG_TAIL_LINES))
        except OSError:
            return "(no log)"

    def _signal(self, number: int) -> None:
        if self._process is not None and self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _wait(self) -> None:
        if self._process is not None:
            self._process.wait(STOP_LIMIT_S)

    def _format(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        command = [self._java[0], QUICK_START, *self._java[1:], "kafka.tools.StorageTool", "format"]
        command += ["-t", CLUSTER_ID, "-c", str(self._properties)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_LIMIT_S, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-2000:]
            where = self._java[-1].removesuffix("/*")
            remedy = f"where the jars are damaged, delete {where}"
            raise UnavailableError(f"the development broker could not format {self._data}; {remedy}. It said:\n{said}")


REPLICAS_IN_SYNC = 2
"""Replicas that have a record before it is acknowledged: with three nodes one may be away."""


class DevCluster(DevBroker):
    """Nodes of Kafka that form one cluster; the constructor makes their folders and keepers, and starts nothing.

    Nodes are counted from 1, as in ``node.id``. They are stopped, killed and frozen one by one (``node``).

    With ``settings.port`` the nodes have that port and the next ones.
    """

    def __init__(self, settings: BrokerSettings, java: str, jars: Path) -> None:
        self.nodes = settings.nodes
        free = free_ports(2 * self.nodes)
        controllers, chosen = free[: self.nodes], free[self.nodes :]
        ports = [settings.port + number for number in range(self.nodes)] if settings.port else chosen
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        self._nodes: list[JvmBroker] = []
        for number, (port, controller) in enumerate(zip(ports, controllers, strict=True), 1):
            listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"}
            own = {"node.id": str(number), "controller.quorum.voters": voters, **listeners}
            properties = {**_replicated(self.nodes), **own, **settings.properties}
            data = None if settings.data is None else settings.data / f"node-{number}"
            node = replace(settings, port=port, data=data, properties=properties)
            self._nodes.append(JvmBroker(node, java, jars))
        self.bootstrap = ",".join(node.bootstrap for node in self._nodes)
        self.description = f"{self.nodes} nodes, each {self._nodes[0].description}"

    def launch(self) -> None:
        """Start every node that does not run."""
        for node in self._nodes:
            if not node.running():
                node.launch()

    def running(self) -> bool:
        """Return whether every node runs."""
        return all(node.running() for node in self._nodes)

    def close(self) -> None:
        for node in self._nodes:
            node.close()

    def log_tail(self) -> str:
        """Return the end of the log of every node that does not run, else of all."""
        ended = [node for node in self._nodes if not node.running()] or self._nodes
        return "\n".join(node.log_tail() for node in ended)

    def node(self, number: int) -> JvmBroker:
        """Return one node; they count from 1."""
        return self._nodes[number - 1]


def _replicated(nodes: int) -> dict[str, str]:
    """Return the properties that replicate every topic to all nodes."""
    replicas, in_sync = str(nodes), str(min(REPLICAS_IN_SYNC, nodes))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # On one busy machine a controller may not get a core for the 1 and 2 s of the defaults.
        "controller.quorum.election.timeout.ms": "3000",
        "controller.quorum.fetch.timeout.ms": "6000",
    }


POM = Path(__file__).with_name("pom.xml")
JAVA_NEEDED = 17
"""The oldest Java that runs a Kafka 4 broker."""
JAVA_REMEDY = "apt install default-jre-headless maven"
"""Java 17 or later on every Debian and Ubuntu of these years, and what fetches the jars."""
JAVA_LIMIT_S = 60
"""``java -version``, seconds: well under one is usual."""


def cached_jars() -> Path:
    """Return the folder where the jars are, or will be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # jars are run: never those of the current folder
        cache = Path.home() / ".cache"
    return cache / "stream-dedup" / f"kafka-{KAFKA_VERSION}"


def find_java() -> str | None:
    """Return the path of a Java that can run the broker: of JAVA_HOME, or the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += [path] if (path := shutil.which("java")) else []
    return next((java for java in candidates if _java_version(java) >= JAVA_NEEDED), None)


def install_jars() -> Path:
    """Return the folder of the jars; have Maven fetch them where they are missing.

    Raises:
        UnavailableError: Maven is missing, failed, or took too long.
    """
    folder = cached_jars()
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise UnavailableError(
            f"Java is here but Maven is not, and {folder} has no jars of Kafka yet: apt install maven"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=folder.name + ".", dir=folder.parent) as place:
        jars = Path(place) / "jars"
        jars.mkdir()
        _run_maven(jars)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same jars
                raise
    return folder


def _run_maven(target: Path) -> None:
    command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-Dkafka.version={KAFKA_VERSION}", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(
            f"Maven did not fetch Kafka {KAFKA_VERSION} within {INSTALL_LIMIT_S} s: try again, or run {command}"
        ) from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise UnavailableError(f"Maven could not fetch Kafka {KAFKA_VERSION}; it said:\n{said}")


def _java_version(java: str) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else 0
