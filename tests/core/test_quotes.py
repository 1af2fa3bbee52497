"""What others wrote is dropped, unless next to nothing else remains."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup._native import text_of_html
from stream_dedup.core.fingerprinter import Fingerprinter
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import Features, FingerprintSettings, Normalisation, Treatment
from tests.amount import FULL, sampled
from tests.fuzz.pages import PageFuzzer
from tests.native_steps import as_long, assert_cleaned
from tests.reference import quotes as reference
from tests.reference.markup import text_of
from tests.reference.normalise import normalise

DROP = Normalisation(quotes="drop")
ARTICLE = PROFILES["article"].settings
OWN = "It went away once we moved the lock directory."
MAIL = "The nightly export stops\nat the step that rebuilds the index."
LINES = "> The nightly export stops\n> at the step that rebuilds the index."
HEADERS = {
    "en": "From: Ann <a@b.org>\nSent: Monday\nTo: Bo\nSubject: export",
    "de": "Von: Ann\nGesendet: Montag\nAn: Bo\nBetreff: Export",
    "Thunderbird": "Betreff: Export\nDatum: Mon\nVon: Ann",
    "fr": "De : Ann\nDate : lundi\nÀ : Bo\nObjet : export",
    "es": "De: Ann\nEnviado el: lunes\nPara: Bo\nAsunto: export",
    "ru": "От: Ann\nДата: пн\nКому: Bo\nТема: export",
    "zh": "发件人：安\n发送时间：周一\n收件人：波\n主题：导出",
    "zh-hant": "寄件者: 安\n寄件日期: 週一\n收件者: 波\n主旨: 匯出",
    "ja": "差出人: 安\n送信日時: 月\n宛先: 波\n件名: 出力",
    "ko": "보낸 사람: 안\n보낸 날짜: 월\n받는 사람: 보\n제목: 출력",
    "bold": "**From:** Ann\n**Sent:** Monday\n*To:* Bo",
    "ar": "من: آن\nإلى: بو\nالموضوع: تصدير",
}
SAYS = (
    *(
        "On Tuesday the operator wrote:",
        "Am Dienstag schrieb Ann:",
        "Le mardi, Ann a écrit :",
        "Ann пишет:",
        "安 写道：",
    ),
    "On Mon, 3 Feb 2025 at 10:12, Ann Example-Longname <ann@example.org>\nwrote:",
    "пн, 3 февр. 2025 г. в 10:12, Ann <ann@example.org>:",
)


def dropped(text: str) -> str:
    """Return a text after this step."""
    return as_long([text], DROP)[0]


@pytest.mark.parametrize("says", SAYS)
def test_quoted_lines_go_with_the_line_that_says_who_wrote_them(says: str) -> None:
    """Above and below the own words, whatever marks the lines."""
    for lines in (LINES, LINES.replace("> ", ">"), LINES.replace("> ", " > > "), LINES.replace("> ", ">> ")):
        assert dropped(f"{says}\n{lines}\n\n{OWN}") == normalise(OWN)
        assert dropped(f"{OWN}\r\n\r\n{says}\r\n\r\n{lines}") == normalise(OWN)


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize(
    "before", ["", "-----Original Message-----\n", "-------- 转发邮件 --------\n", "________________\n\n"]
)
def test_a_mail_behind_its_headers_goes(headers: str, before: str) -> None:
    """In the languages of the mail programs, with a line of dashes or without."""
    assert dropped(f"{OWN}\n\n{before}{headers}\n\n{MAIL}\n\nmore") == normalise(OWN)


@pytest.mark.parametrize(
    "text",
    [
        f"{OWN}\n\nAt 2025-02-03 10:12:00, 'Ann' <ann@example.org> wrote:\n{MAIL}",
        f"{OWN}//@ann:{MAIL}//@bo：more",
        f"{OWN}||@ann:{MAIL}",
        f"{OWN} RT @ann: {MAIL}",
        f"[quote]{MAIL}//@bo:more[/quote]{OWN}",
        OWN.replace(" we ", f"[quote]{MAIL}[/quote]we "),
        f"[quote]{MAIL}[quote=bo;1]more[/quote]end[/QUOTE]{OWN}",
        f'[quote="ann, post: 1"]{MAIL}[/quote]\n\n{OWN}',
        f"引用 @ann 的发言：\n{MAIL}\n\n{OWN}",
        f"引用 3 楼 ann 的回复：\n\n{MAIL}\n\n{OWN}",
        f"Originally posted by ann:\n{MAIL}\n \n{OWN}",
        f"{OWN}\nZitat von Ann:\n{MAIL}",
        f"<blockquote class='a'><p>{MAIL}<blockquote>more</blockquote></p></blockquote>{OWN}",
    ],
)
def test_what_is_passed_on_or_quoted_goes(text: str) -> None:
    """Forwarded mails, chains of Weibo, passages and posts of forums."""
    assert dropped(text) == normalise(OWN)


@pytest.mark.parametrize(
    "own", ["", "+1, same problem.", "agreed", "转发微博", "说得太好了", "@ann @bo http://a.cn/abcdefghijklmnopq"]
)
@pytest.mark.parametrize("quoted", [LINES, f"[quote]{MAIL}[/quote]", f"//@ann:{MAIL}", f"{HEADERS['en']}\n{MAIL}"])
def test_with_next_to_no_words_of_its_own_a_text_is_taken_whole(own: str, quoted: str) -> None:
    """So a quote cannot hide what it says. Names of users and addresses are no words."""
    text = f"{own}\n{quoted}"
    assert dropped(text) == normalise(text)


def test_a_tag_within_a_tag_is_a_part_of_it() -> None:
    """A name may look like the end of the passage, which has none then."""
    text = f"{OWN} [quote=[/quote] {MAIL}"
    assert dropped(text) == normalise(text)


def test_least_words_of_its_own() -> None:
    """From so many letters on a text stands alone; an ideograph counts three."""
    for size in (reference.LEAST - 1, reference.LEAST):
        expected = [f"{'a' * size} > b", "a" * size][size // reference.LEAST]
        assert dropped(f"{'a' * size}\n> b") == expected
    assert [dropped(f"{'字' * size}\n> b") for size in (7, 8)] == [f"{'字' * 7} > b", "字" * 8]


@pytest.mark.parametrize(
    "text",
    [
        f"{OWN}\n> 5\n> 12",
        f"{OWN}\n>_< what a day",
        f"{OWN}\n>>> print(export)\n>>> exit()",
        f"{OWN}\na -> b\n=> c",
        f"On Monday the ministry wrote:\n{MAIL}",
        f"{OWN} http://@ann:pass",
        f"{OWN}\nFrom: here\nTo: there",
        f"{OWN}\n[quote]{MAIL}",
        f"{OWN}\nquotes:\n{MAIL}",
        f"{OWN}\n---\n{MAIL}",
        f"{OWN}\n-----Original Message-----\n{MAIL}",
        f"{OWN} //@ ann: {MAIL}",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Comparisons, faces, sessions, arrows, news that cite, addresses, two headers, a passage without an end."""
    assert dropped(text) == normalise(text)


def test_block_quotations_of_pages_go() -> None:
    """Also if all steps are those of a profile; and with none of its own words a page is taken whole, without tags."""
    page = f"<p>Ann wrote:</p><blockquote type=cite><p>{MAIL}</p></blockquote><p>{OWN}</p>"
    for long in (ARTICLE.long, Treatment(DROP, Features())):
        settings = FingerprintSettings(article_size=0, markup="html", long=long, short=long)
        made = [Fingerprinter(settings).features(text).text for text in (page, page.replace(OWN, "ok"))]
        assert made[0] == normalise(OWN)
        assert made[1].split() == f"Ann wrote: {MAIL} ok".lower().split()


def test_key_sentences_are_not_those_of_others() -> None:
    """None is taken of a quote, nor of the end of a quoted line, which has no mark."""
    settings = FingerprintSettings(key_sentences=2, long=Treatment(DROP))
    text = f"> The index is large. The nightly export stops.\n\n{OWN}"
    counts = {one.name: one.count for one in Fingerprinter(settings).features(text).features}
    assert "export" not in counts
    assert counts["lock"] == 3


def test_pages_with_marked_quotations_are_those_of_the_definition() -> None:
    """Whatever else is broken in them."""
    pages = PageFuzzer("quotations").pages(300 if FULL else 100, large_one_in=10_000)
    marked = [re.sub(r"(?<=<)(/?)(?:[d-p][a-z]+|p)\b", r"\1blockquote", page) for page in pages]
    assert [text_of_html(page, marks_quotes=True) for page in marked] == [
        text_of(page, marks_quotes=True) for page in marked
    ]
    assert sum("<blockquote>\n" in text_of_html(page, marks_quotes=True) for page in marked) > len(marked) // 10


@pytest.mark.slow
def test_every_word_that_is_looked_for() -> None:
    """As the definition has it, in any case of its letters."""
    for word in reference.every_word():
        for one in (word, word.upper(), word.capitalize()):
            forms = (f"{one}: a\n{{}}\n{{}}", f"x {one}:\n> a", f"{one}\na\n\nb", f"引用 x {one}\na\n\nb")
            others = ("From: a", "Date: b", "To: c", "Subject: d")
            pairs = sampled(list(product(others, repeat=2)), 4)
            texts = [form.format(*pair) for form in forms for pair in pairs]
            assert_cleaned(DROP, [f"{OWN}\n{text}" for text in texts] + [f"{text}\n{OWN}" for text in texts])


PIECES = (
    *(
        "> ",
        ">",
        ">>> ",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\u3000",
        "\xa0",
        OWN,
        "渡口的老人在河边等了一天又一天",
        "5",
        "_<",
        "a",
        "é",
    ),
    *(
        "[quote]",
        "[quote=a]",
        "[/quote]",
        "[QUOTE ",
        "<blockquote>",
        "</blockquote>",
        "<BLOC\u212aQUOTE a>",
        "<b>",
        "]",
    ),
    *("//@a:", "||@b：", "RT @c:", "http://@x:", "@", "a@b.c", "10:12", ":", "：", "wrote", "写道", "\ud83d", "\x00"),
    *(
        "On 10:12 a@b.c wrote:",
        "From: x\n",
        "Sent: y\n",
        "To: z",
        "\nSubject: q\n",
        "**From:** a\n",
        "发件人：a\n",
        "---",
    ),
    *(
        "-----Original Message-----\n",
        "____",
        "引用 @x 的发言\n",
        "引用：\n",
        "Quote: x:\n",
        "Originally posted by @x\n",
    ),
)


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join))
def test_what_remains_is_what_the_definition_says(text: str) -> None:
    """Of any text."""
    assert_cleaned(DROP, [text, f"{OWN}\n{text}", f"{text}\n{OWN}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "alphabet",
    [
        ("> a", "\n", ">>> b", OWN, "> 5", "a wrote:", ">_<"),
        ("From: a", "\nFrom://a\n", "\n", "To: b", "Date: c", "---a---", OWN, "10:12 a@b:"),
        ("[quote]", "[/quote]", "<blockquote>", "</blockquote>", OWN, "\n> a\n"),
        ("//@a:", "引用：", "\n", OWN, "[quote]", "[/quote]", "RT @b:"),
    ],
)
def test_quotes_within_others(alphabet: tuple[str, ...]) -> None:
    """All texts up to some pieces: each kind within each other and behind it."""
    sizes = range(7 if FULL else 5)
    assert_cleaned(DROP, ["".join(one) for size in sizes for one in product(alphabet, repeat=size)])


@pytest.mark.parametrize(
    ("form", "limit"),
    [
        ("10:12 a@b.c {}:\n", reference.HEADING),
        ("10:12 a@b.c {}\nwrote:\n> ", reference.HEADING),
        ("引用{}：\n", reference.FORUM),
        ("//@{}:", reference.NAME),
        ("[quote={}]x[/quote]", reference.SOURCE),
        ("<blockquote {}>x</blockquote>", reference.ATTRIBUTES),
    ],
)
@pytest.mark.parametrize("letter", ["x", "字"])
def test_what_is_looked_for_ends_where_its_definition_says(form: str, limit: int, letter: str) -> None:
    """Each limit, and some sizes around it."""
    sizes = range(max(limit - 30, 0), limit + 4)
    assert_cleaned(DROP, [f"{OWN}\n{form.format(letter * size)}quoted" for size in sizes])


LONG_OWN = f"{OWN} Nobody has seen the message since."


@pytest.mark.parametrize("quote", [LINES, f"<blockquote>{MAIL}</blockquote>"])
def test_without_a_heading_quotes_count_at_the_beginning_and_the_end_alone(quote: str) -> None:
    """An article has quotations in its midst, of its own making; a greeting before one is next to nothing."""
    whole = normalise(quote.replace("blockquote>", "").replace("</", "").replace("<", ""))
    assert dropped(f"{quote}\n\n{LONG_OWN}") == normalise(LONG_OWN)
    assert dropped(f"{LONG_OWN}\n\n{quote}") == normalise(LONG_OWN)
    assert dropped(f"Hi Ann,\n{quote}\n\n{LONG_OWN}") == normalise(f"Hi Ann, {LONG_OWN}")
    assert dropped(f"{OWN}\n{quote}\n\n{LONG_OWN}") == normalise(f"{OWN} {whole} {LONG_OWN}")
    assert dropped(f"{OWN}\nAnn wrote:\n{quote}\n\n{LONG_OWN}") == normalise(f"{OWN} {LONG_OWN}")
