"""Formats an explanation as plain text, no wider than the terminal.

The verdict comes first, then its reasons (distances, blocks and look-ups), then each text with its
features and the bits that they push. Shortened parts are marked; ``--json`` has everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_dedup.core.fingerprinter import Feature
from stream_dedup.core.model import BLOCK_BITS, FINGERPRINT_BITS, Status, Verdict
from stream_dedup.core.near import Forms
from stream_dedup.core.probes import SURE_SIEVE_BITS, WORD_SIEVE_BITS
from stream_dedup.core.rules import SEARCH_RULES
from stream_dedup.explain.explain import Block, Explanation, Sieve, pushes
from stream_dedup.explain.side import Side, kind
from stream_dedup.terminal import pad, shorten, table, width_of

SHOWN_FEATURES = 12
"""Features shown of each text: those of the greatest weight."""
NAMES = 12
"""Features listed that only one of the texts has."""
BITS = 16
"""Differing bits shown with their margins."""
NAME_WIDTH, COUNT_WIDTH, WEIGHT_WIDTH = 16, 5, 14
"""Columns of a feature's name, count and weight."""


def lines(explanation: Explanation, width: int, features: int = SHOWN_FEATURES) -> Iterator[str]:
    """Yield the lines of the explanation, with at most ``features`` features of each text."""
    yield f"{explanation.b.name} is {_verdict(explanation)}: {explanation.reason}."
    yield ""
    yield from _rules(explanation)
    yield ""
    yield from _distances(explanation, width)
    yield ""
    yield from _blocks(explanation)
    for side in (explanation.a, explanation.b):
        yield ""
        yield from _side(side, width, features)


def _verdict(explanation: Explanation) -> str:
    return {
        Verdict.DUPLICATE: f"a DUPLICATE of {explanation.a.name}",
        Verdict.UNIQUE: f"UNIQUE beside {explanation.a.name}",
        Verdict.REJECTED: "REJECTED",
        Verdict.DELETE: "a DELETE",
    }[explanation.verdict]


def _rules(explanation: Explanation) -> Iterator[str]:
    rules = explanation.rules
    values = ((name, getattr(rules, name)) for name in SEARCH_RULES)
    said = ", ".join(f"{name} {value}" for name, value in values if value is not None)
    yield f"scheme {rules.scheme.id}, {rules.search} search: {said}"


def _distances(explanation: Explanation, width: int) -> Iterator[str]:
    account = explanation.account
    said = [
        ("signatures", f"differ in {account.signature_distance} of 256 bits: similarity {explanation.similarity:.3f}"),
        ("fingerprints", f"differ in {account.fingerprint_distance} of 64 bits"),
    ]
    differing = _differing(explanation)
    if differing:
        said.append(("", differing))
    if explanation.b.sketch:
        values = f"{account.equal} of {explanation.rules.scheme.sketch_values} values are equal"
        asked = account.least_equal and not account.certain
        said.append(
            (
                "sketches",
                f"{values}, at least {account.least_equal} needed" if asked else f"{values}, which is not asked",
            )
        )
    if explanation.rules.scheme.form_bytes:
        said.append(("forms", _forms(explanation)))
    if explanation.cosine is not None:
        said.insert(0, ("cosine", f"{explanation.cosine:.3f}, of the weights of the features themselves"))
    for name, value in said:
        yield shorten_line(f"{name:<14}", value, width)
    yield from _shared(explanation, width)


def _forms(explanation: Explanation) -> str:
    said = {
        Forms.NONE: "one of the texts has no form",
        Forms.OTHER: "differ",
        Forms.SAME: "the same, with the same numbers",
        Forms.OTHER_NUMBERS: "the same, with other numbers",
    }[explanation.account.form]
    limit = explanation.rules.form_limit
    asked = explanation.account.form is Forms.OTHER_NUMBERS and limit is not None
    return f"{said}: the limit is {limit}" if asked else said


def shorten_line(name: str, value: str, width: int) -> str:
    """Return a name and its value, cut to the width."""
    return name + shorten(value, max(20, width - width_of(name)))


def _differing(explanation: Explanation) -> str:
    """Return the differing bits of the fingerprint, each with its margin in A and in B."""
    one, other = explanation.a, explanation.b
    bits = [bit for bit in range(FINGERPRINT_BITS) if one.bits[bit] != other.bits[bit]]
    if not bits or not (_has_margins(one) and _has_margins(other)):
        return ""
    shown = ", ".join(f"{bit} ({one.bit_margins[bit]}/{other.bit_margins[bit]})" for bit in bits[:BITS])
    return f"bits (margins): {shown}{', …' if len(bits) > BITS else ''}"


def _shared(explanation: Explanation, width: int) -> Iterator[str]:
    one, other = explanation.a.features, explanation.b.features
    if one is None or other is None:
        return
    names = {feature.hash for feature in one} & {feature.hash for feature in other}
    yield f"{'features':<14}{len(one)} and {len(other)}, {len(names)} in both"
    for side in (explanation.a, explanation.b):
        alone = [feature.name for feature in _heaviest(side) if feature.hash not in names]
        if alone:
            said = ", ".join(alone[:NAMES]) + (f", … ({len(alone)})" if len(alone) > NAMES else "")
            yield shorten_line(f"{'':<14}", f"only in {side.name}: {said}", width)


def _blocks(explanation: Explanation) -> Iterator[str]:
    a, b = explanation.a.name, explanation.b.name
    head = ["table", a, b, "differ in", "sieve", f"look-up of {b} that meets {a}"]
    rows = [_block(block, explanation) for block in explanation.blocks]
    yield from table([head, *rows], left=len(head))


def _block(block: Block, explanation: Explanation) -> list[str]:
    most = SURE_SIEVE_BITS if explanation.rules.sieves_sure_bits else WORD_SIEVE_BITS
    sieve = {
        Sieve.PASSED: f"{block.sieve_count} <= {most}",
        Sieve.HELD: f"{block.sieve_count} > {most}",
        Sieve.NONE: "-",
    }
    agree = "agree" if not block.differing else f"{block.differing} bits"
    return [
        str(block.table),
        block.a,
        block.b,
        "1 bit" if block.differing == 1 else agree,
        sieve[block.sieve],
        _lookup(block, explanation),
    ]


def _lookup(block: Block, explanation: Explanation) -> str:
    if block.lookup is None:
        return "none"
    cost = "" if block.cost is None else f", cost {block.cost}"
    said = (
        f"{block.lookup:,} of {explanation.probes:,}"
        if block.lookup <= explanation.probes
        else f"{block.lookup:,}: too late"
    )
    marks = "  <- first" if explanation.found and block is explanation.finder else ""
    return f"{said}, mask {block.mask}{cost}{marks}"


def _side(side: Side, width: int, features: int) -> Iterator[str]:
    scope = "" if side.scope is None else f", scope {side.scope}"
    length = "" if side.text is None else f", {len(side.text):,} characters"
    yield shorten(f"{side.name}: {kind(side)}{length}{scope}", width)
    if side.normalised is not None:
        yield "  " + shorten(side.normalised, width - 2)
    if side.features is None:
        yield "  features and sums are not known: the index holds no texts, only what follows"
    yield from _pushes(side, width, features)


def _shown_bits(width: int) -> int:
    """Return how many bits fit beside a feature's name, count and weight: whole blocks of the fingerprint."""
    room = width - NAME_WIDTH - COUNT_WIDTH - WEIGHT_WIDTH - 4
    return BLOCK_BITS * max(1, min(FINGERPRINT_BITS // BLOCK_BITS, room // (BLOCK_BITS + 1)))


def _pushes(side: Side, width: int, features: int) -> Iterator[str]:
    bits = _shown_bits(width)
    shown = _heaviest(side)[:features]
    if side.features is not None:
        yield _row("feature", "count", "weight", f"pushes bits 0 to {bits - 1} up (+) or down (-)")
    for feature in shown:
        yield _row(feature.name, str(feature.count), _weight(feature.weight, side.unit), bit_row(feature, bits))
    if side.features is not None and len(side.features) > len(shown):
        rest = _heaviest(side)[len(shown) :]
        weight = sum(feature.weight for feature in rest)
        yield _row(f"… {len(rest)} more", "", _weight(weight, side.unit), "")
    yield _row("signature", "", "", _grouped("".join(map(str, side.bits[:bits]))))
    if _has_margins(side):
        yield _row("margin", "", "", _grouped("".join(f"{margin:x}" for margin in side.bit_margins[:bits])))
    if side.sums is not None and side.features:
        yield from _sums(side, bits, width)


def _row(name: str, count: str, weight: str, rest: str) -> str:
    numbers = [pad(count, COUNT_WIDTH, right=True), pad(weight, WEIGHT_WIDTH, right=True)]
    return ("  " + " ".join([pad(shorten(name, NAME_WIDTH), NAME_WIDTH), *numbers, rest])).rstrip()


def _sums(side: Side, bits: int, width: int) -> Iterator[str]:
    """Yield the sums as numbers, 8 or 4 to a line."""
    room = next(count for count in (8, 4) if count == 4 or width >= 14 + 10 * count)  # noqa: PLR2004
    for start in range(0, bits, room):
        values = (side.sums or ())[start : start + room]
        said = " ".join(pad(_human(value, side.unit), 9, right=True) for value in values)
        yield f"  sums {start}-{start + len(values) - 1}".ljust(14) + said


def _heaviest(side: Side) -> Sequence[Feature]:
    return sorted(side.features or (), key=lambda feature: (-feature.weight, feature.name))


def _weight(weight: int, unit: int) -> str:
    """Return the weight in units and, if that is another number, as the whole number too."""
    return _human(weight, unit) if unit == 1 else f"{_human(weight, unit)} ({weight})"


def _human(weight: int, unit: int) -> str:
    return f"{weight:,}" if unit == 1 else f"{weight / unit:,.2f}"


def bit_row(feature: Feature, bits: int) -> str:
    """Return + or - for each bit that a feature pushes up or down, in blocks."""
    return _grouped("".join("+" if push > 0 else "-" for push in pushes(feature, bits)))


def _grouped(row: str) -> str:
    return " ".join(row[start : start + BLOCK_BITS] for start in range(0, len(row), BLOCK_BITS))


def _has_margins(side: Side) -> bool:
    """Return whether the text has margins: only long and short texts have sums."""
    return side.status in {Status.LONG, Status.SHORT}
