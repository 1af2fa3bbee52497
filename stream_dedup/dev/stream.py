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
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple

OUTLETS = ("gazette", "courier", "harbour-post", "morning-wire", "chenbao", "wanbao", "dushi", "jiangcheng")
STORIES_AT_ONCE = 5
CAMPAIGNS_AT_ONCE = 2
CRAWLED_BEFORE = 50
"""The articles of the last so many that may be crawled again."""
SENTENCES = 7

_WAYS = ("unique", "story", "spam", "comment", "recrawl", "broken")
_SHARES = (46, 32, 11, 7, 3, 1)

_TEXTS = tomllib.loads(files("stream_dedup.dev").joinpath("samples/stream.toml").read_text("utf-8"))


class SampleRecord(NamedTuple):
    """A record of the stream."""

    key: str
    value: bytes
    way: str
    """What it is: one of ``_WAYS``."""


@dataclass(slots=True)
class _Story:
    sentences: list[str]
    is_chinese: bool
    left: int
    """Copies to come."""
    copies: int = field(default=0)


class SampleStream:
    """Makes the records, one after the other."""

    def __init__(self, seed: int = 0) -> None:
        """Begin the stream of this seed."""
        self._random = random.Random(seed)  # noqa: S311 - sample texts
        self._number = 10_000
        self._stories: list[_Story] = []
        self._campaigns: list[_Story] = []
        self._crawled: list[tuple[str, list[str], bool]] = []

    def __iter__(self) -> Iterator[SampleRecord]:
        while True:
            yield self._next()

    def _next(self) -> SampleRecord:
        way = self._random.choices(_WAYS, _SHARES)[0]
        make = {"story": self._copied, "spam": self._spam, "recrawl": self._recrawled, "broken": self._broken}
        if way == "comment":
            return self._record(way, self._new_id("comment"), self._filled(self._random.choice(_TEXTS["comments"])))
        return make.get(way, self._unique)()

    def _unique(self) -> SampleRecord:
        is_chinese = self._random.random() < 0.6  # noqa: PLR2004 - three in five
        sentences, key = self._sentences(is_chinese=is_chinese), self._new_id(self._random.choice(OUTLETS))
        self._crawled = [*self._crawled[1 - CRAWLED_BEFORE :], (key, sentences, is_chinese)]
        return self._record("unique", key, _joined(sentences, is_chinese=is_chinese))

    def _copied(self) -> SampleRecord:
        """Publish a story once more, edited as another newsroom does it; the first time as it was written."""
        while len(self._stories) < STORIES_AT_ONCE:
            is_chinese = self._random.random() < 0.6  # noqa: PLR2004 - three in five
            sentences = self._sentences(is_chinese=is_chinese, count=SENTENCES + 3)
            self._stories.append(_Story(sentences, is_chinese, self._random.randint(6, 90)))
        story = self._random.choices(self._stories, [one.left for one in self._stories])[0]
        sentences = list(story.sentences) if story.copies == 0 else self._edited(story)
        story.copies += 1
        story.left -= 1
        self._stories = [one for one in self._stories if one.left]
        text = _joined(sentences, is_chinese=story.is_chinese)
        return self._record("story", self._new_id(self._random.choice(OUTLETS)), text)

    def _edited(self, story: _Story) -> list[str]:
        sentences = list(story.sentences)
        edits = self._random.sample(("drop", "swap", "reword", "credit", "none"), 2)
        if "drop" in edits:
            del sentences[self._random.randrange(1, len(sentences))]
        if "swap" in edits:
            at = self._random.randrange(1, len(sentences) - 1)
            sentences[at], sentences[at + 1] = sentences[at + 1], sentences[at]
        if "reword" in edits:
            at = self._random.randrange(len(sentences))
            sentences[at] = self._sentences(is_chinese=story.is_chinese, count=1)[0]
        if "credit" in edits:
            outlet = self._random.choice(OUTLETS)
            sentences.append(f"（来源：{outlet}）" if story.is_chinese else f"First published by the {outlet}.")
        return sentences

    def _spam(self) -> SampleRecord:
        while len(self._campaigns) < CAMPAIGNS_AT_ONCE:
            code = f"{self._random.choice('dkxz')}{self._random.choice('jqvw')}{self._random.randint(1000, 9999)}"
            text = self._filled(self._random.choice(_TEXTS["spam"]).replace("{code}", code))
            self._campaigns.append(_Story([text], is_chinese=True, left=self._random.randint(10, 60)))
        campaign = self._random.choice(self._campaigns)
        campaign.left -= 1
        self._campaigns = [one for one in self._campaigns if one.left]
        text = campaign.sentences[0]
        change = self._random.choice(("none", "spaces", "marks", "tail"))
        if change == "spaces":
            text = text.replace("，", "， ").replace(", ", " , ")
        elif change == "marks":
            text = text.replace("！", "！！！").replace("!", "!!!")
        elif change == "tail":
            text += self._random.choice((" 速来", " 顶", " up", " pls"))
        return self._record("spam", self._new_id("comment"), text)

    def _recrawled(self) -> SampleRecord:
        if not self._crawled:
            return self._unique()
        key, sentences, is_chinese = self._random.choice(self._crawled)
        more = [*sentences, *self._sentences(is_chinese=is_chinese, count=1)]
        return self._record("recrawl", key, _joined(more, is_chinese=is_chinese))

    def _broken(self) -> SampleRecord:
        key = self._new_id("feed")
        values = (json.dumps({"id": key}).encode(), json.dumps({"id": key, "text": "  "}).encode(), b'{"id": "feed')
        return SampleRecord(key, self._random.choice(values), "broken")

    def _sentences(self, *, is_chinese: bool, count: int = SENTENCES) -> list[str]:
        templates = _TEXTS["chinese" if is_chinese else "english"]["sentences"]
        return [self._filled(one) for one in self._random.sample(templates, count)]

    def _filled(self, template: str) -> str:
        """Fill the slots of a sentence; Chinese ones by Chinese words."""
        is_chinese = any("\u4e00" <= one <= "\u9fff" for one in template)
        slots: dict[str, str] = _TEXTS["chinese" if is_chinese else "english"]["slots"]
        values = {name: self._random.choice(words.split(",")) for name, words in slots.items()}
        numbers = {"number": self._random.randint(12, 980), "few": self._random.randint(2, 11)}
        return template.format(**values, **numbers, year=self._random.randint(1904, 2019))

    def _new_id(self, outlet: str) -> str:
        self._number += 1
        return f"{outlet}-{self._number}"

    @staticmethod
    def _record(way: str, key: str, text: str) -> SampleRecord:
        return SampleRecord(key, json.dumps({"id": key, "text": text}, ensure_ascii=False).encode(), way)


def _joined(sentences: list[str], *, is_chinese: bool) -> str:
    return "".join(sentences) if is_chinese else " ".join(sentences)
