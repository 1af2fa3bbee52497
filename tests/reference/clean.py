"""Drops or replaces addresses, user names, numbers, pictures and invisible characters.

These are the steps of ``scheme.Normalisation`` other than those against spam (``spam``). Each is a pure function of the
text and a setting of its own. ``before_nfkc`` takes the steps before ``normalise``, in the order of its lines,
``after_nfkc`` those after it. Numbers come last, after the size of the text has been measured.

A token is one letter of the Vai script, which neither NFKC nor case folding changes and which almost no text has. It
makes one feature, the same for all tokens of its kind.

A cheap test precedes some steps: one look-up of each UTF-16 unit in a table of traits. It is part of the definition.

The results may depend only on the text, the settings and OpenCC's dictionaries, whose content the scheme names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from functools import cache, partial, reduce
from operator import or_

from stream_dedup.core.scheme import Normalisation, Treat
from tests.reference import spam
from tests.reference.folding import fold
from tests.reference.markup import BLOCKS
from tests.reference.quotes import drop_quotes
from tests.reference.simplify import simplifiable, simplify
from tests.reference.subtitles import drop_cues
from tests.reference.unicode14 import unassigned_ranges

TOKENS = {"url": "\ua500", "email": "\ua501", "user": "\ua502", "number": "\ua503", "emoji": "\ua504"}
"""Letters of the Vai script that stand for tokens."""
TOKEN_NAMES = {letter: f"<{name}>" for name, letter in TOKENS.items()}
TOP_DOMAINS = ("com", "cn", "net", "org")
"""By these a host is known without ``www.`` before it."""

# Unicode's default ignorable characters, and control characters that are no white space.
INVISIBLE_RANGES = (
    (0x0000, 0x0008), (0x000E, 0x001B), (0x007F, 0x0084), (0x0086, 0x009F), (0x00AD, 0x00AD), (0x034F, 0x034F),
    (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E),
    (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
PICTURE_RANGES = (
    (0x2600, 0x2775), (0x2794, 0x27BF), (0x2B1B, 0x2B1C), (0x2B50, 0x2B50), (0x2B55, 0x2B55), (0x1F000, 0x1F0FF),
    (0x1F1E6, 0x1F1FF), (0x1F201, 0x1FAFF),
)  # fmt: skip
SKIN_RANGE = (0x1F3FB, 0x1F3FF)
# Han and kana: scripts that are written without spaces, and have no spaces between sentences either (Thai has).
IDEOGRAPH_RANGES = ((0x3005, 0x3007), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x30FC, 0x30FE), (0x3400, 0x9FFF))


def _class(*ranges: tuple[int, int]) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


INVISIBLE = re.compile(f"[{_class(*INVISIBLE_RANGES)}]+")
_PICTURES = _class(*PICTURE_RANGES)
SKIN_TONES = re.compile(f"[{_class(SKIN_RANGE)}]+")
PICTURE = re.compile(f"[{_PICTURES}]")
_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")
_WIDE_SIGNS = "！，：；？（）［］｛｝＂＇～"
NARROWED = [wide for wide in range(0xFF01, 0xFF5F) if chr(wide) not in _WIDE_SIGNS]
NARROWER = 0xFF01 - 0x21
"""What a full-width character is beyond that of ASCII."""

ATTRIBUTE_CHARACTERS, COMMENT_CHARACTERS = 500, 2000
"""Most characters of what a tag has behind its first letter, and of a comment: a lone < does not reach through the
text."""
TARGET_CHARACTERS, TITLE_CHARACTERS = 2000, 300
"""Most characters of the target of a link, and of the title in it."""
READING_CHARACTERS = 100
"""Most characters of how a word is read, which stands beside it (<ruby>)."""
_TAG = re.compile(rf"</?[a-z][^<>]{{0,{ATTRIBUTE_CHARACTERS}}}>", re.IGNORECASE)
_TAG_OR_COMMENT = re.compile(rf"{_TAG.pattern}|<!--", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{'|'.join(BLOCKS)})\b", re.IGNORECASE)
_RUBY_TAG = re.compile(r"</?(?:ruby|rb|rp|rtc?)\b", re.IGNORECASE)
_READING_TAG = re.compile(r"<(?:rp|rtc?)\b", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#[0-9]{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE)
_ESCAPED = re.compile(r"&(?:[a-z][a-z0-9]{1,30}|#[0-9]{1,7}|#x[0-9a-f]{1,6});", re.IGNORECASE)
_TIMES_ESCAPED = 2
"""How often a text may have been escaped: feeds of HTML in XML have &amp;nbsp;."""
_LINK_TARGET = re.compile(rf"\]\([^()\s]{{0,{TARGET_CHARACTERS}}}(?:\s+\"[^\"]{{0,{TITLE_CHARACTERS}}}\")?\)")

_SCHEME_LANDMARK = re.compile("//")
# The regular expression finds dots by its fast search for a fixed character, and few dots pass the rest.
_HOST_LANDMARK = re.compile(
    rf"\.(?:(?=(?:{'|'.join(TOP_DOMAINS)})(?![a-z0-9-]))|(?<=(?<![a-z0-9])www\.))", re.IGNORECASE
)
_URL_SCHEME = re.compile(r"[a-z][a-z0-9+-]{1,9}[:：]\Z", re.IGNORECASE)
_URL_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*\Z", re.IGNORECASE)
URL_BODY = re.compile(r"[!#-'*-;=?-Z_a-z~]+")
_URL_TAIL = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::\d+)?(?:[/?#][!#-'*-;=?-Z_a-z~]*)?", re.IGNORECASE | re.ASCII)
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+-]{1,9}:)?//(?:www\.)?|(?<![a-z0-9.])www\.", re.IGNORECASE)
_MAIL_LOCAL = re.compile(r"[a-z0-9._%+-]+\Z", re.IGNORECASE)
_MAIL_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
_AT = re.compile("@")
LOOK_BACK = 64
"""Most characters of an address before a landmark: the longest local part of an e-mail address."""
_WORD = re.compile("[^\\W_\u4e00-\u9fd5]+")
# One pattern for each sign, and the sign first: a search for one fixed character is many times as fast as for any of
# several. Which goes first does not matter, as none of them is a digit.
_INSIDE_NUMBER = tuple((sign, re.compile(rf"{re.escape(sign)}(?=[0-9])(?<=[0-9].)")) for sign in ".,:/-")
# White space that begins with this character, which stands first for the same reason.
JOINING_WHITE = " \n\r\t\u3000\xa0"
"""What white space begins with that ``rejoin`` drops."""
_IDEOGRAPH = _class(*IDEOGRAPH_RANGES)
_BETWEEN_IDEOGRAPHS = tuple(
    (white, re.compile(rf"{white}(?<=[{_IDEOGRAPH}]{white})\s*(?=[{_IDEOGRAPH}])")) for white in JOINING_WHITE
)
_BETWEEN_LONE = re.compile(" (?<=(?<![A-Za-z0-9])[A-Za-z0-9] )(?=[A-Za-z0-9](?![A-Za-z0-9]))")
_DIGIT = re.compile(r"\d")


class Trait:
    """Traits of a UTF-16 unit, as bits: the cheap test before a step."""

    INVISIBLE = 1
    TRADITIONAL = 2
    PICTURE = 4
    WIDE = 8
    """A full-width letter, digit or sign that addresses have."""
    IDEOGRAPH = 16
    """An ideograph or kana of the first plane."""


def traits(text: str) -> int:
    """Return the traits of a text. A missing trait is certain; a trait that is set may be a false alarm."""
    if text.isascii():
        return Trait.INVISIBLE if INVISIBLE.search(text) else 0
    return reduce(or_, map(_unit_traits().__getitem__, units_of(text)), 0)


def units_of(text: str) -> memoryview:
    """Return the UTF-16 units of a text."""
    return memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")


def before_nfkc(text: str, steps: Normalisation) -> str:
    """Take the steps before NFKC."""
    if steps.entities:
        text = undo_entities(text)
    has = traits(text)
    if steps.invisible:
        text = drop_invisible(text, has)
    if steps.quotes == "drop":
        text = drop_quotes(text)
    if steps.tags:
        text = drop_tags(text)
    text = _without_addresses(text, steps, has)
    if steps.emoji != "keep" and has & Trait.PICTURE:
        text = replace_pictures(text, steps.emoji)
    if steps.fold:
        text = fold(text)
        has |= traits(text)
    if steps.join_numbers:
        text = join_numbers(text)
    if steps.rejoin and has & Trait.IDEOGRAPH:
        text = rejoin(text)
    if steps.simplify and has & Trait.TRADITIONAL:
        text = simplify(text)
    return text


def _without_addresses(text: str, steps: Normalisation, has: int) -> str:
    if has & Trait.WIDE and (steps.urls, steps.emails, steps.users) != ("keep", "keep", "keep"):
        text = narrow(text)
    if steps.urls != "keep":
        text = replace_urls(text, _stand_in(steps.urls, "url"))
    if "@" in text:
        if steps.emails != "keep":
            text = replace_emails(text, _stand_in(steps.emails, "email"))
        if steps.users != "keep":
            text = replace_users(text, _stand_in(steps.users, "user"))
    return text


def drop_invisible(text: str, has: int) -> str:
    """Drop zero-width characters, control characters other than white space, and skin tones of pictures."""
    if has & Trait.INVISIBLE:
        text = INVISIBLE.sub("", text)
    return SKIN_TONES.sub("", text) if has & Trait.PICTURE else text


def undo_entities(text: str) -> str:
    """Replace entities of HTML, escaped up to ``_TIMES_ESCAPED`` times, by the characters that they stand for."""
    for _ in range(_TIMES_ESCAPED):
        if "&" in text:
            text = _ESCAPED.sub(lambda entity: html.unescape(entity.group()), text)
    return text


def drop_tags(text: str, *, keeps_lines: bool = False) -> str:
    """Drop tags, comments and entities of HTML, the targets of Markdown links, and what subtitles have beside text.

    The text behind a tag of a reading goes with it. ``keeps_lines``: the tag of a block leaves a line feed, not a
    space. The words are the same.
    """
    text = drop_cues(text)
    if "](" in text:
        text = _LINK_TARGET.sub("] ", text)
    if "<" in text:
        text = _replace(text, _TAG_OR_COMMENT, _tag_at, partial(_left_by, keeps_lines))
    return _ENTITY.sub(" ", text) if "&" in text else text


def after_nfkc(text: str, steps: Normalisation) -> str:
    """Take the steps after NFKC and case folding; white space stays single spaces."""
    if steps.unspace:
        text = spam.unspace(text)
    if steps.lookalikes:
        text = spam.undo_lookalikes(text)
    if steps.repeats:
        text = spam.shorten_repeats(text)
    return " ".join(text.split())


def changes_after_nfkc(steps: Normalisation) -> bool:
    """Whether ``after_nfkc`` may change a text."""
    return steps.unspace or steps.lookalikes or steps.repeats


def narrow(text: str) -> str:
    """Turn full-width letters, digits and signs of addresses into ASCII; full-width punctuation stays."""
    # Halves of one character that stand side by side are joined.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.translate({wide: wide - NARROWER for wide in NARROWED})


def replace_urls(text: str, stand_in: str) -> str:
    """Replace URLs: those with a scheme, and hosts that begin with ``www.`` or have one of the commonest top domains.

    The host of an e-mail address is no URL. A URL is ASCII only, so it ends where Chinese text follows without a space.
    """
    if "//" in text:
        text = _replace(text, _SCHEME_LANDMARK, _url_at, stand_in)
    return _replace(text, _HOST_LANDMARK, _host_at, stand_in) if "." in text else text


def drop_schemes(text: str) -> str:
    """Drop ``https://``, ``www.`` and the like before hosts."""
    return _SCHEME.sub("", text)


def replace_emails(text: str, stand_in: str) -> str:
    """Replace e-mail addresses."""
    return _replace(text, _AT, _email_at, stand_in)


def replace_users(text: str, stand_in: str) -> str:
    """Replace user names: @ and up to 30 letters, digits, _ and -, not after an ASCII letter or digit."""
    return _replace(text, _AT, _user_at, stand_in)


def join_numbers(text: str) -> str:
    """Drop the signs between two digits."""
    for sign, pattern in _INSIDE_NUMBER:
        if sign in text:
            text = pattern.sub("", text)
    return text


def rejoin(text: str) -> str:
    """Drop white space between two ideographs, line breaks too, and one space between two lone letters or digits."""
    for white, pattern in _BETWEEN_IDEOGRAPHS:
        if white in text:
            text = pattern.sub("", text)
    return _BETWEEN_LONE.sub("", text) if " " in text else text


def has_symbol(text: str) -> bool:
    """Whether the text has an arrow, a mathematical symbol, a drawing or an emoji."""
    return _SYMBOL.search(text) is not None


def replace_pictures(text: str, treat: Treat) -> str:
    """Drop pictures, or replace each by a token."""
    return text if treat == "keep" else PICTURE.sub("" if treat == "drop" else TOKENS["emoji"], text)


def replace_numbers(text: str, treat: Treat) -> str:
    """Replace words of digits in normalised text."""
    if treat == "keep" or not _DIGIT.search(text):
        return text
    stand_in = _stand_in(treat, "number")
    return _WORD.sub(lambda word: stand_in if word.group().isdecimal() else word.group(), text)


def replace_number_words(words: list[str], treat: Treat) -> list[str]:
    """Replace words of digits in a list of words."""
    if treat == "keep":
        return words
    if treat == "drop":
        return [word for word in words if not word.isdecimal()]
    return [TOKENS["number"] if word.isdecimal() else word for word in words]


def _stand_in(treat: Treat, name: str) -> str:
    return f" {TOKENS[name]} " if treat == "token" else " "


def _replace(
    text: str,
    landmark: re.Pattern[str],
    span: Callable[[str, int, int], tuple[int, int] | None],
    stand_in: str | Callable[[str], str],
) -> str:
    """Replace each span that ``span`` finds around a landmark by ``stand_in``, or by what it returns for the span."""
    parts, done = [], 0
    for found in landmark.finditer(text):
        where = span(text, *found.span()) if found.start() >= done else None
        if where is not None:
            kept = text[done : max(where[0], done)]
            parts += [kept, stand_in if isinstance(stand_in, str) else stand_in(text[where[0] : where[1]])]
            done = where[1]
    parts.append(text[done:])
    return "".join(parts)


def _before(text: str, at: int, pattern: re.Pattern[str]) -> int:
    """Return the start of the match that ends at ``at``; ``at`` if there is none."""
    found = pattern.search(text[max(0, at - LOOK_BACK) : at])
    return at if found is None else at - len(found.group())


# The part before a landmark is bounded and matched first. The part behind it may reach to the end of the text, with
# many landmarks in it. It is matched only if the landmark certainly belongs to an address: then the match includes all
# of these landmarks, and no character is matched twice.


def _url_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin = _before(text, start, _URL_SCHEME)
    body = None if begin == start else URL_BODY.match(text, end)
    return None if body is None else (begin, body.end())


def _host_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin = _before(text, start, _URL_HOST)
    if begin == start or text[begin - 1 : begin] == "@":
        return None
    tail = _URL_TAIL.match(text, end)
    return None if tail is None else (begin, tail.end())


def _email_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    begin = _before(text, start, _MAIL_LOCAL)
    host = None if begin == start else _MAIL_HOST.match(text, end)
    return None if host is None else (begin, host.end())


def _tag_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    if text[end - 1] == ">":
        is_reading = _READING_TAG.match(text, start)
        behind = text.find("<", end, end + READING_CHARACTERS + 1) if is_reading else -1
        return start, end if behind < 0 else behind
    close = text.find("-->", end, end + COMMENT_CHARACTERS + len("-->"))
    return None if close < 0 else (start, close + len("-->"))


def _left_by(keeps_lines: bool, tag: str) -> str:
    if _RUBY_TAG.match(tag):
        return ""
    return "\n" if keeps_lines and _BLOCK_TAG.match(tag) else " "


def _user_at(text: str, start: int, end: int) -> tuple[int, int] | None:
    before, name = text[start - 1 : start], _user_name().match(text, end)
    return None if name is None or (before.isascii() and before.isalnum()) else (start, name.end())


@cache
def _user_name() -> re.Pattern[str]:
    """Return the pattern of a user name: letters of Unicode 14, whatever more this Python knows (``unicode14``)."""
    return re.compile(rf"(?:[A-Za-z0-9_-]|(?![{_class(*unassigned_ranges())}])\w){{1,30}}")


@cache
def _unit_traits() -> bytes:
    """Return the traits of each UTF-16 unit; the first unit of a pair has the traits of the character."""
    flags = bytearray(1 << 16)
    for trait, ranges in (
        (Trait.INVISIBLE, INVISIBLE_RANGES),
        (Trait.PICTURE, PICTURE_RANGES),
        (Trait.IDEOGRAPH, IDEOGRAPH_RANGES),
    ):
        for first, last in ranges:
            for unit in range(_lead(first), _lead(last) + 1):
                flags[unit] |= trait
    for trait, points in ((Trait.WIDE, NARROWED), (Trait.TRADITIONAL, simplifiable())):
        for point in points:
            flags[_lead(point)] |= trait
    return bytes(flags)


def _lead(point: int) -> int:
    """Return the first UTF-16 unit of a code point."""
    return point if point < 1 << 16 else 0xD800 + ((point - (1 << 16)) >> 10)
