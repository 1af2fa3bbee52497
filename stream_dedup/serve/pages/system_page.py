"""The page System: workers, partitions, log, index, and the rules in force."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dedup.core.rules_text import NONE, rule_values, value_text
from stream_dedup.serve.pages.backend import GroupsState, StatusView

if TYPE_CHECKING:
    from stream_dedup.core.rules import Rules
    from stream_dedup.serve.follower import Position
    from stream_dedup.serve.pages.backend import PageBackend

_PROGRESS = re.compile(r"reading the log: (\d+) of (\d+) records")


@dataclass(frozen=True, slots=True)
class SystemView:
    """What the page shows."""

    position: Position
    status: StatusView
    state: GroupsState
    rules: list[tuple[str, str]]
    """Each rule that has a value, in the form of the configuration."""
    scheme: list[tuple[str, str]]


async def system_page(backend: PageBackend) -> SystemView:
    """Return the state of the system."""
    position = backend.position()
    rules = position.rules
    return SystemView(position, await backend.status(), backend.groups(), _rules(rules), _scheme(rules))


def progress_of(position: Position) -> tuple[int, int] | None:
    """Return how many records of the log are read, and of how many, while it is read after a start."""
    found = _PROGRESS.fullmatch(position.detail)
    return None if found is None else (int(found[1]), int(found[2]))


def is_silent(position: Position) -> bool:
    """Return whether no broker answers, though the log was read before."""
    return position.ready and not position.up_to_date and position.detail == "no broker answers"


def _rules(rules: Rules | None) -> list[tuple[str, str]]:
    if rules is None:
        return []
    return [(name, value) for name, value in rule_values(rules).items() if value != NONE]


def _scheme(rules: Rules | None) -> list[tuple[str, str]]:
    if rules is None:
        return []
    return [(name, value_text(value)) for name, value in rules.scheme.flat().items()]


def as_data(values: object) -> str:
    """Return values as JSON for an attribute that the script reads."""
    return json.dumps(values, separators=(",", ":"))
