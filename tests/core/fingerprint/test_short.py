"""Short texts read as a batch have the entries that the definition gives each text alone."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.fingerprint import short as module
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.features import grams_of
from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter
from stream_dedup.core.fingerprint.form import NO_FORM, form_of
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.points import MOST_TIMES, SIZE, Kind, Raw, code_point_tables
from stream_dedup.core.fingerprint.reader import Reader, before_tricks, normalise_short
from stream_dedup.core.fingerprint.short import ShortFingerprinter, ShortTexts, Units
from stream_dedup.core.fingerprint.weigher import Weigher
from stream_dedup.core.model import Status
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings, Treatment
from stream_dedup.core.text.normalise import normalise
from tests.core.fingerprint.test_vocabulary import ONE_HASH
from tests.core.texts import MORE, SAMPLE, STORY, some_texts

COMMENT, ARTICLE = PROFILES["comment"].settings, PROFILES["article"].settings
SKETCH = ((2, 24), (4, 24))
TF, HEAVIEST = replace(COMMENT.short.features, weights="tf"), replace(COMMENT.short.features, top_k=5, damped=False)
OTHERS = (
    COMMENT.with_normalisation(invisible=False, simplify=False),
    COMMENT.with_normalisation(emoji="token", numbers="drop", urls="token"),
    COMMENT.with_normalisation(emoji="drop", join_numbers=True, unspace=False, lookalikes=False, repeats=False),
    replace(COMMENT, exact_size=0, short=Treatment(features=COMMENT.short.features)),
    ARTICLE,
    replace(ARTICLE, article_size=20, sketch=SKETCH).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, exact_size=4).with_normalisation(rejoin=True, entities=True),
    replace(COMMENT, sketch_text="letters", exact="characters"),
    replace(COMMENT, form=True, seed=4_294_967_295, short=replace(COMMENT.short, features=TF)),
    replace(COMMENT, short=replace(COMMENT.short, features=HEAVIEST)),
)
# Of everything that a step or a table knows: each piece alone, beside others, and several times.
PIECES = (
    *'a1。，@.:/-_ \n\u3000\u200b\ufe0f👍🏽繁體乾著&<>[]()"wｗ．＠／中好哈е\u0301\u0e31กิが\uff9e',
    *"한ᄒ\u1161…″ﬁ①$oσΣÅ\u0130\x00\x1c\x85é🅰\U00020000\ufdfa٣\ud83d\ude00",
    *("http://t.cn/", "www.", ".com", "](", "...", "哈哈", "123", "l0ve", "我的", " the "),
)
ADDRESSES, TRICKS = st.text("comnetrgw./:](a@ \n好", max_size=12), st.text("abolOL0134٣@$ .-_е①çす微信", max_size=14)
NASTY = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


# Plain under all settings, and shorter than any article size: no reason to defer it.
SIMPLE = re.compile("[a中好哈，。]{0,20}")


@cache
def fingerprinter(settings: FingerprintSettings) -> Fingerprinter:
    return Fingerprinter(settings)


def may_defer(settings: FingerprintSettings, text: str) -> bool:
    """Whether the batch reader may leave a text to the definition: it could be long, or is a link."""
    if settings.has_long:
        return SIMPLE.fullmatch(text) is None
    return settings.exact_size > 0 and Reader(settings).read((text,)).status is Status.EXACT and "." in text


def sketched(found: ShortTexts) -> list[str]:
    """What the sketches of the short texts are made of."""
    return module._split(found.letters)


def assert_same_counts(settings: FingerprintSettings, texts: list[str]) -> None:
    """Every text has the status, sums, sketch and form of the definition, or a reason to be deferred."""
    found = ShortFingerprinter(settings)(texts)
    reader, weigher = Reader(settings), Weigher(settings.short.features, settings.seed)
    short = np.flatnonzero(found.statuses == Status.SHORT).tolist()
    letters = dict(zip(short, sketched(found), strict=True))
    for row, text in enumerate(texts):
        if row in found.deferred:
            assert may_defer(settings, text), text
            continue
        counted = reader.read((text,))
        exact = next(iter(counted.short)) if counted.status is Status.EXACT else None
        assert (text, found.statuses[row], found.exact.get(row)) == (text, counted.status, exact)
        if row in short:
            sums, expected = found.sums.where(np.arange(len(short)) == short.index(row)), weigher.sums([counted.short])
            assert (text, sums.sums.tolist()) == (text, expected.sums.tolist())
            assert (text, sums.squares.tolist()) == (text, expected.squares.tolist())
            assert (text, letters[row]) == (text, counted.sketched)
            assert (text, found.forms.get(row, NO_FORM)) == (text, form_of(counted.formed))


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


@given(st.lists(NASTY | ADDRESSES | TRICKS | st.text(max_size=20), min_size=1, max_size=5))
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


@pytest.mark.parametrize("settings", [COMMENT, replace(COMMENT, sketch_text="letters", exact="letters", exact_size=4)])
def test_words_go_on_with_marks(settings: FingerprintSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order of letters, marks (Thai ones, too), ideographs, signs and spaces, alone and in a text."""
    orders = list(map("".join, product("q\u0301\u0e01\u0e31好; ", repeat=4)))
    assert_same_counts(settings, orders)
    monkeypatch.setattr(module, "units_that_count", None)
    assert_same_counts(settings, [f"我们都在讨论{order}新闻内容" for order in orders])


def test_every_beginning_of_an_address_is_seen() -> None:
    """Each alone in a text of plain characters, so that nothing else sends the text to the definition."""
    links = ["a.com", "a.cn", "a.net", "a.org", "a．ＯＲＧ", "www.a", "ftp://a", "x](b)", "a.co\u200bm"]
    texts = [f"新闻内容{link}新闻内容" for link in links]
    steps = COMMENT.short.normalisation
    assert [text for text in texts if before_tricks(text, steps) == normalise(text)] == []
    assert_same_counts(COMMENT, texts)


def test_every_trick_is_seen() -> None:
    """Each alone in a text; digits in a row are none, and stay."""
    tricks = [
        "t0",
        "banne1",
        "fr3e",
        "b33n",
        "a$$b",
        "13800138o",
        "13800138l",
        "o3800138",
        "微...信...号",
        "аpp",
        "ⓐ哈哈哈",
    ]
    texts = [f"新闻内容 {trick} 新闻内容" for trick in tricks]
    steps = COMMENT.short.normalisation
    assert [text for text in texts if normalise_short(text, steps) == text] == []
    assert_same_counts(COMMENT, [*texts, "新闻内容 10000007 新闻内容", "新闻内容 mp3 4s 新闻内容"])


@pytest.mark.parametrize("text", ["0－2㎡", "ge5－1", "A１０.５", "１ ２字"])
def test_a_sketch_of_characters_keeps_what_only_the_steps_of_addresses_narrow(text: str) -> None:
    """A full-width sign in a number stays in the text with addresses."""
    for joins, rejoins in ((True, False), (False, True), (True, True)):
        assert_same(COMMENT.with_normalisation(join_numbers=joins, rejoin=rejoins), [f"{text} 今天的新闻内容", text])


def test_a_short_text_with_an_address_is_deferred_where_its_sketch_has_the_address() -> None:
    """The same where texts may be long: its characters as short text have a token in place of the address."""
    settings = replace(ARTICLE, article_size=40, sketch_text="characters")
    texts = ["w一〇一b.org", "儿1.cn子玩的", "今天的新闻", "www.example.com", "今天的新闻 https://example.com/1"]
    assert_same(settings, texts)
    assert ShortFingerprinter(settings)(texts).deferred == [0, 1, 3, 4]


def test_a_short_text_with_traditional_characters_is_deferred_once() -> None:
    """Where texts may be long; also an exact text with an address, for which there is another reason."""
    texts = ["今天的新闻", "體a.coma.com", "今天的新聞", "\U000e0137"]
    assert_same(ARTICLE, texts)
    assert ShortFingerprinter(ARTICLE)(texts).deferred == [1, 2]
    assert ShortFingerprinter(COMMENT)(texts[::2]).deferred == []


def test_rare_ideographs_are_letters_of_a_form() -> None:
    """They are beyond the tables: a text with too many of them has no form."""
    settings = replace(COMMENT, sketch=SKETCH, form=True)
    assert_same_counts(settings, ["我的书和他的书 12 " + "\U00020000" * size for size in (0, 20, 400)])


def test_halves_that_a_step_joins_are_kept() -> None:
    """A character that is dropped, as halves in a text that OpenCC makes whole: the table must not drop it then."""
    assert_same(COMMENT, ["繁體\ud83c\udffb字寫的\ud83c\udffb", "繁體字寫的\ud83c\udffbhttp://t.cn/a\ud83c\udffb"])


@given(st.lists(TRICKS, min_size=1, max_size=8))
def test_a_text_that_looks_free_of_tricks_is_left_as_it_is(texts: list[str]) -> None:
    """The steps against spam that are not taken would change nothing but repeats."""
    assert_same_counts(COMMENT.with_normalisation(numbers="token"), texts)
    assert_same_counts(COMMENT, texts)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (ARTICLE, "繁體字的短文，不在表裡"),
        (ARTICLE, STORY),
        (replace(ARTICLE, article_size=20), "好" * 21),
        (replace(ARTICLE, article_size=20), "ⅲ" * 5),
    ],
    ids=["traditional", "long", "longer than the article size", "longer once it is normalised"],
)
def test_a_deferred_text_has_the_entry_of_the_definition(settings: FingerprintSettings, text: str) -> None:
    """A text that the batch reader defers has its own entry, and so have its neighbours in the batch."""
    fingerprints = fingerprinter(settings)
    quick = ShortFingerprinter(settings)
    deferred: list[int] = []
    for rows in quick.batches([text], deferred):
        deferred += [rows[at] for at in quick([text]).deferred]
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
        assert_same_counts(replace(COMMENT, sketch=SKETCH, form=True), texts[start : start + 40])


def test_few_texts_are_deferred() -> None:
    """No comment of the sample but links alone is deferred, and less than half of short texts that may be articles."""
    texts = [text for text in some_texts(500) if len(text) < 100 and not re.fullmatch(r"\S*(//|www\.)\S*", text)]
    assert ShortFingerprinter(COMMENT)(texts).deferred == []
    assert len(ShortFingerprinter(ARTICLE)(texts).deferred) < len(texts) // 2


def test_the_table_says_what_every_plain_character_becomes() -> None:
    """Normalising gives the table's character for each plain one, also behind a letter that marks compose with."""
    raw, normalised, times, _ = code_point_tables()
    plain = np.flatnonzero(raw & Raw.CLOSER == 0)
    assert len(plain) > 60_000
    assert times.max() == MOST_TIMES
    assert int(plain.max()) < SIZE
    became = [chr(to) * n for to, n in zip(normalised[plain].tolist(), times[plain].tolist(), strict=True)]
    points = [chr(point) for point in plain.tolist()]
    for before in ("", "e", "が", "한", "하", "ᄒ"):
        text, expected = before.join(points), before.join(became)
        assert normalise(text) == " ".join(expected.split())


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has more than ``MAX_CHARACTERS``, but one longer text; the longest are read by the definition."""
    texts = [*SAMPLE, *MORE]
    expected = Fingerprinter(COMMENT).fingerprint(texts)
    monkeypatch.setattr(module, "MAX_CHARACTERS", 60)
    monkeypatch.setattr(module, "LONGEST_CHARACTERS", 90)
    quick = ShortFingerprinter(COMMENT)
    deferred: list[int] = []
    batches = list(quick.batches(texts, deferred))
    assert deferred == [row for row, text in enumerate(texts) if len(text) > 90]
    sizes = [sum(len(texts[row]) for row in rows) for rows in batches]
    assert all(size <= 60 or len(rows) == 1 for size, rows in zip(sizes, batches, strict=True))
    assert max(sizes) > 60
    assert sorted([row for rows in batches for row in rows] + deferred) == list(range(len(texts)))
    for ours, theirs in zip(Fingerprinter(COMMENT).fingerprint(texts), expected, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.slow
def test_a_text_longer_than_a_batch_is_read_as_by_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the bound of a batch and beyond; with tricks, tags, marks and a number of many digits far behind."""
    rng = random.Random(5)
    pieces = [text for text in (*SAMPLE, *MORE) if len(text) < 200]
    whole = " ".join(rng.choices(pieces, k=8_000)) + "9" * 300
    assert len(whole) > module.MAX_CHARACTERS * 3 // 2
    bound = module.MAX_CHARACTERS
    texts = [whole[: bound - 1], "短", whole[:bound], whole[: bound + 1], "short", whole, "好" * (bound + 7)]
    made = Fingerprinter(COMMENT).fingerprint(texts)
    monkeypatch.setattr(module, "LONGEST_CHARACTERS", 100)
    deferred: list[int] = []
    list(ShortFingerprinter(COMMENT).batches(texts, deferred))
    assert len(deferred) == len(texts) - 2
    for ours, theirs in zip(made, Fingerprinter(COMMENT).fingerprint(texts), strict=True):
        assert np.array_equal(ours, theirs)


def counted_at_once(units: Sequence[list[str]], seed: int, spread: int) -> list[Counter[tuple[bytes, int]]]:
    """How often each text has a gram of this hash and this count, by the compiled path."""
    settings = replace(COMMENT, seed=seed, short=replace(COMMENT.short, features=TF))
    quick, none = ShortFingerprinter(settings), np.empty(0, np.int32)
    quick._spread = spread
    spans = np.zeros((len(units), 2), np.int64)
    blank = Units(np.empty(0, np.uint32), none, none, spans)
    weights, hashes, ends, _ = quick._weighed(blank.joined(dict(enumerate(units))))
    each = [(row.tobytes(), weight) for row, weight in zip(hashes, weights.tolist(), strict=True)]
    starts = [0, *ends[:-1].tolist()]
    return [Counter(each[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)]


WORDS = (
    "a",
    "1",
    "12",
    "123",
    "a123b",
    "1234567890",
    "12345678901",
    "123456789012",
    "1" * 40,
    "٣٤",
    "\U0001d7ce" * 3,
    "é",
)
UNITS = st.lists(
    st.sampled_from((*WORDS, *"好中すก한\u3400\U00020000")) | st.text("ab1é한", min_size=1, max_size=4), max_size=12
)


@given(
    st.lists(UNITS, min_size=1, max_size=4), st.sampled_from([0, 1, 2**32 - 1]), st.sampled_from([0, 1, -1, 1 << 62])
)
def test_grams_are_counted_and_hashed_as_the_definition_says(units: list[list[str]], seed: int, spread: int) -> None:
    """Characters, pairs, trigrams and numbers of any size, under any seed, wherever their slots are."""
    expected = [
        Counter((feature_hash(gram, seed), count) for gram, count in grams_of(own).items() if own) for own in units
    ]
    assert counted_at_once(units, seed, spread) == expected


def test_numbers_of_any_size_are_hashed() -> None:
    """Also where the last digit, or the edge behind it, is beyond what is hashed at once."""
    every = [[digit * size] for digit in ("1", "٣", "\U0001d7ce") for size in range(1, 20)]
    assert counted_at_once(every, 3, 4) == [Counter([(feature_hash(f"_{number}_", 3), 1)]) for (number,) in every]


def test_a_long_text_has_all_of_its_grams() -> None:
    """Many different grams in one text, in between texts of few."""
    rng = np.random.default_rng(5)
    every = [["好"], list(map(chr, rng.integers(0x4E00, 0x5000, 20_000).tolist())), [], ["好", "中"]]
    assert counted_at_once(every, 3, 4) == [
        Counter((feature_hash(gram, 3), count) for gram, count in grams_of(own).items()) for own in every
    ]


def test_numbers_with_one_hash_are_two_grams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits decide, not the hash of them; no digits that have one hash are known, so other characters stand in."""
    tables = code_point_tables()._replace(kinds=np.full(SIZE, Kind.DECIMAL | Kind.LETTER, np.uint16))
    monkeypatch.setattr(module, "code_point_tables", lambda: tables)
    one, other = ONE_HASH
    expected = Counter({(feature_hash(f"_{one}_"), 2): 1, (feature_hash(f"_{other}_"), 1): 1})
    assert counted_at_once([[one, other, one]], 0, 0) == [expected]
