"""Lines that are sent as they are: byte for byte, from plain and compressed inputs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from stream_dedup.errors import UserError
from stream_dedup.files import inputs, lines
from stream_dedup.files.inputs import whole_lines

LINES = [b" first ", b"", b"\xff\r", b'{"id": 1}', *(b"%d" % number for number in range(2_000)), b"last"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("read_bytes", [1, 7, 1 << 18])
def test_lines_are_unchanged(
    pack: Callable[[bytes], bytes], read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space, blank lines and a last line without a line feed are kept, however bytes arrive."""
    monkeypatch.setattr(inputs, "READ_BYTES", read_bytes)
    path = tmp_path / "lines"
    path.write_bytes(pack(b"\n".join(LINES)))
    assert list(whole_lines([str(path), str(path)])) == LINES * 2


@pytest.mark.parametrize("read_bytes", [3, 1 << 18])
def test_a_line_that_no_topic_takes_is_an_error(
    read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has input and line. Lines before it are yielded, and one of the greatest length is, too."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    monkeypatch.setattr(inputs, "READ_BYTES", read_bytes)
    path = tmp_path / "lines"
    path.write_bytes(b"one\n" + b"y" * 10 + b"\n" + b"z" * 11)
    read = whole_lines([str(path)])
    assert [next(read), next(read)] == [b"one", b"y" * 10]
    with pytest.raises(UserError, match="lines, line 3: line too long: 11 bytes, the fixed limit is 10"):
        next(read)
