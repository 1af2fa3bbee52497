"""What readers take for the same is one text; what they tell apart stays two."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import Normalisation
from tests.amount import code_points
from tests.native_steps import as_long, assert_cleaned
from tests.reference.folding import MOST_LEFT, fold, is_combining, radicals, table
from tests.reference.normalise import normalise

FOLD = Normalisation(fold=True)
ARTICLE = PROFILES["article"].settings.long.normalisation
ARABIC = "وأكد المهندس المسؤول أن الأعمدة الحجرية تحتاج إلى ترميم عاجل"
HEBREW = "הספרייה העירונית נפתחה מחדש ביום שבת"
ENGLISH = "the ferry stayed tied to the pier until the middle of march"
RUSSIAN = "паром стоял у причала до середины марта"
GREEK = "το πλοιο εμεινε δεμενο στην προβλητα"
MARKS = "".join(chr(point) for point in (*range(0x300, 0x34F), *range(0x350, 0x370)))
TEN = range(10)
# Marks of other scripts stand on their letters alone.
PIECES = (
    *"aAéşẹñŞqйёΩ中1=~ \n\u0301\u0323\u0327\u030d\u031a\u0336\u0338\u20dd\u0308\u0345\u0130⻓⽼𝓱\u2adc\u0344",
    *("か", "\u304b\u3099", "\u05e9\u05c1", "\ufb2a", "\u0627\u0654", "أ", "\u0628\u064e", "ى", "\u06d5\u0654", "ـ"),
    *("\u0958", "\u0e01\u0e49", "각", "\u1100\u1161"),
)


def marked(text: str, marks: str, most: int, chosen: random.Random) -> str:
    """Put marks on letters, up to so many on each, none on some."""
    drawn = ("".join(chosen.choices(marks, k=chosen.randrange(most + 1))) for _ in text)
    return "".join(one + (few if one.isalpha() else "") for one, few in zip(text, drawn, strict=True))


@pytest.mark.parametrize("seed", TEN)
@pytest.mark.parametrize(
    ("text", "marks"),
    [
        (ARABIC, "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670\u06d6"),
        (HEBREW, "\u0591\u05ad\u05b0\u05b4\u05b7\u05b8\u05bc\u05c1"),
        ("ܫܠܡܐ ܥܠܝܟܘܢ ܐܚܘܢܝ", "\u0730\u0733\u073a\u0741"),
        ("ࠀࠁࠂ ࠃࠄ", "\u0816\u081c\u082c"),
    ],
)
def test_optional_marks_are_left_out(text: str, marks: str, seed: int) -> None:
    """Of scripts that are written without them: on any share of the letters, and several on one."""
    chosen = random.Random(seed)
    assert as_long([marked(text, marks, most, chosen) for most in (1, 2, 4)], FOLD) == as_long([text] * 3, FOLD)


@pytest.mark.parametrize("seed", TEN)
@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN.replace("й", "и"), GREEK])
def test_stacked_marks_are_left_out(text: str, seed: int) -> None:
    """Of a word with several different marks that do not compose nothing but the letters stays."""
    chosen = random.Random(seed)
    words = [marked(word, MARKS, 12, chosen) + "\u030d\u031a\u0346" for word in text.split()]
    assert as_long([" ".join(words)], FOLD) == as_long([text], FOLD)


OTHERS = ("나룻배는 부두에", "קרש מהסיפון", "გემბანის ფიცარი", "तख्ता उठाना", "ไม้กระดานทุกแผ่น", "が はがす")


@pytest.mark.parametrize(
    "mark", ["\u0336", "\u0338", "\u0332", "\u0333", "\u0305", "\u20dd", "\u0489", "\u20e3", "\u0332\u0305"]
)
@pytest.mark.parametrize(
    "text", [ENGLISH, RUSSIAN, "naïve cafés 1999", "Thư viện thành phố mở cửa", "渡口的老人", ARABIC, *OTHERS]
)
def test_what_is_struck_through_or_underlined_is_what_is_not(text: str, mark: str) -> None:
    """Signs and spaces, too; letters keep the marks that compose with them."""
    assert as_long(["".join(one + mark for one in text)], FOLD) == as_long([text], FOLD)


@pytest.mark.parametrize(
    "texts",
    [
        ("مـــؤسسة", "مؤسسة", "موسسه", "مـؤسّسة"),
        ("إلى", "الي", "إلي", "ٱلى", "ﺇﻝﻯ"),
        ("یک کتاب", "يك كتاب"),
        ("خانۀ ما", "خانهٔ ما", "خانه ما"),
        ("ہے", "هے"),
        ("ﬡשׁﬢ", "אשד"),
        ("אידיש װ ױ ײ", "אידיש וו וי יי"),
        ("țară și", "ţară şi", "t\u0326ară s\u0327i"),
        ("第5，6号 10：30", "第5\u0336，6\u0336号 10：30\u0332"),
        ("İstanbul", "istanbul", "Istanbul"),
        ("сімʼя", "сім'я"),
        ("Gogolʹ Qurʾān Ꞌo ꞌo", "Gogol' Qur'ān 'o 'o"),
        ("か゛きハ゜ン", "がきパン", "か\u3099きﾊﾟﾝ"),
        ("𝘃𝗶𝗲\u0323\u0302𝗻 𝗰𝗮𝗳𝗲\u0301", "viện café"),
        ("അവൻ", "അവന്\u200d"),
        ("⻓江⼤⻋", "长江大车", "⻓江大⻋"),
        ("⾧江⼤⾞", "長江大車", "长江大车"),
        ("老 ⻢", "老马"),
        ("Росси́я", "россия"),
        ("ọ̀rẹ́", "ọrẹ"),
    ],
)
def test_spellings_of_one_word_are_one_text(texts: tuple[str, ...]) -> None:
    """With and without stretching, hamza and joiners, by one keyboard and another, from PDF and the web, in bold."""
    assert len(set(as_long(texts, ARTICLE))) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("กินข้าวแล้ว ไม่ใช่", "हिन्दी में क़लम", "がぎぐ ぱぴ か゚", "한국어 각각", "Tiếng Việt đã được", "தமிழ் கொடி", "བོད་ཡིག"),
        *("ދިވެހި ބަސް", "ߒߞߏ ߞߊ߲", "é ế й ё ѓ ñ ř ő ç ąę", "מה נשמע", "ܫܠܡܐ", "အခြေခံ", "ភាសាខ្មែរ", "ᬩᬮᬶ"),
    ],
)
def test_what_carries_meaning_stays(text: str) -> None:
    """Vowels and tones of scripts that are not read without them, and letters that are one with their mark."""
    assert as_long([text], FOLD) == as_long([text], Normalisation()) == [normalise(text)]
    assert as_long([unicodedata.normalize("NFD", text)], FOLD) == [normalise(text)]


def test_different_words_stay_different() -> None:
    """Such as those that a mark with a meaning, or a letter of another script, tells apart."""
    words = (
        "ма",
        "มา",
        "ม้า",
        "ไม่",
        "ไม้",
        "は",
        "ば",
        "ぱ",
        "मन",
        "मान",
        "da",
        "dã",
        "đa",
        "лес",
        "лёс",
        "سال",
        "مال",
        "ے",
        "ی",
        "長",
        "馬",
    )
    assert len(set(as_long(words, FOLD))) == len(words)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_equivalent_texts_are_one(text: str) -> None:
    """Composed or not, a text is folded to the same letters, and so is one of letters of another style."""
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len({normalise(fold(form)) for form in forms}) == 1


@given(st.lists(st.sampled_from(PIECES) | st.sampled_from(MARKS) | st.characters(), max_size=20).map("".join))
def test_a_folded_text_is_that_of_the_definition(text: str) -> None:
    """Half surrogates and what Unicode 14 does not know, too."""
    assert_cleaned(FOLD, [text])


@pytest.mark.slow
def test_each_character_is_folded_as_the_definition_says() -> None:
    """Alone, on and behind letters whose marks go or stay, and before marks."""
    for form in ("{}", "a{}b", "か{}", "{}\u0301", "{}\u030d\u031a\u0346é", "é\u030d\u031a{}\u0301"):
        assert_cleaned(FOLD, [form.format(chr(point)) for point in code_points()])


def test_long_runs_of_marks_are_folded_as_the_definition_says() -> None:
    """Around the most marks of a run that count, and the most different ones that a word may have."""
    assert_cleaned(FOLD, [f"a{MARKS[13] * count}\u0323\u0301b" for count in range(26, 34)])
    assert_cleaned(FOLD, ["é" + MARKS[13 : 13 + count] + "a" for count in range(MOST_LEFT + 2)])
    assert_cleaned(FOLD, [f"a{MARKS * 50} {MARKS * 50}", MARKS * 3, f" {MARKS}か{MARKS}"])


def test_folding_twice_is_idle() -> None:
    """What a character becomes is not folded again."""
    assert {by for by in table().values() if by.translate(table()) != by} == set()
    assert not any(is_combining(one) for by in table().values() for one in by)


def test_radicals_are_the_ideographs_that_nfkc_has() -> None:
    """Those of Kangxi; NFKC leaves the others."""
    kangxi = {one: by for one, by in radicals().items() if "\u2f00" <= one <= "\u2fd5"}
    assert kangxi == {one: unicodedata.normalize("NFKC", one) for one in map(chr, range(0x2F00, 0x2FD6))}
    assert len(radicals()) > len(kangxi) + 100
