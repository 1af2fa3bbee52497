"""Lines out: what each record looks like with its verdict, and where it goes.

Owns the form of an output line:

    a record with a text   as it came, byte for byte, with a member ``dedup`` before its last brace
                           (an incoming ``dedup`` is taken out first)
    anything else          {"dedup": {"verdict": "rejected", "reason": …, "line": …}}

``dedup`` holds ``verdict``; ``fingerprint`` (16 hex digits) unless rejected; ``match`` {``id``,
``distance``, ``similarity``} on duplicates, and on a unique one that is an update (the match is its earlier
version); ``reason`` on rejected ones. Where a line's bytes are
no UTF-8, ``line_base64`` stands in place of ``line``, at most ``KEPT_BYTES`` of it, and
``line_bytes`` says its length where something was left out.

Output files appear whole or not at all, when the call has succeeded (``output_file`` says how).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from stream_dedup.core.model import Judgement, Verdict
from stream_dedup.core.text.decode import InputFormat, parse_object
from stream_dedup.files.inputs import KEPT_BYTES, CutLine
from stream_dedup.files.output_file import STDOUT, OutputTarget, output_to, unwritten

MEMBER = "dedup"
SIMILARITY_DECIMALS = 4
"""As in the headers of the stream."""

_PLAIN = b'"dedup"'
_ESCAPED = b"\\u00"
"""How an escaped ASCII letter begins: only such a line may hold the member's name in disguise."""
_JSON_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')
_OPEN, _CLOSE, _END_OF_MEMBER = (b"{", b"["), (b"}", b"]"), (b",", b"}")


def with_verdict(line: bytes, judgement: Judgement, fingerprint: int) -> bytes:
    """The output line of a record that has a text."""
    if _PLAIN in line or _ESCAPED in line:
        line = without_member(line)
    if judgement.verdict is Verdict.UNIQUE and judgement.match is None:
        return b'%b,"dedup":{"verdict":"unique","fingerprint":"%016x"}}\n' % (line[:-1], fingerprint)
    return b'%b,"dedup":%b}\n' % (line[:-1], orjson.dumps(_explain(judgement, fingerprint)))


def rejected_line(line: bytes | CutLine, reason: str | None) -> bytes:
    """The output line of an input line that is no record with a text."""
    said: dict[str, Any] = {"verdict": str(Verdict.REJECTED), "reason": reason}
    if isinstance(line, CutLine):
        said |= {"line_base64": base64.b64encode(line.head).decode(), "line_bytes": line.length}
    else:
        said |= _as_json(line)
    return orjson.dumps({MEMBER: said}) + b"\n"


def has_text(line: bytes | CutLine, fmt: InputFormat) -> bool:
    """Whether a line is a JSON object with a text."""
    record = None if isinstance(line, CutLine) else parse_object(line, fmt)
    return isinstance(record, dict) and any(isinstance(record.get(name), str) for name in fmt.text_fields)


def without_member(line: bytes) -> bytes:
    """A JSON object, known to be right, without its members named ``dedup``; all others as they are written."""
    members = _members(line)
    if all(name != MEMBER for name, _ in members):
        return line
    return b"{" + b",".join(written for name, written in members if name != MEMBER) + b"}"


def _members(line: bytes) -> list[tuple[str, bytes]]:
    """Name and written form of each member. Only strings and brackets are looked at, at any depth."""
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
    return said


def _as_json(line: bytes) -> dict[str, Any]:
    try:
        return {"line": line.decode()}
    except UnicodeDecodeError:
        said: dict[str, Any] = {"line_base64": base64.b64encode(line[:KEPT_BYTES]).decode()}
        return said | ({"line_bytes": len(line)} if len(line) > KEPT_BYTES else {})


class Outputs:
    """Where each verdict goes: a file of its own, else standard output.

    Two verdicts may share one file. Used as: construct, ``open``, ``write``…, ``finish``; ``discard`` in any case.
    """

    def __init__(self, paths: Mapping[Verdict, Path | None]) -> None:
        """Nothing is opened yet: what ``discard`` has to remove is known before it is made."""
        outputs = {verdict: output_to(paths.get(verdict) or Path(STDOUT)) for verdict in Verdict}
        # Verdicts with one file share one output.
        self._outputs = {output.key: output for output in outputs.values()}
        self._of = {verdict: self._outputs[output.key] for verdict, output in outputs.items()}

    def open(self) -> None:
        """Open the files.

        Raises:
            UserError: one cannot be written.
        """
        for output in self._outputs.values():
            output.open()

    def write(self, verdict: Verdict, line: bytes) -> None:
        """Write one line to its place.

        Raises:
            UnavailableError: it cannot be written (a full disk).
            BrokenPipeError: whoever read it has gone.
        """
        output = self._of[verdict]
        try:
            output.stream.write(line)
        except OSError as error:
            raise unwritten(output.name, error) from error

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._each(lambda output: output.stream.flush())

    def finish(self, written: Callable[[], None] = lambda: None) -> None:
        """Put every file in its place.

        1. All is written, and files are on the disk: an error (a full disk, a closed pipe) shows before any file moves.
           ``written`` is called then.
        2. The files move.
        """
        self._each(lambda output: output.sync())
        written()
        self._each(lambda output: output.publish())

    def discard(self) -> None:
        """Remove what was not finished."""
        for output in self._outputs.values():
            output.discard()

    def _each(self, do: Callable[[OutputTarget], None]) -> None:
        for output in self._outputs.values():
            try:
                do(output)
            except OSError as error:
                raise unwritten(output.name, error) from error
