"""Rules of a real log: shown, changed on purpose, and two changes at once."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Payload, encode
from stream_dedup.core.model import LogOffset
from stream_dedup.core.rules import Rules
from stream_dedup.errors import EXIT_OK, EXIT_REFUSED, EXIT_USER, CorruptError, RefusedError, UserError
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_producer
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.rules_log import Effect, apply_rules, read_rules
from stream_dedup.kafka.topics import ensure_topics
from tests.profiles import profile_with, write_profile


def with_match(config: Config, *, search: dict[str, Any], **changes: object) -> Config:
    changes["profile"] = profile_with(search=search)
    return config.model_copy(update={"match": config.match.model_copy(update=changes)})


def append(config: Config, *rules: Rules) -> None:
    with closing(connect_log(config)) as log:
        for payload in rules:
            log.append_now(payload)


def effects(config: Config) -> list[tuple[int, Effect]]:
    return [(record.offset, record.effect) for record in read_rules(config).records]


def test_history_tells_void_and_restated_records(config: Config, admin: KafkaAdminClient) -> None:
    """The history says of each rules record what it did at its log position."""
    ensure_topics(admin, config)
    first = rules_of(config)
    other = replace(first, limit=7)
    append(config, first, first, other, replace(other, revision=2), replace(first, revision=2))
    assert [effect for _, effect in effects(config)] == [
        Effect.TOOK_FORCE,
        Effect.RESTATED,
        Effect.VOID,
        Effect.TOOK_FORCE,
        Effect.VOID,
    ]


def test_search_may_change(config: Config) -> None:
    """The search, its look-ups and limits, re-crawls and observing are rules: a change of each takes force."""
    apply_rules(config)
    directed = {"probes": 32, "limit": 48, "short_limit": 40}
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"kind": "exact", "distance": 3}, {}),
        (directed, {}),
        (directed, {"recrawl": "update", "observe": True}),
    ]
    for revision, (search, match) in enumerate(steps, 2):
        now = apply_rules(with_match(config, search=search, **match)).now
        given = {name: value for name, value in (search | match).items() if name != "kind"}
        assert (now.revision, {name: getattr(now, name) for name in given}) == (revision, given)
        assert now.search == search.get("kind", "directed")
    assert [effect for _, effect in effects(config)] == [Effect.TOOK_FORCE] * 4


def test_log_of_another_format(config: Config, admin: KafkaAdminClient) -> None:
    """A record of another format is refused with its log offset and the remedy."""
    ensure_topics(admin, config)
    with closing(make_producer(config.kafka)) as producer:
        producer.send(config.log_topic, value=b"\x05" + encode(rules_of(config))[1:], partition=0).get(timeout=60)
    with pytest.raises(
        CorruptError, match=r"offset 0: log record of format 5, and .* format 6; begin a new log with another --group"
    ):
        read_rules(config)


def test_of_two_changes_at_once_the_second_is_refused(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that comes after another one made at the same time is void, and the error says so."""
    apply_rules(config)

    append_now = WaitingLog.append_now

    def append_late(log: WaitingLog, payload: Payload) -> LogOffset:
        append_now(log, replace(rules_of(config), limit=9, revision=2))
        return append_now(log, payload)

    monkeypatch.setattr(WaitingLog, "append_now", append_late)
    with pytest.raises(RefusedError, match="another change of rules was made at the same time"):
        apply_rules(with_match(config, search={"limit": 5}))
    in_force = read_rules(config).in_force
    assert in_force is not None
    assert in_force.limit == 9


def test_command(config: Config, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``rules apply`` prints the changes, ``rules show`` the rules in force and the history."""
    where = [f"--brokers={config.kafka.brokers}", f"--group={config.kafka.group}"]
    other = [f"--profile={write_profile(tmp_path, search={'limit': 5})}", "--window=24h"]
    assert run(["rules", "show", *where]) == EXIT_USER
    assert run(["rules", "apply", *flags]) == EXIT_OK
    assert run(["rules", "apply", *flags, *other]) == EXIT_OK
    told = capsys.readouterr().out
    assert (
        f"limit: {rules_of(config).limit} -> 5\nwindow: for ever -> 24h\nin force from log offset 1 on (revision 2)"
        in told
    )
    assert run(["rules", "apply", *flags, *other]) == EXIT_OK
    assert "nothing to change" in capsys.readouterr().out
    assert run(["rules", "show", *where]) == EXIT_OK
    assert "revision 1  took force" in capsys.readouterr().out
    assert run(["rules", "show", *where, "--json"]) == EXIT_OK
    values = json.loads(capsys.readouterr().out)
    assert (values["since_offset"], values["in_force"]["limit"], len(values["history"])) == (1, 5, 2)


def test_a_dry_run_of_a_change(
    config: Config, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It writes each old and new value and changes nothing: not even a topic is made for a group without a log."""
    assert run(["rules", "apply", *flags, "--dry-run"]) == EXIT_OK
    assert "has no rules yet and would begin with these" in capsys.readouterr().out
    with pytest.raises(UserError, match="there is no log"):
        read_rules(config)
    assert run(["rules", "apply", *flags]) == EXIT_OK
    capsys.readouterr()
    other = f"--profile={write_profile(tmp_path, search={'limit': 5})}"
    assert run(["rules", "apply", *flags, other, "--dry-run"]) == EXIT_OK
    assert capsys.readouterr().out.splitlines() == [
        f"limit: {rules_of(config).limit} -> 5",
        "dry run: nothing was appended (it would be revision 2)",
    ]
    assert effects(config) == [(0, Effect.TOOK_FORCE)]


def test_command_on_directed_search(
    config: Config, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``rules show`` prints the settings of directed search; another profile and flags change them."""
    for probes, policies in ((64, ()), (32, ("--recrawl=update", "--observe"))):
        profile = write_profile(tmp_path, search={"probes": probes, "limit": 52})
        assert run(["rules", "apply", *flags, f"--profile={profile}", *policies]) == EXIT_OK
    changes = "probes: 64 -> 32\nrecrawl: duplicate -> update\nobserve: no -> yes\nin force from log offset 1 on"
    assert changes in capsys.readouterr().out
    assert run(["rules", "show", f"--brokers={config.kafka.brokers}", f"--group={config.kafka.group}"]) == EXIT_OK
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "probes 32 (directed search: posting lists looked up for one article)" in lines
    assert "limit 52 (directed search: bits of 256 in which two signatures may differ)" in lines
    assert any(line.startswith("observe yes (send every record to the unique topic") for line in lines)
    assert not [line for line in lines if line.startswith("distance")]


def test_command_refuses_another_scheme(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a refusal; three lines have the log's scheme, the configuration's and the way out."""
    assert run(["rules", "apply", *flags]) == EXIT_OK
    capsys.readouterr()
    assert run(["rules", "apply", *flags, f"--profile={write_profile(tmp_path, features={'seed': 7})}"]) == EXIT_REFUSED
    error = capsys.readouterr().err
    theirs, ours, remedy = error.splitlines()
    assert "(seed 0)" in theirs
    assert "(seed 7)" in ours
    assert "begin a new log with another --group" in remedy
