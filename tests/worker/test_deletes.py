"""Deletes on a broker: envelopes and records without a value withdraw articles of any partition, and have no output."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.core.model import Verdict
from stream_dedup.kafka.clients import kafka_audit_ports
from tests.contract.kafka_world import CLIENTS
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Keys, Pipeline, stop_all

FERRY = "The ferry to the island left the harbour at dawn, with nine passengers and the mail of two days on board."
KEEPER = "The keeper of the lighthouse counted nine ships that evening, and wrote their names into an old green book."
DEBEZIUM: Keys = {
    "id_field": "payload.after.id",
    "text_field": "payload.after.text",
    "scope_field": "payload.source.db",
    "key_field": "id",
    "deletes": "withdraw",
    "delete_field": "payload.op",
    "delete_id_field": "payload.before.id",
}
Change = tuple[bytes | None, bytes | None]


def change(operation: str, number: int, text: str = "", database: str = "cms") -> Change:
    """A change of a row as Debezium writes it."""
    row = {"id": number, "text": text}
    before, after = (row, None) if operation == "d" else (None, row)
    payload = {"before": before, "after": after, "source": {"db": database}, "op": operation, "ts_ms": 1}
    return json.dumps({"id": number}).encode(), json.dumps({"schema": {}, "payload": payload}).encode()


def gone(number: int) -> Change:
    """The record without a value that follows a delete."""
    return json.dumps({"id": number}).encode(), None


def verdicts(made: Pipeline, changes: Sequence[Change]) -> list[str]:
    """Write changes in turn to the two partitions, each once those before it are judged; return what became of each."""
    # kafka-python sends no record without a key and a value.
    producer = Producer({"bootstrap.servers": made.bootstrap})
    for number, (key, value) in enumerate(changes):
        producer.produce(made.topic, value, key, partition=number % 2)
        assert producer.flush(60) == 0
        made.wait_done()
    stamps = made.stamps()
    said = []
    for number in range(len(changes)):
        stamp = stamps.get((number % 2, number // 2))
        match = "" if stamp is None or stamp.match is None else f" {stamp.match.id}"
        said.append("none" if stamp is None else f"{stamp.verdict}{match}")
    return said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_changes_of_a_table(make_pipeline: MakePipeline, client: str) -> None:
    """Deletes of what is there, in either partition, deleted, never seen, published again, and without an id."""
    made = make_pipeline(
        partitions=2, input=DEBEZIUM, kafka={"client": client}, match={"window": "7d"}, worker={"batch_records": 10}
    )
    workers = [made.start("one"), made.start("other")]
    assert verdicts(
        made,
        [
            change("c", 1, FERRY),
            change("c", 2, FERRY),
            change("c", 3, FERRY, "archive"),
            change("d", 1),
            gone(1),
            change("c", 4, FERRY),
            change("d", 2),
            change("d", 77),
            change("c", 5, FERRY, "archive"),
            change("c", 4, FERRY),
            change("d", 3),
            change("d", 4),
            change("c", 1, FERRY),
            (None, None),
            change("c", 6, KEEPER),
        ],
    ) == [
        *("unique", "duplicate 1", "unique", "none", "none", "duplicate 2", "none", "none", "duplicate 3"),
        *("duplicate 4", "none", "none", "unique", "rejected", "unique"),
    ]
    reasons = [stamp.reason for _, _, stamp in made.outputs() if stamp.verdict is Verdict.REJECTED]
    assert reasons == ["delete without an id"]
    stop_all(made, workers)
    config = made.config()
    with kafka_audit_ports(config) as ports:
        report = run_audit(config, AuditOptions(texts=True), ports, lambda *_: None)
    assert (report.faults, report.found["deletes"], report.texts) == (0, 6, 15)
    listed = json.loads(made.run("withdraw", "--list", "--json").stdout)
    assert sorted((one["id"], one["partition"], one["offset"]) for one in listed) == [
        *(("1", 0, 0), ("2", 1, 0), ("3", 0, 1), ("4", 1, 2), ("4", 1, 4)),
    ]
