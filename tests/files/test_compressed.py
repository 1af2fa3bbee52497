"""Compressed inputs: their content is that of the plain input, and what is damaged or incomplete is told."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import zstandard

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_USER, UserError
from stream_dedup.files.compressed import unpacked
from tests.files.filtering import EDITED, OTHER, STORY, Filter, record, write

LINES = b"".join(b'{"id":%d,"text":"%x"}\n' % (number, number * 0x9E3779B97F4A7C15) for number in range(20_000))
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"

Pack = Callable[[bytes], bytes]
PACKS: dict[str, Pack] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def content(*chunks: bytes | None) -> bytes:
    return b"".join(chunk for chunk in unpacked(iter(chunks), "a.jsonl") if chunk is not None)


def cut(packed: bytes, random: Random) -> Iterator[bytes]:
    """The bytes in pieces of 1 to 5,000."""
    file = io.BytesIO(packed)
    return iter(lambda: file.read(random.choice((1, 3, 100, 5_000))), b"")


@pytest.mark.parametrize("name", PACKS)
def test_the_content_is_that_of_the_plain_input(name: str) -> None:
    """Of one member, of several one after the other with an empty one, however the bytes arrive."""
    pack, half = PACKS[name], len(LINES) // 2
    for packed in (pack(LINES), pack(LINES[:half]) + pack(b"") + pack(LINES[half:])):
        assert content(packed) == LINES
        assert content(*cut(packed, Random(7))) == LINES


def test_what_other_writers_add_is_skipped() -> None:
    """Zero bytes after a gzip member (tapes, blocks) or a stream of xz, skippable frames of zstd (parallel writers)."""
    for packed in (gzip.compress(LINES), lzma.compress(LINES)):
        assert content(packed + bytes(1000), packed + bytes(4)) == LINES * 2
    packed = PACKS["zstd"](LINES)
    for skippable in (SKIPPABLE, b"\x5f" + SKIPPABLE[1:]):  # the first of its kinds, and the last
        assert content(skippable + packed + skippable + packed) == LINES * 2


def test_frames_of_a_large_window_are_read() -> None:
    """Public archives are written with ``zstd --long=31``; a frame declares its window, here 2 GiB, in its header."""
    window = (31 - 10) << 3
    block = (len(LINES[:1000]) << 3 | 1).to_bytes(3, "little") + LINES[:1000]
    assert content(b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + block) == LINES[:1000]


@pytest.mark.parametrize(
    "plain", [b"", b"\x1f", b"(\xb5", b'{"text":""}\n', b"PK\x03\x04", b"\x50\x2a", b"\xef\xbb\xbf{}"]
)
def test_other_content_is_passed_on(plain: bytes) -> None:
    """Bytes that are not the beginning of gzip or zstd, or only a part of it, are the content."""
    assert content(plain) == plain
    assert content(*(bytes((byte,)) for byte in plain)) == plain


def test_a_slow_input_is_not_held_up() -> None:
    """What can be unpacked is passed on before the input pauses; so is plain text, from its first byte on."""
    packed = gzip.compress(LINES)
    steps = list(unpacked(iter((packed[:1], None, packed[1:9000], None, packed[9000:])), "-"))
    assert steps[0] is None
    before = b"".join(step for step in steps[: len(steps) - 1 - steps[::-1].index(None)] if step is not None)
    assert len(before) > 9000
    assert LINES.startswith(before)
    assert list(unpacked(iter((b"{", None, b"}")), "-")) == [b"{", None, b"}"]


@pytest.mark.parametrize("name", PACKS)
def test_an_input_that_ends_too_early_is_told(name: str) -> None:
    """At any length: within the header, the data and the checksum, of the first member and of the second."""
    packed = PACKS[name](LINES)
    for length in (4, 9, 11, 30, len(packed) // 2, len(packed) - 1):
        # Of less than its first bytes, an input is not recognised.
        for before in (b"", packed) if length > 9 or name in {"gzip", "zstd"} else (packed,):
            with pytest.raises(UserError, match=rf"^input a\.jsonl: its {name} data end too early; .* get it again"):
                content(before + packed[:length])


@pytest.mark.parametrize("name", PACKS)
def test_a_damaged_input_is_told(name: str) -> None:
    """A byte that is another, in the data or the checksum, and what follows the last member."""
    packed = bytearray(PACKS[name](LINES))
    for at in (len(packed) // 2, len(packed) - 2):
        damaged = bytes((*packed[:at], packed[at] ^ 0x55, *packed[at + 1 :]))
        with pytest.raises(UserError, match=rf"^input a\.jsonl: its {name} data are damaged \(.*\); "):
            content(damaged)
    with pytest.raises(UserError, match="data are damaged"):
        content(bytes(packed) + b"garbage" * 9)


@pytest.mark.parametrize("name", PACKS)
def test_an_input_that_unpacks_to_much_comes_in_steps(name: str) -> None:
    """64 MiB of zero bytes, packed to some kilobytes and given at once, are never in memory at once."""
    sizes = [len(step or b"") for step in unpacked(iter((PACKS[name](bytes(1 << 26)),)), "a")]
    assert sum(sizes) == 1 << 26
    assert max(sizes) <= 1 << 25


@pytest.mark.parametrize("name", PACKS)
def test_filter_reads_compressed_files(tmp_path: Path, call: Filter, name: str) -> None:
    """By content: whatever the names, beside a plain file, with the verdicts of plain files."""
    plain = Path(write(tmp_path / "one.gz", record("a", STORY)))
    packed = tmp_path / "two"
    packed.write_bytes(PACKS[name](Path(write(tmp_path / "x", record("b", EDITED), record("c", OTHER))).read_bytes()))
    assert call.verdicts(plain, packed) == ["unique", "duplicate", "unique"]


def test_a_call_with_a_damaged_file_changes_nothing(tmp_path: Path, call: Filter) -> None:
    """Exit code 2 and the file's name; what could be read was answered, no file appears, the index is as it was."""
    good = write(tmp_path / "good", record("a", STORY))
    packed = gzip.compress(Path(good).read_bytes() * 50)
    (tmp_path / "bad").write_bytes(packed[:-9])
    index, out = tmp_path / "index", tmp_path / "out"
    assert call.verdicts("--index", index, "--unique", out, tmp_path / "bad")[-40:] == ["duplicate"] * 40
    assert (call.code, out.exists()) == (EXIT_USER, False)
    assert f"input {tmp_path / 'bad'}: its gzip data end too early" in call.err
    assert call.verdicts("--index", index, good) == ["unique"]


def test_fingerprint_reads_compressed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fingerprint is that of the text, line by line, too."""
    for name, data in (("plain", STORY.encode()), ("packed", PACKS["zstd"](STORY.encode()))):
        (tmp_path / name).write_bytes(data)
    assert run(["fingerprint", "--file", str(tmp_path / "plain"), "--file", str(tmp_path / "packed")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == second.split()[0]
