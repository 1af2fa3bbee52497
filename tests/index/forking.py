"""Run as a process: an index is open, a child is forked and ends in one way, and the parent goes on; then the next way.

Prints for each way what the parent finds afterwards.
"""

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from stream_dedup import Index
from stream_dedup.errors import RefusedError

TEXT = "the cat sat on the mat and looked at the rain for a long time before it fell asleep"
OPEN: list[Index] = []
"""The index, where it is found at the end of the interpreter too."""


def child(way: str) -> None:
    """What a forked child does with the index that it finds."""
    index = OPEN[0]
    if way == "close":
        index.close()
    elif way == "with":
        with index:
            pass
    elif way == "delete":
        OPEN.clear()
        del index
        gc.collect()
    elif way == "use":
        expect_refusals([index.flush, lambda: len(index), lambda: index.search(TEXT)], "a forked child cannot use it")
    elif way == "open another":
        expect_refusals([Index], "start a new process instead")
    if way != "exit":
        os._exit(0)
    sys.exit(0)


def expect_refusals(calls: Sequence[Callable[[], object]], reason: str) -> None:
    """End the process with exit code 1 unless every call is refused for this reason."""
    for call in calls:
        try:
            call()
        except RefusedError as error:
            if reason in str(error):
                continue
        os._exit(1)


def fork(way: str) -> int:
    """A child that ends in this way; its exit code, 99 if it never ends."""
    if way == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=gc.collect)
        process.start()
        process.join(20)
        return 99 if process.exitcode is None else process.exitcode
    pid = os.fork()
    if pid == 0:
        import signal  # noqa: PLC0415 - in the child alone

        signal.alarm(20)
        child(way)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def survived(way: str, path: Path | None) -> str:
    """Fork a child that ends in this way; its exit code, and what the parent finds afterwards."""
    index = Index(path)
    OPEN[:] = [index]
    index.add("flushed", TEXT)
    index.flush()
    index.add("written", TEXT)
    assert len(index) == 2
    index.add("pending", TEXT)
    code = fork(way)
    found = [one.id for one in index.search(TEXT)]
    index.add("later", TEXT)
    index.close()
    return f"{code} {' '.join(found)}"


def main() -> None:
    folder, ways = sys.argv[1], sys.argv[2:]
    for way in ways:
        said = survived(way, None if folder == "-" else Path(folder) / way)
        sys.stdout.write(f"{way}: {said}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
