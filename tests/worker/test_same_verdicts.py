"""The same log gives the same verdicts, whoever judges it."""

import json
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.core.entry import Batch
from stream_dedup.core.headers import Stamp
from stream_dedup.core.model import Verdict
from stream_dedup.kafka.clients import connect_log
from tests.amount import FULL
from tests.forks import ForkedProcess
from tests.profiles import write_profile
from tests.worker.conftest import MakePipeline
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline, stop_all

ARTICLES = 900 if FULL else 300
SEED = 20261121
PARTITIONS = 6
FILTER_S = 200
PLAIN: dict[str, Any] = {}
BOUNDED: dict[str, Any] = {"window": "10m", "copies": 2}
SEARCH_BOUNDS = {"candidates": 3}
"""Few candidates, duplicates from the second copy on, and a window longer than any run: a trim would cut the log."""
SCOPES = ("north", "south", None)

Said = tuple[str, str | None, str | None, int | None, str | None, int | None]
"""Verdict, fingerprint, match's id, distance, similarity, copies."""


def said_by(stamp: Stamp) -> Said:
    match = stamp.match
    fingerprint = None if stamp.fingerprint is None else f"{stamp.fingerprint:016x}"
    if match is None:
        return str(stamp.verdict), fingerprint, None, None, None, stamp.copies
    return str(stamp.verdict), fingerprint, match.id, match.distance, match.similarity, stamp.copies


def filtered(
    fork: Callable[..., ForkedProcess], values: list[bytes], match: dict[str, Any], folder: Path
) -> list[Said]:
    """Run the values through ``stream-dedup filter`` as lines, by the log times in their field ``logged``."""
    lines, rules = folder / "lines.jsonl", folder / "rules.toml"
    lines.write_bytes(b"".join(value + b"\n" for value in values))
    keys = "".join(f"{name} = {json.dumps(value)}\n" for name, value in match.items())
    rules.write_text(f'[input]\nscope_field = "site"\n[match]\n{keys}', encoding="utf-8")
    out = folder / "filtered.jsonl"
    with out.open("wb") as file:
        command = ["filter", "--config", rules, "--time-field", "logged", lines]
        assert fork(command, file.fileno()).wait(FILTER_S) in (0, 3)
    said: list[Said] = []
    for line in out.read_bytes().splitlines():
        dedup = json.loads(line)["dedup"]
        found = dedup.get("match") or {}
        similarity = f"{found['similarity']:.4f}" if found else None
        kept = (dedup.get("fingerprint"), found.get("id"), found.get("distance"), similarity, dedup.get("copies"))
        said.append((dedup["verdict"], *kept))
    return said


def order_of_log(made: Pipeline) -> dict[tuple[int, int], int]:
    """Log time of every article by source partition and offset, in the order of the log."""
    order: dict[tuple[int, int], int] = {}
    with closing(connect_log(made.config())) as log:
        for record in log.read_all(lambda *_: None):
            if isinstance(record.payload, Batch):
                batch = record.payload
                for offset in batch.offsets.tolist():
                    order.setdefault((batch.partition, offset), int(record.time))
    return order


def lines_only(stream: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes]]:
    """Records that can be lines of a file: not empty, without a line feed."""
    return [(key, value) for key, value in stream if value]


def with_fields(value: bytes, **fields: object) -> bytes:
    """The record with these fields where it is one; None is no field."""
    try:
        whole = json.loads(value)
    except ValueError:
        return value
    if not isinstance(whole, dict):
        return value
    return json.dumps(whole | {key: one for key, one in fields.items() if one is not None}).encode()


def scoped(stream: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Articles of several sites: nearly all of one, so that copies mostly meet."""
    draw = random.Random(SEED)
    return [
        (key, with_fields(value, site=draw.choice(SCOPES) if draw.random() < 0.3 else None)) for key, value in stream
    ]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("workers", "match"),
    [(3, PLAIN), (1, BOUNDED), pytest.param(3, BOUNDED, marks=pytest.mark.full)],
    ids=["three workers", "one worker, bounds", "three workers, bounds"],
)
def test_worker_filter_and_plain_loop_agree(
    make_pipeline: MakePipeline, fork: Callable[..., ForkedProcess], tmp_path: Path, workers: int, match: dict[str, Any]
) -> None:
    """Workers, ``filter`` on the log's order and the audit's plain loop give every article the same verdict."""
    stream = scoped(lines_only(records(ARTICLES, SEED)))
    if match is BOUNDED:
        match = match | {"profile": write_profile(tmp_path, search=SEARCH_BOUNDS)}
    made = make_pipeline(
        partitions=PARTITIONS, worker={"batch_records": 25}, input={"scope_field": "site"}, match=dict(match)
    )
    running = [made.start(f"worker-{number}") for number in range(workers)]
    for number in range(workers):
        made.wait_joined(f"worker-{number}")
    made.produce(stream)
    made.wait_done(300)
    stop_all(made, running)

    stamps = made.stamps()
    order = order_of_log(made)
    assert sorted(stamps) == sorted(order)
    values = {(number % PARTITIONS, number // PARTITIONS): value for number, (_, value) in enumerate(stream)}
    lines = [with_fields(values[at], logged=time) for at, time in order.items()]
    assert filtered(fork, lines, match, tmp_path) == [said_by(stamps[at]) for at in order]
    assert {stamp.verdict for stamp in stamps.values()} == set(Verdict) - {Verdict.DELETE}
    made.assert_sound()
