"""The rows where detection had cliffs: one cell each, or one for each language and size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

from benchmarks.quality import data
from benchmarks.quality.cells import edits, official, texts
from benchmarks.quality.cells.declaration import paragraphs
from benchmarks.quality.cells.model import Aimed, Cell, Pair, Pairs, Unlike, as_peer, fixed
from benchmarks.quality.cells.pages import Site

NUMBER = 300
"""Pairs of a cell."""
LONG_NUMBER = 200
ARTICLE, COMMENT = "article", "comment"
Edit = Callable[[str, Random], str]

WITHOUT_SPACES = {"th": "Thai", "lo": "Lao", "km": "Khmer", "my": "Burmese"}
SITES = 20
NEWS = 120
"""Articles of a set."""
FILLERS = {"0000": "hex", "0.00": "en", "1900-01-01": "zh"}
"""What fills a text, and of what the rest is: hexadecimal numbers, or words of a language."""
_LINK_ALONE = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)


def rows() -> Iterator[Cell]:
    """Every row."""
    yield from _across()
    yield from _scripts()
    yield from _letters()
    yield from _cuts()
    yield from _sites()
    yield from _official()
    yield from _damage()
    yield from _shortest()
    yield from _dominated()
    yield from _noise()
    for language in data.LANGUAGES:
        steady = _pairs(f"seeds differ/{language} 10 %", language, (1000, 3000), _edited(0.1, language), fixed(0.08))
        yield replace(steady, each_seed=True)


def _across() -> Iterator[Cell]:
    for language in data.LANGUAGES:
        yield _pairs(
            f"across 300/source line {language}", language, (280, 299), _source_line(language), aim=fixed(0.98)
        )
        for share in (0.05, 0.1, 0.2):
            yield _pairs(
                f"250-350/{language} {share * 100:.0f} % edited", language, (250, 350), _edited(share, language)
            )


def _scripts() -> Iterator[Cell]:
    for language, name in {**WITHOUT_SPACES, "ja": "Japanese"}.items():
        for profile in (ARTICLE, COMMENT):
            yield Unlike(
                f"paragraphs/{name} {profile}",
                profile,
                partial(paragraphs, language),
                fixed(1 / len(paragraphs(language))),
            )
            copies = partial(_edited_paragraph, language, 0.05)
            yield Pairs(f"paragraphs/{name} {profile} 5 % edited", profile, LONG_NUMBER, copies, fixed(0.95))
    for length in (700, 1000, 1400, 2000, 2800, 4000):
        yield Unlike(f"unrelated/Japanese {length}", ARTICLE, partial(texts.apart, "ja", length, 60), fixed(1 / 57))


def _letters() -> Iterator[Cell]:
    for least, most, aim in ((20, 40, 0.90), (40, 80, 0.97), (80, 200, 0.99)):
        make = partial(_one_letter, least, most)
        yield Pairs(f"one letter/en comments {least}-{most}", COMMENT, NUMBER, make, fixed(aim))
    for language in ("en", "de", "ru", "ko"):
        edit = _edited(0.1, language)
        yield replace(_pairs(f"45 characters/{language} 10 % edited", language, (45, 45), edit), profile=COMMENT)


def _cuts() -> Iterator[Cell]:
    for language in data.LANGUAGES:
        length, cut = (500, 1000), fixed(0.95)
        yield _pairs(f"cut/{language} first 70 %", language, length, lambda one, _: edits.first_part(one, 0.7), aim=cut)
        for share in (0.2, 0.3):
            out = partial(_sentences_out, share)
            yield _pairs(f"cut/{language} {share * 100:.0f} % of sentences out", language, length, out, aim=cut)
        yield _pairs(f"cut/{language} inside a page of 1.5", language, length, partial(_inside, language), aim=cut)
        for share in (0.1, 0.2):
            replaced = partial(_words, share, language)
            yield _pairs(f"words/{language} {share * 100:.0f} % replaced", language, length, replaced)


def _sites() -> Iterator[Cell]:
    for language in data.LANGUAGES:
        for body, around in (((300, 500), 100), ((500, 1000), 200), ((1000, 2000), 400)):
            copies = partial(_two_sites, language, body, around)
            name = f"two sites/{language} {body[0]}-{body[1]} with {around}"
            yield Pairs(name, ARTICLE, NUMBER, copies, fixed(0.95))
        for body in ((300, 500), (500, 1000)):
            for around in (200, 400):
                for profile in (COMMENT, ARTICLE):
                    name = f"one site/{language} {profile} {body[0]}-{body[1]} with {around}"
                    yield Unlike(name, profile, partial(_one_site, name, language, body, around))


def _official() -> Iterator[Cell]:
    for profile in (COMMENT, ARTICLE):
        yield Unlike(f"official news/{profile} 1000-3000", profile, _news)
        name = f"official news/real articles {profile}"
        yield Unlike(name, profile, partial(texts.apart, "zh", 2000, NEWS), each_seed=False)


def _damage() -> Iterator[Cell]:
    length = (500, 2000)
    yield _pairs("damage/zh spaces between characters", "zh", length, lambda one, _: edits.spaced(one))
    for language in data.LANGUAGES:
        yield _pairs(f"damage/{language} escaped HTML", language, length, lambda one, _: edits.escaped(one))
        yield Pairs(f"damage/{language} all numbers", ARTICLE, NUMBER, partial(_numbers, language))


def _shortest() -> Iterator[Cell]:
    yield Pairs("shortest/other final punctuation", COMMENT, NUMBER, _final_punctuation, fixed(0.95))


def _dominated() -> Iterator[Cell]:
    for filler, kind in FILLERS.items():
        for profile in (ARTICLE, COMMENT):
            name = f"one feature/{profile} {kind} of nine tenths {filler}"
            yield Unlike(name, profile, partial(_filled, name, filler, kind), fixed(0.01))
            yield Pairs(f"{name}, edited", profile, LONG_NUMBER, partial(_refilled, filler, kind), fixed(0.95))


def _noise() -> Iterator[Cell]:
    """Without aims: a wrong letter makes another word, and so another feature."""
    for length in ((300, 500), (1000, 3000)):
        for share in (0.03, 0.05):
            of = f"{length[0]}-{length[1]} {share * 100:.0f} %"
            yield replace(_pairs(f"noise/en {of} misread", "en", length, partial(_misread, share)), aim=None)
            for language in ("en", "de", "ru"):
                wrong = partial(_wrong_letters, share, language)
                yield replace(_pairs(f"noise/{language} {of} of letters", language, length, wrong), aim=None)


def _pairs(name: str, language: str, length: tuple[int, int], edit: Edit, aim: Aimed = as_peer) -> Pairs:
    return Pairs(name, ARTICLE, NUMBER, partial(_pair, language, length, edit), aim)


def _pair(language: str, length: tuple[int, int], edit: Edit, rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*length), rng)
    return whole, edit(whole, rng)


def _edited(share: float, language: str) -> Edit:
    return lambda whole, rng: edits.edited(whole, share, rng, language)


def _source_line(language: str) -> Edit:
    return lambda whole, rng: f"{whole}\n{rng.choice(edits.SOURCE_LINES[language])}"


def _sentences_out(share: float, whole: str, rng: Random) -> str:
    return edits.sentences_out(whole, share, rng)


def _words(share: float, language: str, whole: str, rng: Random) -> str:
    return edits.words(whole, share, rng, language)


def _edited_paragraph(language: str, share: float, rng: Random) -> Pair:
    one = rng.choice(paragraphs(language))
    return one, edits.edited(one, share, rng, language)


def _one_letter(least: int, most: int, rng: Random) -> Pair:
    """A comment and the same with a wrong letter; no link alone, which is another link with another letter."""
    one = rng.choice(
        [one for one in data.comments("en") if least <= len(one) <= most and not _LINK_ALONE.fullmatch(one)]
    )
    return one, edits.one_letter(one, rng, "en")


def _inside(language: str, whole: str, rng: Random) -> str:
    """The text with others before and after it, half as long together."""
    around = texts.text(language, len(whole) // 2, rng)
    return f"{around[: len(around) // 2]}\n{whole}\n{around[len(around) // 2 :]}"


def _two_sites(language: str, body: tuple[int, int], around: int, rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*body), rng)
    return Site(language, around, rng).page(whole), Site(language, around, rng).page(whole)


def _one_site(name: str, language: str, body: tuple[int, int], around: int) -> list[str]:
    """Different articles, some dozens, of one site."""
    rng = Random(name)
    site = Site(language, around, rng)
    bodies = texts.apart(language, body[1], 3 * SITES)
    return [site.page(one[: rng.randint(*body)]) for one in bodies]


def _news() -> list[str]:
    rng = Random("official news")
    return [official.article(rng.randint(1000, 3000), rng) for _ in range(NEWS)]


def _numbers(language: str, rng: Random) -> Pair:
    """Text in which one sentence in two has a number, and the same with other numbers."""
    parts = texts.sentences(texts.text(language, rng.randint(500, 2000), rng))
    whole = "".join(part.rstrip() + f" {rng.randrange(10_000)} " * (rng.random() < 0.5) for part in parts)
    return whole, edits.numbers(whole, rng)


def _filled(name: str, filler: str, kind: str) -> list[str]:
    """Different texts, of which one token in ten is no filler."""
    rng = Random(name)
    return [_with_fillers(filler, _tokens(kind, rng.randint(20, 60), rng), rng) for _ in range(NEWS)]


def _refilled(filler: str, kind: str, rng: Random) -> Pair:
    """Such a text, and the same with one in twenty of its other tokens exchanged."""
    tokens, places = _tokens(kind, rng.randint(20, 60), rng), rng.getrandbits(32)
    count = len(tokens) // 20
    edited = [*_tokens(kind, count, rng), *tokens[count:]]
    return _with_fillers(filler, tokens, Random(places)), _with_fillers(filler, edited, Random(places))


def _with_fillers(filler: str, tokens: list[str], rng: Random) -> str:
    made = [filler] * (10 * len(tokens))
    for at, token in zip(sorted(rng.sample(range(len(made)), len(tokens))), tokens, strict=True):
        made[at] = token
    return " ".join(made)


def _tokens(kind: str, number: int, rng: Random) -> list[str]:
    if kind == "hex":
        return [f"{rng.getrandbits(16):04x}" for _ in range(number)]
    return rng.sample(edits.word_list(texts.text(kind, 1000, rng)), number)


def _misread(share: float, whole: str, rng: Random) -> str:
    return edits.misread(whole, share, rng)


def _wrong_letters(share: float, language: str, whole: str, rng: Random) -> str:
    return edits.wrong_letters(whole, share, rng, language)


def _final_punctuation(rng: Random) -> Pair:
    one = "".join(rng.choices(edits.letters("zh"), k=rng.randint(2, 7)))
    marks = ["", "！", "。", "!", "!!!", "~", "…", "？"]
    first, second = rng.sample(marks, 2)
    return one + first, one + second
