"""An archive on a real broker: killed in the middle, entered once, matched, withdrawn, audited."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.core.entry import Batch
from stream_dedup.core.model import Verdict
from stream_dedup.errors import EXIT_FOUND, EXIT_OK
from stream_dedup.kafka.clients import connect_log
from tests.forks import ForkedProcess, forks
from tests.seed.small_batches import BATCH_LINES, archive_lines
from tests.waiting import wait_until
from tests.worker.conftest import MakePipeline
from tests.worker.pipeline import Pipeline, toml_of

ARTICLES = 1_500
KILLS = 3
LIMIT_S = 120.0


def logged(made: Pipeline) -> list[tuple[int, str]]:
    """Source offset and id of every seeded entry, in the order of the log."""
    with closing(connect_log(made.config())) as log:
        batches = [record.payload for record in log.read_all(lambda *_: None) if isinstance(record.payload, Batch)]
    return [(int(one.offset(row)), one.id(row)) for one in batches if one.seeded for row in range(len(one))]


def start_seed(made: Pipeline, archive: Path) -> ForkedProcess:
    """Start ``seed`` in a process of its own, with small batches."""
    path, log = made.folder / "seed.toml", made.folder / "seed.log"
    path.write_text(toml_of(made.values("seed")), "utf-8")
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as to:
        streams = [nothing.fileno(), to.fileno(), to.fileno()]
        return forks().start("tests.seed.small_batches:main", [str(path), str(archive)], streams)


def wait_for_records(made: Pipeline, least: int) -> None:
    with closing(connect_log(made.config())) as log:
        wait_until(lambda: log.bounds()[1] >= least, LIMIT_S, f"the log has {least} records")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_archive_that_is_killed_in_the_middle(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """Each article is in the log once, and none in the outputs; one that is withdrawn is no match from then on."""
    made = make_pipeline(match={"profile": "comment"})
    lines = archive_lines(ARTICLES)
    archive = tmp_path / "archive.jsonl"
    archive.write_text("\n".join(lines), "utf-8")
    # 1  kills
    for kill in range(1, KILLS + 1):
        seeding = start_seed(made, archive)
        wait_for_records(made, kill * ARTICLES // (KILLS + 2) // BATCH_LINES)
        seeding.kill()
        seeding.wait()
    assert start_seed(made, archive).wait(LIMIT_S) == EXIT_OK
    # 2  each once
    assert logged(made) == [(number, f"old-{number}") for number in range(ARTICLES)]
    again = made.run("seed", str(archive))
    assert again.stdout == f"0 entered, {ARTICLES:,} already there, 0 rejected\n"
    # 3  a match before the withdrawal, and none after it
    worker = made.start()
    repost = json.loads(lines[9])["text"]
    made.produce([(None, json.dumps({"id": "before", "text": repost}).encode())])
    made.wait_done()
    assert made.run("withdraw", "old-9", "before").stdout == "old-9: 1 withdrawn\nbefore: 1 withdrawn\n"
    made.produce([(None, json.dumps({"id": "after", "text": repost}).encode())])
    made.wait_done()
    made.stop(worker)
    assert made.run("withdraw", "nobody").returncode == EXIT_FOUND
    found = {stamp.coordinates.offset: stamp.verdict for stamp in made.stamps().values()}
    assert found == {0: Verdict.DUPLICATE, 1: Verdict.UNIQUE}
    made.assert_sound()
