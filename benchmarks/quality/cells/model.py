"""What a cell is: a named number of pairs or a set of texts, each made from its number alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Pair = tuple[str, str]
Aimed = Callable[[float], float]
"""What ours is to reach, given the share of MinHash at J ≥ .5."""

NEAR_PEER = 0.02
"""How far below MinHash a recall may be."""


def as_peer(peer: float) -> float:
    """A recall no more than that much below MinHash's."""
    return max(peer - NEAR_PEER, 0)


def no_more(peer: float) -> float:
    """No more false ones than MinHash has."""
    return peer


def fixed(value: float) -> Aimed:
    """The same whatever MinHash does."""
    return lambda _: value


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
    aim: Aimed | None = as_peer
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
    aim: Aimed | None = no_more
    each_seed: bool = True


Cell = Pairs | Unlike
