"""What a cell is: a named number of pairs or a set of texts, each made from its number alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of an earlier text and a later one. The figure is the share of later texts that find their own earlier one.

    Pair i is judged under hash seed i modulo the number of seeds; with ``each_seed`` every pair is judged under every
    seed, and the figure is the share of pairs whose verdicts differ.
    """

    name: str
    profile: str
    number: int
    make: Callable[[Random], Pair]
    copies: bool = True
    """Whether the pairs are copies: a high share is wanted then, a low one of others."""
    each_seed: bool = False

    def pair(self, at: int) -> Pair:
        return self.make(Random(f"{self.name} {at}"))


@dataclass(frozen=True, slots=True)
class Unlike:
    """Texts of which no two are copies. The figure is the share of texts that find an earlier one.

    With ``each_seed`` the set is judged under every seed, otherwise under one that its name decides.
    """

    name: str
    profile: str
    make: Callable[[], Sequence[str]]
    copies: bool = False
    each_seed: bool = True


Cell = Pairs | Unlike
