"""What commits before a format stored is refused, with its remedy, and stays as it is.

``COMMIT.zip`` has what that commit wrote (``make``), ``earlier_records.json`` a log record of each kind that formats
2, 3 and 5 had, from logs that commits kept for their tests.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from stream_dedup import Index
from stream_dedup.broker.adapter.fingerprint_log import log_records
from stream_dedup.broker.adapter.group import committed_offset
from stream_dedup.broker.adapter.marked_sink import _mark_of
from stream_dedup.cli import run
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.headers import parse_headers
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.plain_batches import decode_plain
from stream_dedup.core.rules import Rules
from stream_dedup.errors import CorruptError, UserError
from stream_dedup.groups import GroupStore
from stream_dedup.index import LogIndex
from stream_dedup.ports import CommittedOffset, Partition
from stream_dedup.seed.entry_rows import columns_of
from stream_dedup.serve.opening import _ServedIndex
from stream_dedup.worker.opening import OpenedLog, open_log
from stream_dedup.worker.worker_id import worker_id
from tests.groups.outputs import LOG_ID
from tests.index.trees import tree
from tests.logs import SCHEME
from tests.memory.broker import Cluster
from tests.memory.log_topic import MemoryLogTopic
from tests.memory.partition import Message
from tests.memory.runtime import Connection
from tests.simulation.scheduler import Scheduler

HERE = Path(__file__).parent
COMMITS = ("b322854", "9ac1b10")
OTHER_FOLDER = "this program reads format 8: name a folder that is missing or empty"
TOPIC = "news.fingerprints"


@pytest.fixture(params=COMMITS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a commit stored."""
    with zipfile.ZipFile(HERE / f"{request.param}.zip") as packed:
        packed.extractall(tmp_path / "old")
    return tmp_path / "old"


def texts_of(commit: str) -> dict[str, Any]:
    with zipfile.ZipFile(HERE / f"{commit}.zip") as packed:
        texts: dict[str, Any] = json.loads(packed.read("texts.json"))
    return texts


def records() -> dict[str, bytes]:
    """A log record of each kind that each format had."""
    found = json.loads((HERE / "earlier_records.json").read_text("utf-8"))
    for commit in COMMITS:
        found |= {f"{commit}, {name}": raw for name, raw in texts_of(commit)["records"].items()}
    return {name: bytes.fromhex(raw) for name, raw in found.items()}


RECORDS = records()


@pytest.mark.parametrize("name", RECORDS)
def test_a_log_record_is_refused(name: str) -> None:
    """Of every kind and every format, alone and among others, with topic, offset and the remedy."""
    raw = RECORDS[name]
    consumed = [SimpleNamespace(offset=at, timestamp=7, timestamp_type=1, value=raw) for at in range(5, 15)]
    assert decode_plain([raw] * 10) == [None] * 10
    message = (
        rf"^topic a\.log, offset 5: log record of format {raw[0]}, and this program reads format 6; "
        "begin a new log with another --group and other output topics$"
    )
    with pytest.raises(CorruptError, match=message):
        log_records("a.log", consumed)


def config_of(path: Path, group: str = "news") -> Config:
    return load_config(overrides={"index": {"path": path}, "kafka": {"group": group}}, environment={})


def opened(config: Config, cluster: Cluster, **given: bool) -> OpenedLog:
    topic = MemoryLogTopic(cluster, Connection(), config.kafka.group, config.log_topic)
    return open_log(config, topic, lambda _done, _whole: None, **given)


@pytest.mark.parametrize("how", [{}, {"rebuild": True}, {"new_log": True}])
@pytest.mark.parametrize("commit", COMMITS)
def test_an_old_log_is_left_alone_and_another_group_begins_anew(
    tmp_path: Path, commit: str, how: dict[str, bool]
) -> None:
    """A worker appends nothing to it and touches no index, whatever it is told; the remedy works."""
    cluster = Cluster(Scheduler(Random(0)))
    for group in ("news", "news-2"):
        cluster.make_topic(config_of(tmp_path, group).log_topic, has_append_time=True)
    log = cluster.partition(Partition(TOPIC, 0))
    for name in ("rules", "batch"):
        cluster.append(log, Message(None, RECORDS[f"{commit}, {name}"]))
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        index.begin("a log")
    before = tree(tmp_path / "index"), list(log.records)
    with pytest.raises(CorruptError, match="this program reads format 6"):
        opened(config_of(tmp_path / "index"), cluster, **how)
    assert (tree(tmp_path / "index"), list(log.records)) == before
    made = opened(config_of(tmp_path / "other", "news-2"), cluster)
    with closing(made.log), made.index as index:
        assert index.rules is not None


def opens_worker(path: Path, **how: bool) -> None:
    """Open the index of a worker whose log is new."""
    cluster = Cluster(Scheduler(Random(0)))
    cluster.make_topic(TOPIC, has_append_time=True)
    opened(config_of(path), cluster, **how)


INDEX_OPENINGS: dict[str, Callable[[Path], object]] = {
    "writing": lambda path: LogIndex.open(path, scheme=SCHEME),
    "writing what replaces it": lambda path: LogIndex.open(path, scheme=None, emptied=True),
    "reading": lambda path: LogIndex.read(path, scheme=None),
    "Index": Index,
    "worker": opens_worker,
    "worker, index rebuild": lambda path: opens_worker(path, rebuild=True),
    "worker, --new-log": lambda path: opens_worker(path, new_log=True),
    "service": lambda path: _ServedIndex(path, config_of(path)).open(),
}


@pytest.mark.parametrize("opening", INDEX_OPENINGS)
def test_an_index_folder_is_refused(old: Path, opening: str) -> None:
    """Whoever opens it, also to replace what is in it; its files stay as they are."""
    before = tree(old / "index")
    with pytest.raises(UserError, match=rf"index .* has format [25], and {OTHER_FOLDER} \(--index, of the service"):
        INDEX_OPENINGS[opening](old / "index")
    assert tree(old / "index") == before


@pytest.mark.parametrize(
    "command", [["index", "stats"], ["index", "verify"], ["index", "rebuild", "--brokers", "127.0.0.1:1"], ["filter"]]
)
def test_commands_refuse_an_index_folder(
    old: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2; and another folder, the remedy, works."""
    (tmp_path / "lines").write_text('{"text":"ferry and bridge"}\n', "utf-8")
    lines = [str(tmp_path / "lines")] if command == ["filter"] else []
    before = tree(old / "index")
    assert run([*command, "--index", str(old / "index"), *lines]) == 2
    assert OTHER_FOLDER in capsys.readouterr().err
    assert tree(old / "index") == before
    assert run(["filter", "--index", str(tmp_path / "new"), str(tmp_path / "lines")]) == 0


def test_the_id_of_a_worker_is_refused(old: Path, tmp_path: Path) -> None:
    """It is not written over; once the file is deleted, as the message says, the worker gets an id."""
    folder = tmp_path / "index"
    folder.mkdir()
    shutil.copy2(old / "index" / "worker-id", folder)
    before = tree(folder)
    with pytest.raises(CorruptError, match=r"worker-id holds no transactional id: .* delete it once no worker has had"):
        worker_id(folder, "articles")
    assert tree(folder) == before
    (folder / "worker-id").unlink()
    assert worker_id(folder, "articles") == worker_id(folder, "articles")


def test_a_groups_store_is_refused(old: Path) -> None:
    """Its file stays as it is; without its folder, as the message says, the store begins anew."""
    before = (old / "groups" / "groups.sqlite").read_bytes()
    with pytest.raises(UserError, match=r"has format 2, and this program reads format 3; delete the folder"):
        GroupStore.open(old / "groups", LOG_ID)
    assert (old / "groups" / "groups.sqlite").read_bytes() == before
    shutil.rmtree(old / "groups")
    with closing(GroupStore.open(old / "groups", LOG_ID)) as store:
        assert store.size()[0] == 0


def test_a_groups_store_of_a_killed_process_is_refused(old: Path, tmp_path: Path) -> None:
    """What it had committed stays in its write-ahead log, which is not merged into the file and deleted."""
    folder = tmp_path / "killed"
    with closing(sqlite3.connect(old / "groups" / "groups.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with connection:
            connection.execute("UPDATE state SET next_number = next_number + 1")
        shutil.copytree(old / "groups", folder)
    files = [folder / "groups.sqlite", folder / "groups.sqlite-wal"]
    before = [file.read_bytes() for file in files]
    with pytest.raises(UserError, match="has format 2, and this program reads format 3"):
        GroupStore.open(folder, LOG_ID)
    assert [file.read_bytes() for file in files] == before


def test_entries_in_parquet_are_refused(old: Path) -> None:
    """Before anything of them is taken, though their scheme is that of the log."""
    scheme = Scheme(*json.loads((old / "texts.json").read_text("utf-8"))["scheme"])
    (batch,) = parquet.read_table(old / "entries.parquet").to_batches()
    assert batch.column("scheme").to_pylist() == [scheme.id] * 2
    remedy = "write the file by stream_dedup.spark.fingerprint"
    with pytest.raises(UserError, match=f"column format is missing: {remedy}"):
        columns_of(batch, scheme)
    other = batch.append_column(pa.field("format", pa.int8()), pa.array([2, 2], pa.int8()))
    with pytest.raises(UserError, match=f"the entries have format 2, and this program reads format 1: {remedy}"):
        columns_of(other, scheme)


@pytest.mark.parametrize("commit", COMMITS)
def test_a_committed_offset_is_refused(commit: str) -> None:
    """Its metadata are not taken for those of an offset that was set by hand."""
    found = SimpleNamespace(offset=7, metadata=texts_of(commit)["source"], leader_epoch=3)
    with pytest.raises(
        CorruptError, match=r"of articles-0 has the metadata 'topic_id=.*, .* another --group and other output topics"
    ):
        committed_offset(("articles", 0), found)
    by_hand = SimpleNamespace(offset=7, metadata="", leader_epoch=3)
    assert committed_offset(("articles", 0), by_hand) == CommittedOffset(7, None, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_publishers_mark_is_none(commit: str) -> None:
    """The publisher begins anew: it publishes every group, and takes back what is none."""
    mark = texts_of(commit)["mark"]
    assert mark.endswith(str(uuid.UUID(int=0x07 * (256**16 - 1) // 255)))
    assert _mark_of(SimpleNamespace(offset=7, metadata=mark)) is None
    assert _mark_of(SimpleNamespace(offset=7, metadata=f"format=1;{mark}")) is not None


@pytest.mark.parametrize("commit", COMMITS)
def test_rules_are_refused(commit: str) -> None:
    """They lack fields, or the width of blocks in their scheme, of which none is guessed."""
    with pytest.raises(CorruptError, match=r"rules record with fields|block_bits None: must be one of 16, 20, 24"):
        Rules.from_json(RECORDS[f"{commit}, rules"][2:])


REJECTED_BY_4720A37 = [
    ("dedup.verdict", b"rejected"),
    ("dedup.scheme", b"simhash/1-0"),
    ("dedup.source", b"articles-0-3"),
    ("dedup.source.topic_id", b"07070707-0707-0707-0707-070707070707"),
    ("dedup.source.timestamp", b"7"),
    ("dedup.reason", b"invalid JSON"),
]
"""Headers that commit 4720a37 wrote."""


def test_headers_of_an_output_are_refused() -> None:
    """They lack the code of the reason: the audit calls the output wrong, and it is in no group."""
    with pytest.raises(CorruptError, match=r"rejected without the header dedup\.reason\.code"):
        parse_headers(REJECTED_BY_4720A37)
