"""How long a start of ``stream-dedup filter --processes 0`` takes, with what is kept and without.

    python -m benchmarks.starts [--wheel FILE] [--turns R]

Each start is a process that judges one line:

* **kept**: this checkout, whose machine code and tables are kept.
* **wheel**: with ``--wheel`` (``make wheel`` makes one), the first start of a new environment with an empty home. The
  packages that it depends on are those of this environment.
* **nothing kept**: the first start of a copy of the source, with an empty home.

Seconds are those of the wall and of the processor, with all child processes, the medians of the turns; memory is the
most that a process had resident.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import stream_dedup

PACKAGE = Path(stream_dedup.__file__).parent
LINE = b'{"id": 1, "text": "\xe6\x96\xb0\xe9\x97\xbb"}\n'
KIB = 1024


class Took(NamedTuple):
    """Seconds of a start by the wall and by the processor, and the most resident memory, MiB."""

    wall_s: float
    processor_s: float
    memory_mib: float


def start(python: Path, folder: Path, home: Path | None = None) -> Took:
    """Start the program that this Python finds from a folder, with an empty home if one is given."""
    variables = {name: value for name, value in os.environ.items() if home is None or not name.startswith("NUMBA_")}
    if home is not None:
        home.mkdir()
        variables |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    command = [str(python), "-m", "stream_dedup", "filter", "--processes", "0", "--log-level", "warning"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as given:
        given.write(LINE)
        given.seek(0)
        process = subprocess.Popen(
            command, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, env=variables
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        msg = f"the start ended with status {process.returncode}"
        raise SystemExit(msg)
    return Took(time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / KIB)


def of_a_wheel(wheel: Path, folder: Path) -> Took:
    """Install a wheel in a new environment, and start it for the first time."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return start(python, folder, folder / "home")


def of_a_copy(folder: Path) -> Took:
    """Copy the source without what is kept, and start it for the first time."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("*.kept", "*.nbc", "*.nbi"))
    return start(Path(sys.executable), folder, folder / "home")


def main() -> None:
    options = _options()
    start(Path(sys.executable), PACKAGE.parent)  # keeps what is not kept yet
    taken: dict[str, list[Took]] = {}
    for _ in range(options.turns):
        taken.setdefault("kept", []).append(start(Path(sys.executable), PACKAGE.parent))
        with tempfile.TemporaryDirectory() as folder:
            if options.wheel is not None:
                taken.setdefault("wheel", []).append(of_a_wheel(options.wheel.resolve(), Path(folder)))
        with tempfile.TemporaryDirectory() as folder:
            taken.setdefault("nothing kept", []).append(of_a_copy(Path(folder)))
    print("| start | wall, s | processor, s | memory, MiB |\n| --- | ---: | ---: | ---: |")
    for name, every in taken.items():
        wall_s, processor_s, memory_mib = map(median, zip(*every, strict=True))
        print(f"| {name} | {wall_s:.2f} | {processor_s:.2f} | {memory_mib:,.0f} |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="a wheel with machine code")
    parser.add_argument("--turns", type=int, default=3, help="starts of each kind (default 3)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
