"""Each clause of near in directed search, alone: the case is near with it and not without.

The usual pair: ``B`` stands first, ``A`` asks. They differ in one bit of one block, which only a planned mask finds,
and in ``FAR_BITS`` bits of each other block, which no mask of at most three bits does.

So is each clause of the check of sketches and forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from stream_dedup.core.costs import COSTS
from stream_dedup.core.model import Status, scope_hash_of
from stream_dedup.core.probes import KEY_FACTORS, SURE_BITS, SUREST_BITS, WORD_SIEVE_BITS
from stream_dedup.core.rules import Rules, most_probes
from tests.logs import Entry, LogOfTest, directed_rules, entries_batch, judged, said, scheme_of

A = 0x0123_4567_89AB_CDEF_1122_3344_5566_7788_99AA_BBCC_DDEE_FF00_0F1E_2D3C_4B5A_6978
FAR_BITS = 0xF
"""Flipped in a block, no mask finds it."""


def bits(*positions: int) -> int:
    """A signature with these bits, 0 being the highest."""
    return sum(1 << (255 - position) for position in positions)


def in_block(block: int, value: int) -> int:
    """A signature with this value in one block."""
    return value << (240 - 16 * block)


def spread(but: int, tables: int = 4, flips: int = FAR_BITS) -> int:
    """``flips`` in every block that has a table, but one."""
    return sum(in_block(block, flips) for block in range(tables) if block != but)


def log_with(rules: Rules) -> LogOfTest:
    log = LogOfTest()
    log.add(rules)
    return log


def asked(rules: Rules, *entries: Entry) -> str:
    """What is said of the last of these entries."""
    log = log_with(rules)
    for offset, entry in enumerate(entries):
        log.add(entries_batch([offset], [entry], rules.scheme.tables, rules.scheme.sketch_bytes))
    return said(log.plain())[-1]


ALL_BITS = 2**64 - 1
SCOPE_HASH = 0x9A31_5C77_E2D4_1B86


def cheap(*positions: int, tables: int = 4) -> str:
    """Margins that are 0 at these bits and 15 elsewhere."""
    return "".join("0" if position in positions else "f" for position in range(16 * tables))


NEAR = A ^ bits(0) ^ spread(0)
"""13 bits from ``A``, found only by the mask of bit 0."""
ASKS = Entry(A, cheap(0))
"""Its plan: the four blocks as they are, then the mask of bit 0."""


@pytest.mark.parametrize(("probes", "verdict"), [(4, "u"), (5, "d0@13")])
def test_only_what_is_planned_is_looked_up(probes: int, verdict: str) -> None:
    """The last of the planned masks finds, the first one beyond does not."""
    assert asked(directed_rules(probes=probes), Entry(NEAR), ASKS) == verdict


@pytest.mark.parametrize("block", range(4))
def test_unchanged_block_is_found_first(block: int) -> None:
    """Looking up one's own value costs nothing, in every list."""
    other = A ^ spread(block)
    assert asked(directed_rules(probes=block + 1), Entry(other), Entry(A)) == "d0@12"
    if block:
        assert asked(directed_rules(probes=block), Entry(other), Entry(A)) == "u"


@pytest.mark.parametrize(
    ("position", "tables"),
    [(0, 4), (1, 4), (15, 4), (16, 4), (63, 4), (64, 8), (127, 8), (128, 16), (200, 16), (255, 16)],
)
def test_margins_and_blocks_are_numbered_alike(position: int, tables: int) -> None:
    """Margin i is that of signature bit i; it stands in list i // 16, one list a block of as many as the scheme has."""
    rules = directed_rules(tables=tables, probes=tables + 1, limit=64)
    other = Entry(A ^ bits(position) ^ spread(position // 16, tables))
    distance = 1 + 4 * (tables - 1)
    assert asked(rules, other, Entry(A, cheap(position, tables=tables))) == f"d0@{distance}"
    assert asked(rules, other, Entry(A, cheap(position ^ 1, tables=tables))) == "u"


def test_margins_of_the_one_that_asks() -> None:
    """The plan is the later article's; what the earlier one was unsure of does not count."""
    rules = directed_rules(probes=5)
    assert asked(rules, Entry(NEAR, cheap(0)), Entry(A)) == "u"
    assert asked(rules, Entry(NEAR), Entry(A, cheap(0))) == "d0@13"


@pytest.mark.parametrize(("flips", "verdict"), [((0, 5, 9), "d0@15"), ((0, 5, 9, 12), "u")])
def test_masks_flip_three_bits_at_most(flips: tuple[int, ...], verdict: str) -> None:
    """Four bits of one block are out of reach of the longest plan, three are not."""
    rules = directed_rules(probes=most_probes(4, 16))
    assert asked(rules, Entry(A ^ bits(*flips) ^ spread(0)), Entry(A, cheap(*range(16)))) == verdict


def test_least_cost_first() -> None:
    """Of two bits the one of the smaller margin is looked up first, though its mask is greater and its list later."""
    margins = "f" * 20 + "1" + "f" * 10 + "2"
    cheaper, dearer = (Entry(A ^ bits(position) ^ spread(1)) for position in (20, 31))
    for probes, found in [(4, "uu"), (5, "du"), (6, "dd")]:
        verdicts = [asked(directed_rules(probes=probes), other, Entry(A, margins))[0] for other in (cheaper, dearer)]
        assert "".join(verdicts) == found


def test_cost_of_a_mask_is_the_sum_of_its_bits() -> None:
    """Two bits of margin 0 go before one of a margin that costs more than both, and behind one that costs less."""
    dear = next(margin for margin, cost in enumerate(COSTS) if cost > 2 * COSTS[0])
    pair, single = Entry(A ^ bits(0, 1) ^ spread(0)), Entry(A ^ bits(2) ^ spread(0))
    for margin, found in [(dear, "du"), (dear - 1, "ud")]:
        asks = Entry(A, f"00{margin:x}")
        # The four values as they are, the two single bits of margin 0, then one of the two asked about.
        verdicts = [asked(directed_rules(probes=7), other, asks)[0] for other in (pair, single)]
        assert "".join(verdicts) == found


@pytest.mark.parametrize(("position", "probes"), [(15, 5), (14, 6), (0, 20), (31, 21), (16, 36), (63, 53)], ids=str)
def test_ties_go_by_list_then_by_mask(position: int, probes: int) -> None:
    """With equal margins the single bits follow the unchanged blocks: list by list, the lowest mask first."""
    other = Entry(A ^ bits(position) ^ spread(position // 16))
    assert asked(directed_rules(probes=probes), other, Entry(A)) == "d0@13"
    assert asked(directed_rules(probes=probes - 1), other, Entry(A)) == "u"


@pytest.mark.parametrize(("extra", "verdict"), [(0, "d0@16"), (1, "u")])
def test_sieve(extra: int, verdict: str) -> None:
    """Key words may differ by ``WORD_SIEVE_BITS``, and not by one more."""
    other = A ^ bits(0) ^ spread(0, flips=0b11111) ^ in_block(3, extra << 8)
    assert (other ^ A).bit_count() == WORD_SIEVE_BITS + extra
    assert asked(directed_rules(), Entry(other), ASKS) == verdict


SURE = [SUREST_BITS * ["f"], (SURE_BITS - SUREST_BITS) * ["8"], (64 - SURE_BITS) * ["0"]]
"""Margins of the surest bits, of the other sure bits, and of the rest: in this order from bit 0 on."""


@pytest.mark.parametrize(
    ("flipped", "verdict"),
    [
        (range(5), "d0@5"),
        (range(6), "u"),
        ([*range(4), 22, 23], "d0@6"),
        ([*range(4), 22, 23, 24], "u"),
        ([21, 22, 23, 24, 25, 26, 27, 28, 29], "d0@9"),
        ([20, 21, 22, 23, 24, 25, 26, 27, 28], "u"),
        (range(32, 42), "d0@10"),
        (range(31, 42), "u"),
        ([*range(32, 42), *range(42, 60)], "d0@28"),
    ],
)
def test_the_sieve_counts_sure_bits_and_the_surest_twice(flipped: Sequence[int], verdict: str) -> None:
    """Where the scheme has sketches: up to 10, and not one more; what the article is not sure of does not count."""
    margins = "".join(chain.from_iterable(SURE))
    rules = directed_rules(scheme=scheme_of(4, 16), probes=most_probes(4, 16))
    assert asked(rules, Entry(A ^ bits(*flipped), "0" * 64), Entry(A, margins)) == verdict


@pytest.mark.parametrize(("sure", "verdict"), [(range(22), "u"), (range(42, 64), "d0@6")])
def test_the_margins_of_the_article_that_asks_decide(sure: Sequence[int], verdict: str) -> None:
    """Six of its surest bits differ; and the same six where the other entry is the sure one."""
    own, other = cheap(*(bit for bit in range(64) if bit not in sure)), cheap(*range(22, 64))
    rules = directed_rules(scheme=scheme_of(4, 16), probes=most_probes(4, 16))
    assert asked(rules, Entry(A ^ bits(*range(6)), other), Entry(A, own)) == verdict


@pytest.mark.parametrize(
    ("position", "others", "verdict"),
    [(21, 8, "d0@9"), (21, 9, "u"), (22, 9, "d0@10"), (41, 9, "d0@10"), (41, 10, "u"), (42, 10, "d0@11")],
)
def test_among_equal_margins_the_lower_bit_is_surer(position: int, others: int, verdict: str) -> None:
    """Of equal margins bits 0 to 21 count twice, bits up to 41 once, as the others here do, and the rest not."""
    rules = directed_rules(scheme=scheme_of(4, 16), probes=most_probes(4, 16))
    assert asked(rules, Entry(A ^ bits(position, *range(24, 24 + others))), Entry(A, "f" * 64)) == verdict


def test_the_sure_bits_are_those_of_the_word_of_the_list() -> None:
    """Found in word 1, whose sure bits are equal; the word 0 of the same entry would not pass."""
    flipped = [*range(0, 64, 4), *range(110, 128)]
    margins = "f" * 64 + "f" * 42 + "0" * 22
    rules = directed_rules(scheme=scheme_of(8, 16), probes=8)
    assert asked(rules, Entry(A ^ bits(*flipped)), Entry(A, margins)) == "d0@34"
    assert asked(rules, Entry(A ^ bits(*flipped, *range(64, 70))), Entry(A, margins)) == "u"


def test_sieve_is_of_the_word_of_the_list() -> None:
    """An entry found in a list of word 1 may be far in word 0; one found in word 0 must be close there."""
    far = spread(-1, flips=0b11111)
    assert (far.bit_count(), directed_rules().limit) == (20, 40)
    found_in_word_1 = Entry(A ^ far ^ in_block(5, FAR_BITS))
    assert asked(directed_rules(tables=8), found_in_word_1, Entry(A)) == "d0@24"
    far_in_word_1 = sum(in_block(block, 0b11111) for block in range(4, 8))
    found_in_word_0 = Entry(A ^ far_in_word_1)
    assert asked(directed_rules(tables=8), found_in_word_0, Entry(A)) == "d0@20"
    # In list 0 the block is the same, but its word is 20 bits away; the blocks of word 1 are none that is looked up.
    far_in_word_0 = in_block(1, 0xFFFF) ^ in_block(2, FAR_BITS)
    close_in_word_1 = sum(in_block(block, FAR_BITS) for block in range(4, 8))
    assert asked(directed_rules(tables=8), Entry(A ^ far_in_word_0 ^ close_in_word_1), Entry(A)) == "u"


def test_only_blocks_with_a_table_are_looked_up() -> None:
    """What only a block of word 1 could find is found with eight tables, not with four."""
    other = Entry(A ^ spread(-1))
    assert asked(directed_rules(tables=4), other, Entry(A)) == "u"
    assert asked(directed_rules(tables=8), other, Entry(A)) == "d0@16"


@pytest.mark.parametrize(("limit", "verdict"), [(33, "d0@33"), (32, "u")])
def test_limit_is_over_the_signature(limit: int, verdict: str) -> None:
    """13 bits of the fingerprint and 20 of the rest make 33."""
    rest = sum(in_block(block, 0b11111) for block in (4, 8, 12, 15))
    assert asked(directed_rules(limit=limit), Entry(NEAR ^ rest), ASKS) == verdict


@pytest.mark.parametrize(
    ("status", "apart", "verdict"),
    [
        (Status.LONG, 30, "d0@30"),
        (Status.SHORT, 30, "u"),
        (Status.SHORT, 20, "d0@20"),
        (Status.EXACT, 1, "u"),
        (Status.EXACT, 0, "d0@0"),
    ],
)
def test_each_kind_of_text_has_its_own_reach(status: Status, apart: int, verdict: str) -> None:
    """40 bits for long text, 20 for short, none where the exact text decides."""
    other = Entry(A ^ bits(*range(256 - apart, 256)), status=status, scope_hash=scope_hash_of(status))
    assert asked(directed_rules(), other, other._replace(signature=A)) == verdict


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"), [(0, 0, "d"), (SCOPE_HASH, SCOPE_HASH, "d"), (0, SCOPE_HASH, "u"), (7, 9, "u")]
)
def test_scopes_never_mix(mine: int, theirs: int, verdict: str) -> None:
    """Equal signatures are near in one scope only."""
    assert asked(directed_rules(), Entry(A, scope_hash=theirs), Entry(A, scope_hash=mine))[0] == verdict


def test_a_scope_changes_nothing_within_it() -> None:
    """Plan, sieve and distance of two entries of one scope are those without a scope."""
    for probes, verdict in [(4, "u"), (5, "d0@13")]:
        entries = (entry._replace(scope_hash=SCOPE_HASH) for entry in (Entry(NEAR), ASKS))
        assert asked(directed_rules(probes=probes), *entries) == verdict


@pytest.mark.parametrize(("limit", "verdict"), [(2, "u"), (3, "d0@13")])
def test_bucket_limit(limit: int, verdict: str) -> None:
    """Of the list in which the entry is found only the newest are compared, whatever they are."""
    fillers = [Entry(in_block(0, NEAR >> 240) ^ in_block(3, number)) for number in (1, 2)]
    assert asked(directed_rules(bucket_limit=limit), Entry(NEAR), *fillers, ASKS) == verdict


@pytest.mark.parametrize("word", range(4))
def test_lists_are_of_keys(word: int) -> None:
    """Another scope's entries of the same signature stand in other lists; those of the same keys fill one's own."""
    mask = int(KEY_FACTORS[word]) * SCOPE_HASH & ALL_BITS
    block = 4 * word
    other = Entry(A ^ spread(block, 16), scope_hash=SCOPE_HASH)
    same_signature = Entry(A ^ spread(block, 16))
    same_key = Entry(A ^ spread(block, 16) ^ mask << (192 - 64 * word))
    rules = directed_rules(tables=16, probes=16, limit=60, bucket_limit=1)
    asks = Entry(A, scope_hash=SCOPE_HASH)
    assert asked(rules, other, same_signature, asks) == "d0@60"
    assert asked(rules, other, same_key, asks) == "u"


def test_found_in_one_list_is_enough() -> None:
    """An entry that fell out of one list is found in another that is looked up."""
    filler = Entry(in_block(0, A >> 240))
    assert asked(directed_rules(bucket_limit=1), Entry(A), filler, Entry(A)) == "d0@0"


@pytest.mark.parametrize(("seconds", "verdict"), [(10, "d0@13"), (10.001, "u")])
def test_window(seconds: float, verdict: str) -> None:
    """What has expired is not near."""
    log = log_with(directed_rules(window_ms=10_000))
    log.entry(Entry(NEAR), first=0)
    log.entry(ASKS, first=1, seconds=seconds)
    assert said(log.plain())[1] == verdict


@pytest.mark.parametrize(("before", "verdict"), [(0, "d0@13"), (2, "u")])
def test_trim(before: int, verdict: str) -> None:
    """What was cut away is not near."""
    log = log_with(directed_rules())
    log.entry(Entry(NEAR), first=0)
    log.add(directed_rules())
    log.trim(before, horizon=0)
    log.entry(ASKS, first=1)
    assert said(log.plain())[1] == verdict


def test_never_itself() -> None:
    """An article whose coordinates were forgotten while its entry stands is near the others, not itself."""
    log = log_with(directed_rules())
    log.entry(Entry(A), first=0)
    log.trim(0, horizon=log.time)
    log.entry(Entry(A), first=0)
    log.entry(Entry(A), first=1)
    assert said(log.plain()) == ["u", "u", "d0@0"]


def test_nearest_by_the_signature_then_earliest() -> None:
    """An equal fingerprint counts less than a nearer signature; among equals the first stands."""
    tail = [Entry(A ^ bits(*range(200, 200 + apart))) for apart in (5, 2, 2)]
    assert asked(directed_rules(), *tail, Entry(A ^ bits(0)), Entry(A)) == "d3@1"
    assert asked(directed_rules(), *tail, Entry(A)) == "d1@2"


def test_similarity_and_distance_are_of_the_signature() -> None:
    """Both speak of the same 256 bits."""
    log = log_with(directed_rules())
    log.entry(Entry(A ^ bits(*range(100, 132))), Entry(A), first=0)
    match = judged(log.plain())[1].match
    assert match is not None
    assert match.distance == 32
    assert match.similarity == pytest.approx(0.92388, abs=1e-5)


def test_change_of_the_search() -> None:
    """From its log position on a change of rules decides, of the search too."""
    scheme = directed_rules().scheme
    log = log_with(Rules(scheme, distance=3))
    log.entry(Entry(NEAR), ASKS, first=0)
    log.add(directed_rules(2))
    log.entry(ASKS, first=2)
    log.add(Rules(scheme, revision=3, distance=3))
    log.entry(Entry(A ^ bits(1, 2, 3, 4)), first=3)
    assert said(log.plain()) == ["u", "u", "d1@0", "u"]


@pytest.mark.parametrize(("equal", "letter"), [(9, "d"), (8, "u"), (0, "u")])
@pytest.mark.parametrize("status", [Status.LONG, Status.SHORT])
def test_sketches_must_have_enough_equal_values(status: Status, equal: int, letter: str) -> None:
    """Of equal signatures, one with nine equal values of 16 is near and one with eight is not."""
    least = {"min_equal": 9, "short_min_equal": 0} if status is Status.LONG else {"short_min_equal": 9}
    log = log_with(directed_rules(scheme=scheme_of(4, 8), **least))
    other = "".join("7" if at < equal else "4" for at in range(16))
    sketches = bytes.fromhex("7" * 16), bytes.fromhex(other)
    entries = [Entry(A, "0" * 64, scope_hash_of(status), status, sketch=sketch) for sketch in sketches]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert [one[0] for one in said(log.plain())] == ["u", letter]


@pytest.mark.parametrize(
    ("far", "far_min_equal", "certain", "letter"),
    [
        (11, 10, None, "u"),
        (11, 9, None, "d"),
        (12, 10, None, "d"),
        (0, 16, None, "u"),
        (11, 10, 12, "d"),
        (11, 10, 11, "u"),
        (11, 7, None, "d"),
    ],
)
@pytest.mark.parametrize("status", [Status.LONG, Status.SHORT])
def test_far_entries_must_have_more_equal_values(
    status: Status, far: int, far_min_equal: int, certain: int | None, letter: str
) -> None:
    """At 12 bits with nine equal values of 16: beyond ``far`` so many must be equal, but not within ``certain``."""
    least: dict[str, Any] = {
        "min_equal": 8,
        "short_min_equal": 8,
        "far": far,
        "far_min_equal": far_min_equal,
        "certain": certain,
    }
    log = log_with(directed_rules(scheme=scheme_of(4, 8), **least))
    scope_hash, sketches = scope_hash_of(status), [bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)]
    entries = [
        Entry(signature, "0" * 64, scope_hash, status, sketch=sketch)
        for signature, sketch in zip((A ^ spread(0), A), sketches, strict=True)
    ]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert said(log.plain())[1] == ("u" if letter == "u" else "d0@12")


def test_more_equal_values_beyond_far_are_no_fewer() -> None:
    """The number for every distance holds beyond ``far`` bits too, where it is the greater one."""
    rules = directed_rules(scheme=scheme_of(4, 8), min_equal=10, far=11, far_min_equal=8)
    sketches = bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)
    assert asked(rules, Entry(A ^ spread(0), sketch=sketches[0]), Entry(A, "0" * 64, sketch=sketches[1])) == "u"


@pytest.mark.parametrize(
    ("small", "status", "least", "letter"),
    [
        (5, Status.LONG, (10, 10), "u"),
        (5, Status.LONG, (9, 10), "d"),
        (6, Status.LONG, (10, 10), "d"),
        (2, Status.LONG, (8, 10), "u"),
        (2, Status.LONG, (8, 9), "d"),
        (3, Status.LONG, (8, 10), "d"),
        (2, Status.SHORT, (10, 10), "d"),
        (2, Status.EXACT, (10, 10), "d"),
    ],
)
def test_the_sketches_of_a_dominated_article_decide_at_every_distance(
    small: int, status: Status, least: tuple[int, int], letter: str
) -> None:
    """Of equal signatures with nine equal values of 16: five small margins make dominated, two strongly so.

    The margins of the earlier entry do not matter.
    """
    rules = directed_rules(
        scheme=scheme_of(4, 8),
        min_equal=least[0],
        short_min_equal=least[0],
        certain=20,
        far=60,
        far_min_equal=least[1],
        dominated=5,
    )
    sketches = bytes.fromhex("7" * 16), bytes.fromhex("7" * 9 + "4" * 7)
    margins = "3" * small + "4" * (64 - small)
    for earlier in ("0" * 64, "f" * 64):
        pair = [
            Entry(A, digits, scope_hash_of(status), status, sketch=sketch)
            for digits, sketch in zip((earlier, margins), sketches, strict=True)
        ]
        assert asked(rules, *pair)[0] == letter
        assert asked(replace(rules, dominated=None), *pair)[0] == "d"


def test_a_form_with_other_numbers_is_ruled_out_however_many_values_are_equal() -> None:
    """The limit of forms comes first: neither ``far_min_equal`` nor ``certain`` stands above it."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), form_limit=11, far=5, far_min_equal=16, certain=20)
    earlier, later = (bytes(8) + bytes.fromhex(one) for one in ("01000000 02000000", "01000000 03000000"))
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=later)) == "u"
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=earlier)) == "d0@12"


@pytest.mark.parametrize(
    ("form", "other", "limit", "letter"),
    [
        ("01000000 02000000", "01000000 03000000", 11, "u"),
        ("01000000 02000000", "01000000 03000000", 12, "d"),
        ("01000000 02000000", "01000000 03000000", None, "d"),
        ("01000000 02000000", "01000000 02000000", 0, "d"),
        ("01000000 02000000", "04000000 03000000", 0, "d"),
        ("00000000 02000000", "00000000 03000000", 0, "d"),
        ("00000000 00000000", "01000000 03000000", 0, "d"),
        ("01000000 02000000", "00000000 00000000", 0, "d"),
    ],
)
def test_one_form_with_other_numbers_has_a_limit_of_its_own(
    form: str, other: str, limit: int | None, letter: str
) -> None:
    """At 12 bits; the same numbers, another frame and texts without a form (frame 0) have the limit of all texts."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), form_limit=limit, min_equal=16)
    earlier, later = (bytes(8) + bytes.fromhex(one) for one in (form, other))
    assert asked(rules, Entry(A ^ spread(0), sketch=earlier), Entry(A, "0" * 64, sketch=later))[0] == letter


def test_a_form_counts_among_no_equal_values() -> None:
    """Equal forms are no help to values that differ, and unequal ones do not hurt equal ones."""
    rules = directed_rules(scheme=scheme_of(4, 16, form=True), min_equal=16)
    values, form = bytes([7] * 8), bytes([1, 0, 0, 0, 2, 0, 0, 0])
    assert asked(rules, Entry(A, sketch=bytes(8) + form), Entry(A, sketch=values + form))[0] == "u"
    assert asked(rules, Entry(A, sketch=values + form), Entry(A, sketch=values + bytes(8)))[0] == "d"


def test_exact_texts_need_no_sketch() -> None:
    """Equal texts are duplicates whatever their sketches."""
    log = log_with(directed_rules(scheme=scheme_of(4, 8), min_equal=16, short_min_equal=16))
    scope_hash = scope_hash_of(Status.EXACT)
    entries = [Entry(A, "f" * 64, scope_hash, Status.EXACT, sketch=bytes([first] * 8)) for first in (0, 0xFF)]
    log.add(entries_batch(range(2), entries, 4, 8))
    assert [one[0] for one in said(log.plain())] == ["u", "d"]
