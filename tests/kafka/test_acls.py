"""Every command with exactly the rights that docs/acls.md lists, on a broker that allows nothing else."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ResourcePatternFilter, ResourceType
from kafka.admin import ACLResourcePatternType as PatternType

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_OK, EXIT_UNAVAILABLE, EXIT_USER
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.connection import make_admin
from tests.kafka.rights import GROUP, INPUT, LOG, OUTPUT, RIGHTS, WORKERS, Right
from tests.profiles import write_profile
from tests.registry.fake import FakeRegistry
from tests.registry.records import frame
from tests.secured import DENIED, USERS, Secured, login
from tests.serve.comparing import served
from tests.waiting import wait_until
from tests.worker.mixture import records
from tests.worker.pipeline import Keys, Pipeline, Value, toml_of

REFUSED_S = 60
"""For a command that lacks a right to end, however busy the machine is; it waits for nothing."""

BUSY_S = 20
"""Processor time of a command that is refused, seconds: a busy loop of a minute takes more."""
LIMIT_S = 900
"""Longest time-out of a transaction that a broker allows by default, seconds."""
SEED = 5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def rights_of(user: str) -> ACLFilter:
    """Every right of a user."""
    anything = ResourcePatternFilter(ResourceType.ANY, None, PatternType.ANY)
    return ACLFilter(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY, anything)


class SecuredGroup:
    """A group on the broker with an authorizer; each command runs as a user of its own."""

    def __init__(self, secured: Secured, folder: Path) -> None:
        self._secured = secured
        self._folder = folder
        name = f"acl-{uuid.uuid4().hex[:12]}"
        self.made = Pipeline(secured.plain, folder, name, topics={"clusters": f"{name}-clusters"})

    def allow(self, user: str, rights: tuple[Right, ...]) -> None:
        """Give a user these rights on the group's names, and wait until the broker knows them."""
        config = self.made.config()
        acls = {acl for right in rights for acl in right.acls(f"User:{user}", config)}
        with closing(make_admin(config.kafka)) as admin:
            admin.create_acls(list(acls))
            wait_until(lambda: self._count(admin, user) == len(acls), REFUSED_S, "the broker knows the rights")

    def _count(self, admin: KafkaAdminClient, user: str) -> int:
        found, _ = admin.describe_acls(rights_of(user))
        return sum(self.made.name in acl.resource_pattern.resource_name for acl in found)

    def run(self, user: str, *command: str) -> int:
        """Run a command in this process as a user; return its exit code."""
        values = self.made.values("command")
        values["kafka"] |= login(self._secured, user) | {"brokers": self._secured.users}
        path = self._folder / "command.toml"
        path.write_text(toml_of(values), "utf-8")
        return run([*command, "--config", str(path)])

    def worker(self, user: str, **kafka: Value) -> Pipeline:
        """The same group, its worker as a user."""
        clusters: Keys = {"clusters": f"{self.made.name}-clusters"}
        own = login(self._secured, user) | kafka
        return Pipeline(self._secured.users, self._folder, self.made.name, kafka=own, topics=clusters)


@pytest.fixture
def group(secured: Secured, tmp_path: Path) -> Iterator[SecuredGroup]:
    group = SecuredGroup(secured, tmp_path)
    with closing(group.made):
        yield group


@pytest.mark.full  # the tests below have the rights of each part; all commands in turn take longest of all tests
def test_every_command_with_its_rights(group: SecuredGroup, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From making the topics to the audit: each command does its work with the rights of the page and no others."""
    for command, user in USERS.items():
        group.allow(user, RIGHTS[command])
    made = group.made
    with closing(make_admin(made.config().kafka)) as admin:
        admin.delete_topics([made.config().log_topic, made.topic, *outputs(made)])
        wait_until(lambda: not topic_ids(admin, [made.topic]), REFUSED_S, "the topics are gone")
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(value for _, value in records(30, SEED) if value and value.startswith(b"{")))

    def works(*command: str) -> None:
        name = next(name for name in USERS if " ".join(command).startswith(name))
        assert group.run(USERS[name], *command) == EXIT_OK, capsys.readouterr().err

    works("topics", "create")
    works("produce", "--topic", made.topic, str(lines))
    worker = group.worker(USERS["run"])
    process = worker.start()
    made.wait_done()
    works("status", "--interval", "0.1")
    serves(group)
    worker.stop(process)
    works("audit")
    works("topics", "check")
    made.set("match", profile=write_profile(tmp_path, search={"limit": 0, "short_limit": 0}))
    works("rules", "apply")
    works("rules", "show")
    lines.write_text('{"id": 1, "text": "ferry and bridge"}\n', "utf-8")
    works("seed", str(lines))
    works("seed", "--topic", made.topic)
    works("withdraw", "1")
    works("index", "rebuild")
    works("offsets", "show")
    works("offsets", "set", "--to", "logged")
    assert sum(made.committed().values()) > 0
    registry = FakeRegistry()
    made.set("input", format="avro")
    made.set("registry", url=registry.url)
    made.produce([(None, frame(9, b"of a schema that nobody has"))])
    works("reject", f"{made.topic}-0-{made.ends()[made.partitions()[0]] - 1}")
    registry.stop()


def serves(group: SecuredGroup) -> None:
    """The service answers every kind of request: from log, clusters, source topic and brokers."""
    pipeline = group.worker(USERS["serve"])
    with served(pipeline) as service, service.client() as client:

        def latest() -> list[dict[str, Any]]:
            answer = client.call("GET", "/v1/verdicts?limit=200").json
            assert answer["outputs"]["problem"] is None, service.log()
            found: list[dict[str, Any]] = answer["latest"]
            return found

        wait_until(lambda: len(latest()) >= sum(group.made.committed().values()), REFUSED_S, "the outputs are followed")
        article = next(one for one in latest() if one["verdict"] != "rejected")
        (shown,) = client.call("GET", f"/v1/articles/{quote(article['id'])}?limit=1").json["articles"]
        assert shown["text"] is not None, shown
        checked = client.call("POST", "/v1/check", {"text": shown["text"]}).json["results"]
        assert checked[0]["verdict"] == "duplicate"
        state = client.call("GET", "/v1/status").json
        assert len(state["workers"]) == 1, state
        service.stop()


def outputs(made: Pipeline) -> list[str]:
    topics = made.config().topics
    assert topics.clusters is not None
    return [topics.unique, topics.duplicate, topics.rejected, topics.clusters]


MISSING: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("produce", INPUT, "WRITE", ("--topic", "TOPIC", "LINES")),
    ("audit", GROUP, "DESCRIBE", ()),
    ("audit", LOG, "READ", ()),
    ("offsets set", GROUP, "READ", ("--to", "beginning")),
    ("rules apply", LOG, "DESCRIBE_CONFIGS", ()),
    ("topics check", OUTPUT, "DESCRIBE_CONFIGS", ()),
    ("topics create", INPUT, "DESCRIBE", ()),
]
WORDS = {GROUP: "group", INPUT: "topic", OUTPUT: "topic", LOG: "topic"}


@pytest.mark.parametrize("missing", MISSING, ids=lambda missing: " ".join(missing[:3]))
def test_a_command_without_a_right(
    group: SecuredGroup,
    tmp_path: Path,
    missing: tuple[str, str, str, tuple[str, ...]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends at once, and its message names the kind of resource; with the right it works (the test above)."""
    command, resource, operation, flags = missing
    kept = tuple(right for right in RIGHTS[command] if (right.resource, right.operation.name) != (resource, operation))
    assert len(kept) < len(RIGHTS[command])
    group.allow(DENIED, kept)
    (tmp_path / "lines").write_text('{"id": 1, "text": "ferry and bridge"}\n', "utf-8")
    names = {"TOPIC": group.made.topic, "LINES": str(tmp_path / "lines")}
    began = time.thread_time()
    code = group.run(DENIED, *command.split(), *(names.get(flag, flag) for flag in flags))
    said = capsys.readouterr().err
    assert code in (EXIT_USER, EXIT_UNAVAILABLE), said
    assert "uthorization" in said
    assert WORDS[resource] in said.lower()
    assert time.thread_time() - began < BUSY_S


@pytest.mark.parametrize("operation", ["CREATE", "DESCRIBE_CONFIGS"])
def test_topics_of_which_some_cannot_be_made(
    group: SecuredGroup, operation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a right on the outputs; with it, the same command goes on with those that were made."""
    config = group.made.config()
    kept = (one for one in RIGHTS["topics create"] if (one.resource, one.operation.name) != (OUTPUT, operation))
    group.allow(DENIED, tuple(kept))
    names = [config.log_topic, group.made.topic, *outputs(group.made)]
    with closing(make_admin(config.kafka)) as admin:
        admin.delete_topics(names)
        wait_until(lambda: not topic_ids(admin, names), REFUSED_S, "the topics are gone")
        assert group.run(DENIED, "topics", "create") == EXIT_USER
        said = capsys.readouterr().err
        assert any(name in said for name in outputs(group.made))
        group.allow(DENIED, tuple(RIGHTS["topics create"]))
        assert group.run(DENIED, "topics", "create") == EXIT_OK
        assert topic_ids(admin, names).keys() == set(names)


def worker_without(group: SecuredGroup, resource: str, operation: str) -> tuple[int, str]:
    """Start a worker without a right; return its exit code and its last line."""
    missing = [one for one in RIGHTS["run"] if (one.resource, one.operation.name) == (resource, operation)]
    # The check at the start must pass: it is the write that is refused.
    seen = tuple(replace(one, operation=ACLOperation.DESCRIBE) for one in missing)
    group.allow(DENIED, (*(one for one in RIGHTS["run"] if one not in missing), *seen))
    group.made.produce(records(20, SEED))
    worker = group.worker(DENIED)
    process = worker.start()
    code = process.wait(REFUSED_S)
    return code, worker.log().splitlines()[-1]


@pytest.mark.parametrize(
    ("resource", "operation", "kind"),
    [
        (WORKERS, "WRITE", "TransactionalIdAuthorizationFailedError"),
        (LOG, "WRITE", "TopicAuthorizationFailedError"),
        (OUTPUT, "WRITE", "TopicAuthorizationFailedError"),
    ],
)
def test_a_worker_without_a_right(group: SecuredGroup, resource: str, operation: str, kind: str) -> None:
    """It ends with the broker's reason, and tries nothing again."""
    code, said = worker_without(group, resource, operation)
    assert code in (EXIT_USER, EXIT_UNAVAILABLE), said
    assert kind in said


def test_a_transaction_time_out_above_the_brokers_limit(group: SecuredGroup) -> None:
    """The worker ends at once and names the limit; it does not try again until its processor is busy."""
    group.allow(USERS["run"], RIGHTS["run"])
    group.made.produce(records(20, SEED))
    worker = group.worker(USERS["run"], transaction_timeout_s=LIMIT_S + 1)
    process = worker.start()
    assert process.wait(REFUSED_S) == EXIT_USER, worker.log()
    assert "InvalidTransactionTimeoutError" in worker.log().splitlines()[-1]
    assert "Invalid transition" not in worker.log()
