"""Output lines: the form of a record with its verdict, and its destination.

Owns the form of an output line:

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from stream_dedup import _native
from stream_dedup.core.arrays import U64
from stream_dedup.core.model import OUTPUT_VERDICTS, Judgement, Verdict
from stream_dedup.files.lines import KEPT_BYTES, AnyLine, UnreadLine
from stream_dedup.files.output_file import STDOUT, OutputTarget, output_to, unwritten

MEMBER = "dedup"
SIMILARITY_DECIMALS = 4
"""As in the headers of output records."""


def rejected_line(line: AnyLine, reason: str | None) -> bytes:
    """Return the output line of an input line that is not a record with a text."""
    said: dict[str, Any] = {"verdict": str(Verdict.REJECTED), "reason": reason}
    if isinstance(line, UnreadLine) and line.length > len(line.head):
        said |= {"line_base64": base64.b64encode(line.head).decode(), "line_bytes": line.length}
    else:
        said |= _as_json(line.head if isinstance(line, UnreadLine) else line)
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


def _as_json(line: bytes) -> dict[str, Any]:
    try:
        return {"line": line.decode()}
    except UnicodeDecodeError:
        said: dict[str, Any] = {"line_base64": base64.b64encode(line[:KEPT_BYTES]).decode()}
        return said | ({"line_bytes": len(line)} if len(line) > KEPT_BYTES else {})


@dataclass(frozen=True, slots=True, eq=False)
class MarkedLines:
    """Lines with their verdicts."""

    lines: Sequence[bytes]
    fingerprints: U64
    said: Mapping[int, bytes]
    """What the member ``dedup`` of a row says, where it is not that of a unique record without a match."""
    whole: Mapping[int, bytes]
    """What is written for a row in place of its line."""
    is_plain: bool
    """Whether lines are written as they came."""


class Outputs:
    """The output of each verdict: its file, or standard output. Two verdicts may share one file.

    Order of calls: construct, ``open``, ``write`` …, ``finish``; always ``discard``.
    """

    def __init__(self, paths: Mapping[Verdict, Path | None]) -> None:
        """Open nothing yet, so that ``discard`` knows a temporary file before it is created."""
        outputs = {verdict: output_to(paths.get(verdict) or Path(STDOUT)) for verdict in OUTPUT_VERDICTS}
        # Verdicts with the same file share one output.
        self._outputs = {output.key: output for output in outputs.values()}
        self._of = {verdict: self._outputs[output.key] for verdict, output in outputs.items()}

    def open(self) -> None:
        """Open the files.

        Raises:
            UserError: a file cannot be written.
        """
        for output in self._outputs.values():
            output.open()

    def write(self, lines: MarkedLines, others: Mapping[int, Verdict]) -> None:
        """Write lines to the outputs of their verdicts; ``others``: those that are not unique, by their rows.

        Raises:
            UnavailableError: the output cannot be written (a full disk).
            BrokenPipeError: the reader closed the pipe.
        """
        numbers = {key: number for number, key in enumerate(self._outputs)}
        of_rows = bytearray([numbers[self._of[Verdict.UNIQUE].key]]) * len(lines.lines)
        for row, verdict in others.items():
            of_rows[row] = numbers[self._of[verdict].key]
        written = _native.marked_lines(
            lines.lines,
            fingerprints=lines.fingerprints,
            said=lines.said,
            whole=lines.whole,
            outputs=of_rows,
            is_plain=lines.is_plain,
        )
        for output, part in zip(self._outputs.values(), written, strict=False):
            try:
                output.stream.write(part)
            except OSError as error:
                raise unwritten(output.name, error) from error

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
        for output in self._outputs.values():
            output.discard()

    def _each(self, do: Callable[[OutputTarget], None]) -> None:
        for output in self._outputs.values():
            try:
                do(output)
            except OSError as error:
                raise unwritten(output.name, error) from error
