"""Every way in which a record can be read or not."""

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.decode import MAX_ID_BYTES, Article, InputFormat, RawRecord, Rejection, decode, parse_object
from stream_dedup.core.paths import parse_path
from tests.amount import code_points
from tests.reference import decode as reference
from tests.reference.decode import MAX_NESTING, decode_object

JSON = InputFormat()
TEXT = InputFormat(kind="text")


def read(value: bytes | None, *, key: bytes | None = b"key", fmt: InputFormat = JSON) -> Article | Rejection:
    return decode(RawRecord(key, value, "articles-0-7"), fmt)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"id": "a", "text": "b"}', Article("a", ("b",))),
        (b'{"id": 17, "text": "b"}', Article("17", ("b",))),
        (b'{"id": 1.50, "text": "b"}', Article("1.50", ("b",))),
        (b'{"id": 123456789012345678901234567890, "text": "b"}', Article("123456789012345678901234567890", ("b",))),
        (b'{"id": -0, "text": "b"}', Article("0", ("b",))),
        (b'{"text": "b"}', Article("key", ("b",))),
        (b'{"id": "", "text": "b"}', Article("key", ("b",))),
        (b'{"id": null, "text": "b"}', Article("key", ("b",))),
        (b'{"text": ["a", null, "b"]}', Article("key", ("a\nb",))),
        (b'{"text": "b", "score": NaN, "x": [-Infinity, {"y": Infinity}]}', Article("key", ("b",))),
        (b'\xef\xbb\xbf{"text": "b"}', Article("key", ("b",))),
        (b'{"text": "\\ud83d"}', Article("key", ("\ud83d",))),
        (b'{"text": "a", "text": "b"}', Article("key", ("b",))),
        (b'{"text": "\\u200b"}', Article("key", ("\u200b",))),
    ],
)
def test_json_that_can_be_read(value: bytes, expected: Article) -> None:
    """Ids as text or as the number is written, else by key; half surrogates and a byte order mark do no harm."""
    assert read(value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "tombstone: the record has no value"),
        (b"", "invalid JSON"),
        (b"{", "invalid JSON"),
        (b'{"text": NaN}', "text field text is no text but NaN"),
        (b'{"text": -Infinity}', "text field text is no text but Infinity"),
        (b'{"id": NaN, "text": "b"}', "id field id is neither text nor a number but NaN"),
        (b'{"id": Infinity, "text": "b"}', "id field id is neither text nor a number but Infinity"),
        (b'{"id": true, "text": "b"}', "id field id is neither text nor a number but a boolean"),
        (b'{"id": ["a"], "text": "b"}', "id field id is neither text nor a number but an array"),
        (b'{"id": {"$oid": "a"}, "text": "b"}', "id field id is neither text nor a number but an object"),
        (b'{"text": NaNs}', "invalid JSON"),
        (b"NaN", "JSON value is no object but NaN"),
        (b'{"text": "a"} {}', "invalid JSON"),
        (b"[" * 100_000, "JSON nested deeper than the fixed limit of 512"),
        (b"[" * 2000 + b"]" * 2000, "JSON nested deeper than the fixed limit of 512"),
        (b'{"text": "\xff"}', "invalid UTF-8 at byte 10"),
        (b'{"text": "\xed\xa0\xbd"}', "invalid UTF-8 at byte 10"),
        (b"[]", "JSON value is no object but an array"),
        (b'"a"', "JSON value is no object but text"),
        (b"null", "JSON value is no object but null"),
        (b"17", "JSON value is no object but a number"),
        (b"{}", "text field text is missing"),
        (b'{"text": null}', "text field text is no text but null"),
        (b'{"text": 1}', "text field text is no text but a number"),
        (b'{"text": 1.5}', "text field text is no text but a number"),
        (b'{"text": true}', "text field text is no text but a boolean"),
        (b'{"text": {}}', "text field text is no text but an object"),
        (b'{"text": ["a", 1]}', "text field text is no text but an array with other values than text"),
        (b'{"text": [["a"]]}', "text field text is no text but an array with other values than text"),
        (b'{"text": ["a", NaN]}', "text field text is no text but an array with other values than text"),
        (b'{"text": []}', "empty text"),
        (b'{"text": [null]}', "empty text"),
        (b'{"text": ""}', "empty text"),
        (b'{"text": " \\n\\u3000"}', "empty text"),
    ],
)
def test_json_that_cannot_be_read(value: bytes | None, reason: str) -> None:
    """Each kind of unreadable JSON has its own reason, and the record its key as id."""
    assert read(value) == Rejection("key", reason)


def test_white_space_alone_is_no_text() -> None:
    """Every character that Python calls white space, and no other one."""
    points = [chr(point) for point in code_points()]
    read_by = {one: read(json.dumps({"text": f" {one}{one}"}).encode()) for one in points}
    rejected = [one for one, made in read_by.items() if isinstance(made, Rejection)]
    assert rejected == [one for one in points if one.isspace()]


def test_a_rejected_object_goes_by_its_own_id() -> None:
    """A rejected object has its own id if that could be read."""
    assert read(b'{"id": "a"}') == Rejection("a", "text field text is missing")


def test_fields_are_configurable() -> None:
    """Fields have the configured names, also in the reasons."""
    fmt = InputFormat(id_field="uri", text_field="body")
    assert read(b'{"uri": "a", "body": "b", "id": "x", "text": "y"}', fmt=fmt) == Article("a", ("b",))
    assert read(b'{"text": "y"}', fmt=fmt) == Rejection("key", "text field body is missing")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, "articles-0-7"),
        (b"", "articles-0-7"),
        (b"k", "k"),
        ("键".encode(), "键"),
        (b"\xffk", "\\xffk"),
        (b"k" * MAX_ID_BYTES, "k" * MAX_ID_BYTES),
        (b"k" * (MAX_ID_BYTES + 1), "articles-0-7"),
        (b"\xff" * 200, "articles-0-7"),
    ],
)
def test_the_key_stands_in_for_an_id(key: bytes | None, expected: str) -> None:
    """Without an id the key is the id, and without a usable key topic-partition-offset."""
    assert read(b'{"text": "b"}', key=key) == Article(expected, ("b",))


def test_an_id_has_a_longest_length() -> None:
    """An id longer than the limit in bytes of UTF-8 rejects the record, which then has its key as id."""
    fits = "中" * (MAX_ID_BYTES // 3)
    assert read(json.dumps({"id": fits, "text": "b"}).encode()) == Article(fits, ("b",))
    assert read(json.dumps({"id": fits + "中", "text": "b"}).encode()) == Rejection(
        "key", "id too long: 513 bytes, the fixed limit is 512"
    )


@pytest.mark.parametrize("fmt", [InputFormat(max_bytes=20), InputFormat(kind="text", max_bytes=20)])
def test_a_value_has_a_longest_length(fmt: InputFormat) -> None:
    """A value longer than the limit is rejected without being parsed."""
    assert read(b'{"text": "123456789"}', fmt=fmt) == Rejection("key", "too long: 21 bytes, input.max_bytes is 20")
    assert isinstance(read(b'{"text": "12345678"}', fmt=fmt), Article)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("好 {".encode(), Article("key", ("好 {",))),
        (b"\xef\xbb\xbfa", Article("key", ("a",))),
        (b"a\xff", Rejection("key", "invalid UTF-8 at byte 1")),
        (b" \n", Rejection("key", "empty text")),
        (b"", Rejection("key", "empty text")),
        (None, Rejection("key", "tombstone: the record has no value")),
    ],
)
def test_plain_text(value: bytes | None, expected: Article | Rejection) -> None:
    """In plain text the whole value is the text, and the key is the id."""
    assert read(value, fmt=TEXT) == expected


@given(st.binary(), st.none() | st.binary(), st.sampled_from([JSON, TEXT]))
def test_any_bytes_have_an_answer(value: bytes, key: bytes | None, fmt: InputFormat) -> None:
    """Decoding never raises, and no id is empty."""
    assert read(value, key=key, fmt=fmt).id


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.dictionaries(st.sampled_from(["id", "text", "x"]), VALUES))
def test_any_object_has_an_answer(obj: dict[str, Any]) -> None:
    """The same from the bytes as from the object, as far as both can be read; nothing raises."""
    written = json.dumps(obj).encode()
    parsed = reference.parse_object(written)
    assert isinstance(parsed, dict)
    assert read(written) == decode_object(parsed, "key", JSON)


@given(st.text(), st.text())
def test_text_comes_through_untouched(article_id: str, text: str) -> None:
    """Decoding does not change the text, half surrogates included."""
    expected = Article(article_id or "key", (text,))
    if text.strip() and len(article_id.encode("utf-8", "backslashreplace")) <= MAX_ID_BYTES:
        assert read(json.dumps({"id": article_id, "text": text}).encode()) == expected


FIELDS = InputFormat(fields=("title", "body"), scope_field="site")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"title": "t", "body": "b"}', Article("key", ("t", "b"))),
        (b'{"body": "b"}', Article("key", ("", "b"))),
        (b'{"title": null, "body": "b", "text": 5}', Article("key", ("", "b"))),
        (b'{"title": "t", "body": ""}', Article("key", ("t", ""))),
        (b'{"title": "t", "site": "a"}', Article("key", ("t", ""), "a")),
        (b'{"title": "t", "site": 7}', Article("key", ("t", ""), "7")),
        (b'{"title": "t", "site": 1.50}', Article("key", ("t", ""), "1.50")),
        (b'{"title": "t", "site": ""}', Article("key", ("t", ""))),
        (b'{"title": "t", "site": null}', Article("key", ("t", ""))),
        (b'{"text": "x"}', Rejection("key", "none of the text fields title, body is there")),
        (b'{"title": null}', Rejection("key", "none of the text fields title, body is there")),
        (b'{"title": "", "body": " "}', Rejection("key", "empty text")),
        (b'{"title": 1, "body": "b"}', Rejection("key", "text field title is no text but a number")),
        (
            b'{"title": "t", "site": true}',
            Rejection("key", "scope field site is neither text nor a number but a boolean"),
        ),
        (
            b'{"title": "t", "site": {}}',
            Rejection("key", "scope field site is neither text nor a number but an object"),
        ),
    ],
)
def test_several_fields_and_a_scope(value: bytes, expected: Article | Rejection) -> None:
    """A missing field is empty text as long as one is there; a scope is text or a number as it is written."""
    assert read(value, fmt=FIELDS) == expected


TOO_DEEP = Rejection("key", "JSON nested deeper than the fixed limit of 512")
_T = TypeVar("_T")
FRAMES_LEFT = 40
"""Of the call stack: enough to ask for the answer, far too few for a parser that goes down a frame a level."""


def at_the_end_of_the_stack(ask: Callable[[], _T]) -> _T:
    """What ``ask`` gives where the call stack has ``FRAMES_LEFT`` left."""

    def descend(levels: int) -> _T:
        return ask() if levels <= 0 else descend(levels - 1)

    return descend(sys.getrecursionlimit() - len(inspect.stack(0)) - FRAMES_LEFT)


def nested(levels: int, head: str, *, opening: str = "[", closing: str = "]") -> bytes:
    """A record that begins with ``head`` and is nested so deep, its own braces among the levels."""
    inner = opening * (levels - 1) + ("1" if ":" in opening else "") + closing * (levels - 1)
    return f'{{{head}, "x": {inner}}}'.encode()


@pytest.mark.parametrize("head", ['"text": "a"', '"text": "\\ud83d"', '"id": 1.50, "text": "a"'])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nesting_has_a_limit_of_its_own(head: str, opening: str, closing: str) -> None:
    """Whatever the record holds, and wherever on the call stack it is asked: one level more is too deep."""
    each = opening.count("[") + opening.count("{")
    levels = (MAX_NESTING - 1) // each
    fits, deeper = (nested(1 + count, head, opening=opening, closing=closing) for count in (levels, levels + 1))
    for answer in (read, lambda value: at_the_end_of_the_stack(lambda: read(value))):
        assert isinstance(answer(fits), Article)
        assert answer(deeper) == TOO_DEEP


def test_an_id_and_a_scope_of_a_nested_record_are_not_lost() -> None:
    """Not even at the end of the call stack do they vanish."""
    value = nested(MAX_NESTING, '"id": 1.50, "site": 2.50, "title": "t"')
    expected = Article("1.50", ("t", ""), "2.50")
    assert read(value, fmt=FIELDS) == expected
    assert at_the_end_of_the_stack(lambda: read(value, fmt=FIELDS)) == expected


def test_brackets_in_strings_are_no_nesting() -> None:
    """Nor are those that stand side by side; a string that does not end holds all that follows."""
    brackets = "[{" * MAX_NESTING
    assert read(json.dumps({"text": f'{brackets}"{brackets}\\'}).encode()) == Article(
        "key", (f'{brackets}"{brackets}\\',)
    )
    assert isinstance(read(b'{"text": "a", "x": [' + b"[]," * MAX_NESTING + b"[]]}"), Article)
    assert read(b'{"text": "' + brackets.encode()) == Rejection("key", "invalid JSON")


@given(st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", "a", "\n"]), max_size=40), st.integers(-4, 2))
def test_nesting_is_counted_as_by_hand(pieces: list[str], more: int) -> None:
    """Around the limit the answer is the definition's: that of what comes first, a bracket too many or no JSON."""
    value = ("[" * (MAX_NESTING + more) + "".join(pieces)).encode()
    assert read(value) == reference.decode(RawRecord(b"key", value, "fallback"), JSON)


NUMBERS = ["-0", "7", "1.50", "-1E-9", "1e400", "18446744073709551615", "18446744073709551616", "-9223372036854775808"]
NUMBERS += ["-9223372036854775809", "9" * 25, "9" * 308, "9" * 309, "9" * 511]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_itself(number: str) -> None:
    """As id and scope it is as it is written, elsewhere of one type and value; half a surrogate changes nothing."""
    one, other = (
        f'{{"id": {number}, "site": {number}, "at": {number}, "title": "{text}"}}'.encode() for text in ("a", "\\ud83d")
    )
    written = "0" if number == "-0" else number
    assert read(one, fmt=FIELDS) == Article(written, ("a", ""), written)
    assert read(other, fmt=FIELDS) == Article(written, ("\ud83d", ""), written)
    values = [parse_object(value) for value in (one, other)]
    finite = max(-sys.float_info.max, min(float(number), sys.float_info.max))
    assert [repr(value["at"]) for value in values if isinstance(value, dict)] in (
        [repr(json.loads(number))] * 2,
        [repr(finite)] * 2,
    )


@pytest.mark.parametrize("digits", [4300, 4301, 100_000])
def test_a_number_may_have_any_length(digits: int) -> None:
    """Python's own limit of 4,300 digits, which its environment can change, is none of a record's."""
    number = "9" * digits
    assert read(f'{{"text": "a", "x": {number}}}'.encode()) == Article("key", ("a",))
    assert read(f'{{"title": "a", "site": {number}}}'.encode(), fmt=FIELDS) == Article("key", ("a", ""), number)


@pytest.mark.parametrize("text", ["a", "\\ud83d"])
@pytest.mark.parametrize("value", ["nan", "-NaN", "Inf", "01", "+1", ".5", "1.", "'a'", '"\t"', "nul", "[1,]"])
def test_what_is_no_json_is_rejected(value: str, text: str) -> None:
    """With and without a half surrogate beside it."""
    assert read(f'{{"text": "{text}", "x": {value}}}'.encode()) == Rejection("key", "invalid JSON")


MEMBERS = (
    '{"a": [1, {"b": null}], "": 2.50, "id": 1.50, "site": 3.0, "\\ud83d": "\\ude00", "x": {"id": 1.50}, "a\\nb": true}'
)


def test_an_object_has_its_members() -> None:
    """All of them, in order; a number that names something is the text that it is as an id, and others are not."""
    made = parse_object(MEMBERS.encode(), [parse_path("id").native, parse_path("site").native])
    assert isinstance(made, dict)
    assert repr(made) == repr(
        {
            "a": [1, {"b": None}],
            "": 2.5,
            "id": "1.50",
            "site": "3",
            "\ud83d": "\ude00",
            "x": {"id": 1.5},
            "a\nb": True,
        }
    )
    lists = b'{"a": [{"b": 2.0}, {"b": [2.0]}, 2.0, {"b": 3e1}], "b": 2.0}'
    all_named, one_named = ([parse_path(path).native] for path in ("a[].b", "a[3].b"))
    assert parse_object(lists, all_named) == {"a": [{"b": "2"}, {"b": [2.0]}, 2.0, {"b": "30"}], "b": 2.0}
    assert parse_object(lists, one_named) == {"a": [{"b": 2.0}, {"b": [2.0]}, 2.0, {"b": "30"}], "b": 2.0}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "[NaN]", "nul", "[1}"])
def test_members_are_those_of_json(value: str) -> None:
    """A request is no record: what is not JSON is refused, wherever it stands."""
    assert parse_object(f'{{"a": {value}}}'.encode()) == "invalid JSON"


@given(VALUES)
def test_any_value_is_made_as_the_definition_does(value: object) -> None:
    """Numbers, too, are of the same type and value."""
    written = json.dumps({"x": value, "id": value}).encode()
    assert repr(parse_object(written)) == repr(reference.python_object(written))
