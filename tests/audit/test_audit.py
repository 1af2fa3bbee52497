"""The comparison of output records with the log: each fault alone, and what is no fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import xxhash

from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.headers import MATCH_DISTANCE, SOURCE, OmittedValue
from stream_dedup.core.model import Judgement, LogPosition, Match, Verdict
from tests.audit.comparing import (
    FAR,
    SOURCE_0,
    A,
    OutputRecord,
    asked_of,
    counts,
    outputs_of,
    report,
    three_articles,
    value_of,
    with_header,
    with_values,
    without_header,
)
from tests.headers import output_headers
from tests.logs import REJECTED, SCHEME, TOPIC, Entry, LogOfTest, at, batch, delete_of, entries_batch, rules


def test_nothing_is_wrong() -> None:
    """Outputs as the log says them are no faults, and everything is counted."""
    log = three_articles().plain()
    found = report(log, outputs_of(log))
    assert (counts(found), found.articles, found.recomputed, found.outputs) == ({}, 3, 3, 3)


def test_missing() -> None:
    """An article below the committed offset without output is missing; the one at it is pending."""
    log = three_articles().plain()
    found = report(log, outputs_of(log)[:1], asked_of(committed={SOURCE_0: 2}))
    assert counts(found) == {"missing": 1, "pending": 1}
    assert found.examples["missing"] == ["articles-0-1: in the log at offset 1, but in no output topic"]


def test_missing_where_the_committed_offset_is_unknown() -> None:
    """Outputs are written in source order: an article before one with an output is missing if it has none."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    assert counts(report(log, outputs[1:2], asked_of(committed={}))) == {"missing": 1, "pending": 1}


def test_source_gone() -> None:
    """Articles of a deleted topic without an output are counted: nobody can write it any more."""
    log = three_articles().plain()
    found = report(log, outputs_of(log)[:2], asked_of(committed={}, current=frozenset()))
    assert counts(found) == {"source gone": 1}


def test_never_logged() -> None:
    """A record before the committed offset that was never logged is missing."""
    log = three_articles().plain()
    found = report(log, outputs_of(log), lost=[("articles", at(7))])
    assert found.examples["missing"] == ["articles-0-7: in the source, but not in the log"]


def test_twice() -> None:
    """A second output is a fault, even an equal one."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    found = report(log, [*outputs, outputs[1]._replace(offset=9, timestamp=6000)])
    assert counts(found) == {"twice": 1}
    assert found.examples["twice"] == ["duplicate-0-9: articles-0-1 has another output"]


def test_allowed_repeats() -> None:
    """Equal repeats can be allowed; one with another value stays a fault."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    again = outputs[1]._replace(offset=9, timestamp=6000)
    assert counts(report(log, [*outputs, again], asked_of(allow_repeats=True))) == {"repeats": 1}
    for other in (again._replace(key=b"other"), again._replace(headers=[("own", b"2"), *again.headers[1:]])):
        assert counts(report(log, [*outputs, other], asked_of(allow_repeats=True))) == {"twice": 1}


def as_unique(output: OutputRecord) -> OutputRecord:
    judged = Judgement(Verdict.UNIQUE)
    return output._replace(topic="unique", headers=output_headers(judged, A ^ 1, SCHEME.id, "articles", at(1), 1234))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (as_unique, "verdict unique, should be duplicate; match None, should be Stamped"),
        (lambda output: output._replace(topic="unique"), "topic unique, should be duplicate"),
        (lambda output: output._replace(value=b"other"), "checksum of the value"),
        (lambda output: output._replace(value=None), "checksum of the value 0, should be"),
        (with_header("dedup.fingerprint", b"0" * 16), "fingerprint 0000000000000000, should be"),
        (with_header("dedup.match.id", b"x"), "match Stamped"),
        (with_header(MATCH_DISTANCE, b"2"), "match Stamped"),
        (with_header("dedup.match.similarity", b"0.5000"), "match Stamped"),
        (with_header("dedup.match.time", b"7"), "match Stamped"),
        (with_header("dedup.scheme", b"x"), "scheme x, should be"),
        (with_header(SOURCE, b"others-0-1"), "source topic others, should be articles"),
        (with_header(MATCH_DISTANCE, b"two"), "a header that cannot be read"),
        (without_header(SOURCE), "without the header dedup.source"),
        (lambda output: output._replace(headers=[*output.headers, ("dedup.other", b"")]), "unknown header dedup.other"),
    ],
)
def test_wrong(change: Callable[[OutputRecord], OutputRecord], message: str) -> None:
    """An output that differs from the log in any part is wrong, and the report names the difference."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    found = report(log, [outputs[0], change(outputs[1]), outputs[2]], asked_of(committed={SOURCE_0: 1}))
    assert found.found["wrong"] == 1
    assert message in found.examples["wrong"][0]


def test_a_wrong_number_of_copies() -> None:
    """An output without the number is no output of this program, and a wrong one is named."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    for change, message in (
        (without_header("dedup.copies"), "duplicate without the header dedup.copies"),
        (with_header("dedup.copies", b"2"), "copies 2, should be 1"),
    ):
        assert report(log, [outputs[0], change(outputs[1]), outputs[2]]).examples["wrong"][0].endswith(message)


def test_wrong_reason() -> None:
    """A rejected record's reason is the one that was logged."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    outputs[2] = with_header("dedup.reason", b"another")(outputs[2])
    assert report(log, outputs).examples["wrong"][0].endswith("reason another, should be broken")


def test_output_without_log_entry() -> None:
    """An output whose article is not in the log is wrong."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    stranger = with_header(SOURCE, b"articles-0-8")(outputs[0])
    assert report(log, [*outputs, stranger]).examples["wrong"] == ["unique-0-0: articles-0-8 is not in the log"]


def test_an_output_without_log_entry_says_nothing_of_others() -> None:
    """Its offset may be anything: neither are later outputs out of order, nor articles missing that are pending."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    stranger = with_header(SOURCE, b"articles-0-8")(outputs[0])
    assert counts(report(log, [stranger, *outputs])) == {"wrong": 1}
    assert counts(report(log, [stranger], asked_of(committed={}))) == {"wrong": 1, "pending": 3}


def test_self_matched() -> None:
    """An output whose match is the article itself is reported as such."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    itself = Match(LogPosition(1), "articles-0-1", "articles", at(1), 1000, 0, 1.0)
    judged = Judgement(Verdict.DUPLICATE, match=itself, copies=1)
    headers = output_headers(judged, A ^ 1, SCHEME.id, "articles", at(1), 1234)
    found = report(log, [outputs[0], outputs[1]._replace(headers=headers), outputs[2]])
    assert counts(found) == {"self-matched": 1, "wrong": 1}


def observed_log() -> PlainLog:
    """Unique, duplicate, rejected; from the second on the rules say to observe."""
    log = LogOfTest()
    log.add(rules())
    log.add(with_values(batch([0], [A])))
    log.add(rules(2, observe=True))
    log.add(with_values(batch([1, 2], [A ^ 1, REJECTED])))
    return log.plain()


def test_observed_outputs_are_all_in_the_topic_of_unique_ones() -> None:
    """Where the rules at its position observe only, an output belongs in ``unique``; its headers say the verdict."""
    log = observed_log()
    as_is = outputs_of(log)
    found = report(log, as_is)
    assert (counts(found), found.articles) == ({"wrong": 2}, 3)
    assert "topic duplicate, should be unique" in found.examples["wrong"][0]
    moved = [output._replace(topic="unique") for output in as_is]
    assert counts(report(log, moved)) == {}
    lied = as_unique(as_is[1])
    assert counts(report(log, [moved[0], lied, moved[2]])) == {"wrong": 1}


def test_rules_that_observe_no_more() -> None:
    """An article from before the change of rules stays where the rules at its own log position sent it."""
    log = three_articles()
    log.add(rules(2, observe=True))
    plain = log.plain()
    assert counts(report(plain, outputs_of(plain))) == {}


def updated_log() -> PlainLog:
    """An article, another version of it under the same id, another article near both."""
    log = LogOfTest()
    log.add(rules(recrawl="update"))
    made = entries_batch(
        [0, 1, 2], [Entry(A << 192, id="x"), Entry((A ^ 1) << 192, id="x"), Entry((A ^ 2) << 192, id="y")]
    )
    log.add(with_values(made))
    return log.plain()


def test_updates_are_counted() -> None:
    """A unique output with a match is no fault, and is counted."""
    log = updated_log()
    found = report(log, outputs_of(log))
    assert (counts(found), found.recomputed) == ({"updates": 1}, 3)


def test_update_that_is_none() -> None:
    """An update without its match, one that names another, and a duplicate that says it is an update are wrong."""
    log = updated_log()
    first, second, third = outputs_of(log)
    bare = second._replace(headers=[pair for pair in second.headers if not pair[0].startswith("dedup.match.")])
    found = report(log, [first, bare, third])
    assert counts(found) == {"wrong": 1}
    assert "match None, should be Stamped" in found.examples["wrong"][0]
    other = with_header("dedup.match.id", b"y")(second)
    assert counts(report(log, [first, other, third])) == {"wrong": 1}
    claimed = with_header("dedup.verdict", b"unique")(third)._replace(topic="unique")
    assert counts(report(log, [first, second, claimed])) == {"wrong": 1, "updates": 1}


def test_headers_of_another_verdict_are_wrong() -> None:
    """A rejected record with a match is wrong: no worker writes one."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    outputs[1] = with_header("dedup.verdict", b"rejected")(outputs[1])
    found = report(log, outputs, asked_of(committed={SOURCE_0: 1}))
    assert "verdict rejected with the header dedup.match.id" in found.examples["wrong"][0]


def test_value_that_no_topic_holds() -> None:
    """Where the value was omitted, the headers have its length and hash; the hash must be that of the log."""
    log = three_articles().plain()
    digest = xxhash.xxh3_64_intdigest(value_of(2))
    right, wrong = (bare(outputs_of(log, OmittedValue(7, xxh3))[2]) for xxh3 in (digest, 1))
    assert counts(report(log, [*outputs_of(log)[:2], right])) == {}
    assert counts(report(log, [*outputs_of(log)[:2], wrong])) == {"wrong": 1}
    with_key = right._replace(key=b"key", headers=[("own", b"1"), *right.headers])
    found = report(log, [*outputs_of(log)[:2], with_key])
    assert found.examples["wrong"] == [
        "rejected-0-2: articles-0-2: key b'key', should be None; headers of its own [('own', b'1')], should be []"
    ]


def bare(output: OutputRecord) -> OutputRecord:
    """The output of a record that is too large: neither key nor headers are copied."""
    return output._replace(key=None, headers=[(name, value) for name, value in output.headers if name != "own"])


def test_outputs_in_another_order() -> None:
    """In one output partition, outputs of one source partition come in source order; others may come in any order."""
    made = LogOfTest()
    made.add(rules())
    made.add(with_values(batch([0, 1, 2], [A, FAR, FAR << 1 & 2**64 - 1])))
    made.add(with_values(batch([0], [~A & 2**64 - 1], partition=1)))
    log = made.plain()
    first, second, third, other = outputs_of(log)
    asked = asked_of(committed={SOURCE_0: 3, (TOPIC, 1): 1})
    assert counts(report(log, [first, other, second, third], asked)) == {}
    found = report(log, [second, other, third, first], asked)
    assert counts(found) == {"out of order": 1}
    assert found.examples["out of order"] == ["unique-0-0: articles-0-0 comes after offset 2"]
    assert counts(report(log, [second, third, other, first._replace(partition=1)], asked)) == {}
    assert counts(report(log, [second, third, first, other], asked._replace(allow_repeats=True))) == {}


@pytest.mark.parametrize(("value", "wrong"), [(None, {}), (b"", {}), (b"x", {"wrong": 1})])
def test_tombstone(value: bytes | None, wrong: dict[str, int]) -> None:
    """The output of a tombstone has no value or, where it has no key either, an empty one."""
    made = LogOfTest()
    made.add(rules())
    made.add(replace(batch([0], [REJECTED]), checksums=np.zeros(1, np.uint64)))
    log = made.plain()
    output = outputs_of(log)[0]._replace(key=None, value=value)
    assert counts(report(log, [output], asked_of(committed={SOURCE_0: 1}))) == wrong


def article_and_delete() -> LogOfTest:
    """An article, its delete, and another article that is equal to it."""
    log = LogOfTest()
    log.add(rules())
    entries = [Entry(A << 192, "0" * 64, id="x"), delete_of("x"), Entry(A << 192, "0" * 64)]
    log.add(with_values(entries_batch([0, 1, 2], entries)))
    return log


def test_a_delete_is_owed_no_output() -> None:
    """It is counted, committed or not, and neither missing nor pending."""
    log = article_and_delete().plain()
    outputs = outputs_of(log)
    assert [output.topic for output in outputs] == ["unique", "unique"]
    assert counts(report(log, outputs)) == {"deletes": 1}
    assert counts(report(log, outputs[:1], asked_of(committed={SOURCE_0: 1}))) == {"deletes": 1, "pending": 1}


@pytest.mark.parametrize("sample", [None, 0])
def test_a_delete_with_an_output_is_wrong(sample: int | None) -> None:
    """Whether its verdict was recomputed or not, and whatever its output says."""
    log = article_and_delete().plain()
    first, second = outputs_of(log)
    source = log.coordinates(1)
    headers = output_headers(Judgement(Verdict.UNIQUE), 0, SCHEME.id, "articles", source, 1234, omitted=None)
    extra = OutputRecord("unique", 0, 1, 5000, b"key", value_of(1), headers)
    found = report(log, [first, extra, second], sample=sample)
    assert counts(found) == {"wrong": 1}
    assert found.examples["wrong"] == [
        "unique-0-1: articles-0-1: status one with an output, should be a delete, which has none"
    ]
