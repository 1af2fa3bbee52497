"""The native account of a pair says what the reference says, fact by fact, for pairs of all kinds under all rules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.audit.plain_near import PlainEntries, PlainQuery, PlainSearch
from stream_dedup.core import probes
from stream_dedup.core.arrays import I64, U8, U64
from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.model import BLOCKS_PER_WORD, LogOffset, Status
from stream_dedup.core.near import NO_PLACE, Forms, Meetings, PairCheck, PairTexts
from stream_dedup.core.probes import pack_margins
from stream_dedup.core.rules import DIRECTED, Rules, greatest_distance
from tests.amount import FULL
from tests.definition import plain_entries
from tests.logs import scheme_of

SCOPE_HASH = 0x9123_4567_89AB_CDEF
ENTRIES = 150
STATUSES = (Status.LONG, Status.SHORT, Status.EXACT, Status.LONG)
"""Of the articles that are compared with the entries."""
EXACT_SCHEMES = [scheme_of(4, block_bits=bits) for bits in (16, 20, 24)]
SCHEMES = [
    scheme_of(4),
    scheme_of(8, 16),
    scheme_of(16, 32),
    scheme_of(4, 8, block_bits=20),
    scheme_of(4, 24, form=True, block_bits=20),
    scheme_of(16, 32, form=True),
    scheme_of(8, 16, block_bits=24),
    scheme_of(4, 16, form=True, block_bits=24),
]
ANY = {True, False}


def pairs_of(rng: np.random.Generator, scheme: Scheme) -> tuple[PlainEntries, U8, U8]:
    """Entries, then articles, all of them edits of one text, and what they are made of: signatures and margins.

    Some differ in a few bits of one word, some in many bits of all; in some values of the sketch, and in the form.
    """
    count = ENTRIES + len(STATUSES)
    bits = np.tile(rng.integers(0, 2, 256, np.uint8), (count, 1))
    for row in bits:
        word, most = rng.integers(0, 4), rng.choice([1, 4, 12, 40, 120])
        places = np.arange(256) if rng.random() < 0.6 else np.arange(64 * word, 64 * word + 64)
        row[rng.choice(places, min(int(rng.integers(0, most)), len(places)), replace=False)] ^= 1
    sketches = np.tile(rng.integers(0, 256, scheme.sketch_bytes, np.uint8), (count, 1))
    changed = rng.random(sketches.shape) < rng.random((count, 1)) * rng.choice([0, 0.5, 1], (count, 1))
    sketches[changed] ^= rng.choice([1, 0x10, 0x35], int(changed.sum())).astype(np.uint8)
    if scheme.form_bytes:
        sketches[:, -8:] = rng.choice([0, 1, 1, 1, 2], (count, 2)).astype("<u4").view(np.uint8)
    signatures = np.packbits(bits, axis=1)
    margins = rng.integers(0, 256, (count, scheme.widths.margin_bytes), np.uint8)
    scope_hashes = np.full(count, SCOPE_HASH, np.uint64)
    entries = plain_entries(
        signatures[:ENTRIES], scope_hashes[:ENTRIES], signatures[ENTRIES:], scope_hashes[ENTRIES:], sketches=sketches
    )
    statuses = np.array([Status.LONG] * ENTRIES + list(STATUSES), np.uint8)
    return replace(entries, statuses=statuses), signatures, margins


def one_of(rng: np.random.Generator, values: list[Any]) -> Any:  # noqa: ANN401 - one of the values
    return values[rng.integers(len(values))]


def drawn_rules(rng: np.random.Generator, scheme: Scheme) -> Rules:
    """Rules of directed search, whose limits are among the distances and equal values of the pairs."""
    values = scheme.sketch_values
    settings: dict[str, Any] = {"probes": one_of(rng, [1, 4, 64, 700]), "limit": one_of(rng, [5, 30, 90])}
    if values:
        far = one_of(rng, [None, 6, 25])
        least = [None, 1, values // 2, values - 1]
        settings |= {
            "min_equal": one_of(rng, least),
            "short_min_equal": one_of(rng, least),
            "certain": one_of(rng, [None, 0, 3, 12]),
            "dominated": one_of(rng, [None, 0, 16, 32]),
            "far": far,
            "far_min_equal": None if far is None else one_of(rng, least[1:]),
        }
    if scheme.form_bytes:
        settings["form_limit"] = one_of(rng, [None, 0, 4, 12])
    rules = Rules(scheme, search=DIRECTED, distance=None, short_limit=one_of(rng, [5, 30, 90]), **settings)
    assert not rules.problems()
    return rules


def accounted(
    entries: PlainEntries, signatures: U8, margins: U8, article: int, rules: Rules
) -> tuple[NDArray[np.void], Meetings]:
    """What the native core says of an article beside all entries."""
    texts, check = PairTexts.of(signatures, entries.sketches.T), PairCheck(rules)
    status, some = entries.statuses[[article]], np.arange(ENTRIES)
    keys = entries.words.T[:, : rules.scheme.tables // BLOCKS_PER_WORD]
    own = margins[[article]]
    met = check.meetings(status, keys[[article]], keys[:ENTRIES], check.masks(own), probes.plan_of(rules, own))
    alone, others = texts.rows(np.array([article])), texts.rows(some)
    return check.accounts(status, check.dominated(status, own), alone, others), met


def compare(rules: Rules, rng: np.random.Generator, outcomes: dict[str, set[bool]]) -> None:
    """Compare the native core with the reference, and note which answers there were."""
    entries, signatures, margins = pairs_of(rng, rules.scheme)
    search, some = PlainSearch(entries, rules.scheme), np.arange(ENTRIES)
    for _ in some:
        search.log_next()
    form_bytes = rules.scheme.form_bytes
    for article in range(ENTRIES, len(entries)):
        query = PlainQuery(article, rules, margins[article], LogOffset(0), lambda _: True)
        accounts, met = accounted(entries, signatures, margins, article, rules)
        assert accounts["signature_distance"].tolist() == entries.signature_distances(article, some).tolist()
        apart = np.bitwise_count(entries.fingerprints[some] ^ entries.fingerprints[article])
        assert accounts["fingerprint_distance"].tolist() == apart.tolist()
        assert accounts["equal"].tolist() == entries.equal_values(article, some, form_bytes).tolist()
        others = entries.other_numbers(article, some, form_bytes)
        assert (accounts["form"] == list(Forms).index(Forms.OTHER_NUMBERS)).tolist() == others.tolist()
        assert met.passed.T.tolist() == search._sieved(query, some).tolist()
        assert np.where(met.found == NO_PLACE, 0, met.found + 1).tolist() == search._numbers(query, some).tolist()
        found = met.found.min(axis=1) != NO_PLACE
        near: I64 = np.flatnonzero(accounts["near"] & found)
        told = dict(zip(near.tolist(), accounts["distance"][near].tolist(), strict=True))
        assert told == dict(zip(*(column.tolist() for column in search.near(query)), strict=True))
        for name in ("within", "form_holds", "certain", "enough", "near"):
            outcomes[name].update(accounts[name].tolist())
        outcomes["passed"].update(met.passed.reshape(-1).tolist())
        outcomes["found"].update(found.tolist())


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.parameters)
def test_directed_search_has_the_conditions_of_the_reference(scheme: Scheme) -> None:
    """Distances, equal values, forms, the sieve, look-ups and what is near; each condition holds, and does not hold."""
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for seed in range(60 if FULL else 12):
        rng = np.random.default_rng(seed)
        compare(drawn_rules(rng, scheme), rng, outcomes)
    varying = {"within", "near", "passed", "found"}
    varying |= {"certain", "enough"} if scheme.sketch_bytes else set()
    varying |= {"form_holds"} if scheme.form_bytes else set()
    assert {name: outcomes[name] for name in varying} == dict.fromkeys(varying, ANY)


@pytest.mark.parametrize("scheme", EXACT_SCHEMES, ids=lambda scheme: scheme.parameters)
def test_exact_search_has_the_conditions_of_the_reference(scheme: Scheme) -> None:
    """The same for every distance that exact search takes."""
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for k in range(greatest_distance(scheme.block_bits) + 1):
        compare(Rules(scheme, distance=k), np.random.default_rng(k), outcomes)
    assert {name: outcomes[name] for name in ("within", "near", "found")} == dict.fromkeys(
        ("within", "near", "found"), ANY
    )


def test_articles_may_differ_from_pair_to_pair() -> None:
    """With an article for each entry, each with its status, masks and plan, a pair says what it says alone."""
    rng = np.random.default_rng(5)
    scheme = scheme_of(8, 24, form=True)
    rules = replace(drawn_rules(rng, scheme), min_equal=8, short_min_equal=20, limit=60, short_limit=9, probes=40)
    entries, signatures, margins = pairs_of(rng, scheme)
    statuses = rng.choice(np.array(STATUSES, np.uint8), len(entries))
    texts, check = PairTexts.of(signatures, entries.sketches.T), PairCheck(rules)
    others = rng.permutation(len(entries))
    masks, plans = check.masks(margins), probes.plan_of(rules, margins)
    keys = entries.words.T[:, :2]
    which = check.dominated(statuses, margins)
    accounts = check.accounts(statuses, which, texts, texts.rows(others))
    met = check.meetings(statuses, keys, keys[others], masks, plans)
    for pair, other in enumerate(others.tolist()):
        own = np.array([pair])
        alone = check.accounts(statuses[own], which[own], texts.rows(own), texts.rows(np.array([other])))
        assert accounts[pair] == alone[0]
        one = check.meetings(statuses[own], keys[own], keys[[other]], masks[own], plans[own])
        assert [part[pair].tolist() for part in met] == [part[0].tolist() for part in one]
    assert set(accounts["near"].tolist()) == set(met.passed.reshape(-1).tolist()) == ANY


@pytest.mark.parametrize("directed", [True, False])
def test_distances_are_those_of_the_accounts(directed: bool) -> None:
    """Of every article from every entry, over the bits that the search limits; none of no entry."""
    rng = np.random.default_rng(6)
    rules = drawn_rules(rng, SCHEMES[0]) if directed else Rules(EXACT_SCHEMES[0])
    entries, signatures, margins = pairs_of(rng, rules.scheme)
    articles = range(ENTRIES, len(entries))
    words: U64 = probes.words(signatures)
    found = PairCheck(rules).distances(words[ENTRIES:], words[:ENTRIES])
    accounts = [accounted(entries, signatures, margins, article, rules)[0] for article in articles]
    assert found.tolist() == [account["distance"].tolist() for account in accounts]
    assert PairCheck(rules).distances(words[:2], words[:0]).shape == (2, 0)


def test_arrays_of_other_lengths_are_refused() -> None:
    """Two articles are not compared with three entries, nor sketches of other widths, nor half a signature."""
    check, words = PairCheck(Rules(scheme_of(4, 16))), np.zeros((3, 4), np.uint64)
    statuses = np.full(3, Status.LONG, np.uint8)
    texts = PairTexts(words, np.zeros((3, 2), np.uint64))
    masks = np.zeros((3, 1, 2), np.uint64)
    with pytest.raises(ValueError, match="2 articles beside 3 entries"):
        check.accounts(statuses[:2], statuses[:2], texts.rows(slice(2)), texts)
    with pytest.raises(ValueError, match="9 numbers of sketches for 3"):
        check.accounts(statuses, statuses, texts._replace(sketches=np.zeros((3, 3), np.uint64)), texts)
    with pytest.raises(ValueError, match="2 articles beside 3 entries"):
        check.meetings(statuses[:2], words[:2, :1], words[:, :1], masks[:2])
    with pytest.raises(ValueError, match="4 numbers of masks for 3"):
        check.meetings(statuses, words[:, :1], words[:, :1], masks[:2])
    with pytest.raises(ValueError, match="6 numbers of others: each has 4"):
        check.distances(words, np.zeros(6, np.uint64))


@pytest.mark.parametrize(
    ("below", "status", "expected"),
    [
        (6, Status.LONG, 2),
        (7, Status.LONG, 1),
        (12, Status.LONG, 1),
        (13, Status.LONG, 0),
        (0, Status.SHORT, 0),
        (0, Status.EXACT, 0),
    ],
)
def test_a_long_text_is_dominated_if_few_of_its_bits_may_turn(below: int, status: Status, expected: int) -> None:
    """At most twelve of the first 64 margins are below 4, strongly six; later ones do not count.

    Without the rule no text is dominated.
    """
    margins = pack_margins(np.array([[3] * below + [4] * (64 - below) + [0] * 64], np.uint8))
    rules, statuses = Rules(scheme_of(8, 8), search=DIRECTED, dominated=12), np.array([status], np.uint8)
    assert PairCheck(rules).dominated(statuses, margins).tolist() == [expected]
    assert PairCheck(replace(rules, dominated=None)).dominated(statuses, margins).tolist() == [0]
