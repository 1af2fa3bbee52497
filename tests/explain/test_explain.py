"""Explanations: every reason, and the verdicts of the reference."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_dedup.core.fingerprinter import Feature
from stream_dedup.core.model import Status, Verdict, similarity
from stream_dedup.core.probes import COSTS
from stream_dedup.explain.explain import Sieve, as_json, explain, pushes
from stream_dedup.explain.side import Side
from stream_dedup.explain.text import bit_row, lines
from tests.amount import FULL
from tests.calibrate.entries import directed_rules, exact_rules, plain_matches, some_entries
from tests.explain.sides import changed, side
from tests.logs import scheme_of

WORDS = {f"word{number}": 1 + number % 5 for number in range(60)}


def test_the_worked_example_of_two_features() -> None:
    """Weights 4 and 5, hashes 100101 and 101011: each pushes its weight up or down, the sums are 9 -9 1 -1 1 9."""
    one, other = Feature("美国", 4, 4, bytes([0b10010100])), Feature("51区", 5, 5, bytes([0b10101100]))
    assert pushes(one, 6) == (4, -4, -4, 4, -4, 4)
    assert pushes(other, 6) == (5, -5, 5, -5, 5, 5)
    assert [sum(pair) for pair in zip(pushes(one, 6), pushes(other, 6), strict=True)] == [9, -9, 1, -1, 1, 9]
    assert (bit_row(one, 6), bit_row(other, 6)) == ("+--+-+", "+-+-++")


def test_the_sums_are_what_the_features_push() -> None:
    """Bit by bit, over all features."""
    whole = side("A", WORDS)
    pushed = np.sum([pushes(feature, 256) for feature in whole.features or ()], axis=0)
    assert tuple(pushed.tolist()) == whole.sums
    assert whole.bits == tuple(int(value > 0) for value in pushed)


def test_the_cosine_is_that_of_the_weights() -> None:
    """The literature's example: (1 2 2 1 1 1 0) and (1 2 2 1 1 2 1) have 0.938."""
    words = ("我", "喜欢", "看", "电视", "电影", "不", "也")
    one = side("A", {word: count for word, count in zip(words, (1, 2, 2, 1, 1, 1, 0), strict=True) if count})
    other = side("B", dict(zip(words, (1, 2, 2, 1, 1, 2, 1), strict=True)))
    explanation = explain(one, other, directed_rules())
    assert round(explanation.cosine or 0, 3) == 0.938
    assert any("cosine        0.938" in line for line in lines(explanation, 120))


@pytest.mark.parametrize("bucket", [Status.LONG, Status.SHORT])
def test_a_duplicate_names_the_look_up_that_found_it(bucket: Status) -> None:
    """An equal text is found by the first look-up; cost 0, mask 0."""
    one = side("A", WORDS, bucket)
    explanation = explain(one, replace(one, name="B"), directed_rules())
    assert explanation.verdict is Verdict.DUPLICATE
    assert explanation.finder is not None
    assert (explanation.finder.lookup, explanation.finder.mask, explanation.finder.cost) == (1, "0000", 0)
    assert "look-up 1 of 16 meets A in table 0" in explanation.reason


def test_a_look_up_beyond_the_plan_is_named_with_its_place() -> None:
    """Within the limit, and yet unique: the plan would have to be so long; with that length it is found."""
    b = side("B", WORDS)
    sure = [int(np.argsort(b.bit_margins[16 * table : 16 * table + 16])[-1]) + 16 * table for table in range(4)]
    a = replace(changed(b, sure), name="A")
    short = explain(a, b, directed_rules(probes=1))
    assert short.verdict is Verdict.UNIQUE
    assert short.finder is not None
    assert short.finder.lookup is not None
    assert f"look-up {short.finder.lookup:,} of the plan, which ends at 1" in short.reason
    assert explain(a, b, directed_rules(probes=short.finder.lookup)).verdict is Verdict.DUPLICATE
    assert explain(a, b, directed_rules(probes=short.finder.lookup - 1)).verdict is Verdict.UNIQUE


@pytest.mark.parametrize("block_bits", [20, 24])
def test_wide_blocks_share_bits(block_bits: int) -> None:
    """A bit that two blocks have differs in both, in each where the block has it; values have a digit for four bits."""
    b = side("B", WORDS, sketch=b"")
    a = replace(changed(b, [0, 16]), name="A")
    explanation = explain(a, b, replace(directed_rules(), scheme=scheme_of(4, block_bits=block_bits)))
    first, shared = 1 << (block_bits - 1), 1 << (block_bits - 17)
    assert [int(block.mask, 16) for block in explanation.blocks] == [first | shared, first, 0, shared]
    costs = COSTS[list(b.bit_margins)].tolist()
    assert [block.cost for block in explanation.blocks] == [costs[0] + costs[16], costs[16], 0, costs[0]]
    word = f"{int.from_bytes(b.signature[:8]):064b}"
    values = [int((word + word)[16 * table : 16 * table + block_bits], 2) for table in range(4)]
    assert [block.b for block in explanation.blocks] == [f"{value:0{block_bits // 4}x}" for value in values]
    (shown,) = (line.split() for line in lines(explanation, 120) if line.startswith("2 "))
    assert shown[1:3] == [f"{values[2]:0{block_bits // 4}x}"] * 2


@pytest.mark.parametrize(("block_bits", "most"), [(16, 3), (20, 4), (24, 4)])
def test_no_look_up_flips_more_bits_than_a_mask(block_bits: int, most: int) -> None:
    """One more in every block: no plan is long enough, and no cost is named."""
    b = side("B", WORDS, sketch=b"")
    rules = replace(directed_rules(), scheme=scheme_of(4, block_bits=block_bits))
    # The last bits of the 16 that a wide block does not share with the one before it.
    a = replace(changed(b, [16 * table + 15 - bit for table in range(4) for bit in range(most)]), name="A")
    assert explain(a, b, rules).finder is not None
    a = replace(changed(b, [16 * table + 15 - bit for table in range(4) for bit in range(most + 1)]), name="A")
    explanation = explain(a, b, rules)
    assert f"in every table more than {most} bits of the block differ" in explanation.reason
    assert explanation.finder is None
    assert {(block.lookup, block.cost) for block in explanation.blocks} == {(None, None)}
    assert "no look-up meets A" in explanation.reason


def test_the_sieve_holds_what_differs_around_an_equal_block() -> None:
    """Block 0 agrees, and 17 of the 64 bits differ: the look-up meets A, the sieve holds it."""
    b = side("B", WORDS, sketch=b"")
    a = replace(changed(b, [*range(16, 22), *range(32, 38), *range(48, 53)]), name="A")
    explanation = explain(a, b, replace(directed_rules(), scheme=scheme_of(4)))
    assert (explanation.blocks[0].differing, explanation.blocks[0].word_distance) == (0, 17)
    assert explanation.blocks[0].sieve is Sieve.HELD
    assert explanation.verdict is Verdict.UNIQUE


@pytest.mark.parametrize(("surest", "sieve"), [(5, Sieve.PASSED), (6, Sieve.HELD)])
def test_the_sieve_counts_the_surest_bits_twice(surest: int, sieve: Sieve) -> None:
    """Of the surest bits outside of block 0 five may differ; the table says what was counted."""
    b = side("B", WORDS)
    outside = sorted(range(16, 64), key=lambda bit: -b.bit_margins[bit])
    a = replace(changed(b, outside[:surest]), name="A")
    explanation = explain(a, b, directed_rules(probes=1))
    assert (explanation.blocks[0].word_distance, explanation.blocks[0].sieve_count) == (surest, 2 * surest)
    assert {block.sieve for block in explanation.blocks} == {sieve}
    held = "or the sieve holds it" in explanation.reason
    assert held == (sieve is Sieve.HELD)
    shown = next(line for line in lines(explanation, 120) if line.startswith("0 "))
    assert ("12 > 10" if held else "10 <= 10") in shown


def test_beyond_the_limit_is_unique_whoever_finds_it() -> None:
    """The reason names distance and limit."""
    b = side("B", WORDS)
    a = replace(changed(b, list(range(64, 64 + 61))), name="A")
    explanation = explain(a, b, directed_rules())
    assert explanation.found
    assert explanation.verdict is Verdict.UNIQUE
    assert explanation.reason == "the signatures differ in 61 bits of 256, and 60 may differ at most"


@pytest.mark.parametrize(("bits", "verdict"), [(3, Verdict.DUPLICATE), (4, Verdict.UNIQUE)])
def test_exact_search_goes_by_the_distance_of_fingerprints(bits: int, verdict: Verdict) -> None:
    """With k = 3 three bits are near, four are not; bits beyond the fingerprint do not count."""
    b = side("B", WORDS)
    a = replace(changed(b, [*range(0, 16 * bits, 16), *range(64, 256)][: bits + 190]), name="A")
    explanation = explain(a, b, exact_rules(3))
    assert (explanation.verdict, explanation.account.fingerprint_distance) == (verdict, bits)
    assert f"differ in {bits} bits of 64, and 3 may differ" in explanation.reason


def test_one_article_is_not_enough_where_the_rules_ask_for_more() -> None:
    """The two are near, and the verdict is what a log of them has: one copy is named as one."""
    one = side("A", WORDS)
    explained = explain(one, replace(one, name="B"), directed_rules(copies=3))
    assert explained.verdict is Verdict.UNIQUE
    assert explained.reason.endswith("; 3 near earlier articles make a duplicate, and A is one")


@pytest.mark.parametrize("copies", [1, 3])
def test_a_later_version_of_an_article_is_an_update(copies: int) -> None:
    """Under the rule that says so, however many copies make a duplicate; articles without an id are none of another."""
    one = replace(side("A", WORDS), id="4711")
    rules = directed_rules(recrawl="update", copies=copies)
    explained = explain(one, replace(one, name="B"), rules)
    assert explained.verdict is Verdict.UNIQUE
    assert explained.reason.endswith("; but both have the id 4711, so B is an update of A")
    for a, b in ((one, replace(one, id="4712")), (replace(one, id=None), replace(one, id=None))):
        assert explain(a, b, replace(rules, copies=1)).verdict is Verdict.DUPLICATE
    assert explain(one, one, replace(rules, recrawl="duplicate", copies=1)).verdict is Verdict.DUPLICATE


def test_kinds_and_scopes_never_match() -> None:
    """Equal features and yet unique, and the reason says which."""
    long, short = side("A", WORDS), side("B", WORDS, Status.EXACT)
    assert "these kinds never match" in explain(long, short, directed_rules()).reason
    assert explain(long, side("B", WORDS, Status.SHORT), directed_rules()).verdict is Verdict.DUPLICATE
    here, there = side("A", WORDS, scope="one"), side("B", WORDS, scope="two")
    assert "different scopes" in explain(here, there, directed_rules()).reason
    assert explain(here, replace(here, name="B"), directed_rules()).verdict is Verdict.DUPLICATE


def test_a_text_without_words_is_near_nothing() -> None:
    """Not even its equal."""
    nothing = Side("A", Status.FEATURELESS, 0, bytes(32), np.zeros(32, np.uint8), features=(), sketch=bytes(16))
    explanation = explain(nothing, replace(nothing, name="B"), directed_rules())
    assert (explanation.verdict, explanation.cosine) == (Verdict.UNIQUE, None)
    assert explanation.reason.startswith("A has no words")


@pytest.mark.parametrize(
    ("status", "featureless", "verdict", "reason", "said"),
    [
        (Status.FEATURELESS, "unique", "unique", "B has no words, and such a text is near nothing", "UNIQUE beside A"),
        (Status.FEATURELESS, "rejected", "rejected", "B has no words, and the rules reject such a text", "REJECTED"),
        (Status.REJECTED, "unique", "rejected", "B is unreadable", "REJECTED"),
        (Status.DELETE, "unique", "delete", "B is without a text: it withdraws an article", "a DELETE"),
    ],
)
def test_what_has_no_signature(status: Status, featureless: str, verdict: str, reason: str, said: str) -> None:
    """As B it has the verdict of the rules, whatever A is; as A, a later text is unique, and neither kind has words."""
    a, b = side("A", WORDS), Side("B", status, 0, bytes(32), np.zeros(32, np.uint8), sketch=bytes(16))
    rules = directed_rules(featureless=featureless)
    explained = explain(a, b, rules)
    assert (explained.verdict, explained.reason) == (verdict, reason)
    assert next(lines(explained, 120)) == f"B is {said}: {reason}."
    before = explain(b, a, rules)
    assert before.verdict is Verdict.UNIQUE
    assert ("has no words" in before.reason) is (status is Status.FEATURELESS)
    assert any(line.startswith("B: ") for line in lines(before, 120))


@pytest.mark.parametrize(("bits", "verdict"), [([], Verdict.DUPLICATE), ([200], Verdict.UNIQUE)])
def test_the_shortest_texts_match_their_equals_alone(bits: list[int], verdict: Verdict) -> None:
    """One bit of the hash is enough to be another text."""
    sure = np.full(32, 0xFF, np.uint8)
    b = Side("B", Status.EXACT, 5, bytes(range(32)), sure, sketch=bytes(16))
    explanation = explain(replace(changed(b, bits), name="A"), b, directed_rules())
    assert explanation.verdict is verdict


def test_too_few_equal_values_in_the_sketches() -> None:
    """The reason says that all else is near, how many values are equal and how many must be; so do the lines."""
    b = replace(side("B", WORDS), sketch=bytes([0x12] * 16))
    a = replace(b, name="A", sketch=bytes([0x12] * 4 + [0x13] * 5 + [0x34] * 7))
    rules = replace(directed_rules(), min_equal=14)
    explanation = explain(a, b, rules)
    assert (explanation.verdict, explanation.account.equal, explanation.account.least_equal) == (Verdict.UNIQUE, 13, 14)
    wanted = "; but of the 32 values of their sketches 13 are equal, and at least 14 must be"
    assert "look-up 1 of 16 meets A in table 0" in explanation.reason
    assert explanation.reason.endswith(wanted)
    assert "sketches      13 of 32 values are equal, at least 14 needed" in list(lines(explanation, 120))
    said = as_json(explanation)
    assert (said["equal_values"], said["least_equal"], said["a"]["sketch"]) == (13, 14, a.sketch.hex())
    enough = explain(a, b, replace(rules, min_equal=13))
    assert enough.verdict is Verdict.DUPLICATE
    assert enough.reason.endswith("of the 32 values of their sketches 13 are equal, 13 are enough")


@pytest.mark.parametrize(
    ("far", "far_min_equal", "verdict", "wanted"),
    [
        (2, 20, Verdict.DUPLICATE, "16 are equal, 14 are enough"),
        (1, 16, Verdict.DUPLICATE, "16 are equal, 16 are enough"),
        (1, 17, Verdict.UNIQUE, "16 are equal, and at least 17 must be"),
        (1, 13, Verdict.DUPLICATE, "16 are equal, 14 are enough"),
    ],
)
def test_more_equal_values_beyond_far(far: int, far_min_equal: int, verdict: Verdict, wanted: str) -> None:
    """At 2 bits, the reason says which number is asked for; so do the lines and the values."""
    b = replace(side("B", WORDS), sketch=bytes([0x12] * 16))
    a = replace(changed(b, [200, 201]), name="A", sketch=bytes([0x13] * 16))
    explanation = explain(a, b, replace(directed_rules(), min_equal=14, far=far, far_min_equal=far_min_equal))
    assert explanation.verdict is verdict
    assert explanation.reason.endswith(
        f"; {'but ' * (verdict is Verdict.UNIQUE)}of the 32 values of their sketches {wanted}"
    )
    least = max(14, far_min_equal) if far == 1 else 14
    said, told = as_json(explanation), list(lines(explanation, 120))
    assert (said["least_equal"], said["rules"]["far"], said["rules"]["far_min_equal"]) == (least, far, far_min_equal)
    assert f"sketches      16 of 32 values are equal, at least {least} needed" in told
    assert any(line.endswith(f", far {far}, far_min_equal {far_min_equal}") for line in told)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"far": 60, "far_min_equal": 16}, "16 are equal, 16 are enough"),
        ({"far": 60, "far_min_equal": 17}, "16 are equal, and at least 17 must be"),
        ({}, "16 are equal, 14 are enough"),
        ({"certain": 1}, "16 are equal, 14 are enough"),
    ],
)
def test_the_sketches_of_a_dominated_text_decide(given: dict[str, int], wanted: str) -> None:
    """At 2 bits, within ``certain``: the reason says how many values are equal, and how many must be."""
    b = replace(side("B", WORDS), margins=np.full(32, 0x44, np.uint8), sketch=bytes([0x12] * 16))
    a = replace(changed(b, [200, 201]), name="A", sketch=bytes([0x13] * 16))
    checks: dict[str, Any] = {"min_equal": 14, "certain": 20, "dominated": 12}
    rules = replace(directed_rules(), **(checks | given))
    assert explain(a, b, rules).reason.endswith(f"of the 32 values of their sketches {wanted}")
    assert as_json(explain(a, b, rules))["rules"]["dominated"] == 12
    if "certain" not in given and "far" not in given:
        assert "sketch" not in explain(a, b, replace(rules, dominated=None)).reason


FORM = (0x1234).to_bytes(4, "little") + (0x56).to_bytes(4, "little")
OTHER_NUMBERS = FORM[:4] + (0x57).to_bytes(4, "little")
OTHER_FRAME = (0x1235).to_bytes(4, "little") + OTHER_NUMBERS[4:]


@pytest.mark.parametrize(("limit", "verdict"), [(1, Verdict.UNIQUE), (2, Verdict.DUPLICATE)])
def test_one_form_with_other_numbers(limit: int, verdict: Verdict) -> None:
    """The reason names the form and its limit where that decides; the form counts among no equal values."""
    b = replace(side("B", WORDS), sketch=bytes(8) + FORM)
    a = replace(changed(b, [200, 201]), name="A", sketch=bytes(8) + OTHER_NUMBERS)
    explanation = explain(a, b, directed_rules(form_limit=limit))
    assert (explanation.verdict, explanation.account.equal) == (verdict, 16)
    reason = "; but the texts have the same form with other numbers: of these 1 bit may differ at most"
    assert explanation.reason.endswith(reason) is (verdict is Verdict.UNIQUE)
    said = as_json(explanation)
    assert (said["form"], said["rules"]["form_limit"]) == ("other numbers", limit)
    assert f"forms         the same, with other numbers: the limit is {limit}" in list(lines(explanation, 120))


@pytest.mark.parametrize(
    ("form", "said"), [(FORM, "same"), (OTHER_FRAME, "other"), (bytes(8), "none"), (bytes(4) + FORM[4:], "none")]
)
def test_forms_that_do_not_decide(form: bytes, said: str) -> None:
    """The same numbers, another frame, a text without a form."""
    b = replace(side("B", WORDS), sketch=bytes(8) + FORM)
    a = replace(changed(b, [200]), name="A", sketch=bytes(8) + form)
    explanation = explain(a, b, directed_rules(form_limit=0))
    assert (explanation.verdict, explanation.account.form) == (Verdict.DUPLICATE, said)


def test_sketches_that_are_not_compared() -> None:
    """Short text has its own number, and rules without one name what is equal and do not ask for it."""
    b = replace(side("B", WORDS, Status.SHORT), sketch=bytes(16))
    explanation = explain(replace(b, name="A", sketch=bytes([1] * 16)), b, replace(directed_rules(), min_equal=32))
    assert explanation.verdict is Verdict.DUPLICATE
    assert "sketch" not in explanation.reason
    assert any("16 of 32 values are equal, which is not asked" in line for line in lines(explanation, 120))


DOMINATED = {"min_equal": 9, "certain": 30, "far": 40, "far_min_equal": 20, "dominated": 32}


@pytest.mark.parametrize("tables", [4, 16])
@pytest.mark.parametrize(
    "checks", [{}, {"min_equal": 9}, {"form_limit": 5}, {"far": 30, "far_min_equal": 16}, DOMINATED]
)
def test_verdicts_are_those_of_the_definition(tables: int, checks: dict[str, int]) -> None:
    """For pairs of entries at many distances, the verdict is that of the reference over a log of the two."""
    entries = some_entries(17, 40 if FULL else 18, tables=tables, flips=90)
    rules = directed_rules(tables, probes=32, **checks)
    sides = [
        Side(
            str(row),
            Status.LONG,
            int(entries.scope_hashes[row]),
            entries.signatures[row].tobytes(),
            entries.margins[row],
            sketch=entries.sketches[row].tobytes(),
        )
        for row in range(len(entries))
    ]
    found = 0
    for later in range(len(entries)):
        for earlier in range(later):
            two = entries.rows(np.array([earlier, later]))
            expected = plain_matches(two, rules)[1]
            explanation = explain(sides[earlier], sides[later], rules)
            assert (explanation.verdict is Verdict.DUPLICATE) is (expected is not None)
            assert expected is None or explanation.account.signature_distance == expected[0]
            found += expected is not None
    assert found


def test_json_has_all_of_it() -> None:
    """Also what the terminal cuts short: every feature with its hash, every sum."""
    a, b = side("A", WORDS), side("B", WORDS | {"another": 9})
    said = json.loads(json.dumps(as_json(explain(a, b, directed_rules()))))
    assert (said["verdict"], len(said["a"]["features"]), len(said["b"]["sums"])) == ("duplicate", 60, 256)
    assert said["similarity"] == pytest.approx(similarity(said["distance"]), abs=1e-4)
    assert said["blocks"][0]["lookup"] is None or said["blocks"][0]["lookup"] >= 1
    assert said["a"]["margins"] == list(a.bit_margins)


def test_lines_fit_a_narrow_terminal_with_wide_characters() -> None:
    """Chinese names take two columns each; no line of the features is longer than the terminal."""
    from stream_dedup.terminal import width_of  # noqa: PLC0415 - used here alone

    names = {"图书馆古籍修复讲座通知公告": 30, "阅览室": 20} | WORDS
    told = list(lines(explain(side("A", names), side("B", names), directed_rules()), 80))
    assert max(width_of(line) for line in told[7:]) <= 80
    rows = [next(line for line in told if name in line) for name in ("阅览室", "图书馆", "word4")]
    assert len({width_of(row) for row in rows}) == 1


def test_costs_are_those_of_the_plan() -> None:
    """The look-up's cost is the sum over its mask, and ranks rise with cost."""
    b = side("B", WORDS)
    a = replace(changed(b, [3, 20, 21, 40]), name="A")
    blocks = explain(a, b, directed_rules()).blocks
    for block in blocks[:3]:
        bits = [bit for bit in range(16) if int(block.mask, 16) >> (15 - bit) & 1]
        assert block.cost == sum(int(COSTS[b.bit_margins[16 * block.table + bit]]) for bit in bits)
    ranked = sorted(blocks, key=lambda block: block.lookup or 0)
    assert [block.cost for block in ranked] == sorted(block.cost or 0 for block in blocks)
