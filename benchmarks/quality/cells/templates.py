"""Templates: texts that differ in a few facts and are no copies, and real copies of the same texts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.quality.cells import edits
from benchmarks.quality.cells.model import Cell, Pair, Pairs, fixed

_FILE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FACTS: dict[str, list[str]] = _FILE["facts"]
KINDS: list[dict[str, Any]] = _FILE["kind"]
LONG = 180
"""Characters of a template from which on it is counted with the long ones."""
NUMBER = 200
MOST_FACTS = 6
CHANGED = "facts changed"
"""First part of the names of cells with changed facts."""
COPIES_FOUND = 0.95
"""Share of the copies that is to be found."""
_SLOT = re.compile(r"{(([a-z]+)\d*)}")
_MONTHS = ("January", "March", "April", "June", "July", "September", "October", "November")

Facts = dict[str, str]


def cells() -> Iterator[Cell]:
    """Changed facts by their number, and copies by their kind; short and long templates; both profiles."""
    sizes = {f"below {LONG}": [one for one in KINDS if len(one["text"]) < LONG]}
    sizes[f"{LONG} and more"] = [one for one in KINDS if len(one["text"]) >= LONG]
    for profile in ("article", "comment"):
        for size, kinds in sizes.items():
            for count in range(1, MOST_FACTS + 1):
                name = f"{CHANGED}/{profile} {count}, {size}"
                yield Pairs(name, profile, NUMBER, partial(_changed, kinds, count), None, copies=False)
            for name, copy in COPIES.items():
                yield Pairs(
                    f"templates/{profile} {name}, {size}",
                    profile,
                    NUMBER,
                    partial(_copied, kinds, copy),
                    fixed(COPIES_FOUND),
                )


def _changed(kinds: list[dict[str, Any]], count: int, rng: Random) -> Pair:
    kind = rng.choice(kinds)
    facts = _facts(kind["text"], rng)
    others = dict(facts)
    for slot in rng.sample(list(facts), min(count, len(facts))):
        while others[slot] == facts[slot]:
            others[slot] = _fact(slot.rstrip("0123456789"), rng, _language(kind["text"]))
    return _filled(kind["text"], facts), _filled(kind["text"], others)


def _copied(kinds: list[dict[str, Any]], copy: Callable[[str, dict[str, Any], Random], str], rng: Random) -> Pair:
    kind = rng.choice(kinds)
    whole = _filled(kind["text"], _facts(kind["text"], rng))
    return whole, copy(whole, kind, rng)


def _typography(whole: str, _: dict[str, Any], rng: Random) -> str:
    return edits.typography(whole, rng)


def _source_line(whole: str, kind: dict[str, Any], rng: Random) -> str:
    lines = edits.SOURCE_LINES[_language(kind["text"])]
    return f"{whole}\n{rng.choice(lines)}"


def _correction(whole: str, kind: dict[str, Any], _: Random) -> str:
    old, new = kind["correction"]
    assert old in whole
    return whole.replace(old, new)


COPIES = {"typography": _typography, "source line": _source_line, "correction": _correction}


def _facts(text: str, rng: Random) -> Facts:
    slots = dict(_SLOT.findall(text))
    return {slot: _fact(kind, rng, _language(text)) for slot, kind in slots.items()}


def _filled(text: str, facts: Facts) -> str:
    return _SLOT.sub(lambda slot: facts[slot[1]], text)


def _fact(kind: str, rng: Random, language: str) -> str:
    """A fact of a kind: one of a list, or a number in the form of that kind."""
    return rng.choice(FACTS[kind]) if kind in FACTS else _NUMBERS[kind](rng, language)


def _number(rng: Random, _: str) -> str:
    return str(rng.randint(11, 199))


def _money(rng: Random, _: str) -> str:
    return f"{rng.randint(12, 9_800)}.{rng.randrange(100):02}"


def _code(rng: Random, _: str) -> str:
    return f"{rng.choice('ABCDEFGHK')}{rng.randint(1_000, 999_999)}"


def _phone(rng: Random, _: str) -> str:
    return f"{rng.randint(130, 199)}{rng.randint(10_000_000, 99_999_999)}"


def _date(rng: Random, language: str) -> str:
    day = rng.randint(1, 28)
    return f"{rng.randint(1, 12)}月{day}日" if language == "zh" else f"{day} {rng.choice(_MONTHS)}"


def _time(rng: Random, _: str) -> str:
    return f"{rng.randint(7, 21)}:{rng.randrange(0, 60, 5):02}"


_NUMBERS = {"n": _number, "money": _money, "code": _code, "phone": _phone, "date": _date, "time": _time}


def _language(text: str) -> str:
    return "zh" if re.search("[\u4e00-\u9fff]", text) else "en"
