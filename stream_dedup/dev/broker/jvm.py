"""The development broker as a Java process on this machine, from Maven's jars."""

import contextlib
import os
import signal
import subprocess
from collections import deque
from pathlib import Path

from stream_dedup.dev.broker.base import DevBroker
from stream_dedup.dev.broker.folder import usable_folder
from stream_dedup.dev.broker.keeper import TOKEN_ARGUMENT, Keeper
from stream_dedup.dev.broker.ports import free_ports
from stream_dedup.dev.broker.settings import (
    FORMAT_LIMIT_S,
    KAFKA_VERSION,
    LOG_TAIL_LINES,
    STOP_LIMIT_S,
    BrokerSettings,
    new_cluster_id,
    server_properties,
)
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
        self._keeper = Keeper(containers=False)
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
        self._cluster_id = settings.cluster_id or new_cluster_id()
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
        """Return whether the process runs."""
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
        """Kill the process with SIGKILL."""
        self._signal(signal.SIGKILL)
        self._wait()

    def freeze(self) -> None:
        """Stop the process with SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process with SIGCONT."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the process if its data is kept, otherwise kill it; the keeper removes the rest."""
        if self._keeps_data:
            self.stop()
        self.kill()
        self._keeper.close()

    def log_tail(self) -> str:
        """Return the last lines of its log."""
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
        command += ["-t", self._cluster_id, "-c", str(self._properties)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_LIMIT_S, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-2000:]
            where = self._java[-1].removesuffix("/*")
            remedy = f"where the jars are damaged, delete {where}"
            msg = f"the development broker could not format {self._data}; {remedy}. It said:\n{said}"
            raise UnavailableError(msg)
