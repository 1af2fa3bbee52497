"""An endless sample stream: articles that nobody wrote before, stories that others take over, campaigns of spam.

The texts are made of sentences with slots, in Chinese and English (``samples/stream.toml``). A story is copied for some
minutes, more often at first, with the edits that newsrooms make; a campaign repeats one comment with small changes. Now
and then a page is crawled again, or a record cannot be read. A seed makes the stream repeatable; time is not its
business.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

OUTLETS = ("gazette", "courier", "harbour-post", "morning-wire", "chenbao", "wanbao", "dushi", "jiangcheng")
SHARES = {"unique": 46, "story": 32, "spam": 11, "comment": 7, "recrawl": 3, "broken": 1}
"""Records of each kind, percent."""
STORIES_AT_ONCE, CAMPAIGNS_AT_ONCE = 5, 2
CRAWLED_BEFORE = 50
"""The articles of the last so many that may be crawled again."""
CHINESE_SHARE = 0.6

_TEXTS = tomllib.loads(files("stream_dedup.dev").joinpath("samples/stream.toml").read_text("utf-8"))


class SampleRecord(NamedTuple):
    """A record of the stream."""

    key: str
    value: bytes
    way: str
    """What it is: one of ``SHARES``."""


@dataclass(slots=True)
class _Copied:
    """An article or a comment; ``left`` copies of it are to come."""

    sentences: list[str]
    language: str
    left: int = 0


class SampleStream:
    """Makes the records, one after the other."""

    def __init__(self, seed: int = 0) -> None:
        """Begin the stream of this seed."""
        self._random = random.Random(seed)  # noqa: S311 - sample texts
        self._number = 10_000
        self._stories: list[_Copied] = []
        self._campaigns: list[_Copied] = []
        self._crawled: list[tuple[str, _Copied]] = []

    def __iter__(self) -> Iterator[SampleRecord]:
        while True:
            (way,) = self._random.choices(list(SHARES), list(SHARES.values()))
            key, text = getattr(self, f"_{way}")()
            value = text if way == "broken" else json.dumps({"id": key, "text": text}, ensure_ascii=False)
            yield SampleRecord(key, value.encode(), way)

    def _unique(self) -> tuple[str, str]:
        key, article = self._new_id(), self._article()
        self._crawled = [*self._crawled[1 - CRAWLED_BEFORE :], (key, article)]
        return key, _joined(article.sentences)

    def _story(self) -> tuple[str, str]:
        """Publish a story once more, edited as another newsroom does it."""
        story = self._copy_of(self._stories, STORIES_AT_ONCE, lambda: self._article(10, self._random.randint(6, 90)))
        sentences, at = list(story.sentences), self._random.randrange(1, len(story.sentences) - 1)
        edits = self._random.sample(("drop", "swap", "reword", "credit", "none"), 2)
        if "swap" in edits:
            sentences[at], sentences[at + 1] = sentences[at + 1], sentences[at]
        if "reword" in edits:
            sentences[at] = self._filled(self._random.choice(_TEXTS[story.language]["sentences"]))
        if "drop" in edits:
            del sentences[at - 1]
        if "credit" in edits:
            outlet = self._random.choice(OUTLETS)
            sentences.append(
                f"（来源：{outlet}）" if story.language == "chinese" else f"First published by the {outlet}."
            )
        return self._new_id(), _joined(sentences)

    def _spam(self) -> tuple[str, str]:
        text = self._copy_of(self._campaigns, CAMPAIGNS_AT_ONCE, self._campaign).sentences[0]
        more = self._random.choice(("", " 速来", " 顶", " up", " pls", "！！", "!!"))
        return self._new_id("comment"), text + more

    def _comment(self) -> tuple[str, str]:
        return self._new_id("comment"), self._filled(self._random.choice(_TEXTS["comments"]))

    def _recrawl(self) -> tuple[str, str]:
        """Publish an earlier page with one more sentence."""
        key, article = self._random.choice(self._crawled or [(self._new_id(), self._article())])
        return key, _joined([*article.sentences, self._filled(_TEXTS[article.language]["sentences"][0])])

    def _broken(self) -> tuple[str, str]:
        key = self._new_id("feed")
        return key, self._random.choice((f'{{"id": "{key}"}}', f'{{"id": "{key}", "text": "  "}}', '{"id": "feed'))

    def _copy_of(self, running: list[_Copied], at_once: int, make: Callable[[], _Copied]) -> _Copied:
        """Return what is copied next: more likely what has many copies to come."""
        running[:] = [one for one in running if one.left]
        running += [make() for _ in range(at_once - len(running))]
        (chosen,) = self._random.choices(running, [one.left for one in running])
        chosen.left -= 1
        return chosen

    def _article(self, sentences: int = 7, copies: int = 0) -> _Copied:
        language = "chinese" if self._random.random() < CHINESE_SHARE else "english"
        templates = self._random.sample(_TEXTS[language]["sentences"], sentences)
        return _Copied([self._filled(one) for one in templates], language, copies)

    def _campaign(self) -> _Copied:
        code = f"{self._random.choice('dkxz')}{self._random.choice('jqvw')}{self._random.randint(1000, 9999)}"
        text = self._filled(self._random.choice(_TEXTS["spam"]).replace("{code}", code))
        return _Copied([text], "", self._random.randint(10, 60))

    def _filled(self, template: str) -> str:
        """Fill the slots of a sentence; Chinese ones by Chinese words."""
        slots: dict[str, str] = _TEXTS["english" if template.isascii() else "chinese"]["slots"]
        values = {name: self._random.choice(words.split(",")) for name, words in slots.items()}
        numbers = {"number": self._random.randint(12, 980), "few": self._random.randint(2, 11)}
        return template.format(**values, **numbers, year=self._random.randint(1904, 2019))

    def _new_id(self, outlet: str | None = None) -> str:
        self._number += 1
        return f"{outlet or self._random.choice(OUTLETS)}-{self._number}"


def _joined(sentences: list[str]) -> str:
    return (" " if sentences[0].isascii() else "").join(sentences)
