"""``status`` on a broker: a group without workers, and one with a member."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from stream_dedup.broker.client import make_consumer, make_producer
from stream_dedup.broker.rules_log import apply_rules
from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.exit_codes import EXIT_FOUND


def test_a_group_before_and_while_it_works(
    config: Config, admin: KafkaAdminClient, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without topics, with a log and articles but no worker, with a member, and with a partition that is added."""
    source, call = config.topics.input[0], ["status", *flags, "--interval=0.1"]
    assert run(call) == EXIT_FOUND
    out = capsys.readouterr().out
    assert f"wrong: log {config.log_topic} does not exist; start a worker" in out
    assert f"wrong: no worker is in group {config.kafka.group}; start one: stream-dedup run" in out
    assert f"wrong: topic {source}: it is not there" in out

    apply_rules(config)
    with closing(make_producer(config.kafka)) as producer:
        producer.send(source, b"{}").get(timeout=60)
    member = make_consumer(
        config.kafka,
        group_id=config.kafka.group,
        client_id=f"{config.kafka.group}-x",
        auto_offset_reset="earliest",
    )
    with closing(member):
        member.subscribe([source])
        assert member.poll(timeout_ms=30_000)
        capsys.readouterr()
        assert run([*call, "--json"]) == EXIT_FOUND
        values = json.loads(capsys.readouterr().out)
        admin.create_partitions({source: 2})
        with closing(make_producer(config.kafka)) as producer:
            producer.send(source, b"{}", partition=1).get(timeout=60)
        assert run([*call, "--json"]) == EXIT_FOUND
        grown = json.loads(capsys.readouterr().out)
    assert [(one["code"], one["values"]["partitions"], one["is_note"]) for one in grown["findings"]] == [
        ("new_partitions", f"{source}-1", True),
        ("no_offset", f"{source}-0", False),
    ]
    assert values["state"] == "Stable"
    assert [one["partitions"] for one in values["workers"]] == [[f"{source}-0"]]
    assert [(one["end"], one["committed"], one["lag"]) for one in values["partitions"]] == [(1, None, 1)]
    assert (values["log"]["end"], values["log"]["rules_offset"]) == (1, 0)
    assert values["log"]["rules"]["scheme"]["parameters"] == rules_of(config).scheme.parameters
    assert values["log"]["size_bytes"] > 0
    assert [one["text"] for one in values["findings"] if not one["is_note"]] == [f"{source}-0: no committed offset"]
