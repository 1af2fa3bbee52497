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
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from stream_dedup.core.model import OUTPUT_VERDICTS, Judgement, Verdict
from stream_dedup.files.lines import KEPT_BYTES, AnyLine, UnreadLine
from stream_dedup.files.output_file import STDOUT, OutputTarget, output_to, unwritten

MEMBER = "dedup"
SIMILARITY_DECIMALS = 4
"""As in the headers of output records."""

_PLAIN = b'"dedup"'
_ESCAPED = b"\\u00"
"""The beginning of an escaped ASCII letter: only a line with one can contain the name of the member escaped."""
_BACKSLASH = b"\\"
"""Looked for first: a single byte is found, or not, in a tenth of the time."""
_JSON_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')
_OPEN, _CLOSE, _END_OF_MEMBER = (b"{", b"["), (b"}", b"]"), (b",", b"}")


def with_verdict(line: bytes, judgement: Judgement, fingerprint: int) -> bytes:
    """Return the output line of a record with a text."""
    if _PLAIN in line or (_BACKSLASH in line and _ESCAPED in line):
        line = without_member(line)
    if judgement.verdict is Verdict.UNIQUE and judgement.match is None and not judgement.copies:
        return b'%b,"dedup":{"verdict":"unique","fingerprint":"%016x"}}\n' % (line[:-1], fingerprint)
    return b'%b,"dedup":%b}\n' % (line[:-1], orjson.dumps(_explain(judgement, fingerprint)))


def rejected_line(line: AnyLine, reason: str | None) -> bytes:
    """Return the output line of an input line that is not a record with a text."""
    said: dict[str, Any] = {"verdict": str(Verdict.REJECTED), "reason": reason}
    if isinstance(line, UnreadLine) and line.length > len(line.head):
        said |= {"line_base64": base64.b64encode(line.head).decode(), "line_bytes": line.length}
    else:
        said |= _as_json(line.head if isinstance(line, UnreadLine) else line)
    return orjson.dumps({MEMBER: said}) + b"\n"


def without_member(line: bytes) -> bytes:
    """Return a valid JSON object without its members named ``dedup``; the others are unchanged."""
    members = _members(line)
    if all(name != MEMBER for name, _ in members):
        return line
    return b"{" + b",".join(written for name, written in members if name != MEMBER) + b"}"


def _members(line: bytes) -> list[tuple[str, bytes]]:
    """Return name and text of each member. Scan only strings and brackets."""
    members: list[tuple[str, bytes]] = []
    begin = depth = 0
    name = None
    for token in _JSON_TOKEN.finditer(line):
        sign = token[0]
        if sign in _OPEN:
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif depth == 1 and sign in _END_OF_MEMBER:
            if name is not None:
                members.append((json.loads(name), line[begin : token.start()].strip()))
            begin, name = token.end(), None
        elif depth == 1 and name is None:
            name = sign
        depth -= sign in _CLOSE
    return members


def _explain(judgement: Judgement, fingerprint: int) -> dict[str, Any]:
    said: dict[str, Any] = {"verdict": str(judgement.verdict)}
    if judgement.verdict is Verdict.REJECTED:
        return said | {"reason": judgement.reason}
    said["fingerprint"] = f"{fingerprint:016x}"
    match = judgement.match
    if match is not None:
        similarity = round(match.similarity, SIMILARITY_DECIMALS)
        said["match"] = {"id": match.id, "distance": match.distance, "similarity": similarity}
    if judgement.copies:
        said["copies"] = judgement.copies
    return said


def _as_json(line: bytes) -> dict[str, Any]:
    try:
        return {"line": line.decode()}
    except UnicodeDecodeError:
        said: dict[str, Any] = {"line_base64": base64.b64encode(line[:KEPT_BYTES]).decode()}
        return said | ({"line_bytes": len(line)} if len(line) > KEPT_BYTES else {})


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

    def write(self, verdict: Verdict, line: bytes) -> None:
        """Write a line to the output of its verdict.

        Raises:
            UnavailableError: the output cannot be written (a full disk).
            BrokenPipeError: the reader closed the pipe.
        """
        output = self._of[verdict]
        try:
            output.stream.write(line)
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
