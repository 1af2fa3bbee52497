"""Re-crawls: what an article near an earlier one of its own id is; and scopes in exact search."""

from __future__ import annotations

import pytest

from stream_dedup.core.model import Status, Verdict, scope_hash_of
from stream_dedup.core.rules import Rules
from tests.logs import SCHEME, Entry, LogOfTest, directed_rules, judged, rules, said

A = 0x0123_4567_89AB_CDEF << 192


def apart(bits: int, identity: str) -> Entry:
    """An entry so many bits from ``A``."""
    return Entry(A ^ ((1 << bits) - 1) << 192, id=identity)


SEARCHES = pytest.mark.parametrize(
    "rule", [Rules(SCHEME, distance=3, recrawl="update"), directed_rules(recrawl="update")], ids=["exact", "directed"]
)


def asked(rule: Rules, *entries: Entry) -> str:
    """What is said of the last of these entries."""
    log = LogOfTest()
    log.add(rule)
    log.entry(*entries, first=0)
    return said(log.plain())[-1]


@SEARCHES
def test_version_of_its_own_id_is_an_update(rule: Rules) -> None:
    """Near an earlier entry of its own id an article is unique, and that entry its match."""
    assert asked(rule, apart(2, "x"), apart(0, "x")) == "u0@2"


@SEARCHES
def test_own_id_goes_before_what_is_nearer(rule: Rules) -> None:
    """A nearer article of another id does not make it a duplicate."""
    assert asked(rule, apart(3, "x"), apart(1, "y"), apart(0, "x")) == "u0@3"


@SEARCHES
def test_nearest_of_its_own_then_earliest(rule: Rules) -> None:
    """Among the versions of its own id the usual order holds."""
    assert (
        asked(rule, apart(3, "x"), apart(2, "x"), apart(1, "y"), Entry(A ^ 1 << 255 ^ 1 << 250, id="x"), apart(0, "x"))
        == "u1@2"
    )


@SEARCHES
def test_without_a_version_it_is_as_ever(rule: Rules) -> None:
    """Near others only it is a duplicate; near nothing it is unique, though its id came before."""
    assert asked(rule, apart(1, "y"), apart(0, "x")) == "d0@1"
    far = Entry(~A & (2**256 - 1), id="x")
    assert asked(rule, far, apart(1, "y"), apart(0, "x")) == "d1@1"
    assert asked(rule, far, apart(0, "x")) == "u"


@SEARCHES
def test_ids_are_compared_as_text(rule: Rules) -> None:
    """Case and white space make another id; an empty one is an id as well."""
    assert asked(rule, apart(1, "X"), apart(1, "x "), apart(0, "x")) == "d0@1"
    assert asked(rule, apart(1, ""), apart(0, "")) == "u0@1"


def test_update_only_where_the_rule_at_the_log_position_says_so() -> None:
    """The same article is a duplicate under the other rule."""
    log = LogOfTest()
    log.add(rules())
    log.entry(apart(0, "x"), apart(1, "x"), first=0)
    log.add(rules(2, recrawl="update"))
    log.entry(apart(2, "x"), first=2)
    log.add(rules(3))
    log.entry(apart(3, "x"), first=3)
    assert said(log.plain()) == ["u", "d0@1", "u1@1", "d2@1"]


def test_version_that_does_not_count_is_none() -> None:
    """Expired, of another scope, or beyond the bucket limit a version is not near, so there is no update."""
    log = LogOfTest()
    log.add(rules(recrawl="update", window_ms=1000))
    log.entry(apart(0, "x"), first=0)
    log.entry(apart(0, "x"), first=1, seconds=2)
    assert said(log.plain()) == ["u", "u"]
    scoped = [apart(0, "x")._replace(scope_hash=scope_hash_of(Status.LONG, scope)) for scope in ("one", "other")]
    assert asked(rules(recrawl="update"), *scoped) == "u"
    crowd = [apart(0, "y")] * 2
    assert asked(rules(recrawl="update", bucket_limit=2), apart(0, "x"), *crowd, apart(0, "x")) == "d1@0"


def test_update_is_a_unique_verdict_with_its_match() -> None:
    """The judgement names the earlier version in full and gives no reason."""
    log = LogOfTest()
    log.add(rules(recrawl="update"))
    log.entry(apart(1, "x"), apart(0, "x"), first=5)
    judgement = judged(log.plain())[1]
    assert judgement.match is not None
    assert (judgement.verdict, judgement.reason, judgement.match.id) == (Verdict.UNIQUE, None, "x")


@pytest.mark.parametrize(
    ("status", "bits", "verdict"),
    [(Status.LONG, 3, "d0@3"), (Status.SHORT, 3, "d0@3"), (Status.EXACT, 1, "u"), (Status.EXACT, 0, "d0@0")],
)
def test_exact_search_of_each_kind_of_text(status: Status, bits: int, verdict: str) -> None:
    """Long and short text reach k bits of the fingerprint; where the exact text decides, only equals."""
    entries = [
        apart(far, name)._replace(status=status, scope_hash=scope_hash_of(status))
        for far, name in ((bits, "x"), (0, "y"))
    ]
    assert asked(rules(distance=3), *entries) == verdict


def test_scopes_in_exact_search() -> None:
    """Equal fingerprints of two scopes are not near; a flood of another scope does not fill one's lists."""
    mine, theirs = (apart(0, "x")._replace(scope_hash=scope_hash_of(Status.LONG, scope)) for scope in ("one", "other"))
    assert asked(rules(), theirs, mine) == "u"
    assert asked(rules(bucket_limit=1), mine, *[theirs] * 5, mine) == "d0@0"


def test_exact_search_does_not_look_at_the_signature() -> None:
    """Near is a matter of the fingerprint alone, the distance too; the similarity is of the signature."""
    log = LogOfTest()
    log.add(rules())
    log.entry(Entry(A), Entry(A ^ 1 << 192 ^ (2**128 - 1)), first=0)
    match = judged(log.plain())[1].match
    assert match is not None
    assert match.distance == 1
    assert match.similarity == pytest.approx(-0.01227, abs=1e-5)
