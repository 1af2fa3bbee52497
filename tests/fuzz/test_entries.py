"""A few of the million texts whose entries `make fuzz ARGS=--texts` compares, and what the comparison finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.core.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import Text
from tests.amount import FULL
from tests.fuzz import entries as module
from tests.fuzz.entries import OTHER_WAYS, WAYS, Comparison, compare_drawn, other_digests, write_digests
from tests.fuzz.texts import TextFuzzer

SEED = 20261123
TEXTS = 2_000 if FULL else 100
CLASSIC = PROFILES["simhash"].settings

Spoil = Callable[[Sequence[Text], Fingerprints], None]


@pytest.mark.slow
def test_drawn_texts_have_the_entries_of_the_definition() -> None:
    """In each way that reads text."""
    report = compare_drawn(SEED, 0, TEXTS)
    assert report.faults == []
    assert report.texts == TEXTS
    assert {name: report.read[name] for name in WAYS} == dict.fromkeys(WAYS, TEXTS)
    assert sum(report.read[name] for name in OTHER_WAYS) == TEXTS


def test_the_same_seed_draws_the_same_texts() -> None:
    """The command that names a shard finds its texts again."""
    once, again, other = (list(TextFuzzer(seed).texts(50)) for seed in (1, 1, 2))
    assert once == again != other


class SpoiltFingerprinter(Fingerprinter):
    """Spoils the entries of some texts."""

    spoil: Spoil

    def fingerprint(self, texts: Sequence[Text]) -> Fingerprints:
        made = Fingerprints(*(column.copy() for column in super().fingerprint(texts)))
        self.spoil(texts, made)
        return made


def spoilt(spoil: Spoil) -> Comparison:
    one = Comparison("spoilt", CLASSIC)
    one.native = SpoiltFingerprinter(CLASSIC)
    one.native.spoil = spoil
    return one


def faults_of(spoil: Spoil, texts: Sequence[Text]) -> list[str]:
    one = spoilt(spoil)
    return list(one.faults(texts, one.read(texts)))


@pytest.mark.parametrize("column", Fingerprints._fields)
def test_a_difference_is_shown_by_the_smallest_text(column: str) -> None:
    """One bit in any column; the text is shown as a literal of ASCII."""

    def spoil(texts: Sequence[Text], made: Fingerprints) -> None:
        for row, text in enumerate(texts):
            if "\ud83d" in text and getattr(made, column).size:
                getattr(made, column)[row] ^= np.uint8(1)

    sketches = column == "sketches"  # this scheme has none
    texts = ["好的。", "今天下午在二楼\ud83d阅览室", "图书馆"]
    assert faults_of(spoil, texts) == ([] if sketches else [f"spoilt: {column}: '\\ud83d'"])


def test_a_difference_only_beside_others_is_shown_by_the_smallest_batch() -> None:
    """A text whose entry depends on the batch."""

    def spoil(texts: Sequence[Text], made: Fingerprints) -> None:
        if {"一", "二"} <= set(texts):
            made.signatures[texts.index("二")] ^= np.uint8(1)

    assert faults_of(spoil, ["三", "一", "四", "二", "五"]) == ["spoilt: only beside others: ['\\u4e00', '\\u4e8c']"]


def test_a_difference_that_does_not_come_again_is_shown() -> None:
    """Entries that depend on what was read before."""
    calls: list[int] = []

    def spoil(_: Sequence[Text], made: Fingerprints) -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            made.signatures[1] ^= np.uint8(1)

    assert faults_of(spoil, ["一", "二"]) == ["spoilt: text 1 of 2, not a second time: ['\\u4e00', '\\u4e8c']"]


def test_a_text_that_raises_is_shown() -> None:
    """With its error; the other texts of the batch do not raise."""

    def spoil(texts: Sequence[Text], _: Fingerprints) -> None:
        if any("\udc00" in text for text in texts):
            raise IndexError

    assert faults_of(spoil, ["一二三", "中\udc00文"]) == ["spoilt: IndexError(): '\\udc00'"]


def test_digests_tell_other_entries(tmp_path: Path) -> None:
    """Of the shards and ways that both have."""
    file = tmp_path / "digests.json"
    report, other = (module.EntriesReport("0", digests={"article": each, "words": "1"}) for each in ("1", "2"))
    write_digests(file, [report])
    assert other_digests(file, [report, module.EntriesReport("1", digests={"article": "3"})]) == []
    assert other_digests(file, [other]) == [f"shard 0, article: other entries than in {file}"]
