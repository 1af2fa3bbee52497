"""Which articles an audit owes an output, and which it recomputes: seeded ones, a beginning, a sample, trims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from stream_dedup.audit.audit import audited, to_recompute
from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.entry import Basis, Forgotten, Trim
from stream_dedup.core.headers import SOURCE
from stream_dedup.core.model import Judgement, LogOffset, SourceOffset, Verdict
from tests.audit.comparing import (
    FAR,
    SOURCE_0,
    TOPICS,
    A,
    OutputRecord,
    asked_of,
    counts,
    outputs_of,
    report,
    three_articles,
    with_header,
    with_values,
)
from tests.headers import output_headers
from tests.logs import REJECTED, SCHEME, TOPIC, LogOfTest, at, batch, rules


def seeded_articles() -> LogOfTest:
    """The articles of ``three_articles``, seeded."""
    log = LogOfTest()
    log.add(rules())
    log.add(replace(with_values(batch([0, 1, 2], [A, A ^ 1, REJECTED])), read_to=LogOffset(1), seeded=True))
    return log


@pytest.mark.parametrize("settings", [{}, {"committed": {}}, {"committed": {}, "current": frozenset()}])
def test_seeded_articles_are_owed_no_output(settings: dict[str, Any]) -> None:
    """They are counted, and neither missing nor pending, whatever is committed; of a file there is no topic."""
    found = report(seeded_articles().plain(), [], asked_of(**settings))
    assert (counts(found), found.recomputed) == ({"seeded": 3}, 3)


def test_seeded_articles_may_have_an_output() -> None:
    """Where the topic is consumed later its outputs are right; the articles after the last one are owed none."""
    log = seeded_articles().plain()
    assert counts(report(log, outputs_of(log))) == {}
    assert counts(report(log, outputs_of(log)[:1], asked_of(committed={SOURCE_0: 1}))) == {"seeded": 2}


def test_the_output_of_a_seeded_article_is_compared() -> None:
    """An output that contradicts the log is a fault, and so is a second one."""
    log = seeded_articles().plain()
    first, second, _ = outputs_of(log)
    wrong = second._replace(topic="unique")
    assert counts(report(log, [first, wrong, first._replace(offset=9)])) == {"wrong": 1, "twice": 1, "seeded": 1}


def test_articles_after_seeded_ones_are_owed() -> None:
    """That some articles of a topic were seeded says nothing about those that a worker logged."""
    log = seeded_articles()
    log.add(with_values(batch([3], [A])))
    assert counts(report(log.plain(), [], asked_of(committed={SOURCE_0: 4}))) == {"seeded": 3, "missing": 1}


def test_since() -> None:
    """Earlier articles are not audited, by log time or by log offset; they still are matches of later ones."""
    made = three_articles()
    made.add(with_values(batch([3], [A ^ 2])))
    log = made.plain()
    outputs = outputs_of(log)
    for asked in (asked_of(since_ms=2001), asked_of(since_offset=2)):
        assert counts(report(log, [], asked)) == {"pending": 1}
        assert counts(report(log, outputs[3:], asked)) == {}
        assert counts(report(log, [outputs[0], outputs[0], outputs[3]], asked)) == {}


def test_sample_still_checks_all_that_needs_no_verdict() -> None:
    """Only the verdicts of the sample are recomputed; missing and repeated outputs are found everywhere."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    found = report(log, [outputs[0], outputs[0], outputs[1]], sample=1)
    assert (counts(found), found.recomputed) == ({"missing": 1, "twice": 1}, 1)


def as_verdict(verdict: Verdict, output: OutputRecord) -> OutputRecord:
    """The output of ``three_articles`` with another verdict, without a match."""
    judged = Judgement(verdict, reason="broken" if verdict is Verdict.REJECTED else None)
    headers = output_headers(judged, A, SCHEME.id, "articles", at(output.offset), 1234)
    return output._replace(topic=TOPICS[verdict], headers=headers)


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (1, with_header("dedup.fingerprint", b"0" * 16), "fingerprint 0000000000000000, should be"),
        (1, partial(as_verdict, Verdict.REJECTED), "verdict rejected, should be unique or duplicate"),
        (2, partial(as_verdict, Verdict.UNIQUE), "verdict unique, should be rejected"),
        (2, with_header("dedup.reason", b"another"), "reason another, should be broken"),
        (1, with_header("dedup.match.source", b"articles-0-2"), "should be an earlier entry of the log"),
        (1, with_header("dedup.match.source", b"articles-0-77"), "should be an earlier entry of the log"),
        (1, with_header("dedup.match.time", b"7"), "should be an earlier entry of the log"),
    ],
)
def test_what_is_wrong_outside_of_the_sample(
    index: int, change: Callable[[OutputRecord], OutputRecord], message: str
) -> None:
    """An output is compared with its own entry, and its match is looked up, though no verdict is recomputed."""
    log = three_articles().plain()
    outputs = outputs_of(log)
    assert counts(report(log, outputs, sample=0)) == {}
    outputs[index] = change(outputs[index])
    found = report(log, outputs, sample=0)
    assert (counts(found), found.recomputed) == ({"wrong": 1}, 0)
    assert message in found.examples["wrong"][0]


@pytest.mark.parametrize(("featureless", "verdict"), [("unique", Verdict.UNIQUE), ("rejected", Verdict.REJECTED)])
def test_text_without_words_outside_of_the_sample(featureless: str, verdict: Verdict) -> None:
    """The rules at its log position say what its output is."""
    made = LogOfTest()
    made.add(rules(featureless=featureless))
    made.add(with_values(batch([0], [0])))
    log, asked = made.plain(), asked_of(committed={SOURCE_0: 1})
    (output,) = outputs_of(log)
    other = Verdict.UNIQUE if verdict is Verdict.REJECTED else Verdict.REJECTED
    assert output.topic == verdict
    assert counts(report(log, [output], asked, sample=0)) == {}
    assert counts(report(log, [as_verdict(other, output)], asked, sample=0)) == {"wrong": 1}


def test_sample_is_drawn_by_its_seed() -> None:
    """The same seed draws the same articles; another seed draws others."""
    made = LogOfTest()
    made.add(rules())
    made.articles(*range(1, 101), first=0)
    log = made.plain()
    everything = audited(log, None, None)
    drawn = [to_recompute(log, everything, 10, seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [len(set(indices)) for indices in drawn] == [10, 10, 10]


def cut_log() -> PlainLog:
    """A log that was cut by a trim; the article at source offset 5 was logged after the trim."""
    made = LogOfTest()
    made.add(rules(window_ms=1000))
    made.articles(A, first=0)
    anchor = made.add(rules(window_ms=1000))
    made.add(with_values(batch([4], [A])))
    made.trim(anchor, horizon=made.time)
    made.add(with_values(batch([5], [FAR])))
    made.records = made.records[anchor:]
    return made.plain()


def test_trimmed_articles_are_not_recomputed() -> None:
    """An article whose window reaches behind a trim is counted; other faults of it are still found."""
    log = cut_log()
    asked = asked_of(committed={SOURCE_0: 6})
    outputs = outputs_of(log)
    assert counts(report(log, outputs, asked)) == {"trimmed": 1}
    assert counts(report(log, outputs[1:], asked)) == {"trimmed": 1, "missing": 1}
    stranger = with_header(SOURCE, b"articles-0-0")(outputs[0])
    assert counts(report(log, [stranger, *outputs], asked)) == {"trimmed": 2}


def test_a_match_that_the_log_has_lost() -> None:
    """Of a log that was cut, the match of an article whose verdict cannot be recomputed may be gone: no fault.

    Where the trim lists what is forgotten, a match that is not listed is one that was never logged.
    """
    made = LogOfTest()
    made.add(rules(window_ms=3000))
    made.add(with_values(batch([0], [A])))
    anchor = made.add(rules(window_ms=3000))
    made.add(with_values(batch([1], [A])))
    outputs = outputs_of(made.plain())[1:]
    assert outputs[0].topic == "duplicate"
    asked = asked_of(committed={SOURCE_0: 2})
    forgotten = (Forgotten(TOPIC, 0, SourceOffset(1)),)
    made.add(Trim(anchor, made.time, Basis(1, made.next_offset, forgotten)))
    made.records = made.records[anchor:]
    assert counts(report(made.plain(), outputs, asked)) == {"trimmed": 1}
    outputs = [with_header("dedup.match.source", b"articles-1-0")(outputs[0])]
    assert counts(report(made.plain(), outputs, asked)) == {"trimmed": 1, "wrong": 1}


def test_article_that_is_logged_again_after_a_trim() -> None:
    """Under coordinates that a trim of version 2 forgot, the log holds a second article: its entry is a ghost.

    Each has an output of its own.
    """
    made = LogOfTest()
    made.add(rules(window_ms=1000))
    anchor = made.add(rules(window_ms=1000))
    made.add(with_values(batch([0], [A])))
    made.trim(anchor, horizon=made.time)
    made.add(with_values(batch([1, 2], [A, FAR])))
    made.add(with_values(batch([0], [A])))
    log = made.plain()
    outputs = outputs_of(log)
    assert [output.topic for output in outputs] == ["unique", "unique", "unique", "duplicate"]
    asked = asked_of(committed={SOURCE_0: 3})
    found = report(log, outputs, asked)
    assert counts(found) == {"logged again": 1}
    assert found.examples["logged again"] == ["articles-0-0: in the log at offset 2, and again at 5"]
    assert counts(report(log, reversed(outputs), asked)) == {"logged again": 1, "out of order": 1}
    assert counts(report(log, [*outputs, outputs[0]], asked)) == {"logged again": 1, "twice": 1}
