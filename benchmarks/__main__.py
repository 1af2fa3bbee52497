"""Every benchmark, one after the other: ``make bench``. Each can be run alone and tells its flags: ``--help``."""

from __future__ import annotations

import subprocess
import sys

PARTS = ("fingerprint", "index", "pipeline")


def main() -> int:
    for part in PARTS:
        print(f"\n## python -m benchmarks.{part}\n", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{part}"], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
