"""The stored format of a cluster store: this file owns it.

    STORE/
      owner                 locked while a process writes; holds its process id
      clusters.sqlite       SQLite; ``-wal`` and ``-shm`` beside it are SQLite's own

``PRAGMA application_id`` marks the database as ours, ``PRAGMA user_version`` is the format version. Times are ms since
1970. Tables:

    state         one row: the log that the store belongs to, the store's own id, the number of the next article, and
                  the id of the topic that the clusters are published on
    source_topic  topic ids and names of source topics, by a small number
    article       one row for each article; one without ``written_ms`` is a placeholder: an article that is known only
                  as the match of another one. ``cluster`` is NULL on rejected records
    cluster       one row for each cluster: its first article, and ``size``: articles that have arrived. ``lone_ms`` is
                  the time of the only article of a cluster of size 1
    bucket        articles of a cluster in a bucket of time (``model.BucketWidth``), of clusters of two or more articles
    total         articles in a bucket of time, by kind: unique, update, duplicate, ``rejected:CODE``
    position      the next offset of each output partition, and the id of its topic
    missing       outputs that were deleted before they were read
    changed       clusters to be published, by their first article. ``sequence`` rises with every change and never comes
                  again

One process writes; SQLite's write-ahead log lets any number of threads read meanwhile. A commit survives the end of the
process. A power failure may take the last commits back, positions included: their outputs are then read again.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stream_dedup.errors import CorruptError, RefusedError, UnavailableError, UserError, reason_of

CLUSTERS_FILE = "clusters.sqlite"
CLUSTERS_FORMAT_VERSION = 4
_APPLICATION_ID = 0x5344434C  # "SDCL"

WRITER_CACHE_KIB = 65_536
"""Pages that the writer holds in memory."""
READER_CACHE_KIB = 4_096
"""Pages that each reading connection holds in memory."""
BUSY_S = 30.0
"""The longest wait for another connection's lock: recovery after a kill takes one for a moment."""
WAL_BYTES = 64 << 20
"""The write-ahead log is cut to so many bytes after a checkpoint."""

_REMEDY = "delete the folder: the clusters are built from the output topics again"

_TABLES = """
CREATE TABLE state (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    log_id       BLOB NOT NULL,
    store_id     BLOB NOT NULL,
    next_number  INTEGER NOT NULL,
    published_on BLOB
) STRICT;
CREATE TABLE source_topic (
    number   INTEGER PRIMARY KEY,
    topic_id BLOB NOT NULL UNIQUE,
    name     TEXT NOT NULL
) STRICT;
CREATE TABLE article (
    number          INTEGER PRIMARY KEY,
    topic           INTEGER NOT NULL,
    partition       INTEGER NOT NULL,
    offset          INTEGER NOT NULL,
    cluster         INTEGER,
    id              TEXT NOT NULL,
    verdict         TEXT,
    written_ms      INTEGER,
    source_ms       INTEGER,
    output          TEXT,
    output_partition INTEGER,
    output_offset   INTEGER,
    match_topic     INTEGER,
    match_partition INTEGER,
    match_offset    INTEGER,
    match_id        TEXT,
    match_distance  INTEGER,
    match_similarity TEXT,
    match_ms        INTEGER,
    copies          INTEGER,
    reason_code     TEXT
) STRICT;
CREATE UNIQUE INDEX article_coordinates ON article (topic, partition, offset);
CREATE INDEX article_member ON article (cluster, written_ms);
CREATE INDEX article_time ON article (written_ms);
CREATE INDEX article_id ON article (id);
CREATE TABLE cluster (
    number    INTEGER PRIMARY KEY,
    topic     INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    offset    INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    lone_ms   INTEGER
) STRICT;
CREATE INDEX cluster_size ON cluster (size DESC) WHERE size > 1;
CREATE TABLE bucket (
    width   INTEGER NOT NULL,
    cluster INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (width, cluster, start)
) STRICT, WITHOUT ROWID;
CREATE TABLE total (
    width INTEGER NOT NULL,
    start INTEGER NOT NULL,
    kind  TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (width, start, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE position (
    topic     TEXT NOT NULL,
    partition INTEGER NOT NULL,
    topic_id  BLOB,
    offset    INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) STRICT, WITHOUT ROWID;
CREATE TABLE missing (
    topic     TEXT NOT NULL,
    topic_id  BLOB NOT NULL,
    partition INTEGER NOT NULL,
    first     INTEGER NOT NULL,
    past      INTEGER NOT NULL,
    PRIMARY KEY (topic, topic_id, partition, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE changed (
    sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id  BLOB NOT NULL,
    partition INTEGER NOT NULL,
    offset    INTEGER NOT NULL,
    UNIQUE (topic_id, partition, offset)
) STRICT;
INSERT INTO sqlite_sequence VALUES ('changed', 0);
"""


def make_folder(path: Path) -> None:
    """Make the folder of a store, if it is missing.

    Raises:
        UserError: it cannot be made, or holds something else than a store.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = sorted(one.name for one in path.iterdir())
    except OSError as error:
        raise UserError(
            f"cluster store {path} cannot be made or read: {reason_of(error)}; name another folder"
        ) from error
    others = [name for name in names if name != "lost+found" and not name.startswith(CLUSTERS_FILE)]
    if others:
        raise UserError(f"{path} is not a cluster store: unexpected file {others[0]}; name an empty folder")


def open_writer(path: Path, log_id: bytes) -> sqlite3.Connection:
    """Open the database of a store for its one writer; make it where it is missing.

    Raises:
        RefusedError: it belongs to another log.
        UserError: it is of another format, or the file is not ours.
        CorruptError: it is damaged.
        UnavailableError: the disk is full or fails.
    """
    with store_errors(path):
        if (path / CLUSTERS_FILE).exists():
            # Without writing: what is refused stays as it is, the write-ahead log that a killed process left included.
            with closing(_connect(path, READER_CACHE_KIB, "ro")) as looked_at:
                if _has_tables(looked_at):
                    _check(looked_at, path, log_id)
        connection = _connect(path, WRITER_CACHE_KIB, "rwc")
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            if not _has_tables(connection):
                with transaction(connection):
                    _make_tables(connection, log_id)
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the database of a store that this process has open for writing. Any thread, one at a time."""
    with store_errors(path):
        connection = _connect(path, READER_CACHE_KIB, "ro")
        connection.execute("PRAGMA query_only = ON")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in one transaction: all of it is stored, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise what SQLite says as an error of the program.

    Raises:
        CorruptError: the database is damaged.
        UnavailableError: the disk is full or fails, or another program has the database locked.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UnavailableError(
            f"cluster store {path} cannot be read or written: {error}; make room or mend the disk, then start again"
        ) from error
    except sqlite3.DatabaseError as error:
        raise CorruptError(f"cluster store {path} is damaged: {error}; {_REMEDY}") from error


def _connect(path: Path, cache_kib: int, mode: str) -> sqlite3.Connection:
    address = f"{(path / CLUSTERS_FILE).absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    return connection


def _make_tables(connection: sqlite3.Connection, log_id: bytes) -> None:
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute("INSERT INTO state VALUES (1, ?, ?, 1, NULL)", (log_id, uuid.uuid4().bytes))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {CLUSTERS_FORMAT_VERSION}")


def _check(connection: sqlite3.Connection, path: Path, log_id: bytes) -> None:
    if _pragma(connection, "application_id") != _APPLICATION_ID:
        raise UserError(f"{path / CLUSTERS_FILE} is a database of another program; name another folder")
    version = _pragma(connection, "user_version")
    if version != CLUSTERS_FORMAT_VERSION:
        known = f"this program reads format {CLUSTERS_FORMAT_VERSION}"
        raise UserError(f"cluster store {path} has format {version}, and {known}; {_REMEDY}")
    found = bytes(connection.execute("SELECT log_id FROM state").fetchone()[0])
    if found != log_id:
        raise RefusedError(
            f"cluster store {path} belongs to log {uuid.UUID(bytes=found)}, and the log of the group is now "
            f"{uuid.UUID(bytes=log_id)}: the clusters of two logs are not mixed. Name another folder, or {_REMEDY}"
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None
