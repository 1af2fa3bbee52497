"""What every test may use: brokers, topic names, and a look at our own log after each test.

* ``broker``: one real broker for the whole run, shared by every process of it (pytest-xdist): the process that the
  others belong to starts it. It may not be stopped or frozen; use names of ``topic_name``.
* ``secured``: its addresses for users with a password and rights (tests/secured.py); where the shared broker has none,
  those of a broker of this process.
* ``own_broker``: one for a single test, which may do with it what it likes.
* ``cluster``: three nodes for the tests of this process that ask for it; each test leaves all of them running, in sync.

On a machine with Docker or Java, a broker that does not start fails the tests that need it. Only where there is
neither are they skipped, with that reason.
"""

import gc
import json
import logging
import os
import re
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from typing import Any

import hypothesis
import pytest
from kafka import KafkaAdminClient
from xdist.scheduler import LoadScopeScheduling

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import (
    BrokerSettings,
    DevBroker,
    DevCluster,
    NoMachineryError,
    can_run_broker,
    find_broker,
    prepare_broker,
)
from stream_dedup.dev.broker.base import BROKERS_VARIABLE, HEAP_MIB, SMALL_HEAP_MIB
from stream_dedup.dev.broker.jvm import JvmBroker
from stream_dedup.errors import StreamDedupError
from stream_dedup.kafka.connection import make_admin
from tests.amount import FULL, examples
from tests.browser import NO_BROWSER, can_run_browser
from tests.forks import ForkedProcess, forks
from tests.secured import Secured, can_be_secured, share, shared_secured, start_secured

BROKER_FIXTURES = {"broker", "own_broker", "cluster", "secured", "way"}
"""Fixtures that start a broker, or a function that does."""
TOGETHER = (
    "tests/dev/test_demo.py",
    "tests/documentation/test_site.py",
    "tests/documentation/test_snippets.py::test_a_page_runs_on_a_broker",
    "tests/registry/test_contract.py",
)
"""Tests that one process of a run has: what they share takes long to start, or they have the same topics."""
MEMORY_FOLDER = "/dev/shm"
MEMORY_FREE_BYTES = 4 << 30
"""Free there at least, if the tests are to keep their temporary folders in memory."""

# A failing example is printed in a form that runs it again. The time of an example depends on the machine.
hypothesis.settings.register_profile(
    "stream_dedup", print_blob=True, deadline=None, max_examples=examples(100).max_examples
)
hypothesis.settings.load_profile("stream_dedup")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run: signals are heard; the compiled search and the broker that the processes share are there.

    A shell starts what it puts in the background with Ctrl-C ignored, nohup its program with SIGHUP ignored, and so
    would be the programs that tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _keep_folders_in_memory()
    _keep_bytecode()
    if _shares_a_broker(config):
        try:
            _start_shared(config)
        except StreamDedupError as error:  # the tests that need it will fail with the same message
            logging.getLogger(__name__).info("no broker: %s", error)


def _start_shared(config: pytest.Config) -> None:
    """Start the broker that the processes share: where it can be, one that is secured as well."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    if BROKERS_VARIABLE not in os.environ and _runs_in_java():
        started = start_secured(stack, heap_mib=HEAP_MIB)
        share(started)
        os.environ[BROKERS_VARIABLE] = started.plain
    else:
        os.environ[BROKERS_VARIABLE] = stack.enter_context(find_broker()).bootstrap


def _runs_in_java() -> bool:
    return getattr(prepare_broker(), "func", None) is JvmBroker and can_be_secured()


def _keep_folders_in_memory() -> None:
    """Let pytest and the program make temporary folders in memory: the tests kill processes, never the machine."""
    if os.path.isdir(MEMORY_FOLDER):  # noqa: PTH112 - no object is needed
        free = os.statvfs(MEMORY_FOLDER)
        if free.f_bavail * free.f_frsize > MEMORY_FREE_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY_FOLDER)
            os.environ.setdefault("TMPDIR", MEMORY_FOLDER)


def _keep_bytecode() -> None:
    """Let this process and those that it starts keep their bytecode, also where containers turn that off.

    Without it each of some hundred processes compiles the program anew, for a third of a second.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


class _FromBothEnds(LoadScopeScheduling):  # type: ignore[misc] # of a package without types
    """Hands the next test to whichever process is free: half of them take from the front, the others from the back.

    In front are the tests that wait for a broker, at the back those that compute: so the cores always have work.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((each for each in TOGETHER if nodeid.startswith(each)), nodeid)

    def _assign_work_unit(self, node: Any) -> None:  # noqa: ANN401 - of a package without types
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:  # noqa: ANN401 - as above
    config.option.loadscopereorder = False
    return _FromBothEnds(config, log)


def _hands_out(config: pytest.Config) -> bool:
    """Whether this process hands the tests out to others."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def _shares_a_broker(config: pytest.Config) -> bool:
    """Whether this process hands the tests out to others, of which some may need a broker."""
    return _hands_out(config) and "not broker" not in config.option.markexpr and can_run_broker()


def pytest_report_header() -> list[str]:
    amount = "everything" if FULL else "samples of the wide sweeps (everything: make test-full)"
    broker = "tests that need one use a real Kafka"
    if not can_run_broker():
        broker = "neither Docker nor Java 17 is here, so the tests that need a broker are skipped"
    alerts = "promtool runs their cases" if shutil.which("promtool") else "no promtool is here: their cases are skipped"
    pages = "chromium opens them" if can_run_browser() else f"{NO_BROWSER}: their tests are skipped"
    proxy = "nginx runs its configuration" if shutil.which("nginx") else "no nginx is here: its tests are skipped"
    return [f"amount: {amount}", f"broker: {broker}", f"alerts: {alerts}", f"pages: {pages}", f"proxy: {proxy}"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and hide thousands of tests from it: each turn would visit them all."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a broker, and put them in front; of both kinds the long ones come first.

    Where the processes of a run take from both ends, the others are in reverse: all end together with short tests.

    Three nodes take all cores for minutes, and what is marked ``full`` is also proven by cheaper tests. Both run where
    they are asked for: with ``-m cluster`` (``make test-cluster``), with ``-m full``, or in a full run; so do those of
    Spark, which need PySpark and a minute of both cores (``-m spark``, ``make test-spark``). A run without a broker
    (``-m "not broker"``) is for a quick answer: it leaves out what is marked ``slow``.
    """
    for item in items:
        if _needs_broker(item):
            item.add_marker("broker")
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
    left_out = dict.fromkeys(item for item in items if _is_left_out(item))
    config.hook.pytest_deselected(items=list(left_out))
    taken = sorted((item for item in items if item not in left_out), key=_is_short)
    computing = [item for item in taken if not _needs_broker(item)]
    if hasattr(config, "workerinput"):
        computing.reverse()
    items[:] = [*(item for item in taken if _needs_broker(item)), *computing]


def _is_left_out(item: pytest.Item) -> bool:
    asked_for = str(item.config.option.markexpr)
    marks = ["cluster", "full", "spark", *(["slow"] if "not broker" in asked_for else [])]
    return not FULL and any(mark not in asked_for and item.get_closest_marker(mark) is not None for mark in marks)


def _is_short(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch image or jars now: the first download takes longer than a test may."""
    if not session.config.option.collectonly and any(_needs_broker(item) for item in session.items):
        try:
            prepare_broker()
        except StreamDedupError as error:  # the tests that need it will fail with the same message
            logging.getLogger(__name__).info("no broker: %s", error)


def _needs_broker(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("broker") is not None
    return marked or not BROKER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def broker() -> Iterator[DevBroker]:
    with found_broker(BrokerSettings(), own=False) as started:
        yield started


@pytest.fixture(scope="session")
def secured() -> Iterator[Secured]:
    if not can_be_secured():
        pytest.skip("no Java 17 with its keytool here to run a broker with passwords and rights")
    with ExitStack() as stack:
        yield shared_secured() or start_secured(stack, heap_mib=SMALL_HEAP_MIB)


@pytest.fixture
def own_broker() -> Iterator[DevBroker]:
    with found_broker(BrokerSettings(heap_mib=SMALL_HEAP_MIB, short_lived=True), own=True) as started:
        yield started


@pytest.fixture(scope="session")
def cluster() -> Iterator[DevCluster]:
    with found_broker(BrokerSettings(heap_mib=SMALL_HEAP_MIB, nodes=3), own=True) as started:
        assert isinstance(started, DevCluster)
        yield started


def found_broker(settings: BrokerSettings, *, own: bool) -> DevBroker:
    try:
        return find_broker(settings, own=own)
    except NoMachineryError as error:
        pytest.skip(str(error))


@pytest.fixture
def topic_name() -> Callable[..., str]:
    """Return a function that makes a name no other test uses."""

    def unique(name: str = "topic") -> str:
        return f"{name}-{uuid.uuid4().hex[:12]}"

    return unique


@pytest.fixture
def config(broker: DevBroker) -> Config:
    """Names that no other test uses."""
    mark = uuid.uuid4().hex[:12]
    topics = {role: f"{role}-{mark}" for role in ("unique", "duplicate", "rejected")}
    return load_config(
        overrides={
            "kafka": {"brokers": broker.bootstrap, "group": f"group-{mark}", "broker_wait_s": 10},
            "topics": {"input": [f"articles-{mark}"], **topics},
        },
        environment={},
    )


@pytest.fixture
def admin(config: Config) -> Iterator[KafkaAdminClient]:
    with closing(make_admin(config.kafka)) as client:
        yield client


@pytest.fixture
def flags(config: Config) -> list[str]:
    """The configuration as flags of the command line."""
    topics = config.topics
    return [
        f"--brokers={config.kafka.brokers}",
        f"--group={config.kafka.group}",
        f"--input={topics.input[0]}",
        f"--unique={topics.unique}",
        f"--duplicate={topics.duplicate}",
        f"--rejected={topics.rejected}",
    ]


@pytest.fixture(autouse=True)
def log_handlers() -> Iterator[None]:
    """Undo what a command run in this process sets up: its handler writes to a stream that ends with the test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in [one for one in root.handlers if one not in before]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(autouse=True)
def unexpected_log(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that made us warn, unless it is marked ``expect_log`` with patterns that are found in each."""
    yield
    patterns = [pattern for mark in request.node.iter_markers("expect_log") for pattern in mark.args]
    told = [record for phase in ("setup", "call") for record in caplog.get_records(phase)]
    unexpected = [
        f"{record.levelname} {record.name}: {record.getMessage()}"
        for record in told
        if record.levelno >= logging.WARNING
        and record.name.partition(".")[0] == "stream_dedup"
        and not any(re.search(pattern, record.getMessage()) for pattern in patterns)
    ]
    assert not unexpected, "warnings in our log that the test did not expect: " + "; ".join(unexpected)


@pytest.fixture
def fork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ForkedProcess]]:
    """Starts a forked process of the program, set up as ``dying_filter.SetUp`` says.

    One that still runs at the end of the test is killed.
    """
    folder = tmp_path_factory.mktemp("forked")
    running: list[ForkedProcess] = []

    def begin(args: list[object], stdout: int, stdin: int = 0, **set_up: Any) -> ForkedProcess:  # noqa: ANN401
        error = folder / str(len(running))
        with error.open("wb") as file:
            streams = [stdin, stdout, file.fileno()]
            given = [json.dumps(set_up), *map(str, args)]
            running.append(forks().start("tests.files.dying_filter:main", given, streams, error))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
