"""Output files: whole or not there, nobody else's file touched, every write complete."""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from stream_dedup.core.model import Verdict
from stream_dedup.errors import UnavailableError, UserError
from stream_dedup.files import output_file
from stream_dedup.files.filter import Outputs
from stream_dedup.files.output_file import (
    ReplacedFile,
    output_to,
    refuse_inputs_as_outputs,
    refuse_outputs_inside,
    whole_output,
    write_all,
)


def write_whole(path: Path, content: bytes) -> None:
    with whole_output(path) as write:
        write(content)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Sets the mask of permissions; the one before is set again."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def opened(*paths: Path | None) -> Outputs:
    """Outputs of the verdicts in their order."""
    outputs = Outputs(dict(zip(Verdict, paths, strict=False)))
    outputs.open()
    return outputs


def write(outputs: Outputs, verdict: Verdict, line: bytes) -> None:
    """Write one line to the output of a verdict."""
    outputs.write([line], np.zeros(1, np.uint64), {0: verdict}, {}, {0: line})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def temporary(folder: Path) -> Path:
    """The one file in the folder that is being written."""
    (path,) = folder.glob(".stream-dedup-*.tmp")
    return path


def test_output_files_appear_when_finished(tmp_path: Path) -> None:
    """Until then the old content stands; a discarded one leaves nothing behind."""
    path = tmp_path / "unique.jsonl"
    path.write_bytes(b"old")
    outputs = opened(path)
    write(outputs, Verdict.UNIQUE, b"new\n")
    outputs.flush()
    assert path.read_bytes() == b"old"
    outputs.finish()
    outputs.discard()
    assert path.read_bytes() == b"new\n"
    opened(path).discard()
    assert names(tmp_path) == ["unique.jsonl"]


def test_two_verdicts_may_share_a_file(tmp_path: Path) -> None:
    """Written in order to one file, by whatever names."""
    path = tmp_path / "both"
    (tmp_path / "link").symlink_to(path)
    outputs = opened(path, None, tmp_path / "link")
    for verdict, line in ((Verdict.UNIQUE, b"1\n"), (Verdict.REJECTED, b"2\n"), (Verdict.UNIQUE, b"3\n")):
        write(outputs, verdict, line)
    outputs.finish()
    assert path.read_bytes() == b"1\n2\n3\n"


def test_an_output_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """With its name and the remedy; what was opened before it is cleared away."""
    outputs = Outputs({Verdict.UNIQUE: tmp_path / "ok", Verdict.REJECTED: tmp_path / "no" / "such"})
    with pytest.raises(UserError, match="no/such: cannot be written"):
        outputs.open()
    outputs.discard()
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [".", "loop", "x" * 256])
def test_what_can_be_no_file_is_told(tmp_path: Path, name: str) -> None:
    """A folder, a link to itself, a name that is too long."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="cannot be written"):
        write_whole(tmp_path / name, b"x")


def test_devices_are_written_as_they_are() -> None:
    """/dev/null is no file to be replaced."""
    outputs = opened(None, Path("/dev/null"))
    write(outputs, Verdict.DUPLICATE, b"x\n")
    outputs.finish()
    assert Path("/dev/null").is_char_device()


def test_a_pipe_by_its_descriptor_is_an_output(tmp_path: Path) -> None:
    """As the shell gives one: `--unique >(gzip > unique.gz)`."""
    reader, writer = os.pipe()
    write_whole(Path(f"/dev/fd/{writer}"), b"x\n")
    os.close(writer)
    assert os.read(reader, 100) == b"x\n"
    assert os.read(reader, 100) == b""
    os.close(reader)
    assert names(tmp_path) == []


def test_a_strangers_file_beside_the_output_is_not_touched(tmp_path: Path) -> None:
    """Whatever it is called: the temporary file has a name that nobody knows, and is made exclusively."""
    others = {name: tmp_path / name for name in ("out.part", "out.tmp", ".out.part", "out~", "out.new")}
    (tmp_path / "victim").write_text("mine")
    for path in others.values():
        path.symlink_to("victim")
    write_whole(tmp_path / "out", b"x")
    assert (tmp_path / "victim").read_text() == "mine"
    assert all(path.is_symlink() for path in others.values())


def test_a_name_that_is_taken_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where somebody guessed it: the call fails, and the file with its link stays."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".stream-dedup-guessed.tmp").symlink_to("victim")
    with pytest.raises(UserError, match="File exists"):
        write_whole(tmp_path / "out", b"x")
    assert (tmp_path / "victim").read_text() == "mine"
    assert names(tmp_path) == [".stream-dedup-guessed.tmp", "victim"]


@pytest.mark.parametrize("target", [0o600, 0o640, 0o444, 0o777, 0o200])
def test_permissions_are_those_of_the_target_from_the_beginning(
    tmp_path: Path, umask: Callable[[int], int], target: int
) -> None:
    """What only its owner may read is never readable by others, not even while it is written."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(target)
    umask(0)
    outputs = opened(path)
    assert mode(temporary(tmp_path)) == target
    write(outputs, Verdict.UNIQUE, b"new")
    outputs.finish()
    outputs.discard()
    assert (mode(path), path.stat().st_size) == (target, 3)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0])
def test_a_new_file_has_the_permissions_that_the_mask_leaves(
    tmp_path: Path, umask: Callable[[int], int], mask: int
) -> None:
    """As a file that the shell makes."""
    umask(mask)
    outputs = opened(tmp_path / "out")
    assert mode(temporary(tmp_path)) == 0o666 & ~mask
    outputs.finish()
    outputs.discard()
    assert mode(tmp_path / "out") == 0o666 & ~mask


def test_a_group_that_cannot_be_given_gets_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's rights were meant for the target's group, not for ours."""

    def refuse(*_: object) -> None:
        raise PermissionError

    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o664)
    monkeypatch.setattr(os, "fchown", refuse)
    write_whole(path, b"new")
    assert mode(path) == 0o604


def test_the_file_behind_a_link_is_replaced(tmp_path: Path) -> None:
    """The link stays a link, through more than one, and also where nothing is behind it yet."""
    (tmp_path / "there").mkdir()
    (tmp_path / "two").symlink_to("there/file")
    (tmp_path / "one").symlink_to("two")
    for content in (b"1", b"2"):
        write_whole(tmp_path / "one", content)
        assert (tmp_path / "there" / "file").read_bytes() == content
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()
    assert names(tmp_path / "there") == ["file"]


def test_two_calls_at_once_have_each_their_own_whole_content(tmp_path: Path) -> None:
    """The one that ends last is what is there; neither ever sees the other's lines."""
    path = tmp_path / "out"
    one, two = opened(path), opened(path)
    for number in range(3):
        write(one, Verdict.UNIQUE, b"one %d\n" % number)
        write(two, Verdict.UNIQUE, b"two %d\n" % number)
    two.finish()
    assert path.read_bytes() == b"two 0\ntwo 1\ntwo 2\n"
    one.finish()
    assert path.read_bytes() == b"one 0\none 1\none 2\n"
    one.discard()
    two.discard()
    assert names(tmp_path) == ["out"]


def test_no_file_moves_when_one_cannot_be_written(tmp_path: Path) -> None:
    """All are on the disk before the first gets its name."""
    outputs = opened(tmp_path / "u", Path("/dev/full"))
    write(outputs, Verdict.UNIQUE, b"x")
    write(outputs, Verdict.DUPLICATE, b"x")
    with pytest.raises(UnavailableError, match=r"output /dev/full: No space left on device; make room"):
        outputs.finish()
    outputs.discard()
    assert names(tmp_path) == []


def test_a_signal_at_any_moment_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C right after the file was made, before anybody holds it."""
    make = os.open

    def interrupted(path: str, flags: int, *args: int, **more: int) -> int:
        descriptor = make(path, flags, *args, **more)
        if flags & os.O_EXCL:
            os.close(descriptor)
            raise KeyboardInterrupt
        return descriptor

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "out", b"x")
    assert names(tmp_path) == []


def test_a_short_write_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of bytes the system takes at once, all arrive in order."""
    write, taken = os.write, []

    def short(descriptor: int, data: memoryview) -> int:
        taken.append(len(data))
        return write(descriptor, data[: 1 + len(taken) % 3])

    reader, writer = os.pipe()
    monkeypatch.setattr(os, "write", short)
    assert write_all(writer, b"0123456789" * 10) == 100
    assert os.read(reader, 1000) == b"0123456789" * 10
    assert len(taken) > 30
    os.close(reader)
    os.close(writer)


def test_a_full_pipe_is_waited_for() -> None:
    """A non-blocking descriptor that has no room takes the rest when it has."""
    content = bytes(range(256)) * 4096
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    read: list[bytes] = []

    def drain() -> None:
        while chunk := os.read(reader, 5000):
            read.append(chunk)

    drained = Thread(target=drain)
    drained.start()
    with io.BufferedWriter(output_file.CompleteWriter(writer, "wb")) as stream:
        stream.write(content)
    drained.join()
    os.close(reader)
    assert b"".join(read) == content


def test_a_reader_that_has_gone_ends_a_wait() -> None:
    """A full non-blocking pipe whose reader leaves is an error, not a wait for ever."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)))
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        write_all(writer, b"x")
    os.close(writer)


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    """By its path, a link, a hard link, or a descriptor; another file is not."""
    path = tmp_path / "a"
    path.write_bytes(b"{}\n")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "hard").hardlink_to(path)
    with path.open("rb") as file:
        for name in ("a", "./a", "link", "hard", f"/dev/fd/{file.fileno()}"):
            with pytest.raises(UserError, match="it is also an input"):
                refuse_inputs_as_outputs([tmp_path / name], [tmp_path / "b", path])
            with pytest.raises(UserError, match="it is also an input"):
                refuse_inputs_as_outputs([path], [tmp_path / name])
    (tmp_path / "other").write_bytes(b"{}\n")
    refuse_inputs_as_outputs([tmp_path / "other", tmp_path / "new"], [path])


def test_devices_may_be_read_and_written() -> None:
    """Nothing of /dev/null is lost, nor of a terminal."""
    refuse_inputs_as_outputs([Path("/dev/null")], ["/dev/null"])


def test_an_output_in_the_folder_of_the_index_is_refused(tmp_path: Path) -> None:
    """It would be one of the index's own files, or beside them; through a link too."""
    folder = tmp_path / "index"
    (folder / "data-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to("index/data-1")
    for name in ("index", "index/current", "index/data-1/new", "link/000001.sst", "x/../index/owner"):
        with pytest.raises(UserError, match="in the folder of the index"):
            refuse_outputs_inside([tmp_path / name], folder)
    refuse_outputs_inside([tmp_path / "index.jsonl", tmp_path / "other" / "index"], folder)


def test_one_file_is_standard_output_under_every_name(tmp_path: Path) -> None:
    """`--unique out > out` and `--unique /dev/stdout` lose no line: one writer writes the file."""
    code = (
        "import sys; from pathlib import Path; from stream_dedup.files.output_file import StandardOutput, output_to; "
        "print([isinstance(output_to(Path(name)), StandardOutput) for name in sys.argv[1:]])"
    )
    out = tmp_path / "out"
    with out.open("wb") as file:
        args = [sys.executable, "-c", code, "-", "/dev/stdout", str(out), str(tmp_path / "other")]
        subprocess.run(args, stdout=file, check=True, cwd=Path(__file__).resolve().parents[2])
    assert out.read_text() == "[True, True, True, False]\n"


def test_a_wait_for_room_ends_with_a_signal() -> None:
    """A handler that raises ends the wait for a pipe that nobody reads."""

    class Ended(Exception):  # noqa: N818 - no error
        pass

    def end(*_: object) -> None:
        raise Ended

    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Ended):
            write_all(writer, bytes(1 << 20))
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reader)
        os.close(writer)


def test_what_is_not_open_is_not_written(tmp_path: Path) -> None:
    """Out of their order, the steps are refused, and nothing is made."""
    output = output_to(tmp_path / "out")
    assert isinstance(output, ReplacedFile)
    with pytest.raises(ValueError, match="is not open"):
        output.stream.write(b"x")
    with pytest.raises(ValueError, match="before it is opened"):
        output.publish()
    output.discard()
    assert names(tmp_path) == []
