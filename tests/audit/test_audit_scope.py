"""Which articles an audit owes an output, and which it recomputes: seeded ones, a beginning, a sample, trims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stream_dedup.audit.audit import audited, to_recompute
from stream_dedup.audit.reference import PlainLog
from stream_dedup.core.headers import SOURCE
from stream_dedup.core.model import LogOffset
from tests.audit.comparing import (
    FAR,
    SOURCE_0,
    A,
    asked_of,
    counts,
    outputs_of,
    report,
    three_articles,
    with_header,
    with_values,
)
from tests.logs import REJECTED, LogOfTest, batch, rules


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
