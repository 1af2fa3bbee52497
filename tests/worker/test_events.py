"""Changes of topics, offsets, rules and indexes while articles are judged: one test for each.

The simulation has each of those marked ``full`` in its schedules (``tests/simulation/happenings.py``).
"""

import json
import random
import shutil
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import Stamp
from stream_dedup.core.model import Verdict
from stream_dedup.kafka.admin import topic_ids
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin, make_producer
from stream_dedup.kafka.record import HEADER_ALLOWANCE_BYTES, MESSAGE_FRAME_BYTES, record_bytes
from stream_dedup.kafka.topics import MESSAGE_BYTES, refuse_wrong_topics
from stream_dedup.worker import Step
from tests.contract.kafka_world import CLIENTS
from tests.profiles import write_profile
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import SESSION_S, Pipeline, is_frozen, stop_all, thaw

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SEED = 11


def judge_all(made: Pipeline, index: str = "main") -> None:
    worker = made.start(index)
    made.wait_done()
    made.stop(worker)


def article(name: str, text: str) -> tuple[bytes, bytes]:
    return name.encode(), json.dumps({"id": name, "text": text}, ensure_ascii=False).encode()


def log_batches(made: Pipeline) -> list[Batch]:
    with closing(connect_log(made.config())) as log:
        return [record.payload for record in log.read_all(lambda *_: None) if isinstance(record.payload, Batch)]


def set_offsets(made: Pipeline, offset: int) -> None:
    admin = make_admin(made.config().kafka)
    admin.alter_group_offsets(made.name, {at: OffsetAndMetadata(offset, "", -1) for at in made.partitions()})
    admin.close()


@pytest.mark.full
def test_offsets_reset_to_the_start_and_the_index_deleted(make_pipeline: MakePipeline) -> None:
    """Articles that are read again get the same verdicts, from an index that is built anew; nothing is logged again."""
    made = make_pipeline()
    made.produce(records(150, SEED))
    judge_all(made)
    once = made.stamps()
    logged = len(log_batches(made))
    shutil.rmtree(made.folder / "main")
    set_offsets(made, 0)
    judge_all(made)
    assert len(log_batches(made)) == logged
    again: dict[tuple[int, int], list[Stamp]] = {}
    for _, _, stamp in made.outputs():
        again.setdefault((stamp.coordinates.partition, stamp.coordinates.offset), []).append(stamp)
    assert again == {at: [stamp, stamp] for at, stamp in once.items()}
    made.assert_sound(allow_repeats=True)


def remake_topic(made: Pipeline) -> None:
    admin = make_admin(made.config().kafka)
    old = topic_ids(admin, [made.topic])[made.topic]
    admin.delete_topics([made.topic])
    wait_until(lambda: made.topic not in topic_ids(admin, [made.topic]), 60, "the topic is gone")
    admin.create_topics([NewTopic(made.topic, 1, 1)])
    wait_until(lambda: topic_ids(admin, [made.topic]).get(made.topic) not in (None, old), 60, "the topic is there")
    admin.close()


@pytest.mark.full
@pytest.mark.parametrize("running", [False, True])
def test_source_topic_recreated(make_pipeline: MakePipeline, running: bool) -> None:
    """A topic that was deleted and recreated is read from its beginning, as other articles than before."""
    made = make_pipeline()
    stream = records(100, SEED)
    made.produce(stream)
    worker = made.start()
    made.wait_done()
    if not running:
        made.stop(worker)
    remake_topic(made)
    made.produce(stream)
    if not running:
        worker = made.start()
    wait_until(lambda: len(made.outputs()) == 2 * len(stream), 90, "every article of both topics has left")
    made.stop(worker)
    by_topic: dict[bytes, list[Stamp]] = {}
    for _, _, stamp in made.outputs():
        by_topic.setdefault(stamp.coordinates.topic_id, []).append(stamp)
    old, new = by_topic.values()
    assert len(old) == len(new) == len(stream)
    readable = [stamp for stamp in new if stamp.verdict is not Verdict.REJECTED]
    assert all(stamp.verdict is Verdict.DUPLICATE for stamp in readable)
    made.assert_sound()


@pytest.mark.full
def test_committed_offsets_lost(make_pipeline: MakePipeline) -> None:
    """A group whose offsets expired stops, says how to set them, and goes on when they are set."""
    made = make_pipeline()
    made.produce(records(60, SEED))
    judge_all(made)
    admin = make_admin(made.config().kafka)
    wait_until(lambda: admin.delete_groups([made.name]) == {made.name: "OK"}, 60, "the group is deleted")
    admin.close()
    worker = made.start()
    assert worker.wait(60) == 4
    assert "the group lost its offsets" in made.log()
    assert f"stream-dedup offsets set --brokers {made.bootstrap} --group {made.name}" in made.log()
    set_offsets(made, 0)
    judge_all(made)
    made.assert_sound(allow_repeats=True)


@pytest.mark.full
def test_rules_changed_in_mid_stream(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """The rules in force at an article's log position decide about it; running workers follow a change."""
    made = make_pipeline()
    made.produce(records(100, SEED))
    worker = made.start()
    made.wait_done()
    before = sum(made.ends().values())
    made.set("match", profile=write_profile(tmp_path, search={"limit": 0, "short_limit": 0}))
    done = made.run("rules", "apply")
    assert done.returncode == 0, done.stdout + done.stderr
    made.produce(records(200, SEED))
    made.wait_done()
    made.stop(worker)
    after = [
        stamp.match.distance for stamp in made.stamps().values() if stamp.match and stamp.coordinates.offset >= before
    ]
    assert set(after) == {0}
    made.assert_sound()
    write_profile(tmp_path, search={"limit": 5, "short_limit": 0})
    refused = made.start()
    assert refused.wait(60) == 4
    assert "limit: 5 here, 0 in the log" in made.log()


@pytest.mark.full
def test_worker_thrown_out_of_its_group_cannot_commit(make_pipeline: MakePipeline) -> None:
    """A worker that is frozen before its commit and loses its membership meanwhile commits nothing."""
    made = make_pipeline(worker={"batch_records": 20})
    made.produce(records(60, SEED))
    frozen = made.start("frozen", die_at=Step.JUDGED, times=-1)  # stops itself there instead of dying
    wait_until(lambda: is_frozen(frozen), 60, "the worker stands still before its first commit")
    other = made.start("other")
    made.wait_done()
    thaw(frozen)
    wait_until(lambda: "no longer a member" in made.log("frozen") or "given back" in made.log("frozen"), 60, "refusal")
    made.produce(records(40, SEED + 1))
    made.wait_done()
    stop_all(made, [frozen, other])
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())


def record_limit(admin: KafkaAdminClient, made: Pipeline) -> int:
    return refuse_wrong_topics(admin, made.config()).record_bytes


@pytest.mark.parametrize("client", CLIENTS)
def test_records_at_the_size_limit(make_pipeline: MakePipeline, client: str) -> None:
    """A record at the limit of the outputs leaves whole, though Kafka's default is less.

    One that no topic can hold leaves as where it was, why, and its hash.
    """
    limit = 1_100_000
    made = make_pipeline(input={"max_bytes": limit}, kafka={"client": client})
    topics = made.config().topics
    sizes = dict.fromkeys((topics.unique, topics.duplicate, topics.rejected), limit + HEADER_ALLOWANCE_BYTES)
    sizes[made.topic] = limit
    with closing(make_admin(made.config().kafka)) as admin:
        admin.alter_configs(
            [
                ConfigResource(ConfigResourceType.TOPIC, name, {MESSAGE_BYTES: str(size + MESSAGE_FRAME_BYTES)})
                for name, size in sizes.items()
            ]
        )
        wait_until(lambda: record_limit(admin, made) == limit, 60, "the broker has applied the change")
    text = "城市地铁新线路今天上午正式开通运营。"
    empty = json.dumps({"id": "fits", "text": ""}).encode()
    around = record_bytes(SimpleNamespace(key=b"fits", value=bytes(limit), headers=[])) - limit
    fits = json.dumps({"id": "fits", "text": "x" * (limit - around - len(empty))}).encode()
    assert record_bytes(SimpleNamespace(key=b"fits", value=fits, headers=[])) == limit
    # Compressed, all pass the source topic's limit: that is how a record too large for the outputs comes about.
    made.produce([(b"fits", fits), (b"over", fits + b" "), article("small", text * 10)], compression="gzip")
    with closing(make_producer(made.config().kafka, compression_type="gzip", max_request_size=2 * limit)) as producer:
        tiny = producer.send(made.topic, value=fits[:1000], headers=[("a", bytes(100))] * 20_000)
        tiny.get(timeout=60)
    judge_all(made)
    by_offset = {int(stamp.coordinates.offset): (record, stamp) for _, record, stamp in made.outputs()}
    assert by_offset[0][0].value == fits
    assert by_offset[2][1].verdict is Verdict.UNIQUE
    for offset, size in ((1, len(fits) + 1), (3, 1000)):
        record, stamp = by_offset[offset]
        assert (stamp.verdict, record.key, record.value) == (Verdict.REJECTED, None, b"")
        assert stamp.reason is not None
        assert stamp.reason.startswith("record too large: ")
        assert stamp.omitted is not None
        assert stamp.omitted.length == size
    made.assert_sound()


@pytest.mark.parametrize("damage", [pytest.param("truncated", marks=pytest.mark.full), "corrupted"])
def test_damaged_index_is_noticed(make_pipeline: MakePipeline, damage: str) -> None:
    """A damaged index gives no wrong verdict: it is noticed and rebuilt, at once or at the next start."""
    made = make_pipeline(index={"fold_entries": 50})
    made.produce(records(200, SEED))
    judge_all(made)
    tables = sorted((made.folder / "main").rglob("*.sst"))
    assert tables
    rng = random.Random(SEED)
    for table in tables:
        content = bytearray(table.read_bytes())
        if damage == "truncated":
            del content[len(content) // 2 :]
        else:
            for _ in range(20):
                content[rng.randrange(len(content) // 2)] ^= 0xFF
        table.write_bytes(content)
    set_offsets(made, 0)
    worker = made.start()
    wait_until(lambda: worker.poll() is not None or "rebuilt" in made.log(), 60, "the damage is noticed")
    if worker.poll() is not None:
        assert worker.returncode == 6
        worker = made.start()
    made.wait_done()
    made.stop(worker)
    assert "rebuilt from the log" in made.log()
    made.assert_sound(allow_repeats=True)


@pytest.mark.full
def test_frozen_in_a_transaction_past_its_time_out(make_pipeline: MakePipeline) -> None:
    """A worker that wakes up after the broker has aborted its transaction goes on with a new producer."""
    made = make_pipeline(worker={"batch_records": 20}, kafka={"transaction_timeout_s": 2})
    made.produce(records(60, SEED))
    worker = made.start(die_at=Step.SENT, times=-2)
    made.wait_judged(1)
    made.produce(records(40, SEED + 1))
    wait_until(lambda: is_frozen(worker), 60, "the worker stands still in its transaction")
    threading.Event().wait(SESSION_S + 2)  # past both time-outs
    thaw(worker)
    made.wait_done()
    made.stop(worker)
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values())
