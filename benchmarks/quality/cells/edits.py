"""Edits: what happens to a text on its way to another site."""

from __future__ import annotations

import html
import re
from functools import cache
from random import Random

import rjieba

from benchmarks.quality.cells import texts

RUN = (2, 8)
"""Characters of one edit."""
REPLACED, LEFT_OUT = 0.6, 0.2
"""Shares of the edits; the others add."""
SOURCE_LINES = {
    "zh": ("来源：城市晚报　责任编辑：李一　发布于今天早上", "（本文来源于江畔新闻客户端，编辑：王小满）　"),
    "en": ("Source: City Post, ed.", "(via Harbour News Wire)"),
}
"""Lines of some 22 characters that a site adds."""
MISREAD = dict(zip("ehilomnsuct", ("c", "b", "l", "1", "0", "rn", "u", "5", "n", "e", "f"), strict=True))
"""What letters are taken for in scans."""
_UNIT = re.compile("[0-9A-Za-z\u00c0-\u06ff\u0900-\u097f\uac00-\ud7af']+|.", re.DOTALL)
_LETTERS = re.compile(r"\w")
_FULL = str.maketrans(",.!?:;()", "，。！？：；（）")


def edited(whole: str, share: float, rng: Random, language: str) -> str:
    """So large a share of the characters changed, in runs: most replaced by other prose, some left out, some added.

    As people edit: where there are words between spaces, whole words.
    """
    made, spare = _units(whole), _units(texts.text(language, max(len(whole), 100), rng))
    left = max(round(share * len(whole)), 1)
    while left > 0:
        run, at, kind = min(rng.randint(*RUN), left), rng.randrange(len(made)), rng.random()
        gone, new = _run(made, at, run), _run(spare, rng.randrange(len(spare)), run)
        left -= len("".join(gone))
        if kind < REPLACED:
            made[at : at + len(gone)] = new
        elif kind < REPLACED + LEFT_OUT and len(gone) < len(made):
            del made[at : at + len(gone)]
        else:
            made[at:at] = new
    return "".join(made)


def scattered(whole: str, share: float, rng: Random, language: str) -> str:
    """So large a share of the characters replaced one by one, at random: every letter of it a wrong one."""
    made, count = list(whole), max(round(share * len(whole)), 1)
    for at in rng.sample(range(len(whole)), min(count, len(whole))):
        made[at] = rng.choice(letters(language))
    return "".join(made)


def wrong_letters(whole: str, share: float, rng: Random, language: str) -> str:
    """So large a share of the letters replaced by other letters of the language; spaces and the rest stay."""
    made, places = list(whole), [at for at, one in enumerate(whole) if _LETTERS.match(one)]
    for at in rng.sample(places, max(round(share * len(places)), 1)):
        made[at] = rng.choice([one for one in letters(language) if one != whole[at]])
    return "".join(made)


def misread(whole: str, share: float, rng: Random) -> str:
    """So large a share of the characters taken for others that look like them, as scans are read."""
    made, places = list(whole), [at for at, one in enumerate(whole) if one in MISREAD]
    for at in rng.sample(places, min(max(round(share * len(whole)), 1), len(places))):
        made[at] = MISREAD[whole[at]]
    return "".join(made)


def one_letter(whole: str, rng: Random, language: str) -> str:
    """One letter replaced by another one."""
    at = rng.choice([at for at, one in enumerate(whole) if _LETTERS.match(one)] or range(len(whole)))
    new = rng.choice([one for one in letters(language) if one != whole[at]])
    return whole[:at] + new + whole[at + 1 :]


def words(whole: str, share: float, rng: Random, language: str) -> str:
    """So large a share of the words replaced by words of other texts."""
    parts = _words(whole)
    chosen = [at for at, part in enumerate(parts) if _LETTERS.match(part)]
    spare = word_list(texts.text(language, max(len(whole), 200), rng))
    for at in rng.sample(chosen, round(share * len(chosen))):
        parts[at] = rng.choice(spare)
    return "".join(parts)


def sentences_out(whole: str, share: float, rng: Random) -> str:
    """Sentences left out that have nearly so large a share of the characters, the shortest if all have more."""
    parts = texts.sentences(whole)
    gone, left = set[int](), share * len(whole)
    for at in rng.sample(range(len(parts)), len(parts)):
        if len(parts[at]) <= left:
            gone.add(at)
            left -= len(parts[at])
    gone = gone or {min(range(len(parts)), key=lambda at: len(parts[at]))}
    return "".join(part for at, part in enumerate(parts) if at not in gone) or whole


def reordered(whole: str, rng: Random) -> str:
    """The sentences in another order."""
    parts = texts.sentences(whole)
    rng.shuffle(parts)
    return "".join(parts)


def first_part(whole: str, share: float) -> str:
    return whole[: round(share * len(whole))]


def typography(whole: str, rng: Random) -> str:
    """Other line breaks, spaces and widths of punctuation: the same text to a reader."""
    made = whole.translate(_FULL) if rng.random() < 0.5 else whole.replace("，", ",").replace("。", ".")
    broken = re.sub(r"(?<=。)|(?<=\.) +", "\n\n　　", made.replace("\n", "\n\n　　"), count=rng.randint(1, 3))
    return f"　　{broken}"


def numbers(whole: str, rng: Random) -> str:
    """Every digit another one."""
    return re.sub(r"\d", lambda _: str(rng.randrange(10)), whole)


def spaced(whole: str) -> str:
    """A space after every character, as PDF and OCR leave them."""
    return " ".join(whole)


def escaped(whole: str) -> str:
    """HTML whose tags were escaped on the way: the reader sees them."""
    marked = "".join(f'<p style="text-indent: 2em; line-height: 1.8">{line}</p>\n' for line in whole.splitlines())
    return html.escape(f'<div class="article-body">{marked}</div>')


@cache
def letters(language: str) -> str:
    """Letters of the language, as often as they stand in its prose."""
    return "".join(_LETTERS.findall("".join(texts.prose(language)[:2_000])))


def word_list(whole: str) -> list[str]:
    """Its words."""
    return [part for part in _words(whole) if _LETTERS.match(part)]


def _words(whole: str) -> list[str]:
    return rjieba.cut(whole) if re.search(r"[\u4e00-\u9fff]", whole) else re.findall(r"\w+|\W+", whole)


def _units(whole: str) -> list[str]:
    """What is edited as one: words between spaces, characters of other scripts."""
    return _UNIT.findall(whole)


def _run(units: list[str], at: int, size: int) -> list[str]:
    """Units from there on that have so many characters together, and no more than they need."""
    end, had = at, 0
    while end < len(units) and had < size:
        had += len(units[end])
        end += 1
    return units[at:end]
