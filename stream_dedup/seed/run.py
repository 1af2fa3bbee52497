"""The command ``seed``: connects, and enters archives or a topic into the log of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import ReportStage
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import AS_RECOGNISED, Progress, check_inputs, printable, refuse_framed, total_bytes
from stream_dedup.files.recognition import InputForm
from stream_dedup.kafka.admin import KafkaOffsets, topic_ids
from stream_dedup.kafka.clients import connect_log
from stream_dedup.kafka.connection import make_admin, unavailable_on_kafka_error
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.readers import KafkaTopicReader
from stream_dedup.kafka.rules_log import refuse_lost_log
from stream_dedup.kafka.topics import ensure_topics, refuse_wrong_topics
from stream_dedup.registry.values import RecordReader
from stream_dedup.seed.archives import (
    Archive,
    FileArchive,
    TopicArchive,
    has_entries,
    lines_archive,
    parquet_archive,
)
from stream_dedup.seed.seeding import SameLog, Seeding, SeedTally, read_log
from stream_dedup.threads import FingerprintThreads, thread_count

SUBMITTED_PER_THREAD = 2
"""Batches submitted for each thread: one that is fingerprinted, one that waits."""
MAX_NAME_BYTES = 249
"""Bytes of the name of an archive: as many as Kafka allows the name of a topic. Headers contain either."""


Report = Callable[[SeedTally], None]


def seed_files(
    config: Config, paths: Sequence[str], name: str | None, form: InputForm, report: Report, stage: ReportStage
) -> SeedTally:
    """Enter the archives in files.

    Raises:
        UserError: a file cannot be read.
        RefusedError: an archive was changed, the rules in force are others, or the log lost its history.
        UnavailableError: the broker did not answer; the same call goes on.
    """
    refuse_framed(config, "seed")
    check_inputs(paths, form)
    tally = SeedTally(progress=Progress(total=total_bytes(paths)))
    archives = archives_in(config, paths, name, tally.progress, form)
    sources = [archive.source[:2] for archive in archives]
    _seed(config, archives, sources, tally, report, stage)
    return tally


def archives_in(
    config: Config, paths: Sequence[str], name: str | None, progress: Progress, form: InputForm = AS_RECOGNISED
) -> list[FileArchive]:
    """Return the archives in these files, in order; an empty one is left out.

    Raises:
        UserError: a file cannot be read, or ``name`` is given to several.
    """
    if name is not None and len(paths) > 1:
        raise UserError(f"--name {printable(name)} is the identity of one archive: name one FILE")
    if name is not None:
        name = _checked_name(name)
    scheme = rules_of(config).scheme
    archives = (
        parquet_archive(Path(path), name, scheme, progress)
        if has_entries(path)
        else lines_archive(path, name, progress, form)
        for path in paths
    )
    return [archive for archive in archives if archive is not None]


def _checked_name(name: str) -> str:
    """Return the name of an archive as text."""
    shown = printable(name)
    size = len(shown.encode())
    if not 1 <= size <= MAX_NAME_BYTES:
        raise UserError(f"--name has {size} bytes; give the archive a name of 1 to {MAX_NAME_BYTES}")
    return shown


def seed_topic(config: Config, topic: str, report: Report, stage: ReportStage) -> SeedTally:
    """Enter the articles of a topic, from its beginning to its present end; raises as ``seed_files``."""
    with closing(make_admin(config.kafka)) as admin:
        record_bytes = refuse_wrong_topics(admin, config).record_bytes
    with closing(KafkaTopicReader(config.kafka)) as reader, closing(KafkaOffsets(config.kafka)) as offsets:
        archive = TopicArchive(config, topic, reader, offsets, record_bytes)
        tally = SeedTally(progress=archive.progress)
        sources = [source[:2] for source in archive.sources.values()]
        _seed(config, [archive], sources, tally, report, stage)
    return tally


def _seed(
    config: Config,
    archives: Sequence[Archive],
    sources: Collection[tuple[bytes, int]],
    tally: SeedTally,
    report: Report,
    stage: ReportStage,
) -> None:
    """Check the topics, read the log or begin it, make missing topics, and enter the archives.

    No topic is made where the rules in the log are not the configuration's.
    """
    topic = config.log_topic
    with ExitStack() as stack:
        stack.enter_context(unavailable_on_kafka_error(config.kafka))
        admin = stack.enter_context(closing(make_admin(config.kafka)))
        refuse_lost_log(admin, config)
        records = RecordReader(config, input_format_of(config, deletes=True), refuses_unknown=True)
        maker = EntryMaker(fingerprint_settings_of(config), records.format)
        maker.fingerprinter.warm()
        if topic in refuse_wrong_topics(admin, config).missing:
            ensure_topics(admin, config)
        same_log = SameLog(topic, lambda: patiently(config.kafka, topic, lambda: topic_ids(admin, [topic]).get(topic)))
        log = stack.enter_context(closing(connect_log(config)))
        read = read_log(config, log, sources, stage)
        ensure_topics(admin, config)
        threads = thread_count(config.worker.threads)
        fingerprinter = stack.enter_context(FingerprintThreads(threads, records.entries(maker)))
        seeding = Seeding(read, same_log, fingerprinter, SUBMITTED_PER_THREAD * threads, tally)
        seeding.enter(archives, partial(report, tally))
