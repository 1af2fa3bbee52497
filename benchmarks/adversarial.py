"""How long texts take that are made to take long: the families of ``tests.core.adversarial``, at large sizes.

    python -m benchmarks.adversarial [--size N] [--way NAME ...]

Each family is taken through each way, from a record's bytes to its entry, at half the size and at the whole. A row says
of one way which family grew most (twice the size, so many times the time: 2 is linear, 4 quadratic) and which
took longest for its size. Of a family that takes less than 20 ms no growth is told: it would be noise.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from tests.core.adversarial import Case, Path, cases

LEAST_SECONDS = 0.02


class Took(NamedTuple):
    """What one family took."""

    family: str
    half: float
    whole: float
    characters: int

    @property
    def growth(self) -> float:
        return self.whole / self.half if self.whole > LEAST_SECONDS else 0.0

    @property
    def milliseconds_a_thousand(self) -> float:
        return self.whole * 1e6 / self.characters


def main() -> None:
    options = _options()
    chosen = [case for case in cases() if not options.way or case.name in options.way]
    print(f"{options.size:,} characters; processor time\n")
    print("| way | families | worst growth | of | slowest, ms per 1,000 characters | of | longest, s |")
    print("| --- | ---: | ---: | --- | ---: | --- | ---: |")
    for case in chosen:
        print(_row(case, _all(case, options.size)), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000, help="characters of the larger text (default 1000000)")
    parser.add_argument("--way", action="append", help="only this way; may be given several times")
    return parser.parse_args()


def _all(case: Case, size: int) -> list[Took]:
    path = Path(case.settings, case.kind)
    return [_took(path, case, name, size) for name in case.families]


def _took(path: Path, case: Case, name: str, size: int) -> Took:
    family = case.families[name]
    whole = family(size)
    return Took(name, path.seconds(family(size // 2), 1), path.seconds(whole, 1), len(whole))


def _row(case: Case, took: list[Took]) -> str:
    grew, slowest = max(took, key=lambda one: one.growth), max(took, key=lambda one: one.milliseconds_a_thousand)
    longest = max(one.whole for one in took)
    return (
        f"| {case.name} | {len(took)} | {grew.growth:.2f} | {_code(grew.family)} | "
        f"{slowest.milliseconds_a_thousand:.2f} | {_code(slowest.family)} | {longest:.1f} |"
    )


def _code(name: str) -> str:
    return f"`{name.replace('|', chr(92) + '|')}`"


if __name__ == "__main__":
    main()
