"""The verdict on two articles, and its reason in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.model import Status, Verdict, signed
from stream_dedup.core.rules import Rules, mask_bits
from stream_dedup.explain.blocks import Block
from stream_dedup.explain.forms import Forms
from stream_dedup.explain.side import Side, kind


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairJudge:
    """The input of the verdict; ``distance`` is the one that the rules limit, ``equal`` the sketches' equal values."""

    a: Side
    b: Side
    rules: Rules
    distance: int
    equal: int
    forms: Forms
    finder: Block | None
    planned: int

    def verdict(self) -> tuple[Verdict, str]:
        """Return the verdict on B and the reason in one sentence."""
        verdict, reason = self._if_one_is_enough()
        least = self.rules.copies
        if verdict is Verdict.DUPLICATE and least > 1:
            return Verdict.UNIQUE, f"{reason}; {least} near earlier articles make a duplicate, and {self.a.name} is one"
        return verdict, reason

    def _if_one_is_enough(self) -> tuple[Verdict, str]:
        """Return the verdict under rules by which one near article makes a duplicate."""
        apart = self._apart()
        if apart:
            return Verdict.UNIQUE, apart
        if self.b.status is Status.EXACT:
            return self._by_equality()
        return self._by_limit() if self.rules.directed else self._by_distance()

    def _apart(self) -> str:
        """Return why the two never match, whatever their distance; empty if they may."""
        if self.a.withdrawn_at is not None:
            return f"{self.a.name} was withdrawn at log offset {self.a.withdrawn_at}, and no later article matches it"
        for side in (self.a, self.b):
            if not signed(np.array([side.status], np.uint8))[0]:
                return f"{side.name} has no words, and such a text is near nothing"
        if self.a.group == self.b.group:
            return ""
        if self.a.status is not self.b.status:
            return f"{self.a.name} is {kind(self.a)} and {self.b.name} is {kind(self.b)}: these kinds never match"
        return "they are of different scopes, and articles match only within theirs"

    def _by_equality(self) -> tuple[Verdict, str]:
        equal = self.a.signature == self.b.signature
        said = "they are so short that only an equal text matches, and they are"
        return (Verdict.DUPLICATE, f"{said} equal") if equal else (Verdict.UNIQUE, f"{said} not equal")

    def _by_distance(self) -> tuple[Verdict, str]:
        said = f"the fingerprints differ in {_bits(self.distance)} of 64, and {self.rules.distance} may differ"
        if self.distance <= (self.rules.distance or 0):
            return Verdict.DUPLICATE, said
        return Verdict.UNIQUE, f"{said} at most"

    def _by_limit(self) -> tuple[Verdict, str]:
        limit = self.rules.reach(self.b.status)
        said = f"the signatures differ in {_bits(self.distance)} of 256, and {limit} may differ"
        if self.distance > limit:
            return Verdict.UNIQUE, f"{said} at most"
        if self.finder is None:
            return Verdict.UNIQUE, f"{said}, but no look-up meets {self.a.name}: {self._obstacle()}"
        if self.finder.rank > self.planned:
            wanted = f"that is look-up {self.finder.rank:,} of the plan, which ends at {self.planned:,}"
            return (
                Verdict.UNIQUE,
                f"{said}, but no look-up meets {self.a.name}: the first that does is too late, {wanted}",
            )
        where = f"look-up {self.finder.rank:,} of {self.planned:,} meets {self.a.name} in table {self.finder.table}"
        return self._by_sketches(f"{said}; {where}")

    def _by_sketches(self, said: str) -> tuple[Verdict, str]:
        """Return the verdict on texts that are near by their signatures."""
        if self.forms is Forms.OTHER_NUMBERS and self.distance > self.rules.form_bits:
            limit = f"{_bits(self.rules.form_bits)} may differ at most"
            return Verdict.UNIQUE, f"{said}; but the texts have the same form with other numbers: of these {limit}"
        least = self.rules.least_equal(self.b.status, self.distance)
        if not least or self.distance <= self.rules.certain_bits:
            return Verdict.DUPLICATE, said
        counted = f"of the {self.rules.scheme.sketch_values} values of their sketches {self.equal} are equal"
        beyond = f" beyond {_bits(self.rules.far_bits)}" if least > self.rules.least_equal(self.b.status) else ""
        if self.equal < least:
            return Verdict.UNIQUE, f"{said}; but {counted}, and at least {least} must be{beyond}"
        return Verdict.DUPLICATE, f"{said}; {counted}, {least} are enough{beyond}"

    def _obstacle(self) -> str:
        sieve = f"more than {probes.WORD_SIEVE_BITS} of the 64 around it"
        if self.rules.sieves_sure_bits:
            sieve = (
                f"of the {probes.SURE_BITS} surest around it more than {probes.SURE_SIEVE_BITS}, "
                f"the {probes.SUREST_BITS} surest counted twice"
            )
        most = mask_bits(self.rules.scheme.block_bits)
        return f"in every table more than {most} bits of the block differ, or {sieve}"


def _bits(count: int) -> str:
    return "1 bit" if count == 1 else f"{count} bits"
