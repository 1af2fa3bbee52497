"""Texts of a given language and length: windows of real prose.

Chinese and English prose is that of ``STREAM_DEDUP_DATA``, without code, links and markup; other languages have
manuals, and where there are none the Declaration of Human Rights. A text begins where a paragraph begins, and is cut
after so many characters.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import accumulate
from random import Random

from benchmarks.quality import data
from benchmarks.quality.cells import declaration, manuals

_LINK = re.compile(r"!?\[([^\]]*)\]\s*[(\[][^)\]]*[)\]]|https?://\S+|[*`_#>]+")
_PROSE = {"zh": re.compile(r"[\u4e00-\u9fff]"), "en": re.compile(r"[a-z ]")}
_LEAST_PROSE = {"zh": 0.6, "en": 0.85}
"""Share of characters of a line that are prose; code and tables have less."""
SHORTEST = 40
"""Characters: shorter lines are headings and the like."""
ARTICLES = 1_500
"""Chinese articles read: 1.6 million characters of prose."""
SENTENCE = re.compile(r"(?<=[。！？；])|(?<=[.!?।၊។] )")


@cache
def prose(language: str) -> list[str]:
    """Paragraphs of prose in the order of their articles, no two the same."""
    if language in manuals.PACKAGES:
        return manuals.paragraphs(language)
    if language not in _PROSE:
        return declaration.paragraphs(language)
    whole = data.articles()[:ARTICLES] if language == "zh" else data.revisions(language).old
    lines = dict.fromkeys(" ".join(_LINK.sub(r"\1", line).split()) for text in whole for line in text.splitlines())
    return [line for line in lines if len(line) >= SHORTEST and _is_prose(line, language)]


def _is_prose(line: str, language: str) -> bool:
    return len(_PROSE[language].findall(line)) >= _LEAST_PROSE[language] * len(line)


def text(language: str, length: int, rng: Random) -> str:
    """So many characters from the beginning of a paragraph on, from any place of the prose."""
    paragraphs, ends = prose(language), _ends(language)
    whole = ends[-1]
    if whole < 2 * length:
        return "\n".join(rng.choices(paragraphs, k=length // SHORTEST + 1))[:length]
    start = rng.randrange(len(paragraphs))
    while whole - ends[start] < length:
        start = rng.randrange(len(paragraphs))
    return _from(paragraphs, start, length)


def apart(language: str, length: int, number: int) -> list[str]:
    """As many texts as there are, at most so many, none with a paragraph of another."""
    paragraphs, found, start = prose(language), list[str](), 0
    while len(found) < number and start < len(paragraphs):
        one = _from(paragraphs, start, length)
        if len(one) == length:
            found.append(one)
        start += max(one.count("\n") + 1, 1)
    return found


def sentences(whole: str) -> list[str]:
    """Its sentences; joined they are the text."""
    return [one for one in SENTENCE.split(whole) if one]


def _from(paragraphs: list[str], start: int, length: int) -> str:
    taken, size = list[str](), -1
    while size < length and start + len(taken) < len(paragraphs):
        taken.append(paragraphs[start + len(taken)])
        size += len(taken[-1]) + 1
    return "\n".join(taken)[:length]


@cache
def _ends(language: str) -> list[int]:
    return list(accumulate(len(one) + 1 for one in prose(language)))
