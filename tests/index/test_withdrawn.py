"""Withdrawals: which articles they hide an entry from, and that they outlive the process, a rebuild and a trim."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_dedup.core.entry import LogRecord, Withdrawal
from stream_dedup.core.model import DocNumber, LogOffset, Verdict, log_position
from stream_dedup.errors import CorruptError
from stream_dedup.explain.explain import explain
from stream_dedup.explain.side import side_of_id
from stream_dedup.index import LogIndex
from stream_dedup.index.layout import offset_key, withdrawn_value
from stream_dedup.index.store import Store
from tests.index.checks import build, check_verdicts, finish_deleting
from tests.logs import SCHEME, LogOfTest, batch, rules, said

A = 0xFFFF_0000_FFFF_0000
WINDOW = 100_000


def withdrawal(*positions: tuple[int, int]) -> Withdrawal:
    return Withdrawal(tuple(sorted(log_position(*position) for position in positions)))


def log_with_withdrawal() -> LogOfTest:
    """Two equal articles, a withdrawal of the first, and three more, of which the last is after another withdrawal."""
    log = LogOfTest()
    log.add(rules())
    log.articles(A, A, first=0)
    log.add(withdrawal((1, 0)))
    log.articles(A, first=2)
    log.add(withdrawal((1, 0), (1, 1), (3, 0)))
    log.articles(A, A, first=3)
    return log


SAID = ["u", "d0@0", "d1@0", "u", "d3@0"]


def opened(path: Path, records: list[LogRecord]) -> LogIndex:
    index = LogIndex.open(path / "index", scheme=SCHEME)
    return build(index, records)


def positions_of(log: LogOfTest) -> list[int]:
    return [int(position) for position in log.plain().entries.positions]


def test_an_entry_is_hidden_from_articles_after_the_withdrawal_and_from_no_other(tmp_path: Path) -> None:
    """Asked at the end, an article from before it still matches the entry; the reference says the same."""
    log = log_with_withdrawal()
    assert said(log.plain()) == SAID
    with opened(tmp_path, log.records) as index:
        check_verdicts(index, log.plain(), positions_of(log))
        assert index.verify() == []
        assert index.stats().withdrawn == 3


def test_positions_without_an_entry_have_no_effect(tmp_path: Path) -> None:
    """Of a rules record, of a copy, of a rejected record, of a row that is not there, and of what is logged later."""
    log = LogOfTest()
    log.add(rules())
    log.articles(A, None, first=0)
    log.articles(A, None, first=0)
    log.add(withdrawal((0, 0), (1, 1), (1, 7), (2, 0), (4, 0), (9, 0)))
    log.articles(A, first=2)
    log.articles(A, first=3)
    assert said(log.plain()) == ["u", "r", "d0@0", "d0@0"]
    with opened(tmp_path, log.records) as index:
        check_verdicts(index, log.plain(), positions_of(log))
        assert index.stats().withdrawn == 0


def test_the_same_id_logged_again_matches_again(tmp_path: Path) -> None:
    """A withdrawal is of entries, not of ids: it is undone by logging the article again."""
    log = LogOfTest()
    log.add(rules(recrawl="update"))
    log.add(batch([0], [A], topic="one"))
    log.add(withdrawal((1, 0)))
    log.add(batch([1], [A]))
    log.add(batch([2], [A]))
    assert said(log.plain()) == ["u", "u", "d1@0"]
    with opened(tmp_path, log.records) as index:
        check_verdicts(index, log.plain(), positions_of(log))


@pytest.mark.parametrize("stop", range(1, 7))
def test_it_outlives_the_process(tmp_path: Path, stop: int) -> None:
    """Closed after any record and opened again, the index says the same of all articles."""
    log = log_with_withdrawal()
    opened(tmp_path, log.records[:stop]).close()
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        index.apply(log.records[stop:])
        check_verdicts(index, log.plain(), positions_of(log))
        assert index.verify() == []


def test_a_withdrawal_is_one_atomic_write(tmp_path: Path) -> None:
    """Each record is one write to the store, so a killed process leaves the withdrawal with its offset, or neither."""
    log = log_with_withdrawal()
    index = opened(tmp_path, log.records[:3])
    seen = []
    write = Store.write

    def counted(self: Store, writes: object) -> None:
        seen.append(writes)
        write(self, writes)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "write", counted)
        index.apply(log.records[3:5])
    index.close()
    assert len(seen) == 2


def test_trims_drop_withdrawn_entries(tmp_path: Path) -> None:
    """What a trim removes is no longer counted as withdrawn; what it leaves is."""
    log = LogOfTest()
    log.add(rules(window_ms=WINDOW))
    log.articles(A, first=0)
    log.add(withdrawal((1, 0)))
    cut = log.add(rules(window_ms=WINDOW), seconds=300)
    log.articles(A, A, first=1)
    log.add(withdrawal((cut + 1, 0)))
    log.trim(cut, 200_000)
    log.articles(A, first=3)
    with opened(tmp_path, log.records) as index:
        assert index.stats().withdrawn == 1
        check_verdicts(index, log.plain(), positions_of(log)[-1:])
        finish_deleting(index)
        assert index.verify() == []
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as index:
        assert index.stats().withdrawn == 1
        check_verdicts(index, log.plain(), positions_of(log)[-1:])


def test_hidden_entries_count_in_the_limit_of_a_posting_list(tmp_path: Path) -> None:
    """The newest entries of a list are compared, withdrawn or not: an older one is not reached instead."""
    log = LogOfTest()
    log.add(rules(bucket_limit=2))
    log.articles(A, A, A, first=0)
    log.add(withdrawal((1, 1), (1, 2)))
    log.articles(A, first=3)
    assert said(log.plain())[-1] == "u"
    with opened(tmp_path, log.records) as index:
        check_verdicts(index, log.plain(), positions_of(log))


def test_withdrawn_entries_that_the_state_does_not_count_are_damage(tmp_path: Path) -> None:
    """An index that lost a withdrawal, or has one that no record made, is refused."""
    index = opened(tmp_path, log_with_withdrawal().records)
    writes = index._applied.store.batch()
    writes.delete(offset_key(b"H", index.state.next_doc_number - 4))
    index._applied.store.write(writes)
    index.close()
    with pytest.raises(CorruptError, match="2 of its entries are withdrawn, its state says 3"):
        LogIndex.open(tmp_path / "index", scheme=SCHEME)


def test_verify_names_an_entry_that_is_hidden_from_itself(tmp_path: Path) -> None:
    """An entry is withdrawn by a later record only, and one that is in the index."""
    index = opened(tmp_path, log_with_withdrawal().records)
    writes = index._applied.store.batch()
    after = index.state.next_doc_number
    writes.put(offset_key(b"H", after - 4), withdrawn_value(DocNumber(after - 5), LogOffset(3)))
    index._applied.store.write(writes)
    index.close()
    with LogIndex.open(tmp_path / "index", scheme=SCHEME) as again:
        assert again.verify() == ["entry 1 is hidden from 0 on: entries are 0 to before 5"]


def test_the_index_names_the_withdrawal_of_an_entry(tmp_path: Path) -> None:
    """By its log offset, of the first that lists it; None of an entry that matches and of one without a signature."""
    log = log_with_withdrawal()
    log.articles(A, None, first=5)
    with opened(tmp_path, log.records) as index:
        offsets = [index.withdrawn_at(log_position(*at)) for at in ((1, 0), (1, 1), (3, 0), (5, 0), (6, 1))]
        assert offsets == [2, 4, 4, None, None]


def test_explain_says_that_an_entry_is_withdrawn(tmp_path: Path) -> None:
    """A later article that is equal to it is no duplicate, and the reason names the log offset."""
    with opened(tmp_path, log_with_withdrawal().records) as index:
        hidden, matching = side_of_id(index, "articles-0-1", tmp_path), side_of_id(index, "articles-0-4", tmp_path)
    assert explain(matching, hidden, rules()).verdict is Verdict.DUPLICATE
    explained = explain(hidden, matching, rules())
    assert explained.verdict is Verdict.UNIQUE
    assert explained.reason == "articles-0-1 was withdrawn at log offset 4, and no later article matches it"


def test_explain_takes_the_original_of_an_article_that_was_logged_twice(tmp_path: Path) -> None:
    """A later copy, beside a new article, is no entry of the index: what was withdrawn stays so."""
    log = LogOfTest()
    log.add(rules())
    log.articles(A, first=0)
    log.articles(A, ~A & (1 << 64) - 1, first=0)
    log.add(withdrawal((1, 0)))
    log.articles(A, first=2)
    assert said(log.plain()) == ["u", "u", "u"]
    with opened(tmp_path, log.records) as index:
        assert side_of_id(index, "articles-0-0", tmp_path).withdrawn_at == 3
