"""How long the first article takes: a start of ``filter`` with one line, and a fingerprint in Python.

    python -m benchmarks.starts [--turns R]

Each start is a new process, and the two take turns. Seconds are those of the wall and of the processor, the medians of
the turns; memory is the most that a process had resident.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from statistics import median

from benchmarks.processes import Took, call

LINE = b'{"id": 1, "text": "\xe6\x96\xb0\xe9\x97\xbb"}\n'
STARTS = {
    "filter": ["-m", "stream_dedup", "filter", "--log-level", "warning"],
    "fingerprint": ["-c", "import stream_dedup; stream_dedup.fingerprint('\u65b0\u95fb')"],
}


def start(arguments: list[str]) -> Took:
    """Run Python with these arguments and one line as input."""
    with tempfile.TemporaryFile() as given:
        given.write(LINE)
        given.seek(0)
        return call([sys.executable, *arguments], stdin=given, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5, help="starts of each kind (default 5)")
    turns: int = parser.parse_args().turns
    taken: dict[str, list[Took]] = {name: [] for name in STARTS}
    for _ in range(turns):
        for name, arguments in STARTS.items():
            taken[name].append(start(arguments))
    print("| start | wall, s | processor, s | memory, MiB |\n| --- | ---: | ---: | ---: |")
    for name, every in taken.items():
        wall_s, processor_s, memory_mib = map(median, zip(*every, strict=True))
        print(f"| {name} | {wall_s:.2f} | {processor_s:.2f} | {memory_mib:,.0f} |")


if __name__ == "__main__":
    main()
