"""Workers whose records have schemas, on a real broker, with kills.

The registry is the fake one, which keeps the contract of a real one (``tests/registry/test_contract.py``).
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from stream_dedup.audit.run import AuditOptions, run_audit
from stream_dedup.core.entry import Batch
from stream_dedup.core.model import Verdict
from stream_dedup.dev.broker.base import free_ports
from stream_dedup.errors import EXIT_FOUND, EXIT_OK, EXIT_USER
from stream_dedup.kafka.clients import connect_log, kafka_audit_ports
from stream_dedup.worker import Step
from tests.amount import FULL
from tests.contract.kafka_world import CLIENTS
from tests.forks import ForkedProcess
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, AVRO_EVOLVED, PROTOBUF, article_message, avro_data, frame, register
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Pipeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

GONE = 2_000_000_000
"""The id of a schema that no registry has."""
AVRO_KEY = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]})
STEPS = (Step.FINGERPRINTED, Step.APPENDED, Step.JUDGED, Step.POLLED)
LIMIT_S = 60.0

Record = tuple[bytes | None, bytes | None]


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.stop()


def text(number: int) -> str:
    """A text of its own; the same one again after forty."""
    number %= 40
    return f"Number {number}: the ferry to island {number * number} left harbour {number + 7} at {number} past noon."


def avro(schema_id: int, number: int) -> bytes:
    return frame(schema_id, avro_data(AVRO, {"id": number, "text": text(number)}))


def evolved(schema_id: int, number: int) -> bytes:
    return frame(schema_id, avro_data(AVRO_EVOLVED, {"site": "bbc", "id": number, "text": text(number)}))


def _is_over(dying: ForkedProcess, made: Pipeline) -> bool:
    return dying.poll() is not None or made.done()


def writer(url: str, fmt: str, subject: str) -> Callable[[int], bytes]:
    """Return what writes an article; every other one with an evolved schema."""
    if fmt == "avro":
        old, new = (register(url, subject, schema) for schema in (AVRO, AVRO_EVOLVED))
        return lambda number: evolved(new, number) if number % 2 else avro(old, number)
    more = PROTOBUF.replace("Source source = 3;", "Source source = 3; string author = 4;")
    ids = [register(url, subject, schema, "PROTOBUF") for schema in (PROTOBUF, more)]
    return lambda number: frame(ids[number % 2], article_message(number, text(number)))


def audited(made: Pipeline) -> int:
    """Audit with the texts; return how many were compared."""
    config = made.config()
    with kafka_audit_ports(config) as ports:
        report = run_audit(config, AuditOptions(texts=True), ports, lambda *_: None)
    assert not report.faults, report
    return report.texts


def batches(made: Pipeline) -> list[Batch]:
    log = connect_log(made.config())
    try:
        found = [record.payload for record in log.read_all(lambda *_: None)]
    finally:
        log.close()
    return [one for one in found if isinstance(one, Batch)]


def logged_ids(made: Pipeline) -> dict[int, str]:
    """Article ids by source offset; of several entries the first."""
    ids: dict[int, str] = {}
    for batch in batches(made):
        for row, offset in enumerate(batch.offsets.tolist()):
            ids.setdefault(offset, batch.id(row))
    return ids


def probe(made: Pipeline, path: str) -> tuple[int, str]:
    """Status and body of an answer of the worker's HTTP server."""
    url = f"http://{made.config().metrics.address}{path}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def waiting(made: Pipeline, cause: str) -> bool:
    return f'stream_dedup_waiting_partitions{{cause="{cause}"}} 1.0' in probe(made, "/metrics")[1]


def with_metrics(make: MakePipeline, url: str, partitions: int = 1, **keys: str) -> Pipeline:
    """A pipeline of Avro whose worker answers probes."""
    (port,) = free_ports(1)
    return make(
        partitions=partitions,
        input={"format": "avro"},
        registry={"url": url, **keys},
        metrics={"address": f"127.0.0.1:{port}"},
    )


@pytest.mark.parametrize(("fmt", "client"), [("avro", "kafka-python"), ("protobuf", "confluent")])
def test_exactly_once_with_schemas(make_pipeline: MakePipeline, fake: FakeRegistry, fmt: str, client: str) -> None:
    """Workers die one after the other, each at the next step; every article leaves once, by the schema of its own.

    In a sample each client takes every other step.
    """
    made = make_pipeline(
        input={"format": fmt},
        registry={"url": fake.url},
        worker={"batch_records": 10},
        kafka={"client": client},
    )
    write = writer(fake.url, fmt, f"{made.topic}-value")
    produced = 0
    for step in STEPS if FULL else STEPS[CLIENTS.index(client) :: len(CLIENTS)]:
        made.produce((None, write(number)) for number in range(produced, produced + 40))
        produced += 40
        dying = made.start(die_at=step, times=1)
        wait_until(partial(_is_over, dying, made), LIMIT_S, f"the worker dies at {step}")
        assert dying.poll() is not None, made.log()
    last = made.start()
    made.wait_done()
    made.stop(last)
    stamps = made.stamps()
    assert len(stamps) == produced
    assert {stamps[0, at].verdict for at in range(40, produced)} == {Verdict.DUPLICATE}
    assert logged_ids(made) == {at: str(at) for at in range(produced)}
    assert audited(made) == produced


def test_the_registry_is_away_at_the_start_and_later(make_pipeline: MakePipeline, fake: FakeRegistry) -> None:
    """The worker waits in its group and says so; nothing is rejected; records with known schemas go on."""
    old, new = (fake.register("a", {"schema": schema}) for schema in (AVRO, AVRO_EVOLVED))
    fake.stop()
    made = with_metrics(make_pipeline, fake.url)
    worker = made.start()
    made.wait_joined()
    assert probe(made, "/readyz")[0] == 200, "nothing needs the registry yet"
    made.produce([(None, avro(old, 1))])
    wait_until(lambda: waiting(made, "registry_away"), LIMIT_S, "the metric says so")
    status, said = probe(made, "/readyz")
    assert (status, "does not answer" in said) == (503, True)
    assert probe(made, "/healthz")[0] == 200
    assert sum(made.committed().values()) == 0
    fake.start()
    made.wait_done()
    wait_until(lambda: probe(made, "/readyz")[0] == 200, LIMIT_S, "the worker is ready")
    fake.stop()
    made.produce([(None, avro(old, 2)), (None, evolved(new, 3)), (None, avro(old, 4))])
    made.wait_judged(2)
    wait_until(lambda: waiting(made, "registry_away"), LIMIT_S, "the metric says so")
    assert sum(made.committed().values()) == 2, "what comes behind waits"
    worker.kill()
    worker.wait(60)
    again = made.start()
    fake.start()
    made.wait_done()
    made.stop(again)
    assert made.log().count("articles wait until it answers") >= 2
    assert logged_ids(made) == {0: "1", 1: "2", 2: "3", 3: "4"}
    assert Verdict.REJECTED not in {stamp.verdict for stamp in made.stamps().values()}
    assert audited(made) == 4


def test_an_unknown_schema_holds_its_partition_until_it_is_rejected(
    make_pipeline: MakePipeline, fake: FakeRegistry
) -> None:
    """The other partition goes on; ``reject`` lets it go on, once, whatever is killed in between."""
    known = fake.register("a", {"schema": AVRO})
    made = with_metrics(make_pipeline, fake.url, partitions=2)
    worker = made.start()
    made.wait_joined(times=2)
    values = [avro(known, number) for number in range(8)]
    values[4] = frame(GONE, b"\x02\x02a")  # of partition 0, at offset 2
    made.produce((b"key-%d" % number, value) for number, value in enumerate(values))
    made.wait_judged(6)
    wait_until(lambda: waiting(made, "unknown_schema"), LIMIT_S, "the metric says so")
    place = f"{made.topic}-0-2"
    wait_until(lambda: f"stream-dedup reject {place}" in made.log(), LIMIT_S, "the log names the record")
    assert sorted(made.stamps()) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert probe(made, "/healthz")[0] == probe(made, "/readyz")[0] == 200
    wrong = made.run("reject", f"{made.topic}-0-3")
    assert wrong.returncode == EXIT_USER
    assert "which the registry knows" in wrong.stderr
    worker.kill()
    worker.wait(60)
    first, second = made.run("reject", place), made.run("reject", place)
    assert (first.returncode, second.returncode) == (EXIT_OK, EXIT_OK), first.stderr + second.stderr
    reason = f"unknown schema {GONE}: the registry does not have it"
    assert (first.stdout, second.stdout) == (f"{place}: rejected: {reason}\n", f"{place}: rejected before: {reason}\n")
    dying = made.start(die_at=Step.JUDGED, times=1)
    assert dying.wait(60) < 0
    last = made.start()
    made.wait_done()
    made.stop(last)
    stamps = made.stamps()
    assert len(stamps) == 8
    assert {at: stamp.reason for at, stamp in stamps.items() if stamp.verdict is Verdict.REJECTED} == {(0, 2): reason}
    assert sum(batch.partition == 0 and 2 in batch.offsets for batch in batches(made)) == 1
    assert made.run("reject", f"{made.topic}-0-3").returncode == EXIT_FOUND
    assert audited(made) == 7


def test_a_schema_that_comes_later(make_pipeline: MakePipeline, fake: FakeRegistry) -> None:
    """Where somebody registers it, the partition goes on by itself; until then a worker stops at once if it is to."""
    known = fake.register("a", {"schema": AVRO})
    fake.hidden = {known}
    made = with_metrics(make_pipeline, fake.url)
    made.produce([(None, avro(known, 1))])
    worker = made.start()
    wait_until(lambda: "does not know schema 1" in made.log(), LIMIT_S, "the record is held")
    made.stop(worker)
    assert "did not finish in time" not in made.log()
    worker = made.start()
    wait_until(lambda: made.log().count("does not know schema 1") == 2, LIMIT_S, "the record is held again")
    fake.hidden = set()
    made.wait_done()
    made.stop(worker)
    assert [stamp.verdict for stamp in made.stamps().values()] == [Verdict.UNIQUE]


def test_a_delete_whose_key_has_a_schema_withdraws_its_article(make_pipeline: MakePipeline, fake: FakeRegistry) -> None:
    """As soon as the schema of the key is there; what comes behind the delete waits with it."""
    of_value, of_key = (fake.register(name, {"schema": schema}) for name, schema in (("a", AVRO), ("k", AVRO_KEY)))
    fake.hidden = {of_key}
    made = make_pipeline(input={"format": "avro", "key_field": "id", "deletes": "withdraw"}, registry={"url": fake.url})
    gone = frame(of_key, avro_data(AVRO_KEY, {"id": 1}))
    made.produce([(None, avro(of_value, 1)), (gone, None), (None, avro(of_value, 41))])
    worker = made.start()
    wait_until(lambda: f"does not know schema {of_key}" in made.log(), LIMIT_S, "the delete is held")
    made.wait_judged(1)
    fake.hidden = set()
    made.wait_done()
    made.stop(worker)
    assert {at: stamp.verdict for at, stamp in made.stamps().items()} == dict.fromkeys([(0, 0), (0, 2)], Verdict.UNIQUE)
    assert logged_ids(made) == {0: "1", 1: "1", 2: "41"}
    assert audited(made) == 3


def test_wrong_credentials_end_the_worker(make_pipeline: MakePipeline, fake: FakeRegistry, tmp_path: Path) -> None:
    """With exit code 2 and the keys to set; with the right ones the next worker goes on, and nothing was rejected."""
    known = fake.register("a", {"schema": AVRO})
    fake.authorization = "Basic bWU6cmlnaHQ="  # me:right
    password = tmp_path / "password"
    password.write_text("wrong", "utf-8")
    made = with_metrics(make_pipeline, fake.url, username="me", password_file=str(password))
    made.produce([(None, avro(known, 1))])
    assert made.start().wait(60) == EXIT_USER
    assert "refuses this client (401): check registry.username" in made.log()
    password.write_text("right", "utf-8")
    worker = made.start()
    made.wait_done()
    made.stop(worker)
    assert [stamp.verdict for stamp in made.stamps().values()] == [Verdict.UNIQUE]


def test_a_format_that_was_not_meant(make_pipeline: MakePipeline, fake: FakeRegistry) -> None:
    """The worker says which one it is and stops before it logs a rejection; with that format it judges all of them."""
    known = fake.register("a", {"schema": AVRO})
    made = make_pipeline()
    made.produce((None, avro(known, number)) for number in range(20))
    assert made.start().wait(60) == EXIT_USER
    assert "set input.format to avro, protobuf or json-schema" in made.log()
    assert (batches(made), sum(made.committed().values())) == ([], 0)
    made.set("input", format="avro")
    made.set("registry", url=fake.url)
    worker = made.start()
    made.wait_done()
    made.stop(worker)
    assert len(logged_ids(made)) == 20
    assert Verdict.REJECTED not in {stamp.verdict for stamp in made.stamps().values()}
