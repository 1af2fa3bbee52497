"""The page System: workers, partitions, log, index, and the rules in force."""

from __future__ import annotations

import json
from dataclasses import dataclass

from stream_dedup.core.rules import DIRECTED, DUPLICATE, EXACT, REJECTED, UNIQUE, UPDATE, Rules
from stream_dedup.core.rules_text import FOR_EVER, NONE, rule_values, value_text
from stream_dedup.serve.follower import Phase, Position
from stream_dedup.serve.pages.backend import ClustersState, PageBackend, StatusView

VALUE_KEYS = {
    "yes": "yes",
    "no": "no",
    NONE: "none",
    EXACT: "search.exact",
    DIRECTED: "search.directed",
    **{value: f"verdict.{value}" for value in (UNIQUE, REJECTED, DUPLICATE, UPDATE)},
}
"""Values of rules and of parameters that are words, with the keys of their strings; others are names and numbers."""
GROUP_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")
"""States of a consumer group for which the pages have a word; another one is shown as the broker names it."""


@dataclass(frozen=True, slots=True)
class SystemView:
    """What the page shows."""

    position: Position
    status: StatusView
    state: ClustersState
    rules: list[tuple[str, str | None]]
    """Each rule that has a value, in the form of the configuration; None: for ever."""
    scheme: list[tuple[str, str]]


async def system_page(backend: PageBackend) -> SystemView:
    """Return the state of the system."""
    position = backend.position()
    rules = position.rules
    return SystemView(position, await backend.status(), backend.clusters(), _rules(rules), _scheme(rules))


def failure_of(position: Position) -> str:
    """Return the message of the error for which the log cannot be followed; empty without one."""
    return position.detail if position.activity.phase is Phase.FAILED else ""


def is_silent(position: Position) -> bool:
    """Return whether no broker answers, though the log was read before."""
    return position.activity.phase is Phase.SILENT


def is_followed(position: Position) -> bool:
    """Return whether the log is followed: the index is open, and a broker answers."""
    return position.ready and not is_silent(position)


def _rules(rules: Rules | None) -> list[tuple[str, str | None]]:
    if rules is None:
        return []
    return [(name, None if value == FOR_EVER else value) for name, value in rule_values(rules).items() if value != NONE]


def _scheme(rules: Rules | None) -> list[tuple[str, str]]:
    if rules is None:
        return []
    return [(name, value_text(value)) for name, value in rules.scheme.flat().items()]


def as_data(values: object) -> str:
    """Return values as JSON for an attribute that the script reads."""
    return json.dumps(values, separators=(",", ":"))
