"""What the audit finds by log records alone: what they say about their authors, and trims that dropped too much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from stream_dedup.audit.log_faults import author_faults
from stream_dedup.audit.reference import PlainLog
from stream_dedup.audit.report import AuditReport
from stream_dedup.core.entry import Basis, Batch, Forgotten, Payload, Trim, make_batch
from stream_dedup.core.model import LogOffset, SourceOffset
from stream_dedup.ports import Partition
from tests.audit.comparing import FAR, SOURCE_0, A, asked_of, counts, outputs_of, report, with_values
from tests.logs import REJECTED, TOPIC, LogOfTest, batch, rules


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


HOUR_MS = 3_600_000


def trimmed_log(window_ms: int | None, pause_s: float = 1, horizon: int = 0) -> PlainLog:
    """An article, rules, a trim before these rules, and an article near the first."""
    log = LogOfTest()
    log.add(rules(window_ms=window_ms))
    log.add(with_values(batch([0], [A])))
    anchor = log.add(rules(window_ms=window_ms), seconds=pause_s)
    log.trim(anchor, horizon)
    log.add(with_values(batch([1], [A ^ 1])))
    return log.plain()


def sound_outputs(
    log: PlainLog,
    committed: int = 2,
    written: Iterable[int] = (),
    settled: int = 0,
    begins: Mapping[Partition, int] | None = None,
) -> AuditReport:
    """The report on outputs as the log says them, written at these times."""
    times = iter(written)
    outputs = [output._replace(timestamp=next(times, output.timestamp)) for output in outputs_of(log)]
    kept = [output for output, index in zip(outputs, range(committed), strict=False)]
    return report(log, kept, asked_of(committed={SOURCE_0: committed}, settled=settled, begins=begins))


def test_an_article_logged_later() -> None:
    """A trim that drops after seconds what a window of an hour keeps is found, and named with its victim."""
    found = sound_outputs(trimmed_log(HOUR_MS))
    assert counts(found) == {"trimmed early": 1}
    assert found.examples["trimmed early"] == [
        "the trim at log offset 3 drops articles-0-0, logged 3 s before articles-0-1, whose window is 3600 s"
    ]


def test_a_trim_without_a_window() -> None:
    """Without a window nothing may be dropped."""
    assert counts(sound_outputs(trimmed_log(None))) == {"trimmed early": 1}


@pytest.mark.parametrize(("pause_s", "found"), [(8.0, {"trimmed early": 1}), (8.0015, {})])
def test_the_edge_of_the_window(pause_s: float, found: dict[str, int]) -> None:
    """An entry may be dropped from the first millisecond on at which no later article has it inside its window."""
    assert counts(sound_outputs(trimmed_log(10_000, pause_s))) == found


def test_a_window_that_was_made_longer_later() -> None:
    """A longer window reaches back only to what was not dropped under the shorter one."""
    log = LogOfTest()
    log.add(rules(window_ms=1000))
    log.add(with_values(batch([0], [A])))
    log.trim(log.add(rules(window_ms=1000)), horizon=0)
    log.add(rules(2, window_ms=HOUR_MS))
    log.add(with_values(batch([1], [A ^ 1])))
    assert counts(sound_outputs(log.plain())) == {}


def test_a_trim_of_a_shorter_window_than_that_of_the_rules() -> None:
    """A trim that says the rules in force, and was computed with the window of the ones before, is found."""
    log = LogOfTest()
    log.add(rules(window_ms=1000))
    log.add(with_values(batch([0], [A])))
    anchor = log.add(rules(window_ms=1000))
    log.add(rules(2, window_ms=HOUR_MS))
    log.trim(anchor, horizon=0, revision=2)
    log.add(with_values(batch([1], [A ^ 1])))
    assert counts(sound_outputs(log.plain())) == {"trimmed early": 1}


def lagging_log() -> PlainLog:
    """An article, another one within its window, and a trim of the first long after both."""
    log = LogOfTest()
    log.add(rules(window_ms=10_000))
    log.add(with_values(batch([0], [A])))
    anchor = log.add(rules(window_ms=10_000))
    log.add(with_values(batch([1], [A ^ 1])))
    log.add(rules(window_ms=10_000), seconds=100)
    log.trim(anchor, horizon=0)
    return log.plain()


def test_an_article_whose_output_is_still_to_come() -> None:
    """A trim that drops an entry inside the window of an article that is not committed is found."""
    log = lagging_log()
    found = sound_outputs(log, committed=1, settled=LogOffset(1 << 30))
    assert counts(found) == {"pending": 1, "trimmed early": 1}
    assert found.examples["trimmed early"][0].endswith(
        "drops articles-0-0, logged 2 s before articles-0-1, whose window is 10 s"
    )


def test_a_trim_after_the_committed_offsets_were_read() -> None:
    """Beside running workers, an article may have been committed after the audit looked and before the trim."""
    assert counts(sound_outputs(lagging_log(), committed=1, settled=5)) == {"pending": 1}


def test_an_output_that_was_written_after_the_trim() -> None:
    """An article whose output is younger than the trim was owed when the trim was appended."""
    log = lagging_log()
    trim_time = log.valid_trims[0].time
    outputs = [(2000, trim_time + 60_000), (2000, trim_time + 60_001)]
    assert [counts(sound_outputs(log, written=times)) for times in outputs] == [{}, {"trimmed early": 1}]


def test_coordinates_of_an_article_whose_output_is_still_to_come() -> None:
    """A trim of version 2 whose horizon reaches an article without an output is found."""
    log = LogOfTest()
    log.add(rules(window_ms=1000))
    log.add(with_values(batch([0], [REJECTED])))
    anchor = log.add(rules(window_ms=1000), seconds=100)
    log.add(with_values(batch([1], [A])))
    log.trim(anchor, horizon=log.time)
    plain = log.plain()
    found = sound_outputs(plain, committed=1, settled=LogOffset(1 << 30))
    assert counts(found) == {"pending": 1, "trimmed early": 1}
    assert found.examples["trimmed early"] == [
        "the trim at log offset 4 drops articles-0-1, whose output was still to come"
    ]


def trim_of_version_3(read_to: int, before: int, pause_s: float = 0.2) -> PlainLog:
    """A trim computed before the article at source offset 1 was read, appended after it."""
    log = LogOfTest()
    log.add(rules(window_ms=1000))
    log.add(with_values(batch([0], [A])))
    anchor = log.add(rules(window_ms=1000), seconds=pause_s)
    log.add(with_values(batch([1], [A ^ 1])), seconds=0.2)
    forgotten = (Forgotten(TOPIC, 0, SourceOffset(before)),)
    log.add(Trim(anchor, 0, Basis(1, LogOffset(read_to), forgotten)), seconds=100)
    return log.plain()


def test_an_article_that_the_author_of_a_trim_had_not_read() -> None:
    """What was logged from ``read_to`` on was still to come for the author, though it precedes the trim."""
    assert [counts(sound_outputs(trim_of_version_3(read_to, 1))) for read_to in (4, 3)] == [{}, {"trimmed early": 1}]


def test_source_offsets_that_a_trim_forgets_though_they_are_owed() -> None:
    """A trim of version 3 that forgets the offset of an article without an output is found."""
    found = [
        counts(sound_outputs(trim_of_version_3(4, before, pause_s=5), committed=1, settled=9)) for before in (1, 2)
    ]
    assert found == [{"pending": 1}, {"pending": 1, "trimmed early": 1}]


@pytest.mark.parametrize(("begin", "found"), [(5, {"pending": 2}), (0, {"pending": 2, "trimmed early": 1})])
def test_a_group_that_lost_its_offsets_after_retention_deleted_the_outputs(begin: int, found: dict[str, int]) -> None:
    """Without a committed offset, an output may have been written and deleted: only if not, the trim came early."""
    begins = {Partition("unique", 0): begin, Partition("duplicate", 0): begin}
    log = trim_of_version_3(4, 1, pause_s=5)
    assert counts(sound_outputs(log, committed=0, settled=9, begins=begins)) == {"pending": 2, "trimmed early": 1}
    assert counts(report(log, [], asked_of(committed={}, settled=9, begins=begins))) == found
