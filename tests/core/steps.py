"""What the steps of the scheme make of texts on which another parser, package or Python would show itself.

A step that calls foreign code is held to these results (``golden/steps.json``, written by ``make_golden``). Where they
change, an upgrade changed what entries are made of: either the upgrade is refused in pyproject.toml, or the step gets a
new version in ``core.scheme``. Results that one can read stand as they are, those of many texts as a hash.
"""

import html.entities
import math
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xxhash

from stream_dedup._native import text_of_html as text_of
from stream_dedup.core.decode import InputFormat, RawRecord, Rejection, decode
from stream_dedup.core.scheme import Normalisation
from tests.native_steps import as_long, simplified
from tests.reference.clean import TOKEN_NAMES
from tests.reference.decode import MAX_NESTING
from tests.reference.folding import table
from tests.reference.normalise import normalise
from tests.reference.simplify import simplifiable
from tests.reference.unicode14 import unassigned

PAGES = (
    "<p>a<p>b</p>c</p>d",
    "<b>1<i>2</b>3</i>4",
    "<a>1<a>2</a>3",
    "<nobr>a<nobr>b</nobr>",
    "<table><tr><td>1<td>2<p>3</table>4",
    "<table>x<tr>y<td>z</table>",
    "<table><caption>a<table><td>b</table>c",
    "<table><form><input><td>a</form>b</table>",
    "<ul><li>a<ul><li>b</ul><li>c</ul>",
    "<dl><dt>a<dd>b<dt>c</dl>",
    "<h1>a<h2>b</h1>c",
    "<select><option>a<b>c</b><div>d</div><optgroup>e</select>f",
    "<select><button><selectedcontent>a</selectedcontent></button><option>b</select>c",
    "<select><table><td>a</select>b",
    "<select><input>a",
    "<search>a</search>b",
    "<dialog>a</dialog>b<menu><li>c</menu>",
    "<details><summary>a</summary>b</details>",
    "<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rtc>ji</ruby>",
    "<ruby>a<rb>b<rt>c<rb>d</ruby>",
    "<svg><p>a</svg>b",
    "<svg><title>a<b>c</title></svg>d",
    "<svg><foreignObject><p>a</foreignObject></svg>b",
    "<svg><![CDATA[a<b>]]></svg>c",
    "<math><mi>a<p>b</math>c",
    "<math><annotation-xml encoding='text/html'><p>a</annotation-xml></math>b",
    "<![CDATA[a<b>]]>c",
    "<template><td>a</template>b",
    "<template><template>a</template>b</template>c",
    "<script><!--<script></script>--></script>a",
    "<script>a</scrip></script >b",
    "<style>a</style/>b",
    "<title>a<b>c</title>d",
    "<textarea>\n\na<b></textarea>c",
    "<pre>\n\na</pre>",
    "<listing>\na</listing><xmp><b></xmp>",
    "<noscript><p>a</noscript>b",
    "<noframes>a<b></noframes>c",
    "<iframe><p>a</iframe>b",
    "<object>a</object><embed>b",
    "<plaintext>a</plaintext>b",
    "<frameset><frame></frameset><noframes>a</noframes>",
    "a<frameset>",
    "<head>a</head>b",
    "<body hidden>a",
    "<p hidden>a</p><p hidden=until-found>b</p><p HIDDEN=''>c</p>d",
    "<body a=1>x<body b=2>y",
    "<html><body>a</body>b</html>c",
    "<image>a</image>b",
    "</br>a</p>b</body>c</span>d",
    "<isindex>a<keygen>b<command>c<bgsound>d",
    "<custom-element>a</custom-element><ünknown>b</ünknown>",
    "<div\x00x>a</div>b\x00c",
    "<div a=\"x>y\" b='z>' c=d>e</div>",
    "<div a=1 a=2/>b<br/>c<p/>d",
    "<a href=x?a=1&copy=2>b</a>&copy=2",
    "<>a</>b< c>d</ e>f",
    "<!a>b<!>c<?d>e<!--f--!>g<!--h->i-->j<!---->k<!-->l<!--->m",
    "<!DOCTYPE html><p>a<table>b",
    "<p>a<table>b",
    "<!-- a <b> -->c<!-- d",
    "a<b",
    "a<b c",
    "a<b c='d",
    "a</",
    "a&",
    "&amp &amp; &AMP &ampx &notit; &notin; &not; &lt &gt; &quot &nbsp; &shy;",
    "&#65; &#x41; &#X41 &#65x &#0; &#128; &#x9f; &#xd800; &#x110000; &#99999999999; &#; &#x; &# ",
    "&NotEqualTilde; &nGt; &bne; &acE; &CounterClockwiseContourIntegral; &zwj; &ngE; &hearts; &unknown;",
    "a\r\nb\rc\nd\x0ce\x0bf",
    "\ufeffa<p>\ufeffb",
    "a\x01\x7f\x80\x9f\ufdd0\uffff\U0001fffe<p>b",
    "<P STYLE='display:none'>a</P>b<p aria-hidden=true>c",
    "<label>a<button>b<button>c</button></label>d",
    "<marquee>a</marquee><applet>b</applet><center>c<font>d</center>e</font>f",
    "<b><b><b><b><b>a</b>c</b>d<p>e",
    "<video><source>a</video><audio>b</audio><picture><img>c</picture><canvas>d</canvas>",
    "<slot>a</slot><shadow>b</shadow><div><template shadowrootmode=open>c</template>d</div>",
)
_PIECES = (  # names of elements
    "p div span b i a em table tr td tbody ul li h1 br hr pre select option button form svg math mi template script "
    "style textarea title ruby rt nobr font dl dd body head html frameset image noscript iframe caption"
)
_TEXTS = (
    "中文",
    "word",
    " ",
    "\n",
    "&amp;",
    "&lt",
    "&#20013;",
    "&copy",
    "<",
    ">",
    "<!--",
    "-->",
    "'",
    '"',
    "\x00",
    "é",
)

RECORDS = (
    b'{"id":"a","text":"b"}',
    b'\xef\xbb\xbf{"id":"a","text":"b"}',
    b' \t\r\n{"id":"a","text":"b"} \n',
    b'{"id":"a","text":"b"}\x00',
    b'{"id":"a","text":"b"}x',
    b'\x0b{"id":"a","text":"b"}',
    b'{"id":"a","text":"b",}',
    b'{"id":"a","text":"b" /* c */}',
    b"{'id':'a','text':'b'}",
    b'{"id":"a","id":"c","text":"b","text":"d"}',
    b'{"id":"a","text":"b\n"}',
    b'{"id":"a","text":"b\x01"}',
    b'{"id":"a","text":"b\x7f"}',
    b'{"id":"a","text":"\\u0000b"}',
    b'{"id":"a","text":"\\x62"}',
    b'{"id":"a","text":"\\ud83d\\ude00"}',
    b'{"id":"a","text":"\\ud83d"}',
    b'{"id":"\\ud83d","text":"b"}',
    b'{"id":"a","text":"\xed\xa0\xbd"}',
    b'{"id":"a","text":"\xc0\xaf"}',
    b'{"id":"a","text":"\xf4\x90\x80\x80"}',
    b'{"id":"a","text":"\xff"}',
    b'{"id":"a","text":"b","x":NaN}',
    b'{"id":"a","text":"b","x":Infinity}',
    b'{"id":"a","text":"b","x":-Infinity}',
    b'{"id":"a","text":"b","x":1e999}',
    b'{"id":"a","text":"b","x":01}',
    b'{"id":"a","text":"b","x":+1}',
    b'{"id":"a","text":"b","x":.5}',
    b'{"id":"a","text":"b","x":1.}',
    b'{"id":"a","text":"b","x":0x1}',
    b'{"id":"a","text":"b","x":1_0}',
    b'{"id":"a","text":"b","x":-}',
    b'{"id":"a","text":"b","x":' + b"9" * 5000 + b"}",
    b'{"id":0,"text":"b"}',
    b'{"id":-0,"text":"b"}',
    b'{"id":-0.0,"text":"b"}',
    b'{"id":4711.0,"text":"b"}',
    b'{"id":1.50,"text":"b"}',
    b'{"id":1E3,"text":"b"}',
    b'{"id":1e-7,"text":"b"}',
    b'{"id":9007199254740993,"text":"b"}',
    b'{"id":18446744073709551615,"text":"b"}',
    b'{"id":18446744073709551616,"text":"b"}',
    b'{"id":-9223372036854775809,"text":"b"}',
    b'{"id":1e400,"text":"b"}',
    b'{"id":true,"text":"b"}',
    b'{"id":null,"text":"b"}',
    b'{"id":"a","text":"b","site":1.0}',
    b'{"id":"a","text":"b","site":12345678901234567890123}',
    b'{"id":"a","text":"b","site":true}',
    b'{"id":"a","text":" \\u2028\\u3000\\u00a0\\u001f\\u0085"}',
    b'{"id":"a","text":"\\u200b"}',
    b'{"id":"a","text":null}',
    b'{"id":"a","text":["b"]}',
    b'{"id":"a"}',
    b'{"":"a","text":"b"}',
    b"[]",
    b'"a"',
    b"null",
    b"1",
    b"1.0",
    b"",
    b" ",
    b"{",
    b'{"id":"a","text":"b","x":' + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}",
    b'{"id":"a","text":"b","x":' + b"[" * MAX_NESTING + b"]" * MAX_NESTING + b"}",
    b'{"id":"a","text":"' + "中".encode("utf-16-le") + b'"}',
)
_FORMAT = InputFormat(scope_field="site")

PHRASES = (
    "乾坤 乾燥 乾隆 乾淨 餅乾 若干 幹部 樹幹 頭髮 發展 沖洗 衝突 後來 皇后 麵包 表面 歷史 日曆 "
    "鐘錶 鍾情 隻身 只有 臺灣 颱風 瞭解 明瞭 瞭望 藉口 慰藉 狼藉 什麼 麼麼 著名 看著 土著 著作 "
    "執著 穿著 沈著 沉著 徵求 特徵 徵羽 係數 關係 聯繫 繫帶 嚮往 方向 餘額 余先生 於是 於潛 夥伴 "
    "伙食 鬱金香 濃郁 籲請 呼籲 範圍 范仲淹 穀物 山谷 薑黃 姜太公 裡面 里程 製作 制度 週末 周圍 捲入 "
    "試卷 佔領 占卜 癥結 症狀 䰾魚 𪚥 㑳 龎 兀 \uf9dc \ufa30 \U0002f800"
)
UNKNOWN = ("\u0378", "\u0a5d", "\u1c89", "\ua7cb", "\U0001e030", "\U00010ec2", "\U0001fac8", "\U000323af", "\U000105c0")
"""Characters that Unicode 14 does not know; 15 to 17 have some as letters, marks and pictures."""
_SIMPLE = Normalisation(simplify=True)
_EVERY_STEP = Normalisation(
    invisible=True,
    tags=True,
    entities=True,
    urls="token",
    emails="token",
    users="token",
    numbers="token",
    emoji="token",
    fold=True,
    join_numbers=True,
    rejoin=True,
    simplify=True,
    unspace=True,
    repeats=True,
    lookalikes=True,
)


def hash_of(texts: Iterable[str]) -> str:
    """Return the hash of texts in their order."""
    found = xxhash.xxh3_64()
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return found.hexdigest()


def _made_pages(count: int) -> Iterable[str]:
    """Return pages that nobody would write, of the same tags in any order."""
    chosen = random.Random(5)
    for _ in range(count):
        parts = (_piece(chosen) for _ in range(chosen.randrange(2, 24)))
        yield "".join(parts)


def _piece(chosen: random.Random) -> str:
    name, kind = chosen.choice(_PIECES.split(" ")), chosen.random()
    if kind < 0.4:
        return f"<{name}>"
    return f"</{name}>" if kind < 0.65 else chosen.choice(_TEXTS)


def _decoded(value: bytes) -> str | Sequence[str | None]:
    found = decode(RawRecord(None, value, "t-0-0"), _FORMAT)
    if isinstance(found, Rejection):
        return ["rejected", found.id, found.reason]
    return [found.id, found.texts[0], found.scope]


def _known() -> list[str]:
    points = np.flatnonzero(~unassigned()).astype("<u4")
    return list(points.tobytes().decode("utf-32-le"))


_PROPERTIES: dict[str, Callable[[str], str]] = {
    "word": lambda character: str(re.match(r"\w", character) is not None),
    "white": lambda character: str(re.match(r"\s", character) is not None),
    "decimal": lambda character: str(re.match(r"\d", character) is not None),
    "latin": lambda character: str(re.match("(?i:[a-z])", character) is not None),
    "alphanumeric": lambda character: str(character.isalnum()),
    "digits": lambda character: str(unicodedata.decimal(character, -1)),
    "mark": lambda character: str(unicodedata.category(character) in {"Mn", "Mc"}),
    "combining": lambda character: str(unicodedata.combining(character)),
    "decomposition": unicodedata.decomposition,
    "normalised": normalise,
    "line": lambda character: str(len(f"a{character}b".splitlines())),
}


def _around(unknown: str) -> Sequence[str]:
    return (
        f"@ab{unknown}cd ef",
        f"@中{unknown}文 gh",
        f"中{unknown}文 a{unknown}b",
        f"http://a.com/{unknown}b www.a.com{unknown}b a@b.com{unknown}",
        f"1{unknown}2 3.{unknown}4 <p{unknown}>x</p{unknown}> a {unknown} b",
    )


def _cleaned(text: str) -> str:
    """Return the text after every step, with the letters that stand for tokens."""
    (made,) = as_long([text], _EVERY_STEP)
    for letter, name in TOKEN_NAMES.items():
        made = made.replace(name, letter)
    return made


STEPS: dict[str, Callable[[], Any]] = {
    "html": lambda: [*map(text_of, PAGES), hash_of(map(text_of, _made_pages(2000)))],
    "entities": lambda: hash_of(f"{name} {text}" for name, text in sorted(html.entities.html5.items())),
    "decode": lambda: [_decoded(record) for record in RECORDS],
    "simplify": lambda: [
        simplified(PHRASES).split(" "),
        hash_of(as_long([*map(chr, sorted(simplifiable()))], _SIMPLE)),
    ],
    "fold": lambda: hash_of(as_long([*map(chr, sorted(table()))], Normalisation(fold=True))),
    "unicode": lambda: {name: hash_of(map(property_of, _known())) for name, property_of in _PROPERTIES.items()},
    "unknown": lambda: [_cleaned(text) for one in UNKNOWN for text in _around(one)],
    # NumPy's view: every bit counts, and the cuts hang on the last ones.
    "damping": lambda: hash_of(str(math.floor(1024 * (1 + math.log(count)) + 0.5)) for count in range(1, 65_536)),
}
"""What gives the results of each step, as they stand in the file."""
