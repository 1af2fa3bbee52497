"""Every benchmark, one after the other: ``make bench``. Each can be run alone and tells its flags: ``--help``."""

from __future__ import annotations

import subprocess
import sys

PARTS = (
    ("fingerprint",),
    ("filter_beside", "--sizes", "10000"),
    ("index",),
    ("end_to_end", "--turns", "1"),
    ("clusters", "--sizes", "10000,100000"),
    ("serve", "--articles", "100000", "--seconds", "10", "--agree", "300"),
)
"""Names and arguments; clusters and the service at sizes that take a minute or two."""


def main() -> int:
    for name, *arguments in PARTS:
        print(f"\n## {' '.join(('python -m', f'benchmarks.{name}', *arguments))}\n", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
