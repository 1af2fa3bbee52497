"""Forms: which template a text is filled in from, and the numbers that are filled in.

Two notices from one template have most of their words in common, and differ in facts: "flight 1742 is delayed by 40
minutes". Neither signatures nor sketches tell these from a copy with a few edits. A form has two parts that do:

* The *frame*: the words of grammar of the text, in order: the characters of ``GRAMMAR``, and the common words of other
  languages. Facts are put in between and leave them alone; an edit of the wording seldom does.
* The *numbers*: all digits of the text, in order.

Texts of equal frames and other numbers are two texts from one template. Texts of other frames are edited, or from
different templates: their forms say nothing about them.

Names are no words of grammar, and neither are the characters that names have: 上 is grammar in one text and part of
上海 in the next, and no segmenter is asked which. Names and numerals in Chinese are no numbers either: an edit of the
wording changes these too often.

A form is made of the text as short text up to NFKC, so case, full-width characters, traditional characters, white space
and punctuation change no form, and the digits of addresses do not count. It is a pure function of that text and of the
seed. A text has no form if it has no digits, fewer than ``LEAST_FRAME`` words of grammar, or more than ``MOST_LETTERS``
letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import xxhash

from stream_dedup.core.model import FORM_BYTES
from tests.reference.clean import TOKENS
from tests.reference.weights import STOP_WORDS, common_words

MOST_LETTERS = 384
"""A long text whose numbers alone differ is a new edition of one text; a notice from a template is short."""
LEAST_FRAME = 2
"""A frame of fewer words is that of many texts."""
SHORTEST_WORD = 2
"""A word of one letter is part of a code as often as a word of grammar."""

_GRAMMAR = (
    "了的等着般",  # particles
    "呢吧吗么啦呀哩嘛",  # at the end of a sentence
    "在为对与从把被由用给至跟按据除替间",  # prepositions
    "而但并或既",  # conjunctions
    "他我这你她它各该谁另哪某怎咱啥",  # pronouns
    "不也就还又将只已却更再便仅乱似皆岂确",  # adverbs
    "是有说到要去出看没走做让听叫吃即像死住称受带请倒找写坐讲送怕急待尽喝瞧罢需呈算靠跳惊搞供活敢兼辖卖哭伤退睡骂挂抓具拍降停弄追读冒忘",
    "赴烧翻逃决弹摸扑赶炒抬摆借负呆唱玩吓祭恨爬持围插隔撞犯害陪躲逼烤咬躺跪编遭砍败哼夺毁",  # verbs
)
GRAMMAR = frozenset("".join(_GRAMMAR))
"""Chinese words of one character, of these parts of speech, that jieba's dictionary has often (3,000 times and more),
and hardly (one in fifty) within names of people, places and organisations."""

_NAMES = "al da de del di dos du el la las le les li lo los ma may su van von will"
"""Common words that names have too: Las Vegas, Li Na, the month of May."""

_NO_DIGITS = re.compile(r"\D+")
_LETTERS = re.compile(f"[^\\W_{''.join(TOKENS.values())}]+")
_WORD = re.compile(f"[{''.join(sorted(GRAMMAR))}]|[^\\W\\d_\u4e00-\u9fd5]{{{SHORTEST_WORD},}}")
_LOW = 0xFFFFFFFF


class Form(NamedTuple):
    """The form of a text, as text."""

    frame: str = ""
    """Words of grammar, separated by spaces; empty without a form."""
    numbers: str = ""
    """Digits; empty without a form."""


NO_FORM = Form()


def form_of(normalised: str) -> Form:
    """Return the form of a text that is normalised as short text up to NFKC."""
    numbers = _NO_DIGITS.sub("", normalised)
    if not numbers or _has_more_letters(normalised):
        return NO_FORM
    return _form_from(_WORD.findall(normalised), numbers)


def _form_from(words: Iterable[str], numbers: str) -> Form:
    """Return the form of a text with these words, some of which may be words of grammar, and these digits."""
    known = _words_of_grammar()
    frame = [word for word in words if word in known]
    return Form(" ".join(frame), numbers) if len(frame) >= LEAST_FRAME else NO_FORM


def packed(form: Form, seed: int) -> bytes:
    """Return ``FORM_BYTES``: the hash of the frame, then that of the numbers.

    A hash is the low half of XXH3-64 of the UTF-8 bytes with the scheme's seed, little-endian, and 1 if that is 0. It
    is 0 without a form.
    """
    return b"".join(_hash(part, seed).to_bytes(FORM_BYTES // 2, "little") for part in form)


def _has_more_letters(normalised: str) -> bool:
    return sum(map(len, _LETTERS.findall(normalised))) > MOST_LETTERS


def _hash(part: str, seed: int) -> int:
    return (xxhash.xxh3_64_intdigest(part.encode(), seed) & _LOW or 1) if part else 0


@cache
def _words_of_grammar() -> frozenset[str]:
    return GRAMMAR | (STOP_WORDS | common_words()) - frozenset(_NAMES.split())
