"""Entries and outputs are compared with the source records that they were made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_dedup.audit.audit import Audit, audited
from stream_dedup.audit.report import AuditReport
from stream_dedup.audit.sources import compare_texts
from stream_dedup.core.columns import Columns, Texts
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.entry import Batch, make_batch
from stream_dedup.core.fingerprinter import EntryMaker, rejected_columns
from stream_dedup.core.headers import OmittedValue
from stream_dedup.core.model import Judgement, Status, Verdict, Widths
from stream_dedup.core.reasons import DEFECT, RECORD_TOO_LARGE
from stream_dedup.threads import FingerprintThreads
from tests.audit.comparing import SOURCE_0, TOPICS, OutputRecord, asked_of, counts
from tests.headers import output_headers
from tests.logs import TOPIC, LogOfTest, at, directed_rules

TIME_MS = 1234
HEADERS = [("own", b"1"), ("own", b"2"), ("empty", None)]
VALUES = [b'{"id":"a","text":"The ferry to the island leaves at nine in the morning."}', b"{broken", b'{"text":"..."}']


def source_record(offset: int, value: bytes | None) -> OutputRecord:
    return OutputRecord("articles", 0, offset, TIME_MS, b"key", value, [*HEADERS, ("dedup.verdict", b"forged")])


RECORDS = [source_record(offset, value) for offset, value in enumerate(VALUES)]


def entries(records: Sequence[OutputRecord]) -> Columns:
    """The entries that a worker makes of these records."""
    return EntryMaker()([RawRecord(one.key, one.value, f"articles-0-{one.offset}") for one in records])


def logged(change: Callable[[Batch], Batch] = lambda batch: batch) -> LogOfTest:
    """A log of these records, with a change of their batch."""
    log = LogOfTest()
    log.add(directed_rules())
    columns = entries(RECORDS)
    log.add(change(make_batch(columns, TOPIC, "articles", 0, range(len(RECORDS)))))
    return log


def compared(
    log: LogOfTest,
    outputs: Sequence[OutputRecord] = (),
    records: Sequence[OutputRecord] = RECORDS,
    wanted: Sequence[int] = range(len(RECORDS)),
) -> AuditReport:
    """The report on the comparison with these source records."""
    plain = log.plain()
    audit = Audit(plain, asked_of(committed={SOURCE_0: 0}).topics, audited(plain, None, None), texts=True)
    for output in outputs:
        audit.add(output)
    given = [(at(one.offset), one) for one in records]
    with FingerprintThreads(1, EntryMaker()) as fingerprinter:
        found = compare_texts(plain, np.array(wanted), given, fingerprinter, audit.copied)
        audit.compared(len(wanted), found)
    return audit.report()


def outputs_of_records(omitted: OmittedValue | None = None, log: LogOfTest | None = None) -> list[OutputRecord]:
    """The output of each record, as a worker without faults writes them."""
    plain = (log or logged()).plain()
    found = []
    for index, judgement in plain.judgements():
        print_ = int(plain.entries.fingerprints[index])
        ours = output_headers(judgement, print_, plain.scheme_id(), "articles", at(index), TIME_MS, omitted)
        own = [] if omitted else [(name, value or b"") for name, value in HEADERS]
        record = RECORDS[index]._replace(topic=TOPICS[judgement.verdict], headers=own + ours)
        found.append(record._replace(key=None, value=b"") if omitted else record)
    return found


def faults(found: AuditReport) -> dict[str, int]:
    """The findings, without the articles that no test here gives an output."""
    return {kind: count for kind, count in counts(found).items() if kind != "pending"}


def test_nothing_is_wrong() -> None:
    """Entries and outputs that were made of the source records are no faults; each record is compared."""
    found = compared(logged(), outputs_of_records())
    assert (faults(found), found.texts) == ({}, 3)


def with_column(name: str, row: int, value: object) -> Callable[[Batch], Batch]:
    """Change one value of a batch."""

    def change(batch: Batch) -> Batch:
        column = getattr(batch, name)
        texts = isinstance(column, Texts)
        values = [column[at] for at in range(len(batch))] if texts else column.copy()
        values[row] = value
        changed: dict[str, Any] = {name: Texts.of(values) if texts else values}
        return replace(batch, **changed)

    return change


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("signatures", 0, 7, "articles-0-0: signature 0707"),
        ("margins", 0, 7, "articles-0-0: margins 0707"),
        ("statuses", 0, Status.EXACT, "articles-0-0: status EXACT, should be LONG"),
        ("checksums", 0, 7, "articles-0-0: checksum 7, should be"),
        ("scope_hashes", 0, 7, "articles-0-0: scope hash 7, should be 0"),
        ("ids", 0, "b", "articles-0-0: article id b, should be a"),
        ("ids", 1, "b", "articles-0-1: article id b, should be key"),
        ("reasons", 1, "none", "articles-0-1: reason none, should be "),
    ],
)
def test_wrong_entry(name: str, row: int, value: object, message: str) -> None:
    """An entry that differs in any column from the one that its record gives is found, and the difference named."""
    found = compared(logged(with_column(name, row, value)))
    assert faults(found) == {"wrong entry": 1}
    assert message in found.examples["wrong entry"][0]


def test_only_the_wanted_articles() -> None:
    """Of a sample, only its articles are compared; a record that is gone is counted."""
    log = logged(with_column("signatures", 0, 7))
    assert faults(compared(log, wanted=[1, 2])) == {}
    found = compared(log, records=RECORDS[1:])
    assert (faults(found), found.texts) == ({"not compared": 1}, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": b"other"}, "key"),
        ({"key": None}, "key"),
        ({"headers": [("own", b"1")]}, "headers"),
        ({"headers": [*HEADERS, ("foreign", b"")]}, "headers"),
        ({"headers": HEADERS[::-1]}, "headers"),
        ({"timestamp": 9}, "dedup.source.timestamp"),
    ],
)
def test_changed_output(changed: dict[str, object], message: str) -> None:
    """An output with another key, other headers of its own or another time than its source record is wrong."""
    records = [RECORDS[0]._replace(**changed), *RECORDS[1:]]  # type: ignore[arg-type]
    found = compared(logged(), outputs_of_records(), records)
    assert [text.partition("not as")[0] for text in found.examples["wrong"]] == [
        f"the output of articles-0-0: {message} "
    ]


def test_omitted_value() -> None:
    """Of a record that is too large neither key nor headers are in the output; its time and length are compared."""
    log, outputs = logged(), outputs_of_records(OmittedValue(len(VALUES[1]), entries(RECORDS).checksums[1]))
    assert faults(compared(log, outputs[1:2])) == {}
    other = [RECORDS[0], RECORDS[1]._replace(timestamp=9), RECORDS[2]]
    assert (
        compared(log, outputs[1:2], other).examples["wrong"][0].endswith("dedup.source.timestamp not as in the source")
    )


def defect(batch: Batch) -> Batch:
    """The first entry, rejected because the core panicked."""
    record = RECORDS[0]
    raw = RawRecord(record.key, record.value, "articles-0-0")
    columns = Columns.concat([rejected_columns(raw, InputFormat(), DEFECT, Widths()), entries(RECORDS[1:])])
    return make_batch(columns, batch.topic_id, batch.topic, batch.partition, batch.offsets)


def test_rejected_by_a_limit() -> None:
    """A rejection that depends on more than the record is not compared, and counted."""
    found = compared(logged(defect))
    assert (faults(found), found.texts) == ({"not compared": 1}, 2)


def too_large(batch: Batch) -> Batch:
    """The second entry, rejected because of its size."""
    return with_column("reasons", 1, RECORD_TOO_LARGE.format(size=9, limit=8))(batch)


def test_length_of_an_omitted_value() -> None:
    """It is that of the source record's value, though the entry of a record that is too large is not compared."""
    log, right = logged(too_large), OmittedValue(len(VALUES[1]), entries(RECORDS).checksums[1])
    for length, wrong in ((right.length, {}), (999_999, {"wrong": 1})):
        outputs = outputs_of_records(replace(right, length=length), log)[1:2]
        found = compared(log, outputs)
        assert (faults(found), found.texts) == ({"not compared": 1} | wrong, 2)


def test_without_texts() -> None:
    """Without the comparison, nothing is kept of the outputs for it."""
    plain = logged().plain()
    audit = Audit(plain, asked_of(committed={SOURCE_0: 0}).topics, audited(plain, None, None))
    judged = Judgement(Verdict.REJECTED, reason=plain.record(1).batch.reason(1))
    headers = output_headers(judged, 0, plain.scheme_id(), "articles", at(1), TIME_MS)
    audit.add(RECORDS[1]._replace(topic="rejected", headers=headers))
    assert faults(audit.report()) == {}
