"""Deletes: entries without a text, which withdraw the entries with their id that are before them, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import LogOffset, LogPosition, Status, log_position, scope_hash_of
from stream_dedup.explain.explain import explain
from stream_dedup.explain.side import side_of_id
from stream_dedup.index import LogIndex, layout
from stream_dedup.index.records import StoredRecord, StoredRecords
from stream_dedup.index.store import Store
from tests.index.checks import build, check_verdicts, finish_deleting
from tests.logs import DELETING_SCHEME, OTHER_TOPIC, Entry, LogOfTest, delete_of, entries_batch, repeated, rules, said

A = Entry(repeated(0xFFFF_0000_FFFF_0000), "0" * 64)
B = Entry(repeated(0x0000_FFFF_0000_FFFF), "0" * 64)
WINDOW = 100_000


def named(entry: Entry, name: str, scope: str | None = None) -> Entry:
    return entry._replace(id=name, scope_hash=scope_hash_of(Status.LONG, scope))


def log_of(**settings: Any) -> LogOfTest:  # noqa: ANN401 - fields of Rules
    log = LogOfTest()
    log.add(rules(scheme=DELETING_SCHEME, **settings))
    return log


def opened(path: Path, records: list[LogRecord]) -> LogIndex:
    return build(LogIndex.open(path / "index", scheme=DELETING_SCHEME), records)


def positions_of(log: LogOfTest) -> list[int]:
    return [int(position) for position in log.plain().entries.positions]


@pytest.fixture
def check(tmp_path: Path) -> Callable[[LogOfTest, list[str], int], None]:
    """Compares what a log says, by the reference and by the index: applied at once, and record by record."""

    def compare(log: LogOfTest, verdicts: list[str], withdrawn: int) -> None:
        assert said(log.plain()) == verdicts
        for way in ("at once", "one by one"):
            (tmp_path / way).mkdir()
            with opened(tmp_path / way, log.records if way == "at once" else log.records[:1]) as index:
                for record in log.records[1:] if way == "one by one" else ():
                    index.apply([record])
                check_verdicts(index, log.plain(), positions_of(log))
                assert index.stats().withdrawn == withdrawn
                assert index.verify() == []

    return compare


Check = Callable[[LogOfTest, list[str], int], None]


def test_it_withdraws_what_is_before_it_with_its_id(check: Check) -> None:
    """Of another id nothing, and nothing that comes later; the delete itself is near nobody."""
    log = log_of()
    log.entry(named(A, "x"), named(B, "y"), first=0)
    log.entry(delete_of("x"), first=2)
    log.entry(named(A, "z"), named(B, "z"), named(A, "x"), first=3)
    check(log, ["u", "u", "d", "u", "d1@0", "d3@0"], 1)


def test_within_one_batch_only_what_is_before_it(check: Check) -> None:
    """The article after it matches what is not withdrawn, and is matched; also where its id is the delete's."""
    log = log_of()
    log.entry(named(A, "x"), named(A, "w"), delete_of("x"), named(A, "y"), named(B, "x"), named(B, "v"), first=0)
    check(log, ["u", "d0@0", "d", "d1@0", "u", "d4@0"], 1)


def test_an_article_that_was_logged_before_it_still_matches(check: Check) -> None:
    """The verdict of an article is as of its own log position, whenever it is asked for."""
    log = log_of()
    log.entry(named(A, "x"), first=0)
    log.entry(named(A, "y"), first=1)
    log.entry(delete_of("x"), first=2)
    log.entry(named(A, "z"), first=3)
    check(log, ["u", "d0@0", "d", "d1@0"], 1)


def test_an_id_that_was_never_seen_and_one_deleted_twice(check: Check) -> None:
    """Neither withdraws anything; the first delete of an entry counts."""
    log = log_of()
    log.entry(delete_of("nobody"), named(A, "x"), first=0)
    log.entry(delete_of("x"), delete_of("x"), first=2)
    log.entry(delete_of("x"), named(A, "y"), first=4)
    check(log, ["d", "u", "d", "d", "d", "u"], 1)


def test_an_id_that_is_published_and_deleted_again_in_one_write(check: Check) -> None:
    """Each delete withdraws what came since the one before; the first one withdraws what was written, too."""
    log = log_of()
    log.entry(named(A, "x"), first=0)
    log.entry(named(A, "x"), delete_of("x"), named(A, "x"), named(A, "w"), delete_of("x"), named(A, "y"), first=1)
    log.entry(delete_of("w"), delete_of("y"), named(A, "z"), first=7)
    check(log, ["u", "d0@0", "d", "u", "d3@0", "d", "d4@0", "d", "d", "u"], 5)


def test_what_is_withdrawn_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is published and deleted again and again would take ever longer."""
    log, read, get = log_of(), [0], StoredRecords.get

    def counted(self: StoredRecords, offset: LogOffset) -> StoredRecord:
        read[-1] += 1
        return get(self, offset)

    with opened(tmp_path, log.records) as index:
        monkeypatch.setattr(StoredRecords, "get", counted)
        for round_ in range(20):
            log.entry(named(A, "x"), first=4 * round_)
            log.entry(delete_of("x"), delete_of("x"), delete_of("x"), first=4 * round_ + 1)
            read.append(0)
            for record in log.records[-2:]:
                index.apply([record])
        assert set(read[1:]) == {1}


def test_a_copy_of_a_delete_is_no_delete(check: Check) -> None:
    """Logged again by a worker that had not read it, it withdraws nothing of what was logged between the two."""
    log = log_of()
    log.entry(named(A, "x"), delete_of("x"), first=0)
    log.add(entries_batch([7], [named(A, "x")], partition=1))
    log.entry(named(B, "w"), delete_of("x"), first=0)
    log.entry(named(A, "y"), first=2)
    check(log, ["u", "d", "u", "d7@0"], 1)


def test_every_entry_with_the_id_of_every_partition_topic_and_scope(check: Check) -> None:
    """An id is that of the whole log, as for versions; two ids with other hashes are two."""
    log = log_of()
    log.entry(named(A, "x", "site"), named(A, "x"), named(A, "y", "site"), first=0)
    log.add(entries_batch([0], [named(A, "x", "site")], topic_id=OTHER_TOPIC, topic="other"))
    log.add(entries_batch([0], [delete_of("x")], partition=3))
    log.entry(named(A, "z", "site"), named(A, "z"), first=3)
    check(log, ["u", "u", "d0@0", "d0@0", "d", "d2@0", "u"], 3)


def test_versions_of_a_deleted_article(check: Check) -> None:
    """It is published again: a new article, with no earlier version."""
    log = log_of(recrawl="update")
    log.entry(named(A, "x"), named(A, "x"), delete_of("x"), named(A, "x"), named(A, "x"), first=0)
    check(log, ["u", "u0@0", "d", "u", "u3@0"], 2)


def test_equal_hashes_of_ids_are_not_enough(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id itself is compared, of what is stored and of what is in the same write."""
    monkeypatch.setattr("stream_dedup.index.records.id_hash", lambda _: 7)
    monkeypatch.setattr("stream_dedup.index.applying.id_hash", lambda _: 7)
    monkeypatch.setattr(
        "stream_dedup.index.records.id_hashes", lambda batches: np.full(sum(map(len, batches)), 7, np.uint64)
    )
    log = log_of()
    log.entry(named(A, "x"), named(B, "y"), delete_of("x"), named(B, "k"), first=0)
    log.entry(delete_of("y"), named(A, "z"), named(B, "m"), first=4)
    check(log, ["u", "u", "d", "d1@0", "d", "u", "d3@0"], 2)


def test_a_window_and_a_trim(tmp_path: Path) -> None:
    """What a trim drops is no longer counted; a delete withdraws what is left, and its parts of the ids go."""
    log = log_of(window_ms=WINDOW)
    log.entry(named(A, "x"), delete_of("x"), first=0)
    cut = log.add(rules(scheme=DELETING_SCHEME, window_ms=WINDOW), seconds=300)
    log.entry(named(A, "x"), named(A, "y"), first=2)
    log.trim(cut, 200_000)
    log.entry(delete_of("x"), named(A, "z"), first=4)
    with opened(tmp_path, log.records) as index:
        assert index.stats().withdrawn == 1
        check_verdicts(index, log.plain(), positions_of(log)[-4:])
        finish_deleting(index)
        assert index.verify() == []
    with LogIndex.open(tmp_path / "index", scheme=DELETING_SCHEME) as index:
        check_verdicts(index, log.plain(), positions_of(log)[-4:])
        assert index.verify() == []


def test_ids_of_trimmed_entries_are_deleted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With parts of four entries, no key of a part that ends before the first entry is left, and every other one is."""
    monkeypatch.setattr(layout, "_ID_PART_BITS", 2)
    log = log_of(window_ms=WINDOW)
    log.entry(*(named(A, f"x{at}") for at in range(10)), first=0)
    cut = log.add(rules(scheme=DELETING_SCHEME, window_ms=WINDOW), seconds=300)
    log.entry(*(named(A, f"x{at}") for at in range(10)), first=10)
    log.trim(cut, 200_000)
    log.entry(delete_of("x3"), named(A, "z"), first=20)
    with opened(tmp_path, log.records) as index:
        assert sorted(number for _, number, _ in index._applied.ids.all()) == list(range(8, 21))
        assert index.stats().withdrawn == 1
        check_verdicts(index, log.plain(), positions_of(log)[-2:])
        assert index.verify() == []


def test_deletes_without_a_record_of_their_own_are_one_write(tmp_path: Path) -> None:
    """The batch, its ids and what its deletes withdraw: a killed process leaves all of it, or nothing."""
    log = log_of()
    log.entry(named(A, "x"), first=0)
    log.entry(delete_of("x"), named(A, "y"), first=1)
    index, seen = opened(tmp_path, log.records[:2]), []
    write = Store.write

    def counted(self: Store, writes: object) -> None:
        seen.append(writes)
        write(self, writes)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "write", counted)
        index.apply(log.records[2:])
    index.close()
    assert len(seen) == 1


@pytest.mark.parametrize("stop", range(1, 6))
def test_it_outlives_the_process(tmp_path: Path, stop: int) -> None:
    """Closed after any record and opened again, the index says the same of all articles."""
    log = log_of()
    log.entry(named(A, "x"), named(B, "y"), first=0)
    log.entry(delete_of("x"), named(A, "z"), first=2)
    log.entry(delete_of("z"), first=4)
    log.entry(named(A, "x"), named(B, "w"), first=5)
    opened(tmp_path, log.records[:stop]).close()
    with LogIndex.open(tmp_path / "index", scheme=DELETING_SCHEME) as index:
        index.apply(log.records[stop:])
        check_verdicts(index, log.plain(), positions_of(log))
        assert index.verify() == []


def test_verify_compares_the_ids(tmp_path: Path) -> None:
    """One that is not there, and one that names another position."""
    log = log_of()
    log.entry(named(A, "x"), named(B, "y"), first=0)
    index = opened(tmp_path, log.records)
    for position in (LogPosition(7), None):
        key = layout.id_pair(next(own for own, number, _ in index._applied.ids.all() if number == 1), 1, 7)[0]
        writes = index._applied.store.batch()
        if position is None:
            writes.delete(key)
        else:
            writes.put(key, layout.id_pair(0, 0, position)[1])
        index._applied.store.write(writes)
        count = 2 if position is not None else 1
        assert index.verify() == [f"the ids of {count} entries are not those of the 2 in the log"]
    index.close()


def test_an_index_of_a_scheme_without_deletes_has_no_ids(tmp_path: Path) -> None:
    """Nothing is paid for what is not used."""
    plain = replace(DELETING_SCHEME, parameters=DELETING_SCHEME.parameters.replace('"deletes":"by-id/1",', ""))
    log = LogOfTest()
    log.add(rules(scheme=plain))
    log.entry(named(A, "x"), first=0)
    with build(LogIndex.open(tmp_path / "index", scheme=plain), log.records) as index:
        assert list(index._applied.ids.all()) == []


@pytest.fixture
def deleted(tmp_path: Path) -> Iterator[LogIndex]:
    log = log_of()
    log.entry(named(A, "x"), named(A, "y"), first=0)
    log.entry(delete_of("x"), first=2)
    log.entry(named(A, "z"), first=3)
    with opened(tmp_path, log.records) as index:
        yield index


def test_explain_names_the_log_offset_of_the_delete(deleted: LogIndex, tmp_path: Path) -> None:
    """As that of a withdrawal."""
    assert [deleted.withdrawn_at(log_position(*at)) for at in ((1, 0), (1, 1), (3, 0))] == [LogOffset(2), None, None]
    explained = explain(side_of_id(deleted, "x", tmp_path), side_of_id(deleted, "z", tmp_path), rules())
    assert explained.reason == "x was withdrawn at log offset 2, and no later article matches it"
