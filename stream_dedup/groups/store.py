"""The store of groups: one thread writes, any thread reads.

``apply`` stores outputs and the positions behind them in one transaction: a kill at any point leaves both or neither.
Memory is bounded by one batch and the page caches, whatever the number of articles.

Old articles: with ``keep_ms`` an article is forgotten when its output is older than that by this machine's clock. The
first article of a group stays as long as the group has a younger one, since it names the group. Without ``keep_ms``
every article is kept, as the log without a window keeps every entry. Buckets go when no window shows them any more.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from stream_dedup.core.model import Coordinates, SourceOffset
from stream_dedup.errors import UnavailableError
from stream_dedup.folders import Owner
from stream_dedup.groups.counting import count_windows
from stream_dedup.groups.forgetting import Forgetting
from stream_dedup.groups.model import (
    ArticleGroup,
    GroupedArticle,
    MemberPage,
    MissingOutputs,
    VerdictCounts,
    Window,
)
from stream_dedup.groups.outputs import JudgedOutput
from stream_dedup.groups.queries import GroupQueries
from stream_dedup.groups.schema import make_folder, open_reader, open_writer, store_errors, transaction
from stream_dedup.groups.union import Grouping, Row, StoredAt, StoredRows, UnionBatch
from stream_dedup.groups.writing import write_batch
from stream_dedup.ports import CommittedOffset, Partition

IDLE_READERS = 4
"""Reading connections that are kept open."""


class GroupStore:
    """An open store. ``apply``, ``forget`` and the methods of publishing belong to one thread; the rest to any."""

    def __init__(self, path: Path, lock: Owner, connection: sqlite3.Connection, *, publishes: bool) -> None:
        """Use ``open``."""
        self._path = path
        self._lock = lock
        self._connection = connection
        self._publishes = publishes
        if not publishes:  # what changes from here on is not noted
            connection.execute("UPDATE state SET published_on = NULL")
            connection.execute("DELETE FROM changed")
        self._topics: dict[bytes, int] = {
            bytes(topic_id): int(number)
            for topic_id, number in connection.execute("SELECT topic_id, number FROM source_topic")
        }
        self._new_topics: list[tuple[int, bytes, str]] = []
        self._readers: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(cls, path: Path, log_id: bytes, *, publishes: bool = False) -> GroupStore:
        """Open a store, or begin an empty one, for the log with this id (16 bytes).

        With ``publishes`` the store notes which groups change (``publish``).

        Raises:
            UserError: another process has it open, the folder holds something else, or a store of another format.
            RefusedError: it belongs to another log.
            CorruptError: it is damaged.
            UnavailableError: the disk is full or fails.
        """
        make_folder(path)
        lock = Owner.write(path, "groups store")
        try:
            with store_errors(path):
                return cls(path, lock, open_writer(path, log_id), publishes=publishes)
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        """Close the store; questions that come later fail."""
        with self._guard:
            self._is_closed = True
            readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()
        self._connection.close()
        self._lock.release()

    # Writing.

    def apply(
        self,
        outputs: Sequence[JudgedOutput],
        positions: Mapping[Partition, CommittedOffset],
        missing: MissingOutputs | None = None,
    ) -> None:
        """Store outputs and the positions behind them, in one transaction.

        An output of an article that is stored already changes nothing. A position has the offset of the next output of
        its partition and the id of its topic. ``missing`` are outputs that were deleted before they were read.

        Raises:
            CorruptError, UnavailableError: nothing of it is stored.
        """
        with store_errors(self._path):
            try:
                with transaction(self._connection):
                    self._apply(outputs)
                    self._connection.executemany(
                        "INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?)",
                        [(*at, offset.topic_id, int(offset.offset)) for at, offset in positions.items()],
                    )
                    if missing is not None:
                        topic_id = positions[missing.partition].topic_id
                        self._connection.execute(
                            "INSERT OR REPLACE INTO missing VALUES (?, ?, ?, ?, ?)",
                            (missing.partition.topic, topic_id, missing.partition.number, missing.first, missing.end),
                        )
            except BaseException:
                for number, topic_id, _ in self._new_topics:
                    if self._topics.get(topic_id) == number:
                        del self._topics[topic_id]
                raise
            finally:
                self._new_topics.clear()

    def forget(self, now_ms: int, keep_ms: int | None) -> int:
        """Forget buckets that no window shows, and articles older than ``keep_ms``; return the number of articles.

        Several transactions; a kill between two leaves the rest for the next call.
        """
        with store_errors(self._path):
            return Forgetting(self._connection, notes_changes=self._publishes).run(now_ms, keep_ms)

    def count_windows(self, now_ms: int) -> None:
        """Take from the counts of each window what has left it, so that ``largest`` is answered fast."""
        with store_errors(self._path):
            count_windows(self._connection, now_ms)

    def positions(self) -> dict[Partition, CommittedOffset]:
        """Return the next offset of each output partition that was read, with the id of its topic."""
        with store_errors(self._path), self._reading() as reader:
            rows = reader.execute("SELECT topic, partition, topic_id, offset FROM position").fetchall()
        return {Partition(row[0], row[1]): CommittedOffset(SourceOffset(row[3]), row[2]) for row in rows}

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._path

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection of the one thread that writes, for publishing."""
        return self._connection

    # Questions; any thread. They raise CorruptError or UnavailableError where the store cannot be read.

    def article(self, coordinates: Coordinates) -> GroupedArticle | None:
        """Return an article whose output has been read."""
        with self._queries() as queries:
            return queries.article(coordinates)

    def articles_by_id(self, article_id: str, limit: int) -> list[GroupedArticle]:
        """Return the articles with an id, newest first."""
        with self._queries() as queries:
            return queries.articles_by_id(article_id, limit)

    def latest(self, limit: int) -> list[GroupedArticle]:
        """Return the articles that were written last, newest first, rejected records among them."""
        with self._queries() as queries:
            return queries.latest(limit)

    def group(self, group_id: str, now_ms: int) -> ArticleGroup | None:
        """Return a group; an id that it had before it became part of another one still names it."""
        with self._queries() as queries:
            return queries.group(group_id, now_ms)

    def members(self, group_id: str, limit: int, after: str | None = None) -> MemberPage:
        """Return a page of the articles of a group, oldest first.

        Raises:
            UserError: ``after`` is not what a page said.
        """
        with self._queries() as queries:
            return queries.members(group_id, limit, after)

    def largest(self, window: Window, limit: int, now_ms: int) -> list[ArticleGroup]:
        """Return the groups with most articles in a window, of those of more than one article; largest first."""
        with self._queries() as queries:
            return queries.largest(window, limit, now_ms)

    def growth(self, group_id: str, window: Window, now_ms: int) -> list[tuple[int, int]]:
        """Return the beginning (ms) and the articles of each bucket of a window, oldest first."""
        with self._queries() as queries:
            return queries.growth(group_id, window, now_ms)

    def totals(self, window: Window, now_ms: int) -> VerdictCounts:
        """Return the articles of a window, by verdict."""
        with self._queries() as queries:
            return queries.totals(window, now_ms)

    def history(self, window: Window, now_ms: int) -> list[tuple[int, VerdictCounts]]:
        """Return the beginning (ms) and the articles of each bucket of a window, by verdict, oldest first."""
        with self._queries() as queries:
            return queries.history(window, now_ms)

    def missing(self) -> list[MissingOutputs]:
        """Return the outputs that were deleted before they were read."""
        with self._queries() as queries:
            return queries.missing()

    def size(self) -> tuple[int, int]:
        """Return the number of articles and of groups. Takes time proportional to them."""
        with self._queries() as queries:
            return queries.size()

    def group_count(self) -> int:
        """Return the number of groups of two or more articles."""
        with self._queries() as queries:
            return queries.group_count()

    # One batch.

    def _apply(self, outputs: Sequence[JudgedOutput]) -> None:
        write = self._connection
        begin = int(write.execute("SELECT next_number FROM state").fetchone()[0])
        batch = UnionBatch(StoredRows(self._article_row, self._grouping, self._topic_number), begin)
        batch.add(outputs)
        write.executemany("INSERT INTO source_topic VALUES (?, ?, ?)", self._new_topics)
        write.execute("UPDATE state SET next_number = ?", (batch.next_number,))
        topic_ids = {number: topic_id for topic_id, number in self._topics.items()} if self._publishes else None
        write_batch(write, batch, topic_ids)

    def _article_row(self, at: StoredAt) -> Row | None:
        row = self._connection.execute(
            "SELECT number, grp, written_ms IS NOT NULL FROM article WHERE topic = ? AND partition = ? AND offset = ?",
            at,
        ).fetchone()
        return None if row is None else Row(row[0], row[1], bool(row[2]))

    def _grouping(self, number: int) -> Grouping:
        row = self._connection.execute(
            "SELECT topic, partition, offset, size, weight, lone_ms, published, hour, day, week FROM grp "
            "WHERE number = ?",
            (number,),
        ).fetchone()
        return Grouping(
            number,
            StoredAt(*row[:3]),
            size=row[3],
            weight=row[4],
            published=bool(row[6]),
            is_stored=True,
            has_buckets=row[3] > 1,
            times=[] if row[5] is None else [row[5]],
            counted=list(row[7:]),
        )

    def _topic_number(self, topic_id: bytes, name: str) -> int:
        number = self._topics.get(topic_id)
        if number is None:
            number = self._topics[topic_id] = len(self._topics) + 1
            self._new_topics.append((number, topic_id, name))
        return number

    # Reading connections.

    @contextmanager
    def _queries(self) -> Iterator[GroupQueries]:
        with store_errors(self._path), self._reading() as reader:
            yield GroupQueries(reader)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a reading connection to the calling thread."""
        with self._guard:
            if self._is_closed:
                msg = "the groups store is closed"
                raise UnavailableError(msg)
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = open_reader(self._path)
        try:
            yield reader
        finally:
            self._give_back(reader)

    def _give_back(self, reader: sqlite3.Connection) -> None:
        with self._guard:
            if not self._is_closed and len(self._readers) < IDLE_READERS:
                self._readers.append(reader)
                return
        reader.close()
