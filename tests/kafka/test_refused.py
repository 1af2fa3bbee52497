"""A command that refuses has created nothing: no topic, no record, no folder."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from stream_dedup.cli import run
from stream_dedup.config.model import Config
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USER
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.rules_log import apply_rules
from stream_dedup.kafka.topics import MESSAGE_BYTES, create_topics
from tests.kafka.operating import delete_topic, follow
from tests.profiles import write_profile
from tests.waiting import wait_until

LIMIT_S = 60
COMMANDS = {
    "topics create": (),
    "rules apply": (),
    "rules apply --dry-run": (),
    "seed lines": (),
    "seed --topic={input}": (),
    "run": ("--index=index", "--metrics=off"),
}
"""The commands that create something, with flags of their own."""


class Tried:
    """Runs commands in an empty folder, and looks at what they have left."""

    def __init__(self, config: Config, admin: KafkaAdminClient, flags: list[str], folder: Path) -> None:
        self._config = config
        self._admin = admin
        self._flags = flags
        self._folder = folder
        (folder / "lines").write_text('{"text":"ferry and bridge"}\n', "utf-8")

    def run(self, command: str, *more: str) -> int:
        words = command.format(input=self._config.topics.input[0]).split()
        return run([*words, *self._flags, *COMMANDS[command], *more])

    def left(self) -> tuple[list[str], list[str], int | None]:
        """The topics of the group, the files, and the end of the log."""
        topics = self._config.topics
        names = [self._config.log_topic, *topics.input, topics.unique, topics.duplicate, topics.rejected]
        found = sorted(topic_ids(self._admin, names))
        end = None
        if self._config.log_topic in found:
            with closing(connect_log(self._config)) as log:
                end = int(log.bounds()[1])
        return found, sorted(path.name for path in self._folder.iterdir()), end


@pytest.fixture
def tried(
    config: Config, admin: KafkaAdminClient, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Tried:
    monkeypatch.chdir(tmp_path)
    return Tried(config, admin, flags, tmp_path)


def test_wrong_topics(
    config: Config, admin: KafkaAdminClient, tried: Tried, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command says the same, as does ``topics check``, and after the one remedy the next one works."""
    big = {config.topics.input[0]: {"configs": {MESSAGE_BYTES: "20000000"}}}
    admin.create_topics(big | {config.topics.duplicate: {}}, wait_for_metadata=True)
    before = tried.left()
    messages = set()
    for command in COMMANDS:
        assert tried.run(command) == EXIT_USER, command
        message = capsys.readouterr().err
        messages.add(message[message.index("the topics are not as they must be") :])
        assert tried.left() == before, command
    (message,) = messages
    assert run(["topics", "check", *flags]) == EXIT_FOUND
    found = [line for line in capsys.readouterr().out.splitlines() if "it is not there" not in line]
    assert message.splitlines()[1:] == [f"  {line}" for line in found]
    assert follow(admin, message) == [config.topics.duplicate]
    wait_until(lambda: tried.run("rules apply") == EXIT_OK, LIMIT_S, "the broker has applied the change")


@pytest.mark.parametrize("other", [{"limit": 5}, {"probes": 3}])
def test_rules_that_are_not_those_in_force(
    config: Config, admin: KafkaAdminClient, tried: Tried, tmp_path: Path, other: dict[str, int]
) -> None:
    """Neither a worker nor ``seed`` makes the topics that are missing, where its rules are refused."""
    apply_rules(config)
    delete_topic(admin, config.topics.rejected)
    profile = f"--profile={write_profile(tmp_path, search=other)}"
    before = tried.left()
    for command in ("run", "seed lines"):
        assert tried.run(command, profile) == EXIT_REFUSED, command
        topics, _, end = tried.left()
        assert (topics, end) == (before[0], before[2]), command


def test_another_scheme(config: Config, admin: KafkaAdminClient, tried: Tried) -> None:
    """Of a log of another scheme no index is made: it would be refused with the scheme that the message asks for."""
    create_topics(admin, config)
    apply_rules(config)
    delete_topic(admin, config.topics.rejected)
    before = tried.left()
    for command in ("run", "rules apply", "seed lines"):
        assert tried.run(command, "--profile=comment") == EXIT_REFUSED, command
        assert tried.left() == before, command
