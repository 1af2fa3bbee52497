r"""Texts that a step of the fingerprint may read wrongly, drawn from a seed: what the steps look for, whole and broken.

A text is drawn in one of the ways of ``TextFuzzer``, or is put together from two. Half of the ways begin with a text
that people wrote: a passage of it, edited or disguised.
"""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Iterator
from functools import cache, partial

import opencc

from stream_dedup.core.profiles import ARTICLE_SIZE, EXACT_SIZE
from tests.core.adversarial import PAGES, TEXTS, span
from tests.core.texts import MORE, SAMPLE, all_texts
from tests.fuzz.pieces import ALPHABETS, BLOCKS, EMOJI, INVISIBLE, MARKS, MARKUP, POOLS, SIGNS, WHITE
from tests.reference.form import MOST_LETTERS
from tests.reference.mixing import mixing_begin, mixing_end
from tests.reference.normalise import MAX_HAN_RUN, MAX_MARKS
from tests.reference.weights import jieba_file

MOST_CHARACTERS = 1_500
"""Characters of most passages, at most."""
LONG_CHARACTERS = 140_000
"""More than are read in one batch."""
LONG_ONE_IN = 2_000
"""One text of so many is long."""
JOINED_ONE_IN = 4

SIZES = (
    1,
    2,
    EXACT_SIZE,
    20,
    MAX_MARKS,
    mixing_begin(ARTICLE_SIZE),
    ARTICLE_SIZE,
    MOST_LETTERS,
    mixing_end(ARTICLE_SIZE),
)
"""Lengths at which something changes."""
_CIRCLED = str.maketrans("abcdefghijklmnopqrstuvwxyz", span((0x24D0, 0x24E9)))
_WIDE = {point: point + 0xFEE0 for point in range(0x21, 0x7F)} | {0x20: 0x3000}
_LOOKALIKE = str.maketrans("aceopxyABEHKMT", "асеорхуАВЕНКМТ")
_LEET = str.maketrans("olaesti", "01@35+!")


@cache
def dictionary_words() -> list[str]:
    """Return every word that the segmenter knows."""
    with jieba_file("dict.txt").open(encoding="utf-8") as lines:
        return [line.partition(" ")[0] for line in lines]


@cache
def written_texts() -> list[str]:
    """Return what people wrote: all real text, and the samples."""
    return [text for text in (*all_texts(), *SAMPLE, *MORE) if text]


@cache
def _traditional() -> opencc.OpenCC:
    return opencc.OpenCC("s2t")


class TextFuzzer:
    """Draws texts from a seed."""

    def __init__(self, seed: int | str) -> None:
        """The same seed draws the same texts, from the same data."""
        self._random = random.Random(f"texts {seed}")
        self._families = [*TEXTS.values(), *PAGES.values()]
        self._ways: tuple[Callable[[], str], ...] = (
            *(self._pieces, self._pool, self._alphabet, self._block, self._blocks, self._any_characters, self._family),
            *(self._words, self._cut_words, self._sized, self._passage, self._edited, self._edited, self._disguised),
        )
        self._disguises: tuple[Callable[[str], str], ...] = (
            *(str.upper, str.swapcase, html.escape, lambda text: html.escape(html.escape(text)), self._escaped),
            *(partial(self._joined, WHITE), partial(self._joined, INVISIBLE), partial(self._joined, MARKS)),
            *(partial(self._joined, "".join(EMOJI)), partial(self._joined, SIGNS), self._repeated, self._wrapped),
            *(lambda text: text.translate(_WIDE), lambda text: text.translate(_CIRCLED), self._as_traditional),
            *(lambda text: text.translate(_LOOKALIKE), lambda text: text.translate(_LEET), self._halved),
        )

    def texts(self, count: int) -> Iterator[str]:
        """Yield so many texts; none has more than ``LONG_CHARACTERS`` and what a disguise adds."""
        for _ in range(count):
            if self._one_in(LONG_ONE_IN):
                yield self._long()
            elif self._one_in(JOINED_ONE_IN):
                yield self._any() + self._random.choice(("", " ", "\n", "。", "\u200b")) + self._any()
            else:
                yield self._any()

    def batch_size(self) -> int:
        """Draw how many texts a batch has: one, some, or more than are processed together."""
        return self._random.choice((1, 2, self._random.randrange(3, 64), self._random.randrange(64, 400)))

    def _any(self) -> str:
        return self._random.choice(self._ways)()

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _size(self, most: int = MOST_CHARACTERS) -> int:
        """Draw a size up to ``most``: any of them, or any order of magnitude."""
        if self._one_in(2):
            return self._random.randrange(most)
        return int(most ** self._random.random())

    def _piece(self) -> str:
        return self._random.choice(self._random.choice(POOLS))

    def _pieces(self) -> str:
        return "".join([self._piece() for _ in range(self._size(60))])

    def _pool(self) -> str:
        """Draw pieces of one kind, with or without something between them."""
        between = self._random.choice(("", " ", "a", "中", self._piece()))
        return between.join(self._random.choices(self._random.choice(POOLS), k=self._size(40)))

    def _alphabet(self) -> str:
        return "".join(self._random.choices(self._random.choice(ALPHABETS), k=self._size(200)))

    def _block(self) -> str:
        """Draw words of one block: text whose characters all take one, two or four bytes, too."""
        block = self._random.choice(BLOCKS)
        return " ".join("".join(self._random.choices(block, k=self._size(20))) for _ in range(self._size(30)))

    def _blocks(self) -> str:
        blocks = self._random.sample(BLOCKS, 3)
        return "".join("".join(self._random.choices(self._random.choice(blocks), k=3)) for _ in range(self._size(80)))

    def _any_characters(self) -> str:
        return "".join([chr(self._random.randrange(0x110000)) for _ in range(self._size(60))])

    def _family(self) -> str:
        return self._random.choice(self._families)(self._size())

    def _words(self) -> str:
        """Draw words of the segmenter's dictionary."""
        return "".join(self._random.choices(dictionary_words(), k=self._size(150)))

    def _cut_words(self) -> str:
        """Draw words that begin or end in the middle: one word's end with the next one's beginning may be a third."""
        words = self._random.choices(dictionary_words(), k=self._size(150))
        return "".join([word[self._random.randrange(2) : len(word) - self._random.randrange(2)] for word in words])

    def _passage(self) -> str:
        text = self._random.choice(written_texts())
        start = self._random.randrange(len(text))
        return text[start : start + self._size()]

    def _sized(self) -> str:
        """Draw a passage that has about as many characters as a text at which something changes."""
        size = max(0, self._random.choice(SIZES) + self._random.randrange(-2, 3))
        filler = self._passage() + self._words() or "中"
        return (filler * (size // len(filler) + 1))[:size]

    def _edited(self) -> str:
        text = self._passage()
        for _ in range(self._random.randrange(1, 8)):
            at = self._random.randrange(len(text) + 1)
            end = at + self._random.choice((0, 0, 1, 5))
            text = text[:at] + self._piece() + text[end:]
        return text

    def _disguised(self) -> str:
        """Draw a passage of which a part, or all, is disguised."""
        text = self._passage()
        start, end = sorted(self._random.choices(range(len(text) + 1), k=2)) if self._one_in(2) else (0, len(text))
        return text[:start] + self._random.choice(self._disguises)(text[start:end]) + text[end:]

    def _long(self) -> str:
        shape = self._random.randrange(3)
        if shape == 0:
            size = MAX_HAN_RUN + self._random.randrange(-3, 4)
            return "".join(self._random.choices(dictionary_words(), k=size))[:size]
        if shape == 1:
            return self._random.choice(self._families)(self._size(LONG_CHARACTERS))
        return "\n".join([self._any() for _ in range(300)])[:LONG_CHARACTERS]

    def _joined(self, between: str, text: str) -> str:
        """Put characters between those of a text: always the same one, or others."""
        if self._one_in(2):
            return self._random.choice(between).join(text)
        return "".join([one + "".join(self._random.choices(between, k=self._random.randrange(4))) for one in text])

    def _repeated(self, text: str) -> str:
        return "".join([one * self._random.choice((1, 1, 2, 3, 9)) for one in text])

    def _wrapped(self, text: str) -> str:
        return "\n".join(
            [f"{self._random.choice(MARKUP)}{line}{self._random.choice(MARKUP)}" for line in text.split("\n")]
        )

    def _escaped(self, text: str) -> str:
        form = self._random.choice(("&#{};", "&#x{:x};", "&amp;#{};", "&#{:07}; "))
        return "".join([form.format(ord(one)) if self._one_in(3) else one for one in text])

    def _as_traditional(self, text: str) -> str:
        converted: str = _traditional().convert(text.encode("utf-8", "replace").decode())
        return converted

    def _halved(self, text: str) -> str:
        """Write some characters as the halves of their surrogate pairs, joined or alone."""
        pairs = text.encode("utf-16-le", "surrogatepass")
        units = [chr(int.from_bytes(pairs[at : at + 2], "little")) for at in range(0, len(pairs), 2)]
        return "".join([unit for unit in units if not self._one_in(20)])
