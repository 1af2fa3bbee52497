"""Reads through the ports what an audit needs, in an order in which the progress of running workers is no fault.

    1  Read the end of the log. Trims before it were made by workers that knew at most the offsets of step 2.
    2  Read the committed offsets.
    3  Read the first and the end offset of each output partition. The output of every article below the committed
       offsets lies before that end, or will when the open transactions end.
    4  Read the end of the log. Every article that has an output lies before it.
    5  Read the log, and recompute the verdicts.
    6  Read the outputs (committed ones) up to the ends of step 3.
    7  Read the records of the source topics that should have been logged and were not; with ``texts`` also those that
       were logged.

An audit writes nothing and joins no group, so it may run beside workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from stream_dedup.audit.audit import Audit, audited, to_recompute
from stream_dedup.audit.log_faults import author_faults
from stream_dedup.audit.reference import PlainLog
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.sources import AuditedSource, AuditedTopics, Compared, compare_texts, lost_records, records_of
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of, with_input_topics
from stream_dedup.config.model import Config
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.entry import LogRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.logged_scheme import scheme_mismatch
from stream_dedup.core.model import LogOffset, ReportStage, SourceOffset, Verdict
from stream_dedup.errors import RefusedError, UnavailableError, UserError
from stream_dedup.ports import (
    AuditPorts,
    Clock,
    OffsetGoneError,
    Partition,
    PassingError,
    RefusedByBrokerError,
    SourceChangedError,
    TopicReader,
)
from stream_dedup.registry.values import RecordReader
from stream_dedup.threads import FingerprintThreads, thread_count

T = TypeVar("T")

REQUEST_RETRY_S = 0.1
"""Seconds between two tries of a request."""
LOG_POLL_S = 1.0
"""One wait for log records that are known to be there."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of an audit."""

    since_ms: int | None = None
    since_offset: LogOffset | None = None
    sample: int | None = None
    seed: int = 0
    allow_repeats: bool = False
    texts: bool = False


def run_audit(config: Config, options: AuditOptions, ports: AuditPorts, progress: ReportStage) -> AuditReport:
    """Run an audit.

    Raises:
        UserError: there is no log; it ends before the offset to begin at; with ``texts``, it has another
            scheme than the configuration; or a right is missing.
        RefusedError: the log lost its beginning, or was cut while it was read.
        CorruptError: a record cannot be read.
        UnavailableError: the broker did not answer; an output stayed in an open transaction; or retention
            deleted outputs while they were read.
    """
    # 1 to 4
    log, faults, last = PlainLog(), list[tuple[str, str]](), LogOffset(-1)
    with _reading(config):
        topics = _topics(config, ports)
        # 5
        for record in _log_records(config, ports, topics.log, progress):
            faults += author_faults(log, record)
            log.append_record(record)
            last = record.offset
    if options.since_offset is not None and 0 <= last < options.since_offset:
        raise UserError(
            f"--since {options.since_offset} is a log offset, and the last record of the log {config.log_topic} has "
            f"the offset {last}: name an earlier one, or write a date as 2026-01-31"
        )
    if options.texts:
        _refuse_another_scheme(config, log)
    chosen = audited(log, options.since_ms, options.since_offset)
    audit = Audit(log, topics, chosen, allow_repeats=options.allow_repeats, texts=options.texts)
    audit.log_faults(faults)
    wanted = to_recompute(log, chosen, options.sample, options.seed)
    for done, (index, judgement) in enumerate(log.judgements(wanted), 1):
        audit.expect(index, judgement)
        progress("verdicts recomputed", done, len(wanted))
    with _reading(config):
        # 6
        total = sum(end - begin for begin, end in topics.output_bounds.values())
        for done, output in enumerate(ports.reader.read(topics.output_bounds), 1):
            audit.add(output)
            progress("outputs compared", done, total)
        # 7
        is_part = options.since_ms is not None or options.since_offset is not None
        audit.never_logged(lost_records(log, topics, chosen if is_part else None, audit.earlier, ports.reader))
        if options.texts:
            texts = np.flatnonzero(chosen) if options.sample is None else wanted
            records = records_of(log, texts, topics.sources, ports.reader)
            with _fingerprinter(config) as fingerprinter:
                compared = compare_texts(log, texts, records, fingerprinter, audit.copied)
                audit.compared(len(texts), _counted(compared, len(texts), progress))
    return audit.report()


def _patiently(clock: Clock, limit_s: float, request: Callable[[], T]) -> T:
    """Return what ``request`` returns; an error that may pass is raised when it has not passed in that time. Blocks."""
    deadline = clock.monotonic() + limit_s
    while True:
        try:
            return request()
        except PassingError:
            if clock.monotonic() > deadline:
                raise
        clock.sleep(REQUEST_RETRY_S)


def _topics(config: Config, ports: AuditPorts) -> AuditedTopics:
    def ask(request: Callable[[], T]) -> T:
        return _patiently(ports.clock, config.kafka.broker_wait_s, request)

    if config.log_topic not in ask(lambda: ports.offsets.topic_ids([config.log_topic])):
        raise UserError(f"there is no log {config.log_topic}; name the group whose work is meant with --group")
    # 1
    _, settled = ask(ports.log.bounds)
    # 2
    committed = ask(ports.offsets.committed)
    # 3
    outputs = _output_topics(config)
    output_bounds = ask(lambda: _bounds(ports.reader, outputs.values()))
    # 4
    log = ask(ports.log.bounds)
    read_ms = ports.clock.time_ms()
    # Of the source topics, no order is asked for: what is read of them was committed before step 2.
    config = ask(lambda: with_input_topics(config, lambda: ports.offsets.topic_ids(None)))
    names = sorted({*config.topics.input, *(partition.topic for partition in committed)})
    ids = ask(lambda: ports.offsets.topic_ids(names))
    bounds = ask(lambda: _bounds(ports.reader, names))
    sources = {
        at: AuditedSource(ids[at.topic], SourceOffset(begin), SourceOffset(end))
        for at, (begin, end) in bounds.items()
        if at.topic in ids
    }
    topic_ids = {at: found.topic_id or ids.get(at.topic) for at, found in committed.items()}
    limits_s = config.kafka.transaction_timeout_s + config.kafka.broker_wait_s + config.worker.clock_allowance_s
    return AuditedTopics(
        outputs=outputs,
        committed={
            (topic_id, at.number): committed[at].offset for at, topic_id in topic_ids.items() if topic_id is not None
        },
        current=frozenset(ids.values()),
        output_bounds=output_bounds,
        sources=sources,
        log=log,
        settled=settled,
        read_ms=read_ms,
        allowance_ms=int(limits_s * 1000),
    )


def _bounds(reader: TopicReader, names: Iterable[str]) -> dict[Partition, tuple[int, int]]:
    return reader.bounds(reader.partitions(dict.fromkeys(names)))


def _output_topics(config: Config) -> dict[Verdict, str]:
    topics = config.topics
    return {Verdict.UNIQUE: topics.unique, Verdict.DUPLICATE: topics.duplicate, Verdict.REJECTED: topics.rejected}


def _log_records(
    config: Config, ports: AuditPorts, bounds: tuple[LogOffset, LogOffset], progress: ReportStage
) -> Iterator[LogRecord]:
    first, end = bounds
    ports.log.seek(first)
    deadline = ports.clock.monotonic() + config.kafka.broker_wait_s
    while (position := ports.log.position()) < end:
        try:
            records = ports.log.poll(LOG_POLL_S)
        except OffsetGoneError as error:
            raise RefusedError(
                f"the log {config.log_topic} was trimmed while it was read: start the audit again"
            ) from error
        yield from (record for record in records if record.offset < end)
        if ports.log.position() > position:
            deadline = ports.clock.monotonic() + config.kafka.broker_wait_s
            progress("log records read", min(ports.log.position(), end) - first, end - first)
        elif ports.clock.monotonic() > deadline:
            limit_s = config.kafka.broker_wait_s
            raise UnavailableError(
                f"the log {config.log_topic}: offset {position} of {end} did not arrive within {limit_s:g} s"
            )


def _refuse_another_scheme(config: Config, log: PlainLog) -> None:
    configured = rules_of(config).scheme
    if log.rules is not None and log.rules.scheme != configured:
        remedy = "--texts needs the configuration of the workers (--config, --profile)"
        raise UserError(scheme_mismatch(log.rules.scheme, configured, f"log {config.log_topic}", remedy))


def _fingerprinter(config: Config) -> FingerprintThreads[RawRecord]:
    reader = RecordReader(config, input_format_of(config, deletes=True))
    maker = EntryMaker(fingerprint_settings_of(config), reader.format)
    return FingerprintThreads(thread_count(config.worker.threads), reader.entries(maker))


def _counted(compared: Iterable[Compared], total: int, progress: ReportStage) -> Iterator[Compared]:
    for done, one in enumerate(compared, 1):
        progress("source records compared", done, total)
        yield one


@contextmanager
def _reading(config: Config) -> Iterator[None]:
    """Raise the errors of the ports as errors of the program, with what to do."""
    try:
        yield
    except OffsetGoneError as error:
        raise UnavailableError(
            f"retention deleted records of {error} while the audit read them: start the audit again"
        ) from error
    except SourceChangedError as error:
        raise UnavailableError(
            f"a topic lost records, and others have their offsets ({error}): start the audit again"
        ) from error
    except PassingError as error:
        raise UnavailableError(
            f"the broker at {config.kafka.brokers} gave no answer to the audit ({error}); is it up?"
        ) from error
    except RefusedByBrokerError as error:
        raise UserError(
            f"the broker at {config.kafka.brokers} does not let this client read the topics: {error}; see docs/acls.md"
        ) from error
