r"""Texts that are made to take long, by families: each is a text of any size of one shape.

Each begins many things that a step looks for, and ends none of them; or it is what a library is slow with. A family of
text is taken through every way, a family of pages through the ways of HTML, a family of records through decoding.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, count, islice
from typing import NamedTuple

from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings

Family = Callable[[int], str]
"""A text of about so many characters."""
MARKS = "\u0301\u0316"


def repeated(piece: str, before: str = "", behind: str = "") -> Family:
    return lambda size: before + piece * (max(size - len(before), 0) // len(piece) + 1) + behind


def counted(piece: str, before: str = "") -> Family:
    """Pieces that are all different: ``{}`` is a number."""

    def make(size: int) -> str:
        pieces = map(piece.format, count())
        return before + "".join(islice(pieces, max(size - len(before), 0) // len(piece.format(10_000)) + 1))

    return make


def halves(first: str, second: str) -> Family:
    return lambda size: first * (size // 2 // len(first)) + second * (size // 2 // len(second))


def mixed(alphabet: str) -> Family:
    return lambda size: "".join(random.Random(size).choices(alphabet, k=size))


def span(*ranges: tuple[int, int]) -> str:
    return "".join(map(chr, chain.from_iterable(range(first, last + 1) for first, last in ranges)))


_CHARACTERS = (
    "/.:@-_&<>#?=%~,;!*+|\\'\"()[]{}1a0olA \t\n\r\0\u3002\uff01\uff0f\uff20\uff0e\uff41\u4e00\u7684\u54c8\u2460\u24d0"
)
_ADDRESSES = (
    "//", "http://", "x://", "http://a/", "ftp://a@b:80/", "_.cn/", "@a.cn/", "a.cn", "www.", "www.a", "a.com.",
    "a.cn:80/", "..", "a.", "a-.cn", "1.cn/?", "-.cn", ".cn", ".com", "@.cn", "@www.", "x@www.a", "a@", "a@b", "a@b.",
    "a@b.c", "@a", "@a@", "a@-.", "a@b-", "%@", "a@a.a.", "@@@@@@@@@@a", "a.a.a@", "http:", "//a", "xhttp://",
    "www.www.", ":80", "?#", "x@y.", "a.com", "a" * 64 + "@",
)  # fmt: skip
_MARKUP = (
    "<!--", "<!-- ", "-->", "<!---->", "<a ", "<a", "</a", '<a b="', "<a>", "<!", "<a <", "](", "](x", "](x ", '](a "',
    '](" ', '](""', "[](", "](" + "x" * 1990, "&aaaaaaaa", "&a;", "&#1", "&#x1", "&#", "&amp", "&amp;", "&#12345;",
    "&&;",
)  # fmt: skip
_SPAM = (
    "a b ", "a b cc ", "a....", "a.b.", "a . b . ", "\u5fae \u4fe1 ", "a!!!b!!!", "a!!!! ", "a0", "ooooox ", "0a",
    "a1b", "0o", "ol ", "1l", "$a", "@a$", "a00b", "aaa1 ", "abcd0 ", "\u0430a", "\u0430", "\u03b1a ", "\U0001f1e6",
    "a\u24eb", "ab", "aab", "aabb", "\u54c8\u54c8\u563f", "!!??", "1,2.", "1,", "1.", "1:2/", "3-", "1/", "12 ", "1 ",
    "1a",
)  # fmt: skip
_UNICODE = (
    "a\u0301", "\u0301", MARKS, "\u0316\u0301\u200b", "a" + MARKS * 15, "a" + MARKS * 16,
    "\u0316\u0301" * 14 + "\u00e0", "\u0316\u0301" * 14 + "\u0344", "\u0f73", "\u0344", "\uff9e", "\uff76\uff9e",
    "\u1100\u1161\u11a8", "\u1100", "\u1161", "\u11a8", "\uac00\u11a8", "\u3099", "\u304b\u3099", "\u0958", "\ufb1d",
    "\u05d9\u05b4", "\ufdfa", "\ufdfb", "\u3300", "\u337f", "\u1f82", "\u0390", "\u0130", "\ufb03", "\u00a1", "\u00ad",
    "\u200b", "\u200d", "\ufe0f", "\U0001f3fb", "\U0001f468\u200d", "\U0001f600", "\u2600", "\u0e01", "\u0e33",
    "\u0915\u094d", "\u3042", "\uff71", "\ud55c", "\u3400", "\U00020000", "\U0002f800", "\uf900", "\ud83d", "\udc00",
    "\udc00\ud83d", "\U0010ffff", "\ue000", "\u20dd", "a\u20dd", "\u0903", "\u00df", "\u1e9e", "\u03c2",
    "\u064e", "\u0627\u0654", "\u0640", "\u015f", "\u2ed3", "\u0336", "a\u0336", "\u304b\u0336",
    "\u00e9\u030d\u031a\u0346", "a\u030d ", " \u030d", "\u05e9\u05c1",
)  # fmt: skip
_SUBTITLES = (
    "-->", " -->", "\t-->  ", "00:01.5-->", "-->00:01.5", "00:01.5 --> 00:02.5", "1\n00:01.5 --> 00:02.5\n", "00:01.5 ",
    "[00:01.5", "<00:01.5>", "\n\nx\n00:01.5-->00:02.5 X1:", " line:", "WEBVTT\n", "<rt>", "<rt>a", "<rp",
    "Dialogue:", "Dialogue: 0,0:00:01.5,0:00:02.5,", "Dialogue: 0,0:00:01.5,0:00:02.5,,,,,,,", "{\\", "\\N",
    "0:01.5,", "0:00:01-->",
    "<ruby><rt>a<",
)  # fmt: skip
_QUOTES = (
    "> ", "> a\n", ">>> a\n", "a\n> ", "a wrote:\n> b\n", "10:12 a@b:\n", "10:12\na@b:\n\n> ", "[quote", "[quote]",
    "[quote=", "[quote]a[/quote]", "[/quote]", "<blockquote>", "</blockquote>", "<blockquote>a</blockquote>", "//@a:",
    "//@", "||@a", "RT @a:", "From: a\n", "To: a\nFrom: b\n", "---a---\n", "---\n", "\u5f15\u7528\uff1a\n",
    "\u5f15\u7528\uff1aa\nb\n\n", "quote: a:\n", "\n" + " " * 99 + ":", "\uff1a", "a:\n", "\n\n", "\u3000\n", "**",
)  # fmt: skip
_WORDS = (
    "\u4f60\u597d", "\u4e00\u3002", "\u7e41\u9ad4", "\u4e7e", "\u8457", "\u8457\u540d", "\u53f0\u7063", "a\n",
    "\u3002\n", "a.\n", ". ", "a. ", "!?", "a\u2028", "\u0085", "the ", "The Quick ", "aB",
)  # fmt: skip

TEXTS: dict[str, Family] = {
    **{
        repr(piece): repeated(piece)
        for piece in (*_CHARACTERS, *_ADDRESSES, *_MARKUP, *_SUBTITLES, *_QUOTES, *_SPAM, *_UNICODE, *_WORDS)
    },
    # A text with such a character is converted beside the compiled steps; one with half a surrogate is left to the
    # definition.
    **{f"\u9ad4 {piece!r}": repeated(piece, before="\u9ad4") for piece in (*_CHARACTERS, *_ADDRESSES, *_MARKUP)},
    **{f"half, {piece!r}": repeated(piece, before="\ud83d") for piece in (*_CHARACTERS, *_ADDRESSES, *_MARKUP)},
    "an address that never ends": repeated("a", before="a@"),
    "a host that never ends": repeated("a.", before="www."),
    "an opened link, then spaces": repeated(" ", before="]("),
    "all different words": counted("w{} "),
    "all different numbers": counted("{} "),
    "all different addresses": counted("http://h/{} "),
    "all different sentences": counted("w{}. "),
    "one word of any length": repeated("ab" * 50),
    "any ideographs": mixed(span((0x4E00, 0x9FD5))),
    "rare ideographs": mixed(span((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x203FF))),
    "traditional characters": mixed(
        "\u7e41\u9ad4\u5b78\u7fd2\u96fb\u8166\u570b\u8a9e\u81fa\u7063\u66f8\u5beb\u8457\u4e7e\u5f8c\u88e1"
    ),
    "any letters": mixed("abcdefghijklmnopqrstuvwxyz   "),
    "any ASCII": mixed(span((32, 126))),
    "signs of addresses": mixed("/.:@a1-_ "),
    "signs of markup": mixed("<>/!-abp \"='&;"),
    "any marks": mixed(span((0x300, 0x36F))),
    "any marks and letters": mixed(span((0x300, 0x36F)) + "aaaaaae"),
    "digits like letters": mixed("0134578@$aol "),
    "any pictures": mixed(span((0x1F600, 0x1F64F)) + "\u200d\ufe0f"),
    "any characters": mixed(span((0x20, 0xD7FF))),
    "any Arabic": mixed(span((0x621, 0x652))),
    "any signs of subtitles": mixed("0123:.,->\n []<1"),
    "own words, then quotes": repeated("//@a:[quote]b[/quote]\n> c\n", before="渡口的老人在河边等了一天又一天\n"),
    "any signs of quotes": mixed("> \n:@/[]a-\uff1a"),
    "cues far apart": repeated(" " * 500 + "00:01.5 --> 00:02.5"),
    "jamo": mixed(span((0x1100, 0x11FF))),
    "Thai": mixed(span((0xE01, 0xE5B))),
    "kana": mixed(span((0x3041, 0x30FF))),
}

_TAGS = (
    "<div>", "<b>", "<i>", "<a>", "<p>", "<nobr>", "<table>", "<td>", "<tr>", "<select>", "<option>", "<svg>", "<math>",
    "<button>", "<template>", "<li>", "<dd>", "<form>", "<h1>", "<ruby><rt>", "<script>", "<style>", "<title>",
    "<textarea>", "<plaintext>", "<br-x>", "<span>", "<body>", "<html>", "<frameset>", "<iframe>", "<noscript>",
    "<object>", "<pre>", "<input>", "<col>", "<caption>", "<colgroup>", "<tbody>", "<xmp>", "<optgroup>", "<table><td>",
    "<table><b>", "<b><p>", "<b><div>", "<a><div>", "<a><table>", "<b></p>", "<p></b>", "<svg><p>",
    "<svg><foreignObject>", "<math><mi>", "<svg><desc><b>", "<template><td>", "<ul><li>", "<table>a", "<select><b>",
    "<nobr><div>", "<p><b><i></p></b>", "x<br>", "<p>x</p>", "<div><!--</div>-->", "</p>", "</", "<!---->",
    "<svg><![CDATA[", "<!doctype>",
    "<sup><a href=#a>", "<i style='display:none'>", "<a role=noteref>",
    "<blockquote>", "<blockquote></blockquote>",
)  # fmt: skip
_OPEN = "<div>" * 1001
"""More than is parsed."""
_DEEP = "<div>" * 900
"""About as much as is parsed."""
_MANY = "".join(f"<b x={n}>" for n in range(200))

PAGES: dict[str, Family] = {
    **{tag: repeated(tag) for tag in _TAGS},
    **{f"{tag} and a stray end": repeated(f"{tag}</x>") for tag in _TAGS},
    **{f"{tag} and its end": halves(tag, f"</{tag[1:].partition('>')[0]}>") for tag in _TAGS if tag[1].isalpha()},
    **{
        f"{tag} where much is open": repeated(tag, before=_OPEN)
        for tag in (
            "<!--", "<script ", "<style ", "<script>", "<style></script>", "<a ", "</a ", "<!", "<?", "&",
            "<script></style", "<", "<![CDATA[", "<script x></script", "<!-- --", "&#9", "&amp",
        )
    },
    **{
        f"{tag} where nearly too much is open": repeated(tag, before=_DEEP)
        for tag in ("</b>", "</x>", "<p></p>", "<b></b>", "<li>", "<a>", "x<b></b>", "<table></table>", "<option>")
    },
    **{piece: repeated(piece) for piece in ("<", "<br>", "<i a=1>", "&lt")},
    "elements to make again": repeated("</p><p>x", before="<p>" + _MANY),
    "elements to compare": repeated("<b></b>", before="<b " + " ".join(f"a{n}" for n in range(900)) + ">"),
    "ever more elements to make again": counted("<p><b x={}>x</p>"),
    "half elements, half blocks": lambda size: counted("<b x={}>")(size // 2) + "<p>x</p>" * (size // 16),
    "attributes": lambda size: counted("a{} ", before="<a ")(size) + ">",
    "attributes without end": counted("a{} ", before="<a "),
    "attributes of the body": counted("<body a{}=1>"),
    "one attribute of any length": repeated("a b ", before='<a b="', behind='">'),
    "hidden": repeated("<i hidden>x</i>"),
    "hidden in hidden": repeated("<i hidden>"),
    "an entity that never ends": repeated("9", before="&#"),
    "an entity that never ends where much is open": repeated("9", before=_OPEN + "&#"),
    "a comment in a script": repeated("<!--<script>", before="<script>"),
    "a tag that never ends": repeated("a='<b>' ", before="<a "),
    "quotation marks in tags": repeated("<a b='\"'>"),
    "null": repeated("\0", before="<p>"),
}  # fmt: skip


def member(family: Family) -> Family:
    """A record with a text and a member of this value."""
    return lambda size: f'{{"text": "a", "x": {family(size)}}}'


RECORDS: dict[str, Family] = {
    "arrays": member(repeated("[")),
    "arrays that end": member(halves("[", "]")),
    "objects": member(repeated('{"a":')),
    "many arrays": member(repeated("[],", before="[", behind="[]]")),
    "an array of numbers": member(repeated("1.5,", before="[", behind="1]")),
    "a number": member(repeated("9")),
    "a fraction": member(repeated("9", before="0.")),
    "long numbers": member(repeated("9" * 4000 + ",", before="[", behind="1]")),
    "long numbers and half a surrogate": member(repeated("9" * 4000 + ",", before='["\\ud83d",', behind="1]")),
    "members of one name": member(repeated('"a":1,', before="{", behind='"a":1}')),
    "quotation marks": member(repeated('\\"', before='"' + "[" * 1000, behind='"')),
    "a string of quotation marks that never ends": member(repeated('\\"', before="[" * 600 + '"')),
    "half surrogates": member(repeated("\\ud83d", before='"', behind='"')),
    "backslashes": member(repeated("\\", before="[" * 600 + '"')),
    "spaces": member(repeated(" ")),
}

STEPS = {
    "invisible": True, "tags": True, "urls": "token", "emails": "token", "users": "token", "numbers": "token",
    "emoji": "token", "join_numbers": True, "simplify": True, "unspace": True, "repeats": True, "lookalikes": True,
    "entities": True, "rejoin": True, "fold": True,
    "quotes": "drop",
}  # fmt: skip
"""Every step of the normalisation, switched on."""
_ARTICLE, _CLASSIC = PROFILES["article"].settings, PROFILES["simhash"].settings
WAYS: dict[str, FingerprintSettings] = {
    **{name: profile.settings for name, profile in PROFILES.items()},
    "every step": replace(_ARTICLE.with_normalisation(**STEPS), key_sentences=2),
    "every step, comments": PROFILES["comment"].settings.with_normalisation(**STEPS),
    **{f"only {step}": _CLASSIC.with_normalisation(**{step: how}) for step, how in STEPS.items()},
}
"""Settings by which a text becomes an entry."""
PAGE_WAYS: dict[str, FingerprintSettings] = {"HTML": replace(_ARTICLE, markup="html")}

LARGE = 1 << 31


class Path:
    """The whole way from a record to its entry."""

    def __init__(self, settings: FingerprintSettings, kind: str = "json") -> None:
        """A record is ``json`` with the text in it, or the ``text`` itself, or the text is the whole ``record``."""
        self._kind = kind
        self._maker = EntryMaker(settings, InputFormat(kind="text" if kind == "text" else "json", max_bytes=LARGE))
        self._maker.fingerprinter.warm()
        self.seconds("warm \u4e00\u4e8c\u4e09 " * 200, 1)

    def seconds(self, text: str, runs: int) -> float:
        """Processor seconds of one text in this thread: the least of several runs."""
        value = json.dumps({"text": text}).encode() if self._kind == "json" else text.encode("utf-8", "replace")
        record = [RawRecord(None, value, "t-0-0")]
        return min([self._run(record) for _ in range(runs)])

    def _run(self, records: list[RawRecord]) -> float:
        start = time.thread_time()
        self._maker(records)
        return time.thread_time() - start


class Case(NamedTuple):
    """A way with the format of its records and the families that are taken through it."""

    name: str
    settings: FingerprintSettings
    kind: str
    families: dict[str, Family]


def cases() -> Iterator[Case]:
    """Every way."""
    for name, settings in WAYS.items():
        yield Case(name, settings, "json", TEXTS)
    yield Case("plain text", _ARTICLE, "text", TEXTS)
    for name, settings in PAGE_WAYS.items():
        yield Case(name, settings, "json", PAGES)
    yield Case("records", _CLASSIC, "record", RECORDS)
