"""Run files: what does not fit is noticed, said once, and made again of the rows; nothing else is touched."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.errors import CorruptError, UserError
from stream_dedup.index import run_files, small_files
from stream_dedup.index.run_files import HEADER_BYTES, RunHeader, read_header
from tests.amount import sampled
from tests.index.run_cases import TableWorld, check_opened, check_said, filled
from tests.index.trees import tree

pytestmark = pytest.mark.usefixtures("small_runs")

TABLE = 1


@pytest.fixture
def world(tmp_path: Path) -> TableWorld:
    """Tables of 1,000 entries that are closed: a file of each has most of them."""
    return filled(TableWorld(tmp_path))


def run_file(world: TableWorld, table: int = TABLE) -> Path:
    """The longest run file of a table."""
    return max((world.data / "runs").glob(f"{table}-*"), key=lambda path: path.stat().st_size)


def test_files_are_read_and_not_made_again(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """They are those of before, byte for byte, and have most of the entries."""
    before = tree(world.data / "runs")
    assert len(before) == 1 + 4 * 2
    assert all(read_header(run_file(world, table)).entries > 700 for table in range(4))
    check_opened(world, caplog)
    assert tree(world.data / "runs") == before


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "of a few bytes": lambda content: content[:10],
    "of half the header": lambda content: content[: HEADER_BYTES // 2],
    "of the header alone": lambda content: content[:HEADER_BYTES],
    "cut in half": lambda content: content[: len(content) // 2],
    "a byte short": lambda content: content[:-1],
    "a byte longer": lambda content: content + b"\0",
    "twice as long": lambda content: content + content,
    "nothing but zeros": lambda content: bytes(len(content)),
    "zeros after the header": lambda content: content[:HEADER_BYTES] + bytes(len(content) - HEADER_BYTES),
}


@pytest.mark.expect_log("read from the rows again")
@pytest.mark.parametrize("how", CUTS)
def test_a_file_of_another_length_is_noticed(world: TableWorld, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """Its blocks were not written when the power went, or it was truncated."""
    path = run_file(world)
    path.write_bytes(CUTS[how](path.read_bytes()))
    check_opened(world, caplog, f"run file {path}: ")


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Where a run file has what: first byte and byte after the last."""
    header = read_header(path)
    starts, keys, numbers = run_files._offsets(header.buckets, header.room)
    text = path.read_bytes()[:HEADER_BYTES].index(b"{")
    return {
        "padding": (0, text),
        "header": (text, HEADER_BYTES - 1),
        "starts": (starts, starts + 4 * (header.buckets + 1)),
        "keys": (keys, keys + 8 * header.entries),
        "numbers": (numbers, numbers + 4 * header.entries),
    }


@pytest.mark.expect_log("read from the rows again")
@pytest.mark.parametrize("share", sampled([part / 40 for part in range(40)] + [0.999], 5))
@pytest.mark.parametrize("region", ["padding", "header", "starts", "keys", "numbers"])
def test_a_flipped_bit_is_noticed(
    world: TableWorld, caplog: pytest.LogCaptureFixture, region: str, share: float
) -> None:
    """Wherever it is: header and arrays have checksums."""
    path = run_file(world)
    first, after = regions(path)[region]
    at = first + int(share * (after - first))
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << at % 8
    path.write_bytes(content)
    check_opened(world, caplog, f"run file {path}: its (header|arrays)")


def rewritten(path: Path, **changes: object) -> None:
    """Change fields of a header, whose checksum is then right again."""
    fields = json.loads(path.read_bytes()[:HEADER_BYTES])
    del fields["checksum"]
    fields |= changes
    fields = {name: value for name, value in fields.items() if value is not None}
    fields["checksum"] = run_files._checksum_of(fields)
    with path.open("r+b") as file:
        file.write((json.dumps(fields) + "\n").encode().rjust(HEADER_BYTES))


@pytest.mark.expect_log("read from the rows again")
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("format", 2, "of another format"),
        ("entries", None, "its header cannot be read"),
        ("entries", 3, "its header says"),
        ("more", 3, "its header cannot be read"),
        ("table", 2, "its header says 2-"),
        ("first", 1, "its header says 1-1-"),
        ("block_bits", 20, "its blocks have 20 bits, those of the table 16"),
        ("identity", "00" * 16, "it is of another index"),
        ("last_row", "0" * 16, "its last entry is another than that of the rows"),
        ("keys", "0" * 16, "its arrays are damaged"),
    ],
)
def test_a_header_that_says_something_else_is_noticed(
    world: TableWorld, caplog: pytest.LogCaptureFixture, field: str, value: object, said: str
) -> None:
    """Of another release, index, table, width or length."""
    rewritten(run_file(world), **{field: value})
    check_opened(world, caplog, said)


@pytest.mark.expect_log("read from the rows again")
def test_a_file_of_another_index_is_noticed(
    world: TableWorld, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """Copied there under the name of one of its own; of another table, too."""
    other = filled(
        TableWorld(tmp_path_factory.mktemp("other"), identity=b"another index's.", rng=np.random.default_rng(7))
    )
    run_file(world).write_bytes(run_file(other).read_bytes())
    run_file(world, 2).write_bytes(run_file(world, 3).read_bytes())
    check_opened(world, caplog, "/1-0-.* is of another index", "/2-0-.* its header says 3-0-")


@pytest.mark.expect_log("read from the rows again")
def test_a_file_of_before_a_crash_is_noticed(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """The rows lost their end, and others have these document numbers now; the file could not be removed meanwhile."""
    path = run_file(world)
    content = path.read_bytes()
    assert read_header(path).after > 700
    world.crash(0, 700)
    assert not path.exists()
    world.append(300)
    world.close()
    for each in (world.data / "runs").glob(f"{TABLE}-*"):
        each.unlink()
    path.write_bytes(content)
    check_opened(world, caplog, "its last entry is another than that of the rows")


def test_a_file_that_goes_beyond_the_rows_is_removed(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """After a crash that is as it must be: nothing is said."""
    world.crash(0, 700)
    world.check()
    world.close()
    assert all(read_header(path).after <= 700 for path in (world.data / "runs").iterdir())
    check_opened(world, caplog)


def test_a_file_of_before_a_trim_is_right(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """It has entries that are trimmed, which no look-up takes."""
    path = run_file(world)
    content = path.read_bytes()
    world.opened = world.open()
    world.trim(600)
    world.opened.remove_trimmed()
    world.check()
    world.close()
    assert not path.exists()
    path.write_bytes(content)
    check_opened(world, caplog)


def test_a_trim_that_is_lost_after_its_runs_were_rewritten(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """Run files do not have entries that are there again: these are read from the rows."""
    world.opened = world.open()
    world.trim(600)
    world.opened.remove_trimmed()
    world.opened._files.close(world.rows.after)
    assert {path.name.split("-")[1] for path in (world.data / "runs").iterdir() if path.suffix != ".old"} == {"600"}
    world.crash(0, 1000)
    world.check()
    world.close()
    check_opened(world, caplog)


UNREADABLE: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, copy: path.symlink_to(copy),
    "dangling link": lambda path, _: path.symlink_to("nowhere"),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}


@pytest.mark.expect_log("read from the rows again")
@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_file_is_not_read(
    world: TableWorld, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A pipe is not waited for and a link not followed; it stays, and is said at each opening."""
    path = run_file(world)
    copy = tmp_path_factory.mktemp("elsewhere") / "copy"
    path.rename(copy)
    UNREADABLE[kind](path, copy)
    outside = tree(copy.parent)
    for writable in (False, True):
        caplog.clear()
        opened = world.open(writable=writable)
        world.check(opened)
        opened.close()
        check_said(caplog, (f"run file {path}: .* is a link or no regular file: move it away",))
    assert os.path.lexists(path)
    assert tree(copy.parent) == outside


@pytest.mark.expect_log("read from the rows again")
def test_a_file_that_cannot_be_read_is_noticed(
    world: TableWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything: so the refusal is the test's own."""
    path = run_file(world)

    def refuse(asked: Path) -> int:
        if asked == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(asked))
        return real(asked)

    real = small_files.open_file
    monkeypatch.setattr(run_files, "open_file", refuse)
    reader = world.open(writable=False)
    world.check(reader)
    reader.close()
    check_said(caplog, (f"run file {path}: .* Permission denied",))
    monkeypatch.undo()
    check_opened(world, caplog)


def test_files_of_others_stay(world: TableWorld, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever happens to the runs beside them."""
    folder = world.data / "runs"
    names = ["notes", "1-0", "1-0-x", "1-0-5.bak", ".1-0-5", "1-0-5.new2", "1-0-5 ", "current"]
    for name in names:
        (folder / name).write_text("a stranger's")
    (folder / "sub").mkdir()
    before = {name: facts for name, facts in tree(folder).items() if name in {*names, "sub"}}
    for _ in range(3):
        world.opened = world.open()
        world.append(300)
        world.check()
        world.trim(world.rows.after - 100)
        world.opened.remove_trimmed()
        world.close()
    assert {name: facts for name, facts in tree(folder).items() if name in before} == before
    assert not caplog.records


@pytest.mark.parametrize("end", ["new", "old"])
def test_what_a_killed_process_was_making_or_removing_goes(world: TableWorld, end: str) -> None:
    """With a writer; a reader leaves it."""
    path = run_file(world)
    left = path.with_name(f"{TABLE}-5000-6000.{end}")
    left.write_bytes(path.read_bytes()[:5000])
    before = tree(world.data)
    reader = world.open(writable=False)
    reader.close()
    assert tree(world.data) == before
    world.opened = world.open()
    world.check()
    assert not left.exists()
    world.close()


@pytest.mark.parametrize("kind", [kind for kind in UNREADABLE if kind != "folder"])
@pytest.mark.parametrize("writable", [False, True])
def test_a_folder_of_runs_that_leads_elsewhere_is_damage(
    world: TableWorld, tmp_path_factory: pytest.TempPathFactory, kind: str, *, writable: bool
) -> None:
    """No file is made or removed where a link leads to."""
    folder, elsewhere = world.data / "runs", tmp_path_factory.mktemp("elsewhere") / "runs"
    folder.rename(elsewhere)
    UNREADABLE[kind](folder, elsewhere)
    before = tree(elsewhere)
    with pytest.raises(CorruptError, match="runs is a link or no folder: move it away"):
        world.open(writable=writable)
    assert tree(elsewhere) == before


def test_a_folder_in_the_place_of_a_draft_is_named(world: TableWorld) -> None:
    """It is not removed; the error says where it is."""
    world.opened = world.open()
    for first in range(1000):
        (world.data / "runs" / f"0-{first}-1090.new").mkdir()
    with pytest.raises(UserError, match="runs cannot be made or written: Is a directory"):
        world.append(90)


def test_a_header_says_what_it_was_made_of() -> None:
    """There and back."""
    header = RunHeader("ab", 3, 20, 5, 9, 64, 4, 4, "1", "2", "3", "4")
    raw = header.encode()
    assert (len(raw), RunHeader.decode(raw)) == (HEADER_BYTES, header)
    assert header.name == "3-5-9"
    for at in range(HEADER_BYTES):
        changed = bytearray(raw)
        changed[at] ^= 1  # a digit becomes another one
        with pytest.raises(ValueError, match=r"its header is (damaged|of another format)"):
            RunHeader.decode(bytes(changed))
    assert header.size == HEADER_BYTES + 4 * 65 + 4 + 8 * 4 + 4 * 4
