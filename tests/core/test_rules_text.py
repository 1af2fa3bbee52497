"""Rules and schemes as words: what differs, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.rules import Rules
from stream_dedup.core.rules_text import SHOWN_PARAMETERS, rule_changes, scheme_mismatch
from stream_dedup.core.scheme import FingerprintSettings, scheme_of

HELD = Scheme("article", 1, '{"fields":{"text":1,"title":3},"tables":8}')


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
    held = scheme_of(FingerprintSettings())
    many = ",".join(f'"p{number}":"{"x" * 10_000}"' for number in range(SHOWN_PARAMETERS + 3))
    lines = scheme_mismatch(held, replace(held, parameters=f"{{{many}}}"), "index x", "-").split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) < 600
    assert all(" more)" in line for line in lines[:2])
