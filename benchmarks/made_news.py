"""Short news made of the sentences of real articles, any number of them, with planted copies.

A text has ``CHARACTERS`` or a little more: sentences of the Chinese paragraphs of prose (``texts.paragraphs``), drawn
at random. There are some 40,000 of them, so two texts that are no copies rarely share one of their sentences (of a
million texts each sentence is in some 300), and share little more than common words. One text in five is a copy of
a random earlier one that is none: with one sentence edited (its middle third replaced by that of another
one), or dropped, or with a header added. Each text follows from its number alone. Without ``STREAM_DEDUP_DATA`` the
sentences are random characters.
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import NamedTuple

from benchmarks.texts import SEED, paragraphs

CHARACTERS = 500
COPY_ONE_IN = 5
LEAST_CHARACTERS, MOST_CHARACTERS = 12, 120
"""Of a sentence."""
LEAST_SENTENCES, MADE_SENTENCES = 1_000, 45_000
"""Fewer real ones, as without STREAM_DEDUP_DATA, would be in every text: then as many are made of random characters."""
_SENTENCE = re.compile(r"[^。！？；\n]+[。！？；]")
_HEADERS = (
    "【本网讯】{month}月{day}日，记者从有关部门获悉：",
    "（原标题：独家报道第{number}期）转载自网络，版权归原作者所有。",
    "来源：例报  {year}-{month:02}-{day:02} {hour:02}:{minute:02}  编辑：小{letter}  ",
    "点击上方蓝字关注我们，每天{hour}点准时推送。阅读量 {number}。",
)


class MadeText(NamedTuple):
    """A text, the number of the text that it is a copy of, and how it was changed; no copy: None and nothing."""

    text: str
    origin: int | None
    change: str


def made_text(number: int) -> MadeText:
    """Return the text of this number."""
    origin = _origin(number)
    own = _sentences(number if origin is None else origin)
    if origin is None:
        return MadeText("".join(own), None, "")
    rng = random.Random(f"{SEED} change {number}")
    at = rng.randrange(len(own))
    change = rng.choice(("sentence edited", "sentence dropped", "header added"))
    if change == "sentence edited":
        own[at] = _edited(own[at], rng)
    elif change == "sentence dropped":
        del own[at]
    else:
        own.insert(0, _header(rng))
    return MadeText("".join(own), origin, change)


def _origin(number: int) -> int | None:
    """Return the number of the text that this one is a copy of."""
    rng = random.Random(f"{SEED} origin {number}")
    if number == 0 or rng.randrange(COPY_ONE_IN):
        return None
    earlier = rng.randrange(number)
    while _origin(earlier) is not None:
        earlier = rng.randrange(number)
    return earlier


def _sentences(number: int) -> list[str]:
    rng, every = random.Random(f"{SEED} text {number}"), _all_sentences()
    own, size = [], 0
    while size < CHARACTERS:
        own.append(rng.choice(every))
        size += len(own[-1])
    return own


@cache
def _all_sentences() -> list[str]:
    every = (sentence for paragraph in paragraphs() for sentence in _SENTENCE.findall(paragraph))
    real = [one for one in dict.fromkeys(every) if LEAST_CHARACTERS <= len(one) <= MOST_CHARACTERS]
    return real if len(real) >= LEAST_SENTENCES else _made_sentences()


def _made_sentences() -> list[str]:
    rng, letters = random.Random(SEED), "".join(paragraphs())
    return ["".join(rng.choices(letters, k=rng.randrange(LEAST_CHARACTERS, 60))) + "。" for _ in range(MADE_SENTENCES)]


def _edited(sentence: str, rng: random.Random) -> str:
    other = rng.choice(_all_sentences())
    third = len(sentence) // 3
    return sentence[:third] + other[len(other) // 3 : 2 * len(other) // 3] + sentence[2 * third :]


def _header(rng: random.Random) -> str:
    numbers = {"month": (1, 13), "day": (1, 29), "hour": (0, 24), "minute": (0, 60), "year": (2015, 2026)}
    drawn = {name: rng.randrange(*between) for name, between in numbers.items()}
    letter, number = rng.choice("王李张刘陈"), rng.randrange(10_000)
    return rng.choice(_HEADERS).format(letter=letter, number=number, **drawn)
