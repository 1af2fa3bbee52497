"""Applies log records: each kind of record changes the store in one atomic write, and then the state in memory.

Every method keeps this order: first the atomic write, then the same change in memory. After an error between the two
they may differ, so the index refuses every further change.

Consecutive batches of articles that are all new share one write: a write costs as much as applying some dozens of
articles. An article is new if its source offset comes after every one of its partition that is covered or forgotten, in
the index and in the batches before it that share the write. So nothing that is stored has to be read for it, and no
batch can repeat another one of the same write. Every other record has a write of its own: a rules record, a trim or a
withdrawal changes how the records after it are applied; a copy may make rules records void, and its originals are found
by reading the source ranges. What is stored at the end is the same.

A delete in a batch withdraws the entries with its id that are before it, those of the same write included, and is
written with its batch: both are there, or neither.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import xxhash

from stream_dedup.core.entry import Batch, LogRecord, Trim, Withdrawal, naming_panics
from stream_dedup.core.logged_scheme import Scheme, scheme_mismatch
from stream_dedup.core.model import BLOCK_BITS, DocNumber, LogOffset, SourceOffset, Widths, log_offset_of, row_of
from stream_dedup.core.rules import Rules
from stream_dedup.errors import DefectError, RefusedError, UserError
from stream_dedup.index.layout import STATE, RowArray, SourceKey, State, id_parts_before, offset_key, row_type
from stream_dedup.index.records import (
    EntryIds,
    StoredRecord,
    StoredRecords,
    Withdrawn,
    deletes_of,
    id_hash,
    numbered_records,
    table_rows,
)
from stream_dedup.index.store import IndexSettings, Store, WriteBatch
from stream_dedup.index.tables import RowColumn, Tables
from stream_dedup.index.trims import Coverage, History, Mark, TrimEffect, Trims, Uncovered

JOINT_ENTRIES = 4_096
"""Most entries of log batches that share a write: half a MB of log. From some hundred entries on the write is a small
part of the cost."""


def read_state(store: Store) -> State:
    """Read the state; CorruptError where it is damaged."""
    (raw,) = store.get([STATE])
    with store.decoding("its state"):
        return State.decode(raw)


class Applied:
    """The state of an index: what follows from the log up to the applied position."""

    def __init__(
        self, store: Store, settings: IndexSettings, scheme: Scheme | None, refuse: Callable[[], None]
    ) -> None:
        """``refuse`` raises where nothing may be written any more."""
        self.store = store
        self._refuse = refuse
        self.settings = settings
        self.scheme = scheme
        self.state = read_state(store)
        self.history = History(store)
        self.rows = StoredRecords(store)
        self.coverage = Coverage(store)
        self.withdrawn = Withdrawn(store)
        self.ids = EntryIds(store, self.rows)
        self.trims = Trims(self.state, self.history, self.coverage, self.rows)
        self.doubt: str | None = None
        self._check_state()
        if (current := self.history.current) is not None:
            self._refuse_scheme(current.scheme, "index")
        with self.naming_defects(lambda _: f"opening the index {store.name}"):
            self.tables = self._open_tables()
            try:
                self._check_last()
            except BaseException:
                self.tables.close()
                raise

    def _check_state(self) -> None:
        """Compare the state with the first and the last record, which were written with it."""
        state, withdrawn = self.state, len(self.withdrawn.entries)
        row = next(self.rows.scan(state.low_watermark), None)
        first = state.next_doc_number if row is None else row.head.first
        last = max(self.rows.last_offset(), self.history.marks[-1].offset if self.history.marks else -1)
        if first != state.first_doc_number:
            reason = f"its entries begin at {first}, its state says at {state.first_doc_number}"
        elif withdrawn != state.withdrawn:
            reason = f"{withdrawn} of its entries are withdrawn, its state says {state.withdrawn}"
        elif last >= state.next_offset:
            reason = f"it holds log record {last}, its state ends before {state.next_offset}"
        elif state.articles < state.next_doc_number - first:
            numbers = f"{first} to {state.next_doc_number}"
            reason = f"its entries are numbered from {numbers}, its state says that there are {state.articles}"
        else:
            return
        raise self.store.corrupt(reason)

    def _check_last(self) -> None:
        """Compare the last record with the state, its rows and its source range: they were written with it.

        As much is read in an index of any size. What lies before is compared by ``verify``.
        """
        offset = self.rows.last_offset()
        if offset < self.state.low_watermark:
            return
        last = self.rows.get(offset)
        rows = table_rows([last])
        if last.head.first + len(rows) != self.state.next_doc_number:
            end = last.head.first + len(rows)
            reason = f"its last log record ends at number {end}, its state says {self.state.next_doc_number}"
        elif offset + 1 == self.state.next_offset and xxhash.xxh3_64_intdigest(last.raw) != self.state.last_checksum:
            reason = f"log record {offset}, the last one, is not that of its state"
        elif not np.array_equal(self.tables.rows_of(np.arange(last.head.first, self.state.next_doc_number)), rows):
            reason = f"log record {offset}, the last one: the rows of its entries are not those of the log"
        elif self.state.horizon is None and self.coverage.last.get(last.batch.source, -1) < last.batch.offset(-1):
            reason = f"log record {offset}, the last one: no source range has its entries"
        else:
            return
        raise self.store.corrupt(reason)

    def begin(self, log_id: str) -> None:
        """Bind an empty index to a log."""
        self.state.log_id = log_id
        self.in_doubt(self._write)

    def apply(self, records: Sequence[LogRecord]) -> None:
        """Apply the next log records, in order. Where this raises, a prefix of them is applied."""
        left = deque(records)
        while left:
            self.in_doubt(lambda: self._apply_next(left))

    def in_doubt(self, effect: Callable[[], None]) -> None:
        """Run an effect. Where it fails, memory and disk may differ, so the index refuses every later one."""
        self.refuse_doubt()
        try:
            effect()
        except BaseException as error:
            self.doubt = self.doubt or str(error) or type(error).__name__
            raise

    @contextmanager
    def naming_defects(self, name: Callable[[int | None], str]) -> Iterator[None]:
        """Raise a panic of the native core as DefectError, by ``naming_panics``.

        The tables in memory are lost by it, so the index refuses every later effect, and every later look-up.

        Raises:
            RefusedError: the index had stopped before.
        """
        try:
            with naming_panics(name):
                yield
        except DefectError as error:
            if self.doubt is not None:
                raise self._stopped() from error
            self.doubt = str(error)
            raise

    def refuse_doubt(self) -> None:
        """Raise RefusedError where an earlier effect failed, or nothing may be written any more."""
        self._refuse()
        if self.doubt is not None:
            raise self._stopped()

    def close(self) -> None:
        """Make everything applied durable and close the store."""
        self.tables.close()
        self.store.close()

    def _apply_next(self, left: deque[LogRecord]) -> None:
        """Apply and remove the first record, and with it the batches that share its write."""
        together = self._joint(left)
        first = together[0][0] if together else left.popleft()
        last = together[-1][0] if together else first
        which = f"record {first.offset}" if first is last else f"records {first.offset} to {last.offset}"
        with self.naming_defects(lambda _: f"applying log {which}"):
            if together:
                self._apply_batches(together)
            else:
                self._dispatch(first)

    def _joint(self, records: deque[LogRecord]) -> list[tuple[LogRecord, Batch]]:
        """Remove the first of these records, as many as can share a write, and return them with their batches.

        The first record that cannot, and all after it, are left: one that is no batch of new articles, one before any
        rules, one of another scheme, one whose log offset is not after those before it, one for which there may be no
        document numbers left.
        """
        found: list[tuple[LogRecord, Batch]] = []
        ends: dict[SourceKey, SourceOffset] = {}
        left, next_offset = min(JOINT_ENTRIES, self.tables.rows.numbers_left), self.state.next_offset
        rules = self.history.current
        while records and rules is not None:
            record, batch = records[0], records[0].payload
            if not isinstance(batch, Batch) or record.offset < next_offset:
                break
            if batch.widths != rules.scheme.widths or len(batch) > left:
                break
            source = batch.source
            if batch.offset(0) < (ends[source] if source in ends else self.coverage.end_of(source)):
                break
            ends[source] = SourceOffset(batch.offset(-1) + 1)
            next_offset = LogOffset(record.offset + 1)
            left -= len(batch)
            found.append((records.popleft(), batch))
        return found

    def _stopped(self) -> RefusedError:
        return RefusedError(
            f"the index {self.store.name} stopped after an error ({self.doubt}): close it and open it again"
        )

    def _dispatch(self, record: LogRecord) -> None:
        if record.offset < self.state.next_offset:
            last = self.state.next_offset - 1
            raise RefusedError(f"log record {record.offset} after {last}: records are applied in log order, once")
        if isinstance(record.payload, Batch):
            self._apply_batch(record, record.payload)
        elif isinstance(record.payload, Rules):
            self._apply_rules(record, record.payload)
        elif isinstance(record.payload, Trim):
            self._apply_trim(record, record.payload)
        else:
            self._apply_withdrawal(record, record.payload)

    def _open_tables(self) -> Tables:
        """Open them for the scheme of the log; before its first rules for any."""
        rules = self.history.current
        widths, block_bits = (rules.scheme.widths, rules.scheme.block_bits) if rules else (Widths(), BLOCK_BITS)
        kind = row_type(widths.sketch_bytes)
        column = RowColumn(self.store, self.state.first_doc_number, self.state.next_doc_number, kind)
        return Tables(self.store, column, widths.tables, block_bits, self.settings)

    def _apply_batch(self, record: LogRecord, batch: Batch) -> None:
        rules = self.history.current
        if rules is None:
            raise RefusedError(
                f"log record {record.offset} is a batch before any rules: this is not the beginning of a log, which "
                "something else than a trim deleted; begin a new log with another --group and another --index"
            )
        if batch.widths != rules.scheme.widths:
            held = rules.scheme.widths
            raise RefusedError(f"log record {record.offset} is of {batch.widths}, the log's scheme has {held}")
        self._apply_batches([(record, batch)])

    def _apply_batches(self, together: Sequence[tuple[LogRecord, Batch]]) -> None:
        """Apply one batch, or consecutive batches of new articles."""
        uncovered = [self.coverage.uncovered(batch) for _, batch in together]
        # One that is written with others makes none void.
        voided = self._voided_by(uncovered[0])
        stored = numbered_records(together, [each.mask for each in uncovered], self.state.next_doc_number)
        # Of a batch that was logged before, every entry, nothing is stored.
        written = [(row, each.ranges) for row, each in zip(stored, uncovered, strict=True) if each.ranges]
        rows = table_rows(stored)
        withdrawn = self.withdrawn.added_by(self._deleted_by(stored, rows))
        first = self.state.next_doc_number
        self._advance(together[-1][0])
        self.state.withdrawn += len(withdrawn)
        self.state.newest = max(self.state.newest or 0, *(row.head.time for row in stored))
        self.state.next_doc_number = DocNumber(self.state.next_doc_number + len(rows))
        self.state.articles += sum(row.head.original_count for row, _ in written)
        # 1. One atomic write: the records, their rows, ids and source ranges, the entries that their deletes withdraw,
        # void rules records, the applied position.
        writes = self.store.batch()
        for row, ranges in written:
            self.rows.write_record(writes, row)
            self.coverage.write_ranges(writes, row, ranges)
        if len(rows):
            self.tables.rows.write_rows(writes, rows)
        if self._takes_deletes:
            self.ids.write(writes, first, rows)
        self.withdrawn.write(writes, withdrawn)
        for mark in voided:
            mark.write(writes, void=True)
        self._write(writes)
        # 2. The same in memory.
        self.withdrawn.add(withdrawn)
        for mark in voided:
            mark.void = True
        for row, ranges in written:
            self.coverage.add_ranges(row.batch, ranges)
            self.rows.keep_decoded(row)
        if len(rows):
            self.tables.append_entries(rows)

    @property
    def _takes_deletes(self) -> bool:
        return self.history.current is not None and self.history.current.scheme.deletes

    def _deleted_by(self, stored: Sequence[StoredRecord], rows: RowArray) -> Iterator[tuple[int, int, int]]:
        """Yield what the deletes of the next log records withdraw, as rows of ``Withdrawn.entries``."""
        if not self._takes_deletes:
            return
        written, first = self.state.next_doc_number, self.state.first_doc_number
        here = {record.offset: record.batch for record in stored}
        done: dict[str, int] = {}
        """Rows before the last delete of an id: that has withdrawn them, and what is written."""
        for record, row in deletes_of(stored):
            text, hidden_from = record.batch.id(row), int(record.doc_numbers[row])
            if text not in done:
                for doc_number in self.ids.with_id(text, first, written, self.withdrawn):
                    yield doc_number, hidden_from, record.offset
            begin, done[text] = done.get(text, 0), hidden_from - written
            alike = begin + np.flatnonzero(rows["id_hash"][begin : done[text]] == id_hash(text))
            for at, position in zip(alike.tolist(), rows["position"][alike].tolist(), strict=True):
                if here[log_offset_of(position)].id(row_of(position)) == text:
                    yield written + at, hidden_from, record.offset

    def _voided_by(self, uncovered: Uncovered) -> list[Mark]:
        """Return the rules records that no trim may name from now on.

        An index of a log that was cut there would take repeated or late entries of this batch for articles: it would
        not know the record that they repeat, or the last trim that listed all that is forgotten.
        """
        known_at = [] if uncovered.repeats is None else [uncovered.repeats]
        known_at += [self.state.complete_trim] * uncovered.late
        after = min(known_at, default=self.state.next_offset)
        return [mark for mark in self.history.marks if mark.offset > after and not mark.void]

    def _apply_rules(self, record: LogRecord, rules: Rules) -> None:
        current = self.history.current
        counts = rules.takes_force_after(current) or rules == current
        if counts:
            self._refuse_scheme(rules.scheme, "the log of index")
        self._advance(record)
        if not counts:
            self._write()
            return
        articles = self.state.trimmed + self.state.articles
        mark = Mark(record.offset, rules, self.state.newest, articles, self.state.next_doc_number)
        writes = self.store.batch()
        mark.write(writes)
        self._write(writes)
        self.history.marks.append(mark)
        if current is None:
            self.tables.close()
            self.tables = self._open_tables()

    def _apply_trim(self, record: LogRecord, trim: Trim) -> None:
        effect = self.trims.effect_of(trim)
        self._advance(record)
        if effect is not TrimEffect.VALID:
            if effect is TrimEffect.VOID:
                self.state.last_void_trim = record.offset
            self._write()
            return
        if self.trims.completes(trim):
            self.state.complete_trim = record.offset
        self.state.low_watermark = low_watermark = max(self.state.low_watermark, trim.before)
        for mark in self.history.marks:
            if mark.offset == low_watermark:
                self.state.articles -= mark.articles - self.state.trimmed
                self.state.trimmed = mark.articles
                self.state.first_doc_number = mark.doc_number
        self.state.horizon = max(self.state.horizon or trim.horizon, trim.horizon)
        withdrawn = self.withdrawn.entries[self.withdrawn.entries[:, 0] >= self.state.first_doc_number]
        self.state.withdrawn = len(withdrawn)
        # 1. One atomic write: deletes trimmed entries, source ranges and rules; sets the applied position.
        writes = self.store.batch()
        writes.delete_range(offset_key(b"E", 0), offset_key(b"E", low_watermark))
        self.tables.rows.write_drop(writes, self.state.first_doc_number)
        writes.delete_range(offset_key(b"H", 0), offset_key(b"H", self.state.first_doc_number))
        writes.delete_range(*id_parts_before(self.state.first_doc_number))
        for mark in self.history.marks:
            if mark.offset < low_watermark:
                writes.delete(offset_key(b"U", mark.offset))
        self.coverage.write_trim(writes, trim)
        self._write(writes)
        # 2. The same in memory. In runs the low watermark hides trimmed entries until these are merged.
        self.history.marks = [mark for mark in self.history.marks if mark.offset >= low_watermark]
        self.rows.drop_decoded_before(low_watermark)
        self.coverage.load()
        self.tables.drop_entries_before(self.state.first_doc_number)
        self.withdrawn.entries = withdrawn
        # 3. What is deleted leaves the disk; whatever ends this, verdicts are the same.
        self.store.compact()

    def _apply_withdrawal(self, record: LogRecord, withdrawal: Withdrawal) -> None:
        positions = np.array(withdrawal.positions, np.int64)
        doc_numbers = self.rows.doc_numbers_at(positions, self.state.low_watermark, record.offset)
        hidden_from = self.state.next_doc_number
        added = self.withdrawn.added_by((number, hidden_from, record.offset) for number in doc_numbers.tolist())
        self._advance(record)
        self.state.withdrawn += len(added)
        # 1. One atomic write: the withdrawn entries, the applied position.
        writes = self.store.batch()
        self.withdrawn.write(writes, added)
        self._write(writes)
        # 2. The same in memory.
        self.withdrawn.add(added)

    def _advance(self, record: LogRecord) -> None:
        if self.state.start is None:
            self.state.start = record.offset
        self.state.next_offset = LogOffset(record.offset + 1)
        self.state.last_checksum = xxhash.xxh3_64_intdigest(record.raw)

    def _write(self, batch: WriteBatch | None = None) -> None:
        """Write a batch together with the state."""
        batch = batch or self.store.batch()
        batch.put(STATE, self.state.encode())
        self.store.write(batch)

    def _refuse_scheme(self, held: Scheme, holder: str) -> None:
        if self.scheme is not None and held != self.scheme:
            remedy = "configure the index's scheme, or name another index folder (a worker: also another --group)"
            raise UserError(scheme_mismatch(held, self.scheme, f"{holder} {self.store.name}", remedy))
