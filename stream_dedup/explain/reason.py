"""The verdict on two articles, and its reason in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_dedup.core import probes
from stream_dedup.core.model import Status, Verdict, signed
from stream_dedup.core.near import Account
from stream_dedup.core.rules import Rules, mask_bits
from stream_dedup.explain.blocks import Block
from stream_dedup.explain.side import Side, kind


@dataclass(frozen=True, slots=True, eq=False)
class PairJudge:
    """The input of the verdict. The account decides, and which look-up finds A; the rules are named in the reason."""

    a: Side
    b: Side
    rules: Rules
    account: Account
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

    def _near(self) -> Verdict:
        """Return the verdict of the check, where a look-up has found A."""
        return Verdict.DUPLICATE if self.account.near else Verdict.UNIQUE

    def _by_equality(self) -> tuple[Verdict, str]:
        said = "they are so short that only an equal text matches, and they are"
        return self._near(), f"{said} {'equal' if self.account.within else 'not equal'}"

    def _by_distance(self) -> tuple[Verdict, str]:
        said = f"the fingerprints differ in {_bits(self.account.distance)} of 64, and {self.rules.distance} may differ"
        return self._near(), said if self.account.within else f"{said} at most"

    def _by_limit(self) -> tuple[Verdict, str]:
        limit = self.rules.reach(self.b.status)
        said = f"the signatures differ in {_bits(self.account.distance)} of 256, and {limit} may differ"
        if not self.account.within:
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
        return self._near(), self._sketches(f"{said}; {where}")

    def _sketches(self, said: str) -> str:
        """Return the reason of the verdict on texts that are near by their signatures."""
        account, rules = self.account, self.rules
        if not account.form_holds:
            limit = f"{_bits(rules.form_bits)} may differ at most"
            return f"{said}; but the texts have the same form with other numbers: of these {limit}"
        if not account.least_equal or account.certain:
            return said
        least = account.least_equal
        counted = f"of the {rules.scheme.sketch_values} values of their sketches {account.equal} are equal"
        where = self._where()
        if not account.enough:
            return f"{said}; but {counted}, and at least {least} must be{where}"
        return f"{said}; {counted}, {least} are enough{where}"

    def _where(self) -> str:
        """Return why so many values must be equal, where other texts or other distances need fewer or none."""
        account, rules = self.account, self.rules
        more = account.least_equal > rules.least_equal(self.b.status)
        if more and account.distance > rules.far_bits:
            return f" beyond {_bits(rules.far_bits)}"
        if more or account.distance <= rules.certain_bits:
            return f", as one feature decides most bits of {self.b.name}"
        return ""

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
