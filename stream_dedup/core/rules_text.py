"""Rules and schemes as words: the values of rules in the form of the configuration, and what differs between two.

Commands, errors and log lines describe rules in these words only.
"""

from __future__ import annotations

import json
from dataclasses import fields

from stream_dedup.core.logged_scheme import Scheme
from stream_dedup.core.rules import Rules

NONE = "none"
"""A rule without a value: it belongs to the other kind of search."""
FOR_EVER = "for ever"
"""The window of rules that have none."""
SHOWN_PARAMETERS = 6
"""Most parameters of a scheme that one line of an error names."""
SHOWN_VALUE_CHARACTERS = 48
"""A longer value of a parameter is cut there, so that a line of an error stays one."""
_UNITS = (("d", 86_400_000, 2), ("h", 3_600_000, 1), ("m", 60_000, 1), ("s", 1000, 1))
_NOT_IN_CONFIGURATION = frozenset(("scheme", "revision", "window_ms"))


def rule_values(rules: Rules) -> dict[str, str]:
    """Return each rule except scheme and revision, in the form of the configuration."""
    names = [field.name for field in fields(rules) if field.name not in _NOT_IN_CONFIGURATION]
    window = FOR_EVER if rules.window_ms is None else _duration(rules.window_ms)
    return {name: value_text(getattr(rules, name)) for name in names} | {"window": window}


def rule_changes(before: Rules, now: Rules) -> list[str]:
    """Return ``name: old -> new`` for each rule that differs; scheme and revision are left out."""
    old, new = rule_values(before), rule_values(now)
    return [f"{name}: {old[name]} -> {new[name]}" for name in old if old[name] != new[name]]


def scheme_mismatch(held: Scheme, configured: Scheme, holder: str, remedy: str) -> str:
    """Return the three lines of an error: the scheme that ``holder`` has, the configuration's, and the way out.

    Of two schemes with one name, only the parameters that differ are named.
    """
    theirs, ours = ({}, {}) if held.name != configured.name else (held.flat(), configured.flat())
    names = [name for name in theirs | ours if theirs.get(name, ...) != ours.get(name, ...)]
    return (
        f"{holder} has scheme {held.id}{_parameters(theirs, names)}\n"
        f"the configuration gives scheme {configured.id}{_parameters(ours, names)}\n"
        f"entries of two schemes cannot be compared; {remedy}"
    )


def value_text(value: object) -> str:
    """Return the value of a rule or of a parameter of a scheme."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parameters(values: dict[str, object], names: list[str]) -> str:
    if not names:
        return ""
    shown = [f"{name} {_short(value_text(values[name])) if name in values else 'absent'}" for name in names]
    more = [f"{len(names) - SHOWN_PARAMETERS} more"] * (len(names) > SHOWN_PARAMETERS)
    return f" ({', '.join(shown[:SHOWN_PARAMETERS] + more)})"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else f"{text[:SHOWN_VALUE_CHARACTERS]}…"


def _duration(ms: int) -> str:
    """Return a duration in the largest unit that divides it; in days from two days on."""
    fitting = (f"{ms // size}{unit}" for unit, size, least in _UNITS if ms % size == 0 and ms >= size * least)
    return next(fitting, f"{ms} ms")
