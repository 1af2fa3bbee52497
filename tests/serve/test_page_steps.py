"""The steps of the page Check: which conditions of near a pair fulfils."""

from __future__ import annotations

import numpy as np
import pytest

from stream_dedup.core.model import Status
from stream_dedup.core.rules import Rules
from stream_dedup.explain.explain import as_json, explain
from stream_dedup.explain.side import Side
from stream_dedup.serve.pages.check_page import steps
from tests.calibrate.entries import directed_rules, exact_rules, plain_matches, some_entries

RULES = [
    exact_rules(9),
    directed_rules(16, probes=300, limit=40),
    directed_rules(16, probes=300, min_equal=9, certain=12, form_limit=20),
    directed_rules(16, probes=300, min_equal=5, far=20, far_min_equal=20),
    directed_rules(16, probes=300, min_equal=12, certain=30, far=40, far_min_equal=20, dominated=32),
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=["exact", "limit", "certain, form", "far", "dominated"])
def test_all_steps_hold_of_a_pair_that_is_near(rules: Rules) -> None:
    """And of no other pair: as the reference finds in a log of the two. Each of the steps fails for some pair."""
    entries = some_entries(23, 40, tables=rules.scheme.tables, flips=40)
    entries.groups[:] = 7
    failed, near = set(), 0
    sides = [
        Side(str(row), Status.LONG, 7, signature.tobytes(), margins, sketch=sketch.tobytes())
        for row, (signature, margins, sketch) in enumerate(
            zip(entries.signatures, entries.margins, entries.sketches, strict=True)
        )
    ]
    for later in range(len(entries) - 7, len(entries)):
        for earlier in range(later):
            two = type(entries)(*(getattr(entries, name)[[earlier, later]] for name in entries.__slots__))
            shown = steps(as_json(explain(sides[earlier], sides[later], rules)), rules)
            assert all(step.holds for step in shown) is (plain_matches(two, rules)[1] is not None)
            near += all(step.holds for step in shown)
            failed |= {step.name for step in shown if not step.holds}
    wanted = (
        {"distance", "lookup"} | ({"sketch"} if rules.min_equal else set()) | ({"form"} if rules.form_limit else set())
    )
    assert near
    assert failed == wanted


@pytest.mark.parametrize(("bits", "holds"), [((), True), ((0,), False), ((255,), False)])
def test_exact_texts_are_equal_or_not(bits: tuple[int, ...], holds: bool) -> None:
    """One step says so, whatever the limits."""
    b = Side("B", Status.EXACT, 5, bytes(range(32)), np.full(32, 0xFF, np.uint8), sketch=bytes(16))
    flipped = np.unpackbits(np.frombuffer(b.signature, np.uint8))
    flipped[list(bits)] ^= 1
    a = Side("A", Status.EXACT, 5, np.packbits(flipped).tobytes(), b.margins, sketch=b.sketch)
    rules = directed_rules(min_equal=9)
    (step,) = steps(as_json(explain(a, b, rules)), rules)
    assert (step.name, step.holds) == ("equal", holds)
