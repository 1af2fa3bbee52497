"""Short texts read as a batch have the entries that the definition gives each text alone."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import grams as grams_module
from stream_dedup.core.fingerprint import short as module
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.fingerprint.grams import FIRST_TRIGRAM, Hashes, Trigrams
from stream_dedup.core.fingerprint.hashing import feature_hash, feature_hashes
from stream_dedup.core.fingerprint.mixing import WHOLE
from stream_dedup.core.fingerprint.points import MOST_TIMES, SIZE, Raw, code_point_tables
from stream_dedup.core.fingerprint.reader import Counted, Reader
from stream_dedup.core.fingerprint.short import ShortFingerprinter, ShortReader
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings, Treatment
from stream_dedup.core.text.normalise import normalise
from tests.core.texts import MORE, SAMPLE, STORY, some_texts

COMMENT, ARTICLE = PROFILES["comment"].settings, PROFILES["article"].settings
SKETCH = ((2, 24), (4, 24))
OTHERS = (
    COMMENT.with_normalisation(invisible=False, simplify=False),
    COMMENT.with_normalisation(emoji="token", numbers="drop", urls="token"),
    COMMENT.with_normalisation(emoji="drop", join_numbers=True, unspace=False, lookalikes=False, repeats=False),
    replace(COMMENT, exact_size=0, short=Treatment(features=COMMENT.short.features)),
    ARTICLE,
    replace(ARTICLE, article_size=20, sketch=SKETCH).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, exact_size=4).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, sketch_text="letters", exact="characters"),
)
# Of everything that a step or a table knows: each piece alone, beside others, and several times.
PIECES = (
    *'a1。，@.:/-_ \n\u3000\u200b\ufe0f👍🏽繁體乾著&<>[]()"wｗ．＠／中好哈е\u0301\u0e31กิが\uff9e',
    *"한ᄒ\u1161…″ﬁ①$oσΣÅ\u0130\x00\x1c\x85é🅰\U00020000\ufdfa٣\ud83d\ude00",
    *("http://t.cn/", "www.", ".com", "](", "...", "哈哈", "123", "l0ve", "我的", " the "),
)
NASTY = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


# Plain under all settings, and shorter than any article size: no reason to defer it.
SIMPLE = re.compile("[a中好哈，。]{0,20}")


@cache
def fingerprinter(settings: FingerprintSettings) -> Fingerprinter:
    return Fingerprinter(settings)


def read_at_once(settings: FingerprintSettings, texts: list[str]) -> dict[int, Counted]:
    """Kinds and counts by row of the texts that the batch reader does not defer."""
    trigrams = Trigrams()
    hashes = Hashes(trigrams, feature_hashes)
    found = ShortReader(settings, trigrams).read(texts)
    read: dict[int, Counted] = {}
    for row, status in enumerate(found.statuses.tolist()):
        own = found.texts == row
        names = hashes.names(found.grams[own])
        counts = Counter(dict(zip(names, found.counts[own].tolist(), strict=True)))
        counts = Counter([found.exact[row]]) if row in found.exact else counts
        share = WHOLE if counts else 0
        read[row] = Counted(
            Status(status),
            short=counts,
            share=share,
            sketched=found.sketched.get(row, "") if status == Status.SHORT else "",
            formed=found.formed.get(row, ""),
        )
    return {row: one for row, one in read.items() if row not in found.deferred}


def may_defer(settings: FingerprintSettings, text: str) -> bool:
    """Whether the batch reader may leave a text to the definition: it could be long, is a link, or keeps a zero."""
    if settings.has_long:
        return SIMPLE.fullmatch(text) is None
    if settings.exact_size and Reader(settings).read((text,)).status is Status.EXACT and "." in text:
        return True
    return "\0" in text and not settings.short.normalisation.invisible


def assert_same_counts(settings: FingerprintSettings, texts: list[str]) -> None:
    """Every text has the kind and counts of the definition, or a reason to be deferred."""
    read, reader = read_at_once(settings, texts), Reader(settings)
    for row, text in enumerate(texts):
        if row in read:
            assert (text, read[row]) == (text, reader.read((text,)))
        else:
            assert may_defer(settings, text), text


def assert_same(settings: FingerprintSettings, texts: list[str]) -> None:
    """The same, and every text has the entry of the definition, deferred or not."""
    assert_same_counts(settings, texts)
    made = fingerprinter(settings).fingerprint(texts)
    for row, text in enumerate(texts):
        defined = fingerprinter(settings).features(text)
        signature, margins = defined.signature, simhash.pack_margins(defined.margins)
        if defined.status is Status.FEATURELESS:
            signature, margins = bytes(len(signature)), np.zeros_like(margins)
        assert (text, made.statuses[row], made.signatures[row].tobytes(), made.margins[row].tolist()) == (
            text,
            defined.status,
            signature,
            margins.tolist(),
        )
        assert (text, made.sketches[row].tobytes()) == (text, defined.sketch)


@given(st.lists(NASTY | st.text(max_size=20), min_size=1, max_size=5))
def test_a_batch_of_comments_gives_the_entries_of_the_definition(texts: list[str]) -> None:
    """The counts and the entry of a comment are those of the definition, whatever other comments are in the batch."""
    assert_same(COMMENT, texts)


@pytest.mark.parametrize("settings", OTHERS)
@given(texts=st.lists(NASTY, min_size=1, max_size=4))
def test_a_batch_gives_the_entries_of_the_definition_under_other_settings(
    settings: FingerprintSettings, texts: list[str]
) -> None:
    """The same holds with steps that no profile has, and where text may be long."""
    assert_same(settings, [text[:25] for text in texts])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (OTHERS[0], "zero\0character"),
        (ARTICLE, "繁體字的短文，不在表裡"),
        (ARTICLE, STORY),
        (replace(ARTICLE, article_size=20), "好" * 21),
    ],
    ids=["zero character", "traditional", "long", "longer than the article size"],
)
def test_a_deferred_text_has_the_entry_of_the_definition(settings: FingerprintSettings, text: str) -> None:
    """A text that the batch reader defers has its own entry, and so have its neighbours in the batch."""
    fingerprints = fingerprinter(settings)
    quick = ShortFingerprinter(settings, feature_hashes)
    deferred: list[int] = []
    for rows in quick.batches([text], deferred):
        deferred += [rows[at] for at in quick([text])[0].deferred]
    assert deferred == [0]
    assert_same(settings, ["哈哈好", text, "a中"])
    assert fingerprints.fingerprint([text]).signatures.any()


def test_a_batch_rejoins_ideographs() -> None:
    """Ideographs with spaces between them are one exact text, as the definition has it."""
    settings = COMMENT.with_normalisation(rejoin=True)
    assert_same(settings, ["中 文", "中文", "中a 文", "a b"])
    made = fingerprinter(settings).fingerprint(["中 文", "中文"]).signatures
    assert made[0].tolist() == made[1].tolist()


def test_real_comments_at_once_are_the_definition() -> None:
    """Real comments in many languages have the kinds and counts of the definition."""
    texts = [text for text in (*SAMPLE, *MORE, *some_texts(2000)) if len(text) < 1500]
    for start in range(0, len(texts), 40):
        assert_same_counts(replace(COMMENT, sketch=SKETCH), texts[start : start + 40])


def test_few_texts_are_deferred() -> None:
    """No comment of the sample but links alone is deferred, and less than half of short texts that may be articles."""
    texts = [text for text in some_texts(500) if len(text) < 100 and not re.fullmatch(r"\S*(//|www\.)\S*", text)]
    assert len(read_at_once(COMMENT, texts)) == len(texts)
    assert len(read_at_once(ARTICLE, texts)) > len(texts) // 2


def test_the_table_says_what_every_plain_character_becomes() -> None:
    """Normalising gives the table's character for each plain one, also behind a letter that marks compose with."""
    raw, normalised, times, _ = code_point_tables()
    plain = np.flatnonzero((raw & ~np.uint8(Raw.TRADITIONAL | Raw.PICTURE | Raw.SEVERAL)) == 0)
    assert len(plain) > 60_000
    assert times.max() == MOST_TIMES
    assert int(plain.max()) < SIZE
    became = [chr(to) * n for to, n in zip(normalised[plain].tolist(), times[plain].tolist(), strict=True)]
    points = [chr(point) for point in plain.tolist()]
    for before in ("", "e", "が", "한", "하", "ᄒ"):
        text, expected = before.join(points), before.join(became)
        assert normalise(text) == " ".join(expected.split())


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more than ``MAX_CHARACTERS``; longer texts are read by themselves, with the same entries."""
    texts = [*SAMPLE, *MORE]
    expected = Fingerprinter(COMMENT).fingerprint(texts)
    monkeypatch.setattr(module, "MAX_CHARACTERS", 60)
    quick = ShortFingerprinter(COMMENT, feature_hashes)
    deferred: list[int] = []
    batches = list(quick.batches(texts, deferred))
    assert deferred == [row for row, text in enumerate(texts) if len(text) > 60]
    assert max(sum(len(texts[row]) for row in rows) for rows in batches) <= 60
    assert sorted([row for rows in batches for row in rows] + deferred) == list(range(len(texts)))
    for ours, theirs in zip(Fingerprinter(COMMENT).fingerprint(texts), expected, strict=True):
        assert np.array_equal(ours, theirs)


def test_units_that_are_forgotten_change_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are the same where the table of words is cleared often and many grams share a slot."""
    texts = [*SAMPLE, *MORE, *some_texts(200)]
    expected = Fingerprinter(COMMENT).fingerprint(texts)
    monkeypatch.setattr(grams_module, "MAX_WORDS", 10)
    monkeypatch.setattr(grams_module, "SLOT_BITS", 4)
    worker = Fingerprinter(COMMENT)
    for start in range(0, len(texts), 7):
        found = worker.fingerprint(texts[start : start + 7])
        for ours, theirs in zip(found, expected, strict=True):
            assert np.array_equal(ours, theirs[start : start + 7])


def test_a_kept_hash_is_the_hash_of_its_gram(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gram's hash is the same when computed, when kept, and when another gram took its slot."""
    monkeypatch.setattr(grams_module, "SLOT_BITS", 2)
    trigrams = Trigrams()
    made, each = trigrams.numbers(["very", "i", "very"])
    assert (each.tolist(), made[:4].tolist(), made[0]) == ([4, 1, 4], made[5:].tolist(), FIRST_TRIGRAM)
    points = [ord("好"), ord("天")]
    grams = np.array([*points, *(a << 21 | b for a in points for b in points), *made[:5].tolist()], np.uint64)
    expected = ["好", "天", "好 好", "好 天", "天 好", "天 天", "_ve", "ver", "ery", "ry_", "_i_"]
    hashes = Hashes(trigrams, feature_hashes)
    assert sorted(hashes.names(np.unique(grams))) == sorted(expected)
    for _ in range(2):
        assert [row.tobytes() for row in hashes.of(grams)] == [feature_hash(name) for name in expected]
