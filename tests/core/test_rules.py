"""Rules records: what is written is read back, and what is invalid is refused with its field and reason.

And what they say: from an entry and what is near it to the verdict, and in words.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from stream_dedup.core import scheme
from stream_dedup.core.logged_scheme import SHOWN_PARAMETERS, Scheme, scheme_mismatch
from stream_dedup.core.model import Coordinates, Judgement, LogPosition, Match, SourceOffset, Status, Verdict
from stream_dedup.core.reasons import FEATURELESS_REASON
from stream_dedup.core.rules import (
    DIRECTED,
    REJECTED,
    UNIQUE,
    NearEntries,
    Rules,
    judgement_of,
    most_probes,
    rule_changes,
)
from stream_dedup.errors import CorruptError
from tests.logs import scheme_of

SCHEME = Scheme("simhash", 1, '{"block_bits":16,"tables":4}')
WIDE = Scheme("article", 3, '{"block_bits":16,"fields":{"text":1,"title":3},"tables":8}')
LONG_KEYS = Scheme("simhash", 1, '{"block_bits":24,"tables":4}')
SKETCHED = Scheme("article", 3, '{"block_bits":16,"sketch":["minhash/1",16],"tables":8}')
FORMED = scheme_of(8, 16, form=True)
EXACT_RULES = Rules(SCHEME, distance=5, window_ms=1000)
DIRECTED_RULES = Rules(WIDE, search=DIRECTED, distance=None, probes=64, limit=52, short_limit=44)
MATCH = Match(LogPosition(5), "a", "articles", Coordinates(b"0" * 16, 0, SourceOffset(5)), 1000, 2, 0.99)
ONE = NearEntries(MATCH)
HELD = Scheme("article", 1, '{"fields":{"text":1,"title":3},"tables":8}')


def raw(rules: Rules, **changes: object) -> bytes:
    """The record of these rules with some values replaced."""
    return json.dumps(asdict(rules) | changes).encode()


@pytest.mark.parametrize(
    "rules",
    [
        EXACT_RULES,
        DIRECTED_RULES,
        replace(EXACT_RULES, candidates=1024, copies=5),
        replace(DIRECTED_RULES, scheme=SKETCHED, min_equal=14, short_min_equal=0),
        replace(DIRECTED_RULES, scheme=FORMED, min_equal=14, form_limit=0),
        replace(DIRECTED_RULES, scheme=SKETCHED, far=0, far_min_equal=32),
        replace(DIRECTED_RULES, scheme=SKETCHED, dominated=0),
        replace(DIRECTED_RULES, recrawl="update", observe=True, featureless="rejected"),
    ],
)
def test_there_and_back(rules: Rules) -> None:
    """Rules that were written are read back equal."""
    assert Rules.from_json(rules.to_json()) == rules


def test_rules_as_written() -> None:
    """Every field is written, in the order of the names and without spaces; anything else is refused."""
    written = json.loads(EXACT_RULES.to_json())
    assert written == asdict(EXACT_RULES)
    others = [{other: value for other, value in written.items() if other != name} for name in written]
    for other in (*others, dict(reversed(written.items()))):
        with pytest.raises(CorruptError, match=r"^rules record "):
            Rules.from_json(json.dumps(other, separators=(",", ":")).encode())
    with pytest.raises(CorruptError, match="not canonical JSON"):
        Rules.from_json(EXACT_RULES.to_json() + b" ")


@pytest.mark.parametrize(("status", "least"), [(Status.LONG, 9), (Status.SHORT, 14), (Status.EXACT, 0)])
def test_how_many_values_of_sketches_must_be_equal(status: Status, least: int) -> None:
    """Long and short texts have their own number; exact texts and rules without one compare no sketches."""
    rules = replace(DIRECTED_RULES, scheme=SKETCHED, min_equal=9, short_min_equal=14)
    assert rules.least_equal(status) == least
    assert DIRECTED_RULES.least_equal(status) == EXACT_RULES.least_equal(status) == 0


def test_the_widths_of_a_scheme() -> None:
    """A scheme without the parameter has no sketches."""
    assert WIDE.widths == (8, 0)
    assert replace(WIDE, parameters='{"block_bits":16,"sketch":["minhash/1",24,[3,5]],"tables":16}').widths == (16, 24)


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (EXACT_RULES, {"distance": None}, "distance none: must be a whole number from 0 to 11"),
        (EXACT_RULES, {"distance": 12}, "distance 12: must be a whole number from 0 to 11"),
        (EXACT_RULES, {"distance": True}, "distance yes: must be"),
        (EXACT_RULES, {"probes": 64}, "probes 64: not used in exact search"),
        (EXACT_RULES, {"limit": 52}, "limit 52: not used in exact search"),
        (EXACT_RULES, {"short_limit": 44}, "short_limit 44: not used in exact search"),
        (EXACT_RULES, {"min_equal": 9}, "min_equal 9: not used in exact search"),
        (
            EXACT_RULES,
            {"short_min_equal": 0},
            "short_min_equal 0: not used in exact search",
        ),
        (EXACT_RULES, {"form_limit": 9}, "form_limit 9: not used in exact search"),
        (EXACT_RULES, {"far": 9}, "far 9: not used in exact search"),
        (EXACT_RULES, {"far_min_equal": 9}, "far_min_equal 9: not used in exact search"),
        (EXACT_RULES, {"dominated": 9}, "dominated 9: not used in exact search"),
        (DIRECTED_RULES, {"dominated": 0}, "dominated 0: not used in directed search"),
        (DIRECTED_RULES, {"scheme": asdict(SKETCHED), "dominated": 65}, "dominated 65: .* from 0 to 64"),
        (DIRECTED_RULES, {"far": 9}, "far 9, far_min_equal none: set both, or none of them"),
        (DIRECTED_RULES, {"far_min_equal": 0}, "far none, far_min_equal 0: set both, or none of them"),
        (DIRECTED_RULES, {"far": 257, "far_min_equal": 0}, "far 257: .* from 0 to 256"),
        (DIRECTED_RULES, {"far": True, "far_min_equal": 0}, "far yes: must be"),
        (DIRECTED_RULES, {"far": 9, "far_min_equal": 9}, "far_min_equal 9: must be a whole number from 0 to 0"),
        (
            DIRECTED_RULES,
            {"scheme": asdict(SKETCHED), "far": 9, "far_min_equal": 33},
            "far_min_equal 33: .* from 0 to 32",
        ),
        (DIRECTED_RULES, {"form_limit": 9}, "form_limit 9: not used in directed search"),
        (DIRECTED_RULES, {"scheme": asdict(FORMED), "form_limit": 257}, "form_limit 257: .* from 0 to 256"),
        (DIRECTED_RULES, {"scheme": asdict(FORMED), "min_equal": 17}, "min_equal 17: .* from 0 to 16"),
        (DIRECTED_RULES, {"scheme": asdict(scheme_of(4, 8, form=True))}, "must have more than the 8 bytes of a form"),
        (DIRECTED_RULES, {"min_equal": 9}, "min_equal 9: must be a whole number from 0 to 0"),
        (DIRECTED_RULES, {"short_min_equal": 9}, "short_min_equal 9: must be a whole number from 0 to 0"),
        (DIRECTED_RULES, {"min_equal": True}, "min_equal yes: "),
        (DIRECTED_RULES, {"scheme": asdict(SKETCHED), "min_equal": 33}, "min_equal 33: .* from 0 to 32"),
        (EXACT_RULES, {"scheme": asdict(WIDE)}, "search 'exact': needs a scheme of 4 tables, this one has 8"),
        (EXACT_RULES, {"search": "fuzzy"}, "search 'fuzzy': must be exact or directed"),
        (EXACT_RULES, {"window_ms": 0}, "window_ms 0: must be a whole number from 1 to"),
        (EXACT_RULES, {"window_ms": 1.5}, r"window_ms 1\.5: must be a whole number"),
        (EXACT_RULES, {"bucket_limit": 0}, "bucket_limit 0: must be a whole number from 1 to 1048576"),
        (EXACT_RULES, {"bucket_limit": 2**20 + 1}, "bucket_limit 1048577"),
        (EXACT_RULES, {"candidates": 0}, "candidates 0: must be a whole number from 1 to 65536"),
        (EXACT_RULES, {"candidates": 2**16 + 1}, "candidates 65537"),
        (EXACT_RULES, {"copies": 0}, "copies 0: must be a whole number from 1 to 32"),
        (EXACT_RULES, {"copies": 33}, "copies 33"),
        (EXACT_RULES, {"featureless": "duplicate"}, "featureless 'duplicate': must be unique or rejected"),
        (EXACT_RULES, {"recrawl": "new"}, "recrawl 'new': must be duplicate or update"),
        (EXACT_RULES, {"observe": 1}, "observe 1: must be yes or no"),
        (EXACT_RULES, {"revision": -1}, "revision -1: must be"),
        (DIRECTED_RULES, {"distance": 3}, "distance 3: not used in directed search"),
        (DIRECTED_RULES, {"probes": None}, "probes none: must be a whole number from 1 to 5576"),
        (DIRECTED_RULES, {"probes": 0}, "probes 0: must be"),
        (DIRECTED_RULES, {"probes": most_probes(8, 16) + 1}, "probes 5577: must be"),
        (DIRECTED_RULES, {"limit": 257}, "limit 257: must be a whole number from 0 to 256"),
        (DIRECTED_RULES, {"limit": "52"}, "limit 52: must be a whole number"),
        (DIRECTED_RULES, {"short_limit": None}, "short_limit none: must be"),
        (EXACT_RULES, {"scheme": asdict(replace(SCHEME, name=""))}, r"scheme\.name '': must be a name"),
        (EXACT_RULES, {"scheme": asdict(SCHEME) | {"version": "1"}}, r"scheme\.version '1': must be"),
        (EXACT_RULES, {"scheme": asdict(replace(SCHEME, parameters="[]"))}, r"scheme\.parameters '\[\]': must be"),
        (EXACT_RULES, {"scheme": asdict(replace(SCHEME, parameters="{"))}, r"scheme\.parameters '\{': must be"),
        (
            EXACT_RULES,
            {"scheme": asdict(replace(SCHEME, parameters='{"block_bits":16,"tables":5}'))},
            "tables 5: must be one of 4, 8, 16",
        ),
        (
            EXACT_RULES,
            {"scheme": asdict(replace(SCHEME, parameters='{"block_bits":16}'))},
            "tables None: must be one of 4, 8, 16",
        ),
        (
            EXACT_RULES,
            {"scheme": asdict(replace(SCHEME, parameters='{"tables":4}'))},
            "block_bits None: must be one of 16, 20, 24",
        ),
        *(
            (
                EXACT_RULES,
                {"scheme": asdict(replace(SCHEME, parameters=f'{{"block_bits":{value},"tables":4}}'))},
                "block_bits .*: must be one of 16, 20, 24",
            )
            for value in ("18", "20.0", '"20"', "true")
        ),
        (EXACT_RULES, {"scheme": asdict(LONG_KEYS), "distance": 6}, "distance 6: must be a whole number from 0 to 5"),
        (
            DIRECTED_RULES,
            {"scheme": asdict(LONG_KEYS), "probes": 51_805},
            "probes 51805: must be a whole number from 1 to 51804",
        ),
        *(
            (
                EXACT_RULES,
                {"scheme": asdict(replace(SCHEME, parameters=f'{{"block_bits":16,"sketch":{value},"tables":4}}'))},
                r"sketch .*: must be a list whose second item is its bytes, one of 0, 8, 16, 24, 32",
            )
            for value in ("16", "[]", '["a/1"]', '["a/1",12]', '["a/1",8.0]', '["a/1","8"]')
        ),
        (EXACT_RULES, {"scheme": {"name": "x"}}, "rules record cannot be read: .* missing 2 required"),
        (EXACT_RULES, {"scheme": None}, "cannot be read"),
        (EXACT_RULES, {"search": []}, r"search \[\]: must be exact or directed"),
        (EXACT_RULES, {"more": 1}, "rules record cannot be read: .* unexpected keyword argument 'more'"),
    ],
)
def test_what_says_no_rules_is_refused(base: Rules, changes: dict[str, object], message: str) -> None:
    """A value out of its range, or one that the search has no use for, is named with the reason."""
    with pytest.raises(CorruptError, match=message):
        Rules.from_json(raw(base, **changes))


SURROGATE = raw(replace(EXACT_RULES, scheme=replace(SCHEME, name="\ud800")))


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"7", b"null", b'{"revision":1}', SURROGATE])
def test_no_record_of_rules(value: bytes) -> None:
    """A record that is not JSON, or other JSON than rules, is refused."""
    with pytest.raises(CorruptError, match="rules record"):
        Rules.from_json(value)


def test_every_problem_is_reported_at_once() -> None:
    """The error for rules with two faults names both."""
    found = replace(EXACT_RULES, distance=99, bucket_limit=0).problems()
    assert [problem.split(":")[0] for problem in found] == ["bucket_limit 0", "distance 99"]


def test_rules_that_nobody_could_read_are_not_written() -> None:
    """Rules that reading would refuse are not written."""
    with pytest.raises(ValueError, match="distance 3: not used in directed search"):
        replace(DIRECTED_RULES, distance=3).to_json()


def test_differences_of_the_search() -> None:
    """Each rule that differs gives one line; the revision does not."""
    assert DIRECTED_RULES.differences(replace(DIRECTED_RULES, revision=7)) == []
    other = replace(DIRECTED_RULES, probes=32, window_ms=5, observe=True)
    assert DIRECTED_RULES.differences(other) == [
        "probes: 64 here, 32 in the log",
        "observe: no here, yes in the log",
        "window: for ever here, 5 ms in the log",
    ]


def test_parameters_of_a_scheme_one_by_one() -> None:
    """Nested parameters have names with dots; what is empty stays, and no parameters are none."""
    nested = replace(SCHEME, parameters='{"a":{"b":[1],"c":{}},"d":null}')
    assert nested.flat() == {"a.b": [1], "a.c": {}, "d": None}
    assert replace(SCHEME, parameters="{}").flat() == {}


@pytest.mark.parametrize(
    ("rules", "reaches"), [(EXACT_RULES, (5, 5, 0)), (DIRECTED_RULES, (52, 44, 0))], ids=["exact", "directed"]
)
def test_reach(rules: Rules, reaches: tuple[int, int, int]) -> None:
    """Long, short and exact text each have a greatest distance of their own."""
    assert tuple(rules.reach(status) for status in (Status.LONG, Status.SHORT, Status.EXACT)) == reaches


@pytest.mark.parametrize(
    ("status", "near", "featureless", "expected"),
    [
        (Status.LONG, None, UNIQUE, Judgement(Verdict.UNIQUE)),
        (Status.LONG, ONE, UNIQUE, Judgement(Verdict.DUPLICATE, match=MATCH, copies=1)),
        (Status.FEATURELESS, None, UNIQUE, Judgement(Verdict.UNIQUE)),
        (Status.FEATURELESS, None, REJECTED, Judgement(Verdict.REJECTED, reason=FEATURELESS_REASON)),
        (Status.REJECTED, None, UNIQUE, Judgement(Verdict.REJECTED, reason="why")),
        (Status.DELETE, None, REJECTED, Judgement(Verdict.DELETE)),
    ],
)
def test_verdict(status: Status, near: NearEntries | None, featureless: str, expected: Judgement) -> None:
    """Every status has its verdict, with and without a match, under both rules."""
    assert judgement_of(status, replace(Rules(SCHEME), featureless=featureless), near, "why") == expected


@pytest.mark.parametrize(("copies", "verdict"), [(3, Verdict.UNIQUE), (4, Verdict.DUPLICATE), (5, Verdict.DUPLICATE)])
def test_an_article_is_a_duplicate_from_so_many_copies_on(copies: int, verdict: Verdict) -> None:
    """Below the number it is unique and has no match; the copies are counted in both."""
    judged = judgement_of(Status.LONG, replace(Rules(SCHEME), copies=4), NearEntries(MATCH, copies), "")
    assert judged == Judgement(verdict, match=MATCH if verdict is Verdict.DUPLICATE else None, copies=copies)


@pytest.mark.parametrize("least", [1, 9])
def test_an_update_is_unique_with_its_match(least: int) -> None:
    """An update is unique, however many copies there are, and its match is the earlier version."""
    judged = judgement_of(Status.SHORT, replace(Rules(SCHEME), copies=least), NearEntries(MATCH, 2, update=True), "")
    assert judged == Judgement(Verdict.UNIQUE, match=MATCH, copies=2)


def test_changes_of_rules_are_in_the_form_of_the_configuration() -> None:
    """Each rule that differs has its old and its new value; a window is a duration, no rule is none."""
    before = Rules(HELD, distance=3)
    assert rule_changes(before, replace(before, revision=7)) == []
    assert rule_changes(before, replace(before, distance=None, observe=True, window_ms=86_400_000)) == [
        "distance: 3 -> none",
        "observe: no -> yes",
        "window: for ever -> 24h",
    ]


def test_a_scheme_mismatch_has_three_lines() -> None:
    """The lines have the scheme that is held, the configuration's, and the way out, with the parameters that differ."""
    ours = replace(HELD, parameters='{"fields":{"text":1},"seed":0,"tables":16}')
    assert scheme_mismatch(HELD, ours, "log news.fingerprints", "use another --group").split("\n") == [
        f"log news.fingerprints has scheme {HELD.id} (fields.title 3, tables 8, seed absent)",
        f"the configuration gives scheme {ours.id} (fields.title absent, tables 16, seed 0)",
        "entries of two schemes cannot be compared; use another --group",
    ]


def test_schemes_of_two_names_differ_by_name() -> None:
    """Parameters of different profiles are not compared; nor are there any where the versions differ."""
    for ours in (replace(HELD, name="comment", parameters="{}"), replace(HELD, version=2)):
        first, second, _ = scheme_mismatch(HELD, ours, "index x", "-").split("\n")
        assert (first, second) == (f"index x has scheme {HELD.id}", f"the configuration gives scheme {ours.id}")


def test_a_scheme_mismatch_stays_short() -> None:
    """Schemes that differ in everything, one value of 10,000 characters among it, give lines of some hundred."""
    held = scheme.scheme_of(scheme.FingerprintSettings())
    many = ",".join(f'"p{number}":"{"x" * 10_000}"' for number in range(SHOWN_PARAMETERS + 3))
    lines = scheme_mismatch(held, replace(held, parameters=f"{{{many}}}"), "index x", "-").split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) < 600
    assert all(" more)" in line for line in lines[:2])
