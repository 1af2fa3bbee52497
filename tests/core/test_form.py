"""Forms: what the frame and the numbers of a text are, which texts have none, and the same bytes everywhere."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
import xxhash

from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.model import FORM_BYTES
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import Text, read_lines
from stream_dedup.core.scheme import FingerprintSettings
from tests.reference.form import GRAMMAR, MOST_LETTERS, NO_FORM, Form, _words_of_grammar, form_of, packed
from tests.reference.normalise import normalise
from tests.reference.simplify import simplify
from tests.reference.weights import jieba_file

ARTICLE = PROFILES["article"].settings
FLIGHT = "您好：您订的 1742 次航班推迟到 19:40 起飞，请不要走远，有事打 95530 找我们。"
PARCEL = "Dear customer, your parcel 88120 is with the driver and will be there by 16:30 on 4 July."
FORMS = {
    FLIGHT: Form("的 到 请 不 要 走 有 找 我", "1742194095530"),
    PARCEL: Form("your is with the and be there by on", "8812016304"),
}
GOLDEN = {FLIGHT: "e567e08edaa25f5f", PARCEL: "bd827de12034faf8"}
HALL = "读者 3 次说到自己在等着看这本书，"
NO_NAMES = ("nr", "ns", "nt", "nz")


@cache
def fingerprinter(settings: FingerprintSettings = ARTICLE) -> Fingerprinter:
    return Fingerprinter(settings)


def forms(texts: Sequence[Text], settings: FingerprintSettings = ARTICLE) -> list[bytes]:
    """The forms at the ends of the sketches of these texts."""
    return [row.tobytes() for row in fingerprinter(settings).fingerprint(texts).sketches[:, -FORM_BYTES:]]


def frame_and_numbers(text: Text, settings: FingerprintSettings = ARTICLE) -> tuple[bytes, bytes]:
    whole = forms([text], settings)[0]
    return whole[: FORM_BYTES // 2], whole[FORM_BYTES // 2 :]


def has_form(text: Text) -> bool:
    found = frame_and_numbers(text)
    none = bytes(FORM_BYTES // 2)
    # Both or neither.
    assert (found[0] == none) is (found[1] == none)
    return found[0] != none


def of_letters(count: int) -> str:
    """A text with a form but for its length: its words have so many letters."""
    return (
        (HALL * count)[: len(HALL) * (count // len(HALL))].replace(" ", "").replace("，", "").ljust(count, "书")[:count]
    )


@pytest.mark.parametrize("text", FORMS)
def test_the_frame_is_grammar_and_the_numbers_are_digits(text: str) -> None:
    """The frame has the words of grammar in order, in Chinese those of one character; the numbers have every digit."""
    explained = fingerprinter().features(text)
    assert Form(explained.frame, explained.numbers) == FORMS[text]


@pytest.mark.parametrize("text", FORMS)
def test_a_form_is_two_hashes_that_are_the_same_on_every_machine(text: str) -> None:
    """The low half of the XXH3-64 of the frame, then of the numbers, little-endian, as they were written down."""
    halves = [xxhash.xxh3_64_intdigest(part.encode()) % 2**32 for part in FORMS[text]]
    assert forms([text]) == [b"".join(half.to_bytes(4, "little") for half in halves)]
    assert forms([text])[0].hex() == GOLDEN[text]


def test_the_seed_changes_both_hashes() -> None:
    """Under another seed of the scheme neither half stays."""
    halves = zip(frame_and_numbers(FLIGHT), frame_and_numbers(FLIGHT, replace(ARTICLE, seed=1)), strict=True)
    assert [one == other for one, other in halves] == [False, False]


def test_no_half_of_a_form_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash of 0 becomes 1, for a form of 0 is none."""
    monkeypatch.setattr(xxhash, "xxh3_64_intdigest", lambda *_: 5 << 32)
    assert packed(Form("的 到", "7"), 0) == bytes([1, 0, 0, 0] * 2)
    assert packed(NO_FORM, 0) == bytes(FORM_BYTES)


@pytest.mark.parametrize("article_size", [0, 40, 250, 2000])
@pytest.mark.parametrize("letters", [20, 60, 124, 126, 300, MOST_LETTERS])
def test_texts_of_every_size_have_the_form_of_one_definition(letters: int, article_size: int) -> None:
    """Short text, text between, and what either reader of these leaves to the other: the form is that of the text."""
    texts = [f"{of_letters(letters - 1)}{end}" for end in ("3", "3。", "3 📖", "3 http://e.cn/9")]
    expected = packed(form_of(normalise(texts[0])), 0) * len(texts)
    settings = replace(ARTICLE, article_size=article_size)
    assert b"".join(forms(texts, settings)) == expected
    assert letters == len(texts[0])
    assert all(map(has_form, texts))


@pytest.mark.parametrize("more", [1, 300, 3000])
def test_a_text_of_more_letters_has_no_form(more: int) -> None:
    """One letter more than the most, and any number more; white space and punctuation are no letters."""
    most = of_letters(MOST_LETTERS - 1)
    assert has_form("，".join(most) + " 3")
    assert not has_form(most + "3" + "书" * more)


@pytest.mark.parametrize(
    "text",
    [
        "您订的航班推迟起飞，请不要走远",
        "航班 1742 起飞 19:40",
        "航班的 1742 起飞 19:40",
        "1742",
        "",
        "。。。！？",
        "我在 7",
    ],
)
def test_some_texts_have_no_form(text: str) -> None:
    """Texts without digits, with fewer than two words of grammar, exact texts and those without words."""
    assert not has_form(text)


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (FLIGHT, "您好, 您訂的１７４２次航班推遲到19：40起飛 請不要走遠 有事打９５５３０找我們"),
        (FLIGHT, "\u200b" + " ".join(FLIGHT.replace(" ", "")) + "\n"),
        (FLIGHT, FLIGHT + "\n来源：河口晚报"),
        (FLIGHT, FLIGHT + " https://example.com/2026/11/23?id=7"),
        (FLIGHT, FLIGHT.replace("：", "&#65306;").replace("，", "<br>")),
        (PARCEL, PARCEL.upper()),
        (PARCEL, PARCEL.replace(",", "").replace("16:30", "1630") + "\nSource: Harbour News"),
        (PARCEL, PARCEL + " desk99@example.com @driver7"),
    ],
)
def test_a_copy_has_the_form_of_its_text(text: str, copy: str) -> None:
    """Typography, script, case, addresses and a source line without digits change neither frame nor numbers."""
    assert forms([copy]) == forms([text])
    assert has_form(text)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (FLIGHT, FLIGHT.replace("1742", "2618")),
        (FLIGHT, FLIGHT.replace("19:40", "19:45").replace("航班", "列车")),
        (FLIGHT, FLIGHT + "\n2026-11-23"),
        (PARCEL, PARCEL.replace("88120", "88121").replace("July", "May")),
        (PARCEL, PARCEL.replace("customer", "Will").replace("driver", "Li").replace(" 4", " C5")),
    ],
)
def test_other_facts_are_other_numbers_in_one_frame(text: str, other: str) -> None:
    """Numbers, names and dates of a template stand between its words of grammar."""
    (frame, numbers), (other_frame, other_numbers) = frame_and_numbers(text), frame_and_numbers(other)
    assert frame == other_frame
    assert numbers != other_numbers


@pytest.mark.parametrize(("old", "new"), [("不要", "不用"), ("找我", "找到我"), ("的", ""), ("请", "别")])
def test_an_edit_of_the_wording_is_another_frame(old: str, new: str) -> None:
    """A word of grammar that is added, dropped or replaced changes the frame, and no number."""
    (frame, numbers), (other_frame, other_numbers) = map(frame_and_numbers, (FLIGHT, FLIGHT.replace(old, new)))
    assert frame != other_frame
    assert numbers == other_numbers


def test_fields_make_one_form() -> None:
    """The fields of a text count one after the other, and no word or number is joined across them."""
    settings = replace(ARTICLE, fields=(("title", 2), ("body", 1)), html_fields=("body",))
    assert forms([("航班的 17", "<p>42 次起飞，请等</p>")], settings) == forms(["航班的 17 42 次起飞，请等"])
    assert fingerprinter(settings).features(("from the", "rest 17 is")).frame == "from the is"


def test_a_scheme_without_forms_has_none() -> None:
    """Sketches are shorter by a form, and nothing is explained."""
    plain = replace(ARTICLE, form=False)
    made = fingerprinter(plain).fingerprint([FLIGHT]).sketches
    assert made.tolist() == fingerprinter().fingerprint([FLIGHT]).sketches[:, :-FORM_BYTES].tolist()
    assert (fingerprinter(plain).features(FLIGHT).frame, fingerprinter(plain).features(FLIGHT).numbers) == NO_FORM


def test_chinese_grammar_has_frequent_words_that_names_hardly_have() -> None:
    """In jieba's dictionary each is a word of 3,000 and more, and one in fifty of these at most is inside of a name."""
    names: Counter[str] = Counter()
    words: dict[str, int] = {}
    for line in read_lines(jieba_file("dict.txt")).values():
        word, frequency, tag = line.split(" ")
        if len(word) == 1:
            words[word] = int(frequency)
        if tag.startswith(NO_NAMES):
            names.update(dict.fromkeys(word, int(frequency)))
    assert {one for one in GRAMMAR if words[one] < 3000 or names[one] * 50 > words[one]} == set()
    assert {one for one in GRAMMAR if simplify(one) != one} == set()


def test_each_word_of_grammar_is_found_in_a_batch() -> None:
    """Alone and at both ends of a text, and no word that a word of grammar begins, ends or is a part of."""
    words = sorted(_words_of_grammar())
    texts = [
        text
        for word in words
        for text in (f"{word} 书书书 7 {word}", f"7x{word} {word}x the {word}7{word[:-1]} {word}")
    ]
    for text, made in zip(texts, forms(texts), strict=True):
        assert (text, made) == (text, packed(form_of(normalise(text)), 0))
