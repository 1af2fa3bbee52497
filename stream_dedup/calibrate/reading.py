"""Reads articles into columns, and reads the texts of a few articles again.

Memory holds the entry, the id and the line number of each article, some 200 bytes, and no text. The texts of the
pairs in the report are read again from the files; a pipe or standard input is copied to disk for this. Rules:

* Articles are in the order of the lines, one file after the other, as in ``filter``.
* Unreadable records and texts without features are counted and omitted: they are near nothing.
* At most ``MAX_ARTICLES`` lines are read; the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64
from stream_dedup.core.columns import Columns, as_stored
from stream_dedup.core.decode import Article, InputFormat, RawRecord, decode, id_at
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Status, signed
from stream_dedup.core.paths import FieldPath
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import (
    Copies,
    Progress,
    check_inputs,
    fingerprinted,
    read_batches,
    refuse_framed,
    total_bytes,
)
from stream_dedup.files.lines import MAX_LINE_BYTES
from stream_dedup.files.recognition import InputForm
from stream_dedup.threads import FingerprintThreads, thread_count

MAX_ARTICLES = 2_000_000
"""Lines read: 400 MB of memory. More articles change no figure noticeably."""

BATCHES_AHEAD = 2
"""Batches submitted for each thread: one in work, one waiting."""


class Where(NamedTuple):
    """A line: the index of its file, and its number from 1."""

    file: int
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """All articles that have a signature, in order; ``statuses`` counts every line by its status."""

    entries: Columns
    where: I64
    """Shape (articles, 2), as ``Where``."""
    originals: list[str | None] | None
    statuses: Counter[Status]
    whole: bool
    """Whether every line was read."""


def collect(
    config: Config,
    files: Sequence[str],
    original: FieldPath | None,
    report: Callable[[int, Progress], None],
    copies: Copies,
    form: InputForm,
) -> Collected:
    """Read and fingerprint every line; ``report`` is called after each batch with the lines done and the bytes read.

    ``copies`` keeps the input that cannot be read again, ``original`` is the field with the id of an original.
    """
    refuse_framed(config, "calibrate")
    check_inputs(files, form)
    progress = Progress(total=total_bytes(files))
    kept: list[Columns] = []
    where = [np.empty((0, 2), np.int64)]
    originals: list[str | None] = []
    statuses: Counter[Status] = Counter()
    threads = thread_count(config.worker.threads)
    maker = EntryMaker(fingerprint_settings_of(config), input_format_of(config, MAX_LINE_BYTES))
    with FingerprintThreads(threads, maker.of_lines, size_of=len) as fingerprinter:
        batches = read_batches(files, progress, copies, form)
        made = fingerprinted(batches, fingerprinter, BATCHES_AHEAD * threads)
        for batch, columns in filter(None, made):
            rows = np.flatnonzero(signed(columns.statuses))
            kept.append(columns.rows(rows))
            where.append(np.stack((np.full(len(rows), batch.source), np.asarray(batch.block.numbers)[rows]), axis=1))
            if original is not None:
                ids = (id_at(batch.block.lines[row], original) for row in rows.tolist())
                originals += [None if one is None else as_stored(one) for one in ids]
            statuses.update(map(Status, columns.statuses.tolist()))
            report(statuses.total(), progress)
            if statuses.total() >= MAX_ARTICLES:
                break
    if original is not None and not any(originals):
        raise UserError(
            f"--original {original.name}: no article has an id in that field; name the field with the original's id"
        )
    whole = statuses.total() < MAX_ARTICLES or progress.read == progress.total
    labels = None if original is None else originals
    return Collected(Columns.concat(kept), np.concatenate(where), labels, statuses, whole)


def texts_at(
    files: Sequence[str], wanted: set[Where], fmt: InputFormat, copies: Copies, form: InputForm
) -> dict[Where, str]:
    """Read the texts in these lines again; the result lacks those that can no longer be read."""
    found: dict[Where, str] = {}
    last = max((where.file for where in wanted), default=-1)
    for batch in filter(None, read_batches(files[: last + 1], Progress(), copies, form)):
        for number, line in batch.block.numbered():
            where = Where(batch.source, number)
            if where in wanted and isinstance(line, bytes):
                article = decode(RawRecord(None, line, ""), fmt)
                if isinstance(article, Article):
                    found[where] = "\n".join(article.texts)
        if len(found) == len(wanted):
            break
    return found
