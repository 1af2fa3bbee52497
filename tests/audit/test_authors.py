"""What the audit finds by what records say about their authors (``read_to``)."""

from __future__ import annotations

from stream_dedup.audit.log_faults import author_faults
from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.entry import Basis, Batch, Forgotten, Payload, Trim, make_batch
from stream_dedup.core.headers import output_headers
from stream_dedup.core.model import Judgement, LogOffset, SourceOffset, Verdict
from tests.audit.comparing import FAR, SOURCE_0, A, counts, outputs_of, report, scope, with_values
from tests.logs import SCHEME, TOPIC, LogOfTest, at, batch, rules


def read_up_to(read_to: int, made: Batch) -> Batch:
    """The batch of an author that had read the log up to an offset."""
    return make_batch(made, made.topic_id, made.topic, made.partition, made.offsets, read_to=LogOffset(read_to))


def faults_of(*payloads: Payload) -> list[tuple[str, str]]:
    """What is found while these records are read."""
    made, log = LogOfTest(), PlainLog()
    found: list[tuple[str, str]] = []
    for payload in payloads:
        made.add(payload)
        found += author_faults(log, made.records[-1])
        log.append_record(made.records[-1])
    return found


def test_nothing_is_wrong() -> None:
    """A copy whose author had not read the first entry is no fault, nor is a record of version 2."""
    first = read_up_to(1, batch([0, 1], [A, FAR]))
    assert faults_of(rules(), first, read_up_to(1, batch([1, 2], [A, A])), batch([0], [A])) == []


def test_logged_again_though_the_author_had_read_the_first_entry() -> None:
    """Each article that is logged again by an author that had read its entry is found."""
    first = read_up_to(1, batch([0, 1], [A, FAR]))
    assert faults_of(rules(), first, read_up_to(2, batch([1, 2], [A, A]))) == [
        ("logged again", "articles-0-1: in the log at offset 1, and again at 2 by a worker that had read up to 2")
    ]


def test_logged_again_though_the_author_had_read_the_trim_that_forgot_it() -> None:
    """What is forgotten is logged: an author that had read the trim is at fault, one that had not is none."""
    first = read_up_to(1, batch([0, 1], [A, FAR]))
    trim = Trim(LogOffset(2), 2000, Basis(1, LogOffset(3), (Forgotten(TOPIC, 0, SourceOffset(2)),)))
    late = [read_up_to(read_to, batch([1, 2], [A, A])) for read_to in (3, 4)]
    assert faults_of(rules(), first, rules(), trim, *late) == [
        (
            "logged again",
            "articles-0-1: forgotten by the trim at offset 3, and again at 5 by a worker that had read up to 4",
        )
    ]


def test_a_record_whose_author_read_beyond_it() -> None:
    """No author can have read its own record before it was appended: of a batch, and of a trim."""
    trim = Trim(LogOffset(0), 0, Basis(1, LogOffset(3), ()))
    found = faults_of(rules(), read_up_to(2, batch([0], [A])), trim)
    assert [kind for kind, _ in found] == ["wrong entry", "wrong entry"]
    assert found[0][1] == "the record at log offset 1 says that its author had read the log up to 2"


def judged_log(read_to: int) -> PlainLog:
    """An article of one partition, and a copy of it in another one, whose author had read up to an offset."""
    log = LogOfTest()
    log.add(rules())
    log.add(with_values(batch([0], [A])))
    log.add(read_up_to(read_to, with_values(batch([0], [A ^ 1], partition=1))))
    return log.plain()


def test_judged_before_the_log_was_read() -> None:
    """A wrong verdict is explained where the match was logged after what the author of the batch had read."""
    explained = []
    for read_to in (1, 2):
        log = judged_log(read_to)
        outputs = outputs_of(log)
        headers = output_headers(Judgement(Verdict.UNIQUE), A ^ 1, SCHEME.id, "articles", at(0, partition=1), 1234)
        found = report(log, [outputs[1]._replace(topic="unique", headers=headers)], scope(committed={SOURCE_0: 0}))
        assert found.found["wrong"] == 1
        explained.append("it may have been judged before the log was read" in found.examples["wrong"][0])
    assert explained == [True, False]


def test_a_right_verdict_needs_no_explanation() -> None:
    """Where the worker had read the log before it judged, nothing is said."""
    log = judged_log(1)
    assert counts(report(log, outputs_of(log), scope(committed={}))) == {}
