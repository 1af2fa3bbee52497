"""Articles in: JSON Lines to the columns that are compared, and back to the texts of a few of them.

Owns what is held in memory: of each article its entry, its id and where it stands, some 200 bytes, and no text. The
texts of the pairs that are shown are read again: from the files, and of a pipe or standard input from a copy that is
kept on disk meanwhile. Rules:

* Articles stand in the order of the lines, the files one after the other, as in ``filter``.
* What cannot be read, and text without features, is counted and left out: it is near nothing.
* At most ``MAX_ARTICLES`` lines are read; the rest is left out, which the caller tells.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stream_dedup.calibrate.nearest import SignedEntries
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.columns import Columns
from stream_dedup.core.model import Status, signed
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, decode, parse_object
from stream_dedup.core.text_column import as_stored
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import (
    Copies,
    CutLine,
    LineBatch,
    Progress,
    check_inputs,
    fingerprinting_processes,
    read_batches,
    read_batches_again,
    total_bytes,
)
from stream_dedup.pool import FingerprintPool

MAX_ARTICLES = 2_000_000
"""Lines read: 400 MB. What holds for two million of one's articles holds for the rest."""

BATCHES_AHEAD = 2
"""Batches under way for each process: one in work, one that waits."""


class Where(NamedTuple):
    """A line: which file, and its number from 1."""

    file: int
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """All articles that have a signature, in order; ``statuses`` counts every line by what became of it."""

    entries: SignedEntries
    ids: list[str]
    where: I64
    """Shape (articles, 2), as ``Where``."""
    originals: list[str | None] | None
    statuses: Counter[Status]
    whole: bool
    """Whether every line was read."""


def collect(
    config: Config,
    files: Sequence[str],
    original: str | None,
    report: Callable[[int, Progress], None],
    copies: Copies,
) -> Collected:
    """Read and fingerprint every line.

    Args:
        config: scheme, format of the input, processes.
        files: files of JSON Lines, or ``-``.
        original: field that names the article's original, None for none.
        report: told, after each batch, how many lines are done and how many bytes are read.
        copies: keeps what cannot be read again.

    Raises:
        StreamDedupError: a file cannot be read, or the fingerprinting failed.
    """
    check(config, files)
    progress = Progress(total=total_bytes(files))
    parts: list[_Part] = []
    lines = 0
    processes = fingerprinting_processes(config.worker.processes, progress.total)
    with ExitStack() as stack:
        pool = FingerprintPool(
            processes,
            fingerprint_settings_of(config),
            input_format_of(config),
            config.worker.article_limit_s,
        )
        stack.callback(pool.close)
        for batch, columns in _fingerprinted(read_batches(files, progress, copies), pool, processes):
            parts.append(_part(batch, columns, original, input_format_of(config)))
            lines += len(batch.lines)
            report(lines, progress)
            if lines >= MAX_ARTICLES:
                break
    return _joined(parts, original, whole=lines < MAX_ARTICLES or progress.read == progress.total)


def check(config: Config, files: Sequence[str]) -> None:
    """See that the input is what can be read.

    Raises:
        UserError: it is not.
    """
    if config.input.format != "json":
        msg = f"input.format = {config.input.format!r}: calibrate reads JSON Lines; leave it out or set it to json"
        raise UserError(msg)
    check_inputs(files)


def texts_at(files: Sequence[str], wanted: set[Where], fmt: InputFormat, copies: Copies) -> dict[Where, str]:
    """The texts in these lines, read again; what cannot be read any more is left out."""
    found: dict[Where, str] = {}
    last = max((place.file for place in wanted), default=-1)
    for batch in read_batches_again(files[: last + 1], copies):
        for number, line in zip(batch.numbers, batch.lines, strict=True):
            place = Where(batch.source, number)
            if place in wanted and isinstance(line, bytes):
                article = decode(RawRecord(None, line, ""), fmt)
                if isinstance(article, Article):
                    found[place] = "\n".join(article.texts)
        if len(found) == len(wanted):
            break
    return found


class _Part(NamedTuple):
    """What is kept of one batch."""

    statuses: U8
    kept: Columns
    where: I64
    originals: list[str | None]


def _part(batch: LineBatch, columns: Columns, original: str | None, fmt: InputFormat) -> _Part:
    rows = np.flatnonzero(signed(columns.statuses))
    where = np.stack((np.full(len(rows), batch.source), np.asarray(batch.numbers, np.int64)[rows]), axis=1)
    originals = [] if original is None else [_original(batch.lines[row], original, fmt) for row in rows.tolist()]
    return _Part(columns.statuses, columns.rows(rows), where, originals)


def _original(line: bytes | CutLine, field: str, fmt: InputFormat) -> str | None:
    """The id that the field holds, None where it holds none."""
    record = parse_object(line, fmt) if isinstance(line, bytes) else ""
    value: Any = record.get(field) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return as_stored(str(value)) or None


def _joined(parts: list[_Part], original: str | None, *, whole: bool) -> Collected:
    kept = Columns.concat([part.kept for part in parts])
    statuses = np.concatenate([part.statuses for part in parts]) if parts else np.empty(0, np.uint8)
    counts = np.bincount(statuses, minlength=len(Status))
    originals = None if original is None else [one for part in parts for one in part.originals]
    if originals is not None and not any(originals):
        msg = f"--original {original}: no article has an id in that field; name the field with the original's id"
        raise UserError(msg)
    return Collected(
        SignedEntries(kept.statuses, kept.groups, kept.signatures, kept.margins),
        list(kept.ids),
        np.concatenate([part.where for part in parts]) if parts else np.empty((0, 2), np.int64),
        originals,
        Counter({status: int(counts[status]) for status in Status}),
        whole,
    )


def _fingerprinted(
    batches: Iterator[LineBatch | None], pool: FingerprintPool, processes: int
) -> Iterator[tuple[LineBatch, Columns]]:
    """Batches with their columns, in order, a bounded number of them under way."""
    under_way: deque[tuple[LineBatch, Future[Columns]]] = deque()
    for lines in batches:
        if lines is None:
            continue
        under_way.append((lines, pool.submit(_records(lines))))
        while len(under_way) > BATCHES_AHEAD * max(1, processes):
            done, columns = under_way.popleft()
            yield done, columns.result()
    for done, columns in under_way:
        yield done, columns.result()


def _records(lines: LineBatch) -> list[RawRecord]:
    """Records as ``filter`` makes them, so that ids are the same."""
    return [
        RawRecord(None, line if isinstance(line, bytes) else line.head, f"{lines.name}:{number}")
        for number, line in zip(lines.numbers, lines.lines, strict=True)
    ]
