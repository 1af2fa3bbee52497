"""News of offices: different articles that share most of their words, and hardly a sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random

_WORDS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TOPICS = 9
"""Matters that one article is about: each has its own."""
CALLS = 0.3
"""Share of sentences that are stock phrases whole."""


def article(size: int, rng: Random) -> str:
    """An article of so many characters."""
    topics = {name: rng.sample(words, min(TOPICS, len(words))) for name, words in _WORDS.items()}
    sentences, had = list[str](), 0
    while had < size:
        sentences.append(_stock(topics, rng) if rng.random() < CALLS else _reported(topics, rng))
        had += len(sentences[-1])
    return "".join(sentences)[:size]


def _stock(topics: dict[str, list[str]], rng: Random) -> str:
    return f"{rng.choice(topics['call'])}。"


def _reported(topics: dict[str, list[str]], rng: Random) -> str:
    who, where = rng.choice(topics["who"]), rng.choice(topics["where"])
    first, second, third = rng.sample(topics["what"], 3)
    how, other = rng.sample(topics["how"], 2)
    number, day = rng.randint(3, 980), f"{rng.randint(1, 12)}月{rng.randint(1, 28)}日"
    forms = (
        f"{who}{how}，在{where}{first}，{rng.choice(topics['result'])}。",
        f"今年以来，{where}{how}，{other}，{first}、{second}，累计投入资金{number}万元。",
        f"{day}，{who}到{where}调研{first}和{second}工作，{rng.choice(topics['people'])}。",
        f"据了解，{who}已{first}{number}处，{second}，计划年内{third}。",
        f"在{where}，{first}，{second}，{rng.choice(topics['result'])}。",
    )
    return rng.choice(forms)
