"""What ``benchmarks.alerts`` works with.

Broker, schema registry, three workers, the service and its clients, Prometheus that scrapes them, a feeder.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from kafka import KafkaProducer
from kafka.errors import KafkaError

from benchmarks.harmed_worker import PANICKING, SLOW, STUCK
from stream_dedup.clusters.schema import CLUSTERS_FILE
from stream_dedup.dev.broker import BrokerSettings, DevBroker, find_broker
from stream_dedup.dev.broker.base import free_ports
from tests.profiles import write_profile
from tests.registry import records
from tests.registry.apicurio import Apicurio, apicurio
from tests.small_disk import SmallDisk, small_disk

RULES = Path(__file__).parents[1] / "deploy" / "alerts.yml"
GROUP = "alerts"
WORKERS = ("a", "b", "c")
PARTITIONS = 6
FACTOR = 60.0
"""What ranges and delays of alerts are divided by."""
LIMIT_S = 240.0
"""Longest wait for anything but an alert, and for an alert where the factor is ``FACTOR`` or more."""
LOOK_S = 0.5
PER_SECOND, FLOOD_PER_SECOND = 20, 600
DISK_MIB = 64
SCHEMA = """{"type": "record", "name": "Article", "fields": [
  {"name": "id", "type": "string"}, {"name": "text", "type": "string"}]}"""
GONE = 2_000_000_000
"""The id of a schema that no registry has."""
TRANSACTION_S = 5
"""``kafka.transaction_timeout_s``; a transaction that is held for longer is aborted by the broker."""
QUEUE = 500
"""``serve.queue_articles``: the smallest."""
MANY = 400
"""Articles of a large request: one of them, and what the usual clients ask, fit the queue."""
LONG = "the harbour was closed this morning because of the storm from the north " * 3
COSTLY = "\ufdfa " * 8_000
"""A text of which so many take more than a second: each of its letters is eighteen."""
PAUSE_S = 0.2
ANSWER_S = 60.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

SEARCH = {"candidates": 0}
"""Keys of the profile: no bound, so that a flood costs something."""
GROUP_CONFIG = """\
[kafka]
brokers = "{brokers}"
group = "{group}"
broker_wait_s = 600
transaction_timeout_s = {transaction_s}
[topics]
input = ["{group}-in"]
unique = "{group}-u"
duplicate = "{group}-d"
rejected = "{group}-r"
clusters = "{group}-g"
partitions = {partitions}
[input]
format = "avro"
[registry]
url = "{registry}"
[match]
profile = "{profile}"
window = "20s"
recrawl = "update"
"""
WORKER_CONFIG = """\
[index]
path = "{index}"
[worker]
max_inflight_batches = 4
clock_allowance_s = 1
watchdog_s = 600
[metrics]
address = "127.0.0.1:{port}"
"""
"""A short window, so that the log is trimmed; long waits for the broker, so that a worker outlives one that is away."""
SERVICE_CONFIG = """\
[serve]
address = "127.0.0.1:{port}"
data_dir = "{data}"
token_file = "{token}"
queue_articles = {queue}
max_body_bytes = 67108864
"""


def quickened(rules: str, factor: float) -> str:
    """Return the rules with every range, every waiting time and every look ahead divided by a factor."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, round(int(found[2]) * _UNITS[found[3]] / factor))}s{found[4]}"

    rules = re.sub(r"(\[)(\d+)([smhd])(\])", shorter, rules)
    rules = re.sub(r"(predict_linear\(.*, )(\d+)(?=\))", lambda ahead: f"{ahead[1]}{int(ahead[2]) / factor:g}", rules)
    return re.sub(r"(for: )(\d+)([smh])($)", shorter, rules, flags=re.MULTILINE)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; end the program where it does not come true."""
    wait_while(lambda: [] if condition() else [what])


def wait_while(troubles: Callable[[], list[str]]) -> None:
    """Wait until there are no troubles; end the program, and name them, where that does not come true."""
    until = time.monotonic() + LIMIT_S
    while found := troubles():
        if time.monotonic() > until:
            sys.exit(f"not within {LIMIT_S:g} s: {', '.join(found)}")
        time.sleep(LOOK_S)


@dataclass(slots=True)
class Program(ABC):
    """A program that is killed and started again with the same folder and address."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def instance(self) -> str:
        """Its label in Prometheus."""
        return f"127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @abstractmethod
    def arguments(self) -> list[str]:
        """Arguments of Python."""

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is None or self.process.poll() is not None:
            with (self.folder / "log").open("ab") as out:
                self.process = subprocess.Popen([sys.executable, *self.arguments()], stdout=out, stderr=out)

    def kill(self) -> None:
        """Kill it as a machine that fails would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Worker(Program):
    """A worker."""

    version: str = ""

    def arguments(self) -> list[str]:
        """Arguments of Python."""
        return ["-m", "benchmarks.harmed_worker", str(self.config), str(self.folder), self.version]

    @property
    def stuck(self) -> Path:
        """While this file is there the worker waits with every batch that it has judged."""
        return self.folder / STUCK

    @property
    def slow(self) -> Path:
        """While this file is there every other transaction stays open for longer than it may."""
        return self.folder / SLOW

    def restart(self, version: str = "") -> None:
        """Kill it, and start it as another version."""
        self.kill()
        self.version = version
        self.start()


@dataclass(slots=True)
class ServedGroup(Program):
    """The service."""

    @property
    def token(self) -> Path:
        """The file with its token."""
        return self.folder / "token"

    def arguments(self) -> list[str]:
        """Arguments of Python."""
        return ["-m", "stream_dedup", "serve", "--config", str(self.config)]

    def configure(self, group: str) -> None:
        """Write its token and its configuration, which begins with that of a worker of the group."""
        self.folder.mkdir()
        self.token.touch(0o600)
        self.token.write_text(secrets.token_hex(), "utf-8")
        own = SERVICE_CONFIG.format(port=self.port, data=self.folder / "data", token=self.token, queue=QUEUE)
        self.config.write_text(group + own, "utf-8")

    def damage_clusters(self) -> None:
        """Drop a table of the clusters, as another program that opens the database might."""
        for folder in self._clusters():
            with closing(sqlite3.connect(folder / CLUSTERS_FILE, timeout=ANSWER_S)) as database:
                database.execute("DROP TABLE position")

    def make_clusters_again(self) -> None:
        """Delete the clusters, and start the service again."""
        self.kill()
        for folder in self._clusters():
            shutil.rmtree(folder)
        self.start()

    def _clusters(self) -> list[Path]:
        return [*(self.folder / "data").glob("clusters-*")]


class Clients:
    """Clients of the service: one that asks about an article now and then, and more of them for each harm."""

    def __init__(self, service: ServedGroup) -> None:
        self._port = service.port
        self._token = service.token.read_text("utf-8")
        self._ending = threading.Event()
        self._harming = threading.Event()
        self._threads: list[threading.Thread] = []
        self._begin(self._ask_usual)

    def load(self, clients: int, text: str) -> None:
        """Let so many clients send large requests, one after the other, until ``relax``."""
        self._harming.set()
        body = json.dumps({"articles": [{"text": f"{text} {number}"} for number in range(MANY)]}).encode()
        for _ in range(clients):
            self._begin(lambda: self._ask_much(body))

    def relax(self) -> None:
        """End the large requests."""
        self._harming.clear()

    def close(self) -> None:
        """End all clients."""
        self._harming.clear()
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _begin(self, ask: Callable[[], None]) -> None:
        thread = threading.Thread(target=ask, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ask_usual(self) -> None:
        """Ask for a verdict, a page, clusters; and send what is refused: no token, a faulty request."""
        number = 0
        while not self._ending.wait(PAUSE_S):
            number += 1
            self._ask("POST", "/v1/check", json.dumps({"text": f"{LONG[:200]} {number}"}).encode())
            self._ask("GET", ("/check", "/v1/clusters", "/live")[number % 3])
            if number % 10 == 0:
                self._ask("POST", "/v1/check", b"{", with_token=False)
                self._ask("POST", "/v1/check", b'{"text": 1}')

    def _ask_much(self, body: bytes) -> None:
        while self._harming.is_set():
            self._ask("POST", "/v1/check", body)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, with_token: bool = True) -> None:
        headers = {"Authorization": f"Bearer {self._token}"} if with_token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        with (
            suppress(OSError, http.client.HTTPException),  # while the service is away
            closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)) as connection,
        ):
            connection.request(method, path, body, headers)
            connection.getresponse().read()


class Feeder:
    """Sends articles all the time, each text twice: the second time edited, and in one pair of five under the same id.

    Some records cannot be read, and once in a while there is an article at which the native core panics.
    """

    def __init__(self, bootstrap: str, registry: Apicurio) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._registry = registry
        self.renew_schema("")
        self._ending = threading.Event()
        self.per_second = PER_SECOND
        self.broken_each = 50
        self.age_s = 0
        self.is_flood = False
        self._number = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def burst(self, articles: int) -> None:
        """Send so many articles at once."""
        for number in range(articles):
            self._send(self._article(f"burst-{number}", f"{number} of a burst"), number)
        self._producer.flush()

    def send_panic(self) -> None:
        """Send an article at which the native core panics."""
        self._send(self._article("panic", f"{PANICKING} at this article of some words"), 0)

    def send_unknown(self) -> str:
        """Send an article of a schema that the registry does not have; return where it is."""
        sent = self._producer.send(f"{GROUP}-in", records.frame(GONE, b""), partition=0).get()
        return f"{sent.topic}-{sent.partition}-{sent.offset}"

    def renew_schema(self, says: str) -> None:
        """Register the schema with another description, and write by it."""
        self._schema = json.dumps(json.loads(SCHEMA) | {"doc": says})
        self._schema_id = records.register(self._registry.url, f"{GROUP}-in-value", self._schema)

    def close(self) -> None:
        """Stop sending."""
        self._ending.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._ending.wait(0.1):
            for _ in range(max(1, self.per_second // 10)):
                self._number += 1
                self._send(self._value(self._number), self._number)

    def _value(self, number: int) -> bytes:
        if number % self.broken_each == 0:
            return records.frame(self._schema_id, b"")
        pair, is_edited = divmod(number, 2)
        if self.is_flood:
            return self._article(str(number), "the same words again and again in every article")
        text = " ".join(f"word{pair * 7919 % (90 + at)} {at}" for at in range(40)) + " edited" * is_edited
        return self._article(str(pair if pair % 5 == 0 else number), text)

    def _article(self, article_id: str, text: str) -> bytes:
        return records.frame(self._schema_id, records.avro_data(self._schema, {"id": article_id, "text": text}))

    def _send(self, value: bytes, number: int) -> None:
        at_ms = int((time.time() - self.age_s) * 1000)
        with suppress(KafkaError):  # while the broker is away
            self._producer.send(f"{GROUP}-in", value, partition=number % PARTITIONS, timestamp_ms=at_ms)


@dataclass(slots=True)
class Prometheus:
    """Prometheus' HTTP interface."""

    port: int

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an expression as it is now."""
        return self._ask("query", query=expr)

    def history(self, expr: str, since: float) -> list[dict[str, Any]]:
        """Return the series of an expression, second by second."""
        return self._ask("query_range", query=expr, start=since, end=time.time(), step=1)

    def total(self, expr: str) -> float:
        """Return the sum of the series; 0 of none, and while Prometheus does not answer."""
        try:
            return sum(float(one["value"][1]) for one in self.query(expr))
        except OSError:
            return 0.0

    def firing(self) -> dict[str, set[str]]:
        """Return the alerts that fire, and of which instances; an alert about all of them has the instance ''."""
        found: dict[str, set[str]] = {}
        for one in self.query('ALERTS{alertstate="firing"}'):
            found.setdefault(one["metric"]["alertname"], set()).add(one["metric"].get("instance", ""))
        return found

    def _ask(self, what: str, **asked: object) -> list[dict[str, Any]]:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{what}?{urlencode(asked)}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


@dataclass(slots=True)
class Stage:
    """Everything that runs."""

    broker: DevBroker
    registry: Apicurio
    workers: dict[str, Worker]
    service: ServedGroup
    clients: Clients
    feeder: Feeder
    prometheus: Prometheus
    disk: SmallDisk
    began: float
    factor: float
    unknown: list[str] = field(default_factory=list)
    """Records whose schema the registry does not have."""

    @property
    def limit_s(self) -> float:
        """Longest wait for an alert to fire or to stop."""
        return LIMIT_S * max(1.0, FACTOR / self.factor)

    def instance_of(self, name: str) -> str:
        """Return the label of a worker, or of the service (its name is empty)."""
        return self.workers[name].instance if name in self.workers else self.service.instance

    def troubles(self, alerts: Collection[str]) -> list[str]:
        """Return what must end before a harm: workers not in the group, a service that does not follow, alerts."""
        expected = {
            "stream_dedup_up_to_date": len(self.workers),
            "stream_dedup_serve_up_to_date": 1,
            "stream_dedup_clusters_following": 1,
        }
        found = [name for name, number in expected.items() if self.prometheus.total(f"sum({name})") != number]
        firing = self.prometheus.firing()
        return found + [f"{alert} fires: {sorted(firing[alert])}" for alert in alerts if alert in firing]


@contextmanager
def staged(factor: float) -> Iterator[Stage]:
    """Start everything and wait until every worker is in the group; ranges and delays of alerts divided by a factor."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-dedup-alerts-")))
        (folder / "disk").mkdir()
        disk = stack.enter_context(small_disk(folder / "disk", DISK_MIB))
        broker = stack.enter_context(find_broker(BrokerSettings(), own=True))
        registry = stack.enter_context(apicurio())
        group = GROUP_CONFIG.format(
            brokers=broker.bootstrap,
            group=GROUP,
            partitions=PARTITIONS,
            registry=registry.url,
            transaction_s=TRANSACTION_S,
            profile=write_profile(folder, search=SEARCH),
        )
        workers = {}
        for name in WORKERS:
            index = disk.folder / "index" if name == "b" else folder / name / "index"
            workers[name] = _worker(folder / name, index, group)
            stack.callback(workers[name].kill)
            workers[name].start()
        service = ServedGroup(folder / "serve", free_ports(1)[0])
        service.configure(group)
        stack.callback(service.kill)
        service.start()
        instances = [worker.instance for worker in workers.values()]
        prometheus = stack.enter_context(_prometheus(folder / "prometheus", instances, service, factor))
        began = time.time()
        wait_until(
            lambda: prometheus.total("sum(stream_dedup_up_to_date)") == len(WORKERS), "the workers are in the group"
        )
        feeder = Feeder(broker.bootstrap, registry)
        stack.callback(feeder.close)
        clients = Clients(service)
        stack.callback(clients.close)
        yield Stage(broker, registry, workers, service, clients, feeder, prometheus, disk, began, factor)


def _worker(folder: Path, index: Path, group: str) -> Worker:
    folder.mkdir()
    worker = Worker(folder, free_ports(1)[0])
    worker.config.write_text(group + WORKER_CONFIG.format(index=index, port=worker.port), "utf-8")
    return worker


@contextmanager
def _prometheus(folder: Path, instances: Sequence[str], service: ServedGroup, factor: float) -> Iterator[Prometheus]:
    folder.mkdir()
    pause = f"{max(1, round(FACTOR / factor))}s"
    (folder / "rules.yml").write_text(quickened(RULES.read_text("utf-8"), factor), "utf-8")
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: {pause}, scrape_timeout: {pause}, evaluation_interval: 1s}}\n"
        "rule_files: [rules.yml]\n"
        "scrape_configs:\n"
        f"  - {{job_name: stream-dedup, static_configs: [{{targets: {_listed(instances)}}}]}}\n"
        f"  - job_name: stream-dedup-serve\n"
        f"    authorization: {{credentials_file: {service.token}}}\n"
        f"    static_configs: [{{targets: {_listed([service.instance])}}}]\n",
        "utf-8",
    )
    served = Prometheus(free_ports(1)[0])
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as out:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{served.port}"], stdout=out, stderr=out)
    try:
        yield served
    finally:
        process.terminate()
        process.wait()


def _listed(names: Collection[str]) -> str:
    return json.dumps(list(names))
