"""What others wrote: replies that quote a text whole, posts that are passed on, and copies that hold the same quote."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import partial
from random import Random

from benchmarks.quality import data
from benchmarks.quality.cells import edits, texts
from benchmarks.quality.cells.model import Aimed, Cell, Pair, Pairs, fixed

NUMBER = 200
SIZES = {"article": (500, 1500), "comment": (200, 400)}
"""Characters of what is quoted."""
OWN = (0.1, 0.3, 0.5, 0.7, 1, 2)
"""Own words of a reply, as a share of what it quotes."""
TOLD_APART, FOUND, FOUND_EDITED = fixed(0.02), fixed(0.98), fixed(0.95)
WIDTH = {"en": 72, "zh": 36}
NOTES = ("", "+1", "agreed", "FYI", "same here, see below", "转发微博", "顶", "说得好！", "支持一下")
NAMES = ("Jane Doe", "Ikeda", "张三", "老李", "O. Brandt", "crow_42")


def cells() -> Iterator[Cell]:
    """Both languages, both profiles."""
    for profile, size in SIZES.items():
        for language in data.LANGUAGES:
            where = f"{language} {profile}"
            for share in OWN:
                # A tenth of a comment may be too little to stand alone.
                aim = None if (profile, share) == ("comment", 0.1) else TOLD_APART
                name, reply = f"quotes/{where} reply of {share}", partial(_reply, language, size, share)
                yield Pairs(name, profile, NUMBER, reply, aim, copies=False)
            two = partial(_two_replies, language, size)
            yield Pairs(f"quotes/{where} two replies of 0.3", profile, NUMBER, two, TOLD_APART, copies=False)
            yield _copies(f"quotes/{where} passed on", profile, partial(_passed_on, language, size), FOUND)
            yield _copies(f"quotes/{where} forwarded twice", profile, partial(_forwarded, language, size), FOUND)
            for share in (0.3, 1):
                same = partial(_same_quote, language, size, share)
                yield _copies(f"quotes/{where} 5 % of own {share} edited", profile, same, FOUND_EDITED)
            others = partial(_other_quotes, language, size)
            yield _copies(f"quotes/{where} same words, other quotes", profile, others, FOUND)
            plain = partial(_without_marks, language, size)
            yield _copies(f"quotes/{where} a fifth marked as quoted", profile, plain, FOUND)


def _copies(name: str, profile: str, make: partial[Pair], aim: Aimed) -> Pairs:
    return Pairs(name, profile, NUMBER, make, aim)


def _reply(language: str, size: tuple[int, int], share: float, rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*size), rng)
    return whole, _quoting(_own(language, whole, share, rng), whole, language, rng)


def _two_replies(language: str, size: tuple[int, int], rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*size), rng)
    first, second = (_quoting(_own(language, whole, 0.3, rng), whole, language, rng) for _ in range(2))
    return first, second


def _passed_on(language: str, size: tuple[int, int], rng: Random) -> Pair:
    """A text and the same as a quote, with next to no words beside it: spam may be hidden so."""
    whole = texts.text(language, rng.randint(*size), rng)
    return whole, _quoting(rng.choice(NOTES), whole, language, rng)


def _forwarded(language: str, size: tuple[int, int], rng: Random) -> Pair:
    """A mail that two people forward, each with headers of their own."""
    whole = texts.text(language, rng.randint(*size), rng)
    first, second = (f"{rng.choice(NOTES)}\n\n{_headers(language, rng)}\n\n{whole}" for _ in range(2))
    return first, second


def _same_quote(language: str, size: tuple[int, int], share: float, rng: Random) -> Pair:
    whole = texts.text(language, rng.randint(*size), rng)
    own, form = _own(language, whole, share, rng), rng.random()
    first, second = (
        _quoting(one, whole, language, Random(form)) for one in (own, edits.edited(own, 0.05, rng, language))
    )
    return first, second


def _other_quotes(language: str, size: tuple[int, int], rng: Random) -> Pair:
    """The same words, as long as a quote, behind quotes of different texts: so spam may be made to differ."""
    own = texts.text(language, rng.randint(*size), rng)
    first, second = (_quoting(own, texts.text(language, rng.randint(*size), rng), language, rng) for _ in range(2))
    return first, second


def _without_marks(language: str, size: tuple[int, int], rng: Random) -> Pair:
    """An article with a block quotation, and a copy that lost its marks."""
    whole = texts.text(language, rng.randint(*size), rng)
    start = rng.randrange(round(0.8 * len(whole)))
    before, quoted, behind = whole[:start], whole[start : start + len(whole) // 5], whole[start + len(whole) // 5 :]
    return f"{before}\n\n{_lines(quoted, language)}\n\n{behind}", f"{before}\n\n{quoted}\n\n{behind}"


def _own(language: str, whole: str, share: float, rng: Random) -> str:
    return texts.text(language, max(round(share * len(whole)), 1), rng)


def _quoting(own: str, whole: str, language: str, rng: Random) -> str:
    """Words with a quote, in one of the forms of mail and forums."""
    name, day = rng.choice(NAMES), rng.randint(1, 28)
    when = f"2025-03-{day:02} {rng.randint(0, 23)}:{rng.randint(10, 59)}"
    says = f"在 {when}，{name} 写道：" if language == "zh" else f"On {when}, {name} wrote:"
    return rng.choice(
        (
            f"{says}\n{_lines(whole, language)}\n\n{own}",
            f"{own}\n\n{says}\n\n{_lines(whole, language)}",
            f"{own}\n\n{_headers(language, rng)}\n\n{whole}",
            f'[quote="{name}"]{whole}[/quote]\n{own}',
            f"<blockquote><p>{whole}</p></blockquote>\n<p>{own}</p>",
            f"{own}//@{name.replace(' ', '')}:{whole}",
        )
    )


def _lines(whole: str, language: str) -> str:
    lines = (line for part in whole.splitlines() for line in textwrap.wrap(part, WIDTH[language]) or [""])
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _headers(language: str, rng: Random) -> str:
    who, to = rng.sample(NAMES, 2)
    when = f"2025-03-{rng.randint(1, 28):02} {rng.randint(0, 23)}:{rng.randint(10, 59)}"
    if language == "zh":
        return (
            f"-----原始邮件-----\n发件人：{who} <{rng.randrange(10**6)}@example.cn>\n发送时间：{when}\n收件人：{to}\n"
            f"主题：转发：第 {rng.randrange(100)} 号"
        )
    return (
        f"-----Original Message-----\nFrom: {who} <{rng.randrange(10**6)}@example.org>\nSent: {when}\nTo: {to}\n"
        f"Subject: RE: number {rng.randrange(100)}"
    )
