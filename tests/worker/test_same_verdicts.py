"""The same log gives the same verdicts, whoever judges it."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.broker.adapter import connect_log
from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import Stamp
from stream_dedup.core.model import Verdict
from tests.amount import FULL
from tests.forks import ForkedProcess
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline, stop_all

ARTICLES = 900 if FULL else 300
SEED = 20261121
PARTITIONS = 6
WORKERS = 3
FILTER_S = 200

Said = tuple[str, str | None, str | None, int | None, str | None]
"""Verdict, fingerprint, match's id, distance, similarity."""


def said_by(stamp: Stamp) -> Said:
    match = stamp.match
    fingerprint = None if stamp.fingerprint is None else f"{stamp.fingerprint:016x}"
    if match is None:
        return str(stamp.verdict), fingerprint, None, None, None
    return str(stamp.verdict), fingerprint, match.id, match.distance, match.similarity


def filtered(fork: Callable[..., ForkedProcess], values: list[bytes], folder: Path) -> list[Said]:
    """Run the values through ``stream-dedup filter`` as lines."""
    lines = folder / "lines.jsonl"
    lines.write_bytes(b"".join(value + b"\n" for value in values))
    out = folder / "filtered.jsonl"
    with out.open("wb") as file:
        assert fork(["filter", lines], file.fileno()).wait(FILTER_S) in (0, 3)
    said: list[Said] = []
    for line in out.read_bytes().splitlines():
        dedup = json.loads(line)["dedup"]
        match = dedup.get("match") or {}
        similarity = f"{match['similarity']:.4f}" if match else None
        said.append((dedup["verdict"], dedup.get("fingerprint"), match.get("id"), match.get("distance"), similarity))
    return said


def order_of_log(made: Pipeline) -> list[tuple[int, int]]:
    """Source partition and offset of every article, in the order of the log."""
    order: dict[tuple[int, int], None] = {}
    with closing(connect_log(made.config())) as log:
        for record in log.read_all(lambda *_: None):
            if isinstance(record.payload, Batch):
                batch = record.payload
                order.update(dict.fromkeys((batch.partition, offset) for offset in batch.offsets.tolist()))
    return list(order)


def lines_only(stream: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes]]:
    """Records that can be lines of a file: not empty, without a line feed."""
    return [(key, value) for key, value in stream if value]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_worker_filter_and_plain_loop_agree(
    make_pipeline: MakePipeline, fork: Callable[..., ForkedProcess], tmp_path: Path
) -> None:
    """Three workers, ``filter`` on the log's order and the audit's plain loop give every article the same verdict."""
    stream = lines_only(records(ARTICLES, SEED))
    made = make_pipeline(partitions=PARTITIONS, worker={"batch_records": 25})
    running = [made.start(f"worker-{number}") for number in range(WORKERS)]
    for number in range(WORKERS):
        made.wait_joined(f"worker-{number}")
    made.produce(stream)
    made.wait_done(300)
    stop_all(made, running)

    stamps = made.stamps()
    order = order_of_log(made)
    assert sorted(stamps) == sorted(order)
    values = {(number % PARTITIONS, number // PARTITIONS): value for number, (_, value) in enumerate(stream)}
    assert filtered(fork, [values[at] for at in order], tmp_path) == [said_by(stamps[at]) for at in order]
    assert {stamp.verdict for stamp in stamps.values()} == set(Verdict)
    made.assert_sound()
