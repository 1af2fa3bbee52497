"""Near pairs of labelled texts, found by ours and by the peers, for each hash seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from benchmarks.quality import ours, peers
from benchmarks.quality.ours import Pairs, Way
from benchmarks.quality.seeds import alone, for_each

Found = dict[str, dict[str, Pairs]]
"""By way, then by set: pairs of who asked and what was found."""
Texts = Callable[[str], list[str]]


class Sides(NamedTuple):
    """Parts that are held, and parts that ask; where they are the same, each text asks for those before it."""

    held: tuple[str, ...]
    asking: tuple[str, ...]
    by_main: bool = False
    """Whether only the first of our ways is measured."""

    def counted(self, pairs: Pairs) -> Pairs:
        """Pairs that count."""
        return pairs[pairs[:, 1] < pairs[:, 0]] if self.held == self.asking else pairs


@dataclass(frozen=True)
class Labelled:
    """Texts by parts, and what is measured with them."""

    texts: Texts
    """The texts of a part; a function of a module, for other processes."""
    sets: dict[str, Sides]
    ways: Sequence[Way]
    shingle: int

    def found(self, seeds: list[int], name: str) -> dict[str, list[dict[str, Pairs]]]:
        """By way: what each seed finds, by set; the simhash package has no seed."""
        every = (
            for_each(seeds, partial(_ours, self), f"{name}, ours"),
            for_each(seeds, partial(_minhash, self), f"{name}, MinHash"),
            [alone(partial(_package, self), f"{name}, simhash package")],
        )
        return {way: [one[way] for one in by_seed] for by_seed in every for way in by_seed[0]}


def _parts(sets: dict[str, Sides]) -> list[str]:
    return list(dict.fromkeys(part for sides in sets.values() for part in (*sides.held, *sides.asking)))


def _ours(labelled: Labelled, seed: int) -> Found:
    every: Found = {way.name: {} for way in labelled.ways}
    for profile in dict.fromkeys(way.profile for way in labelled.ways):
        ways = [way for way in labelled.ways if way.profile == profile]
        maker = ours.Maker(profile, seed)
        entries = {part: maker.entries(labelled.texts(part)) for part in _parts(labelled.sets)}
        for name, sides in labelled.sets.items():
            held, asking = (ours.joined([entries[part] for part in parts]) for parts in sides[:2])
            for way, pairs in ours.found(held, asking, ways[:1] if sides.by_main else ways, seed).items():
                every[way][name] = sides.counted(pairs)
    return every


def _minhash(labelled: Labelled, seed: int) -> Found:
    """At each threshold, one seed of its permutations."""
    hashed = partial(_hashed, labelled.texts, labelled.shingle)
    return _by_peer(labelled, lambda part: peers.minhashes(hashed(part), seed), peers.minhash_pairs)


@cache
def _hashed(texts: Texts, shingle: int, part: str) -> list[peers.U32]:
    return peers.hashed(texts(part), shingle)


def _package(labelled: Labelled) -> Found:
    return _by_peer(labelled, lambda part: peers.package_values(labelled.texts(part)), peers.package_pairs)


def _by_peer(
    labelled: Labelled, values_of: Callable[[str], np.ndarray], near: Callable[..., dict[str, Pairs]]
) -> Found:
    every: Found = {}
    sets = {name: sides for name, sides in labelled.sets.items() if not sides.by_main}
    values = {part: values_of(part) for part in _parts(sets)}
    for name, sides in sets.items():
        held, asking = (np.concatenate([values[part] for part in parts]) for parts in sides[:2])
        for way, pairs in near(asking, held).items():
            every.setdefault(way, {})[name] = sides.counted(pairs)
    return every
