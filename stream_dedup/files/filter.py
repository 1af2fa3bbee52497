"""``filter``: records in, JSON Lines out; the order of the lines is the log.

Uses the same core as the worker. Its log is not a topic but the sequence of lines of all calls. Rules:

* Each call is a new source with a new topic id; each input is a partition, and the number of a line, from 1, is its
  offset. A file that is given twice contributes its articles twice.
* The log time of a record is its time field, or the time of reading without ``--time-field``.
* A kept index starts with the rules of its first call; a call with other rules changes them from its first line on.
* The index is opened before the first line is read, and committed after the last line is written: a call that fails
  leaves a kept index unchanged.
* A thread of its own logs and judges a batch while others fingerprint the next ones; native code of all of them runs at
  the same time. The caller's thread alone reads and writes: signals interrupt only there what may wait.

It never writes to an index that belongs to a log in Kafka.

A line of an output file is

    a record with a text   unchanged, byte for byte, with a member ``dedup`` before its last brace
                           (an existing ``dedup`` is removed first)
    any other line         {"dedup": {"verdict": "rejected", "reason": …, "line": …}}

``dedup`` holds ``verdict``; ``fingerprint`` (16 hex digits) unless rejected; ``match`` {``id``,
``distance``, ``similarity``} on duplicates, and on a unique record that is an update (the match is its earlier
version); ``copies``, how many earlier records are near, where there are any; ``reason`` on rejected records. A line
that is not UTF-8 has ``line_base64`` in place of ``line``, with at most ``KEPT_BYTES`` of it, and its length in
``line_bytes`` where it was cut.

Output files appear complete or not at all, when the call succeeds (see ``output_file``).
"""

from __future__ import annotations

import base64
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from stream_dedup import _native
from stream_dedup.config.effective import fingerprint_settings_of, index_settings_of, input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.core.arrays import I64, U64
from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import has_text
from stream_dedup.core.entry import Batch, LogRecord, Payload, encode, make_batch
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import (
    FILES_LOG_PREFIX,
    OUTPUT_VERDICTS,
    ROW_BITS,
    UNIQUE_JUDGEMENT,
    Judgement,
    LogOffset,
    Status,
    Verdict,
)
from stream_dedup.core.paths import FieldPath
from stream_dedup.core.reasons import NOT_UTF8
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import (
    AS_RECOGNISED,
    STDIN,
    LineBatch,
    Progress,
    check_inputs,
    fingerprinted,
    read_batches,
    refuse_framed,
    total_bytes,
)
from stream_dedup.files.lines import KEPT_BYTES, MAX_LINE_BYTES, AnyLine, LineBlock, UnreadLine
from stream_dedup.files.output_file import (
    STDOUT,
    OutputTarget,
    named_errors,
    output_to,
    refuse_inputs_as_outputs,
    refuse_outputs_inside,
)
from stream_dedup.files.recognition import InputForm
from stream_dedup.files.times import time_at
from stream_dedup.folders import TemporaryFolder
from stream_dedup.index import LogIndex
from stream_dedup.threads import FingerprintThreads, short_pauses, thread_count

LOOK_AHEAD = 2
"""Batches submitted for each thread: one that is fingerprinted, one that waits. More would only use memory."""
_NOT_UTF8 = NOT_UTF8.partition("{")[0]


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The arguments of one call, beside the configuration."""

    inputs: tuple[str, ...] = (STDIN,)
    index: Path | None = None
    time_field: FieldPath | None = None
    outputs: Mapping[Verdict, Path | None] = field(default_factory=dict)
    settings: tuple[Path, ...] = ()
    """Files of the configuration: they are inputs too, which no output may replace."""
    form: InputForm = AS_RECOGNISED
    plain: bool = False
    """Write records as they came; duplicates and rejected lines only to a named output."""

    def destinations(self) -> Mapping[Verdict, Path | None]:
        """Return the output of each verdict; None: standard output."""
        if not self.plain:
            return self.outputs
        nowhere = {Verdict.DUPLICATE: Path(os.devnull), Verdict.REJECTED: Path(os.devnull)}
        return nowhere | {verdict: path for verdict, path in self.outputs.items() if path is not None}


@dataclass(slots=True)
class Tally:
    """The progress of a call."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    progress: Progress = field(default_factory=Progress)
    not_utf8: int = 0
    """Lines that were rejected because they are not UTF-8."""


class _JudgedBatch(NamedTuple):
    """A batch that is logged and judged."""

    lines: LineBatch
    fingerprints: U64
    judgements: Future[list[Judgement]]


def filter_files(
    config: Config,
    options: FilterOptions,
    clock: Callable[[], int],
    report: Callable[[Tally], None],
    written: Callable[[], None] = lambda: None,
) -> Tally:
    """Write every line of every input with its verdict.

    1. Check the inputs and the outputs, open the outputs, then the index: their errors come before the first line, and
       outputs that cannot be written before an index folder is made.
    2. Read, fingerprint, log, judge and write the lines, in order; of an error, after the lines that came before it.
    3. Finish the outputs: after this step they cannot fail.
    4. Commit the index. After a crash between 3 and 4, the same call writes the same outputs again.

    Args:
        config: rules, scheme and sizes.
        options: arguments of the call.
        clock: returns the log time, in milliseconds since 1970, of records where no time field is named.
        report: called after each batch.
        written: called once, after the last line is written and before a file gets its name. Signals are held from
            here on: an interruption would leave files that the index does not contain, or the reverse.

    Raises:
        StreamDedupError: an input, an output or the index cannot be used. Nothing is committed.
    """
    _check(config, options)
    threads = thread_count(config.worker.threads)
    with ExitStack() as stack:
        outputs = Outputs(options.destinations(), is_plain=options.plain)
        stack.callback(outputs.discard)
        outputs.open()
        index = stack.enter_context(_index(config, options.index))
        maker = EntryMaker(fingerprint_settings_of(config), input_format_of(config, MAX_LINE_BYTES))
        fingerprinter = stack.enter_context(FingerprintThreads(threads, maker.of_lines, size_of=len))
        judging = stack.enter_context(_judging())
        stack.enter_context(short_pauses(collects=False))
        call = _Call(config, options, clock, index, judging, outputs)
        batches = read_batches(options.inputs, call.tally.progress, form=options.form)
        call.answer(fingerprinted(batches, fingerprinter, LOOK_AHEAD * threads), report)
        outputs.finish(written)
        index.commit()
    return call.tally


def _check(config: Config, options: FilterOptions) -> None:
    if config.match.window is not None and options.time_field is None:
        raise UserError("--window needs --time-field: name the field with the time of each record")
    refuse_framed(config, "filter")
    if config.match.observe and any(options.outputs.get(verdict) for verdict in (Verdict.DUPLICATE, Verdict.REJECTED)):
        raise UserError(
            "match.observe: every record goes to the output of unique records, so the files of duplicates and rejected "
            "lines would be empty; remove --duplicate and --rejected, or match.observe"
        )
    check_inputs(options.inputs, options.form)
    outputs = [options.destinations().get(verdict) or STDOUT for verdict in OUTPUT_VERDICTS]
    refuse_inputs_as_outputs(outputs, (*options.inputs, *options.settings))
    if options.index is not None:
        refuse_outputs_inside(outputs, options.index)


@contextmanager
def _index(config: Config, path: Path | None) -> Iterator[LogIndex]:
    """Open the kept index, staged on a copy until it is committed, or an index in a temporary folder."""
    with ExitStack() as stack:
        if path is None:
            path = stack.enter_context(TemporaryFolder()) / "index"
        index = LogIndex.open(path, scheme=rules_of(config).scheme, settings=index_settings_of(config), staged=True)
        stack.callback(index.close)
        if index.log_id is None:
            index.begin(f"{FILES_LOG_PREFIX}{uuid.uuid4()}")
        elif not index.log_id.startswith(FILES_LOG_PREFIX):
            raise UserError(
                f"index {path} belongs to the log of a worker or to stream_dedup.Index; give filter another folder"
            )
        yield index


@contextmanager
def _judging() -> Iterator[Executor]:
    """Run one thread; leave it only when it is idle, however often that is interrupted: the index is closed then."""
    executor, interruption = ThreadPoolExecutor(1, "judging"), None
    last: Future[int] | None = None
    try:
        yield executor
    finally:
        # Not by a join: one that a signal interrupts declares the thread ended, in CPython 3.11 and 3.12.
        while last is None or not last.done():
            try:
                last = last or executor.submit(int)
                last.result()
            except RuntimeError:  # there is no thread, and none could be started
                break
            except BaseException as error:  # noqa: BLE001 - a signal
                interruption = error
        executor.shutdown()
        if interruption is not None:
            raise interruption


class _Call:
    """Logs, judges and writes the batches of one call."""

    def __init__(
        self,
        config: Config,
        options: FilterOptions,
        clock: Callable[[], int],
        index: LogIndex,
        judging: Executor,
        outputs: Outputs,
    ) -> None:
        """Log the rules, unless they are in force. Batches are logged and judged by ``judging``, one by one."""
        self.tally = Tally(progress=Progress(total=total_bytes(options.inputs)))
        self._clock = clock
        self._index = index
        self._judging = judging
        self._judged: _JudgedBatch | None = None
        self._outputs = outputs
        self._time_field = options.time_field
        self._plain = options.plain
        self._format = input_format_of(config, MAX_LINE_BYTES)
        self._observe = config.match.observe
        self._topic_id = uuid.uuid4().bytes
        rules, current = rules_of(config), index.rules
        if current is None:
            self._log(rules, clock())
        elif rules.differences(current):
            self._log(rules.next_revision(current), clock())

    def answer(self, batches: Iterator[tuple[LineBatch, Columns] | None], report: Callable[[Tally], None]) -> None:
        """Log, judge and write every batch, and flush where there is ``None``.

        Raises:
            StreamDedupError, OSError: a batch cannot be read, fingerprinted, judged or written; those before it are
                written.
        """
        try:
            for batch in batches:
                if batch is None:
                    self._write()
                    self._outputs.flush()
                else:
                    self._judge(*batch)
                report(self.tally)
        except Exception:
            self._write()
            raise
        self._write()
        report(self.tally)

    def _judge(self, lines: LineBatch, columns: Columns) -> None:
        """Let one batch be logged and judged, and write the one before."""
        times, unreadable = self._times(lines, columns)
        batch = make_batch(columns.rejected(unreadable), self._topic_id, lines.name, lines.source, lines.block.numbers)
        judgements = self._judging.submit(self._log_and_judge, batch, times)
        self._write()
        self._judged = _JudgedBatch(lines, batch.fingerprints, judgements)

    def _log_and_judge(self, batch: Batch, time: int | I64) -> list[Judgement]:
        offset = self._log(batch, time)
        return self._index.judge((offset << ROW_BITS) + np.arange(len(batch), dtype=np.int64))

    def _log(self, payload: Payload, time: int | I64) -> LogOffset:
        """Log a payload and return its offset."""
        offset = self._index.next_offset
        self._index.apply([LogRecord(offset, time, payload, encode(payload))])
        return offset

    def _write(self) -> None:
        """Write the batch that is judged, if it is not written yet."""
        if self._judged is None:
            return
        (lines, fingerprints, judged), self._judged = self._judged, None
        judgements = judged.result()
        others = {row: judgement for row, judgement in enumerate(judgements) if judgement is not UNIQUE_JUDGEMENT}
        where = {row: Verdict.UNIQUE if self._observe else judgement.verdict for row, judgement in others.items()}
        said, whole = self._written(lines.block, fingerprints, others)
        self._outputs.write(lines.block.lines, fingerprints, where, said, whole)
        self.tally.not_utf8 += sum((one.reason or "").startswith(_NOT_UTF8) for one in others.values())
        self.tally.verdicts.update(judgement.verdict for judgement in others.values())
        self.tally.verdicts[Verdict.UNIQUE] += len(judgements) - len(others)

    def _written(
        self, block: LineBlock, fingerprints: U64, others: Mapping[int, Judgement]
    ) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Return what ``Outputs.write`` takes of lines; ``others``: all but ``UNIQUE_JUDGEMENT``, by their rows."""
        said, whole = dict[int, bytes](), dict[int, bytes]()
        for row, judgement in others.items():
            line = block.unread.get(row, block.lines[row])
            if isinstance(line, UnreadLine):
                whole[row] = rejected_line(line, judgement.reason)
            elif self._plain:
                continue
            elif judgement.verdict is Verdict.REJECTED and not has_text(line, self._format):
                whole[row] = rejected_line(line, judgement.reason)
            else:
                said[row] = said_of(judgement, int(fingerprints[row]))
        return said, whole

    def _times(self, lines: LineBatch, columns: Columns) -> tuple[int | I64, dict[int, str]]:
        """Log times, and the rows to reject with their reasons: lines without a valid time."""
        now, unreadable = self._clock(), dict[int, str]()
        if self._time_field is None:
            return now, unreadable
        times = np.full(len(lines), now, np.int64)
        for row in np.flatnonzero(columns.statuses != Status.REJECTED).tolist():
            time = time_at(lines.block.lines[row], self._time_field)
            if isinstance(time, str):
                unreadable[row] = time
            else:
                times[row] = time
        return times, unreadable


MEMBER = "dedup"
SIMILARITY_DECIMALS = 4
"""As in the headers of output records."""


def rejected_line(line: AnyLine, reason: str | None) -> bytes:
    """Return the output line of an input line that is not a record with a text."""
    said: dict[str, Any] = {"verdict": str(Verdict.REJECTED), "reason": reason}
    head, length = (line.head, line.length) if isinstance(line, UnreadLine) else (line, len(line))
    try:
        text = head.decode() if length == len(head) else None
    except UnicodeDecodeError:
        text = None
    if text is not None:
        return orjson.dumps({MEMBER: said | {"line": text}}) + b"\n"
    said["line_base64"] = base64.b64encode(head[:KEPT_BYTES]).decode()
    if length > len(head[:KEPT_BYTES]):
        said["line_bytes"] = length
    return orjson.dumps({MEMBER: said}) + b"\n"


def said_of(judgement: Judgement, fingerprint: int) -> bytes:
    """Return what the member ``dedup`` of a record with a text says."""
    said: dict[str, Any] = {"verdict": str(judgement.verdict)}
    if judgement.verdict is Verdict.REJECTED:
        return orjson.dumps(said | {"reason": judgement.reason})
    said["fingerprint"] = f"{fingerprint:016x}"
    match = judgement.match
    if match is not None:
        similarity = round(match.similarity, SIMILARITY_DECIMALS)
        said["match"] = {"id": match.id, "distance": match.distance, "similarity": similarity}
    if judgement.copies:
        said["copies"] = judgement.copies
    return orjson.dumps(said)


class Outputs:
    """The output of each verdict: its file, or standard output. Two verdicts may share one file.

    Order of calls: construct, ``open``, ``write`` …, ``finish``; always ``discard``.
    """

    def __init__(self, paths: Mapping[Verdict, Path | None], *, is_plain: bool = False) -> None:
        """Open nothing yet, so that ``discard`` knows a temporary file before it is created.

        ``is_plain``: lines are written as they came.
        """
        self._is_plain = is_plain
        outputs = {verdict: output_to(paths.get(verdict) or Path(STDOUT)) for verdict in OUTPUT_VERDICTS}
        # Verdicts with the same file share one output.
        shared = {output.key: output for output in outputs.values()}
        self._outputs = list(shared.values())
        self._numbers = {verdict: list(shared).index(output.key) for verdict, output in outputs.items()}

    def open(self) -> None:
        """Open the files.

        Raises:
            UserError: a file cannot be written.
        """
        for output in self._outputs:
            output.open()

    def write(
        self,
        lines: Sequence[bytes],
        fingerprints: U64,
        others: Mapping[int, Verdict],
        said: Mapping[int, bytes],
        whole: Mapping[int, bytes],
    ) -> None:
        """Write lines to the outputs of their verdicts.

        Args:
            lines: records as they came.
            fingerprints: of each line.
            others: the verdicts of those that are not unique, by their rows.
            said: what the member ``dedup`` of a row says, where it is not that of a unique record without a match.
            whole: what is written for a row in place of its line.

        Raises:
            UnavailableError: the output cannot be written (a full disk).
            BrokenPipeError: the reader closed the pipe.
        """
        of_rows = bytearray([self._numbers[Verdict.UNIQUE]]) * len(lines)
        for row, verdict in others.items():
            of_rows[row] = self._numbers[verdict]
        written = _native.marked_lines(
            lines, fingerprints=fingerprints, said=said, whole=whole, outputs=of_rows, is_plain=self._is_plain
        )
        for output, part in zip(self._outputs, written, strict=False):
            with named_errors(output):
                output.stream.write(part)

    def flush(self) -> None:
        """Flush every output."""
        self._each(lambda output: output.stream.flush())

    def finish(self, written: Callable[[], None] = lambda: None) -> None:
        """Publish every output.

        1. Sync every output: an error (a full disk, a closed pipe) is raised before any file gets its name.
        2. Call ``written``.
        3. Rename the temporary files.
        """
        self._each(lambda output: output.sync())
        written()
        self._each(lambda output: output.publish())

    def discard(self) -> None:
        """Remove unfinished files."""
        for output in self._outputs:
            output.discard()

    def _each(self, do: Callable[[OutputTarget], None]) -> None:
        for output in self._outputs:
            with named_errors(output):
                do(output)
