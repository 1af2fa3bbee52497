"""``status`` on a broker: a group without workers, one with a member, and a worker that waits for a transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from stream_dedup.cli import run
from stream_dedup.config.effective import rules_of
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import EXIT_FOUND, EXIT_OK
from stream_dedup.kafka.connection import make_consumer, make_producer
from stream_dedup.kafka.rules_log import apply_rules
from tests.waiting import wait_until
from tests.worker.pipeline import pipeline

LIMIT_S = 60
TRANSACTION_MS = 600_000


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


@pytest.mark.slow
def test_a_worker_behind_aborted_records_and_before_an_open_transaction(
    broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong with either; starting the program of the transaction again ends it."""
    name, values = f"crawler-{topic_name('id')}", [b'{"text": "one"}', b'{"text": "two"}']
    with pipeline(broker.bootstrap, tmp_path, topic_name("pipe")) as made:
        call = ["status", "--config", str(tmp_path / "main.toml"), "--json", "--interval=2.1"]

        def producer() -> KafkaProducer:
            made_one = make_producer(made.config().kafka, transactional_id=name, transaction_timeout_ms=TRANSACTION_MS)
            made_one.init_transactions()
            return made_one

        def wait_committed(end: int) -> None:
            wait_until(lambda: set(made.committed().values()) == {end}, LIMIT_S, f"offset {end} is committed")

        worker = made.start()
        made.wait_joined()
        with closing(producer()) as first:
            for commits in (True, False):
                first.begin_transaction()
                for value in values:
                    first.send(made.topic, value).get(timeout=LIMIT_S)
                if commits:
                    first.commit_transaction()
                else:
                    first.abort_transaction()
            wait_committed(6)
            first.begin_transaction()
            first.send(made.topic, values[0]).get(timeout=LIMIT_S)
            made.produce([(None, values[1])])
            assert run(call) == EXIT_OK
            (line,) = capsys.readouterr().out.splitlines()
            found = json.loads(line)
        (partition,) = found["partitions"]
        assert (partition["committed"], partition["stable"], partition["end"], partition["lag"]) == (6, 6, 8, 2)
        assert [one["code"] for one in found["findings"]] == ["open_transaction"]
        assert found["findings"][0]["text"] == f"{made.topic}-0: an open transaction holds back 2 offsets"
        with closing(producer()):
            wait_committed(9)
        made.stop(worker)
        made.assert_sound()
