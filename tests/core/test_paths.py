"""Fields by path: what a path means, what is refused, and what it leads to in a record."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.decode import Article, InputFormat, RawRecord, Rejection, decode, field_at, id_at
from stream_dedup.core.paths import MAX_STEPS, PathError, PathStep, parse_path, with_value
from tests.reference import decode as reference


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("title", ("title",)),
        ("te xt\n中", ("te xt\n中",)),
        ("0", ("0",)),
        ("*", ("*",)),
        ("$", ("$",)),
        ("_source.title", ("_source", "title")),
        ("payload.after.id", ("payload", "after", "id")),
        ("authors[0].name", ("authors", 0, "name")),
        ("conversations[].value", ("conversations", None, "value")),
        ("a[][12][]", ("a", None, 12, None)),
        (r"a\.b", ("a.b",)),
        (r"a\.b.c\\d", ("a.b", "c\\d")),
        (r"\[0\].\]", ("[0]", "]")),
        (r"a.\0", ("a", "0")),
        (r"a.\*", ("a", "*")),
        (r"\$.a", ("$", "a")),
        ("a.1b", ("a", "1b")),
        (".".join("a" * MAX_STEPS), tuple("a" * MAX_STEPS)),
    ],
)
def test_a_path_is_its_steps(name: str, steps: tuple[PathStep, ...]) -> None:
    """Dots go into objects, brackets into arrays, and a backslash takes the next sign as it is."""
    assert parse_path(name).steps == steps
    assert tuple(reference.steps_of(name)) == steps


@pytest.mark.parametrize(
    ("name", "at", "remedy"),
    [
        ("", 1, "name a member"),
        (".a", 1, "remove the dot"),
        ("a.", 3, "remove the dot"),
        ("a..b", 3, r"\."),
        ("a[0].", 6, "remove the dot"),
        ("[0].a", 1, "begin with the name"),
        ("[].a", 1, "begin with the name"),
        ("a[0]b", 5, "a dot before the name"),
        ("a[", 2, r"\["),
        ("a[0", 2, r"\["),
        ("a]", 2, r"\]"),
        ("a[-1]", 2, "[0] for an element"),
        ("a[01]", 2, "[0] for an element"),
        ("a[x]", 2, "a dot before the name"),
        ("a['x']", 2, "a dot before the name"),
        ("a[1:2]", 2, "[] for all"),
        ("a[٣]", 2, "[0] for an element"),
        ("a[1000000000]", 2, "[0] for an element"),
        ("a[*].b", 2, "write [] for all"),
        ("a.*", 3, r"\*"),
        ("a.0.b", 3, r"[0] for the element, or \0"),
        ("a.07", 3, r"[7] for the element, or \07"),
        ("$.a", 1, r"leave $ out"),
        ("$[0]", 1, r"\$"),
        ("a\\", 2, r"\\"),
        (r"C:\news", 3, r"\\"),
        (".".join("a" * (MAX_STEPS + 1)), 1, f"{MAX_STEPS} steps"),
    ],
)
def test_what_is_malformed_or_has_two_readings_is_refused(name: str, at: int, remedy: str) -> None:
    """The error names the place, and what to write."""
    with pytest.raises(PathError, match=rf"^at character {at}: .*; .*{re.escape(remedy)}"):
        parse_path(name)


@pytest.mark.parametrize("name", ["a[]", "a[].b", "a[0][]"])
def test_all_elements_are_not_one_value(name: str) -> None:
    """An id, a scope and a time are one."""
    assert parse_path(name)
    with pytest.raises(PathError, match=rf"at character {name.index('[]') + 1}: .*write \[0\]"):
        parse_path(name, one=True)


@given(st.lists(st.text(min_size=1) | st.integers(0, 99) | st.none(), max_size=5), st.text(min_size=1))
def test_any_name_can_be_written(steps: list[PathStep], first: str) -> None:
    """With a backslash before all that has a meaning; letters take none."""
    expected = (first, *steps)
    written = ""
    for step in expected:
        if isinstance(step, str):
            signs = (one if one.isascii() and one.isalpha() else f"\\{one}" for one in step)
            written += "." * bool(written) + "".join(signs)
        else:
            written += "[]" if step is None else f"[{step}]"
    assert parse_path(written).steps == expected
    assert tuple(reference.steps_of(written)) == expected


def texts_at(record: object, *paths: str) -> tuple[str, ...] | str:
    """The texts of a record, or the reason."""
    fmt = InputFormat(text_field=paths[0]) if len(paths) == 1 else InputFormat(fields=paths)
    raw = RawRecord(None, record if isinstance(record, bytes) else json.dumps(record).encode(), "t-0-0")
    found, expected = decode(raw, fmt), reference.decode(raw, fmt)
    assert found == expected
    return found.texts if isinstance(found, Article) else found.reason


TALK = {"talk": [{"by": "a", "says": "one"}, {"by": "b"}, {"says": None}, {"says": "two"}, "x", {"says": ["3", "4"]}]}


@pytest.mark.parametrize(
    ("record", "path", "text"),
    [
        ({"_source": {"body": "b"}}, "_source.body", "b"),
        ({"payload": {"before": None, "after": {"text": "b"}}}, "payload.after.text", "b"),
        (TALK, "talk[].says", "one\ntwo\n3\n4"),
        (TALK, "talk[3].says", "two"),
        (TALK, "talk[5].says[1]", "4"),
        ({"a": [["x", "y"], [], ["z"]]}, "a[]", "x\ny\nz"),
        ({"a": [["x", "y"], [], ["z"]]}, "a[][]", "x\ny\nz"),
        ({"a": [["x", "y"], [], ["z"]]}, "a[0]", "x\ny"),
        ({"a": [{"b": [{"c": "1"}, {"c": "2"}]}, {"b": []}, {"b": [{"c": "3"}]}]}, "a[].b[].c", "1\n2\n3"),
        ({"a.b": "key", "a": {"b": "path"}}, "a.b", "path"),
        ({"a.b": "key", "a": {"b": "path"}}, r"a\.b", "key"),
        ({"choices": [{"message": {"content": "b"}}]}, "choices[0].message.content", "b"),
        ({"text": ["a", "", None, "b"]}, "text", "a\n\nb"),
    ],
)
def test_a_path_leads_to_a_text(record: object, path: str, text: str) -> None:
    """Strings of a list, and those of all elements, stand on lines of their own; nulls are left out."""
    assert texts_at(record, path) == (text,)


@pytest.mark.parametrize(
    ("record", "path", "reason"),
    [
        ({"a": {"c": "x"}}, "a.b", "text field a.b is missing"),
        ({"a": [{"b": "x"}]}, "a.b", "text field a.b is missing"),
        ({"a": {"b": "x"}}, "a[].b", "text field a[].b is missing"),
        ({"a": "x"}, "a.b", "text field a.b is missing"),
        ({"a": None}, "a.b", "text field a.b is missing"),
        ({"a": ["x"]}, "a[1]", "text field a[1] is missing"),
        ({"a": []}, "a[].b", "text field a[].b is missing"),
        ({"a.b": "x"}, "a.b", "text field a.b is missing"),
        ({"a": [{"b": None}]}, "a[].b", "text field a[].b is no text but null"),
        ({"a": [{"b": "x"}, {"b": 7}]}, "a[].b", "text field a[].b is no text but a number"),
        ({"a": [{"b": "x"}, {"b": {"c": "y"}}]}, "a[].b", "text field a[].b is no text but an object"),
        ({"a": {"b": {}}}, "a.b", "text field a.b is no text but an object"),
    ],
)
def test_a_path_that_leads_to_no_text_is_the_reason(record: object, path: str, reason: str) -> None:
    """The reason names the path as the configuration has it."""
    assert texts_at(record, path) == reason


@pytest.mark.parametrize(
    ("value", "path", "texts"),
    [
        (b'{"a": {"b": "1"}, "a": {"b": "2"}}', "a.b", ("2",)),
        (b'{"a": {"b": "1", "b": "2"}}', "a.b", ("2",)),
        (b'{"a": [{"b": "1", "b": "2"}, {"b": "3"}]}', "a[].b", ("2\n3",)),
        (b'{"a": [{"b": "1"}], "a": [{"b": "2"}]}', "a[].b", ("2",)),
        (b'{"a": {"b": "1"}, "\\u0061": {"\\u0062": "2"}}', "a.b", ("2",)),
        (b'{"a": {"b": "1"}, "a": {"c": "2"}}', "a.b", "text field a.b is missing"),
        (b'{"a": {"b": "1"}, "a": 2}', "a.b", "text field a.b is missing"),
        (b'{"a": ["1", "2"], "a": ["3"]}', "a", ("3",)),
    ],
)
def test_of_equal_names_the_last_one_counts(value: bytes, path: str, texts: tuple[str, ...] | str) -> None:
    """Also where the earlier one holds what the last one does not."""
    assert texts_at(value, path) == texts


def test_several_paths_lead_through_one_value() -> None:
    """Each has its own text, in the order of the configuration, whatever the order in the record."""
    record = {"b": {"y": "2"}, "a": [{"x": "1", "y": "3"}], "c": ["4", "5"]}
    assert texts_at(record, "a[].x", "b.y", "a[0].y", "c", "none.x") == ("1", "2", "3", "4\n5", "")


NESTED = InputFormat(id_field="payload.after.id", text_field="payload.after.text", scope_field="payload.source.db")


def test_id_and_scope_have_paths() -> None:
    """As an envelope has them."""
    after = {"id": 7.0, "text": "t"}
    value = json.dumps({"payload": {"after": after, "source": {"db": "cms"}}, "id": "other"}).encode()
    assert decode(RawRecord(b"key", value, "t"), NESTED) == Article("7", ("t",), "cms")
    value = json.dumps({"payload": {"after": after | {"id": [1]}}}).encode()
    assert decode(RawRecord(b"key", value, "t"), NESTED) == Rejection(
        "key", "id field payload.after.id is neither text nor a number but an array"
    )


def test_a_path_outside_a_format_is_read_alike() -> None:
    """A time, and the id of an original."""
    value = b'{"meta": {"at": 1.50, "of": 4.711e3, "none": null}, "list": [{"at": "x"}]}'
    assert field_at(value, parse_path("meta.at")) == ("a number", "1.50")
    assert field_at(value, parse_path("list[0].at")) == ("text", "x")
    assert field_at(value, parse_path("meta.none")) == ("null", "")
    assert field_at(value, parse_path("meta")) == ("an object", "")
    assert field_at(value, parse_path("at")) is None
    assert field_at(b"[1]", parse_path("at")) is None
    assert [id_at(value, parse_path(path)) for path in ("meta.of", "list[0].at", "meta", "at")] == [
        "4711",
        "x",
        None,
        None,
    ]


def whole_numbers() -> st.SearchStrategy[tuple[str, str]]:
    """A whole number of at most 40 digits in digits and in another spelling."""

    def spelled(number: int, shift: int, zeros: int, *, has_point: bool) -> str:
        digits = str(abs(number))
        shift = min(shift, len(digits) - 1)
        point = len(digits) - shift
        fraction = digits[point:] + "0" * zeros
        mantissa = digits[:point] + (f".{fraction or '0'}" if fraction or has_point else "")
        return f"{'-' * (number < 0)}{mantissa}{f'e{shift}' if shift else ''}"

    def both(number: int, shift: int, zeros: int, has_point: bool) -> tuple[str, str]:
        return str(number), spelled(number, shift, zeros, has_point=has_point)

    largest = 10**40 - 1
    return st.builds(both, st.integers(-largest, largest), st.integers(0, 39), st.integers(0, 3), st.booleans())


@given(whole_numbers())
def test_a_whole_number_is_one_id(number: tuple[str, str]) -> None:
    """Exact to 40 digits, as id and as scope, and by the definition too."""
    digits, spelled = number
    fmt = InputFormat(scope_field="site")
    raw = RawRecord(None, f'{{"id": {spelled}, "site": {spelled}, "text": "t"}}'.encode(), "t")
    assert decode(raw, fmt) == reference.decode(raw, fmt) == Article(digits, ("t",), digits)


@pytest.mark.parametrize("spelled", ["{}.{}e39", "{}{}.0", "{}{}0e-1", "-{}{}.00"])
def test_a_name_has_forty_digits(spelled: str) -> None:
    """All of them are kept."""
    digits = "1234567890" * 4
    number = spelled.format(digits[0], digits[1:])
    raw = RawRecord(None, f'{{"id": {number}, "text": "t"}}'.encode(), "t")
    expected = Article("-" * number.startswith("-") + digits, ("t",))
    assert decode(raw, InputFormat()) == reference.decode(raw, InputFormat()) == expected


@pytest.mark.parametrize(
    "number", ["1.50", "4711.5", "1e-1", "1e40", "9" * 41 + ".0", "0.1e0", "1e999999999999999999999"]
)
def test_other_numbers_are_as_they_are_written(number: str) -> None:
    """What is not whole, or has more digits."""
    raw = RawRecord(None, f'{{"id": {number}, "text": "t"}}'.encode(), "t")
    assert decode(raw, InputFormat()) == reference.decode(raw, InputFormat()) == Article(number, ("t",))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("4711.0", "4711"),
        ("-4711.000", "-4711"),
        ("1.2345678E7", "12345678"),
        ("-0.0", "0"),
        ("1.50", "1.50"),
        ("4711e2", "4711e2"),
        ("0042", "0042"),
        ("0042.0", "0042.0"),
        ("4711.0 ", "4711.0 "),
        ("4711.", "4711."),
        (".0", ".0"),
        ("1.0.0", "1.0.0"),
        ("a.0", "a.0"),
        ("\\u0034.0", "4"),
    ],
)
def test_a_text_is_the_number_that_a_serializer_of_floats_wrote(written: str, expected: str) -> None:
    """One with a decimal point; other texts are as they are: identifiers in hexadecimal have an e between digits."""
    raw = RawRecord(None, f'{{"id": "{written}", "site": "{written}", "text": "t"}}'.encode(), "t")
    fmt = InputFormat(scope_field="site")
    assert decode(raw, fmt) == reference.decode(raw, fmt) == Article(expected, ("t",), expected)


def seconds_for(value: bytes, fmt: InputFormat) -> float:
    """Least processor time of reading a value, of three."""

    def once() -> float:
        began = time.process_time()
        decode(RawRecord(None, value, "t"), fmt)
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.parametrize(
    ("piece", "path"),
    [
        (b'{"b":"x"},', "a[].b"),
        (b'"x",', "a"),
        (b'{"b":{"b":{}},"b":"x","b":["y"]},', "a[].b"),
        (b'{"\\u0062\\u0062":1},', "a[].bb"),
        (b"[[[[]]]],", "a[][][].b"),
    ],
)
def test_the_time_is_proportional_to_the_value(piece: bytes, path: str) -> None:
    """However many elements a path leads to: four times the value take less than ten times the time."""
    fmt = InputFormat(text_field=path, max_bytes=1 << 30)
    small, large = (b'{"a":[' + piece * (count // len(piece)) + b"null]}" for count in (100_000, 400_000))
    assert seconds_for(large, fmt) < 10 * max(seconds_for(small, fmt), 0.001)


@pytest.mark.parametrize(
    ("held", "path", "made"),
    [
        ({}, "a", {"a": "v"}),
        ({"b": 1}, "a.c", {"b": 1, "a": {"c": "v"}}),
        ({"a": {"b": 1}}, "a.c", {"a": {"b": 1, "c": "v"}}),
        ({"a": 7}, "a.c", {"a": {"c": "v"}}),
        ({}, "a[].c", {"a": [{"c": "v"}]}),
        ({"a": [{"b": 1}, {"c": 2}]}, "a[].c", {"a": [{"b": 1, "c": "v"}]}),
        ({"a": ["x"]}, "a[2]", {"a": ["x", None, "v"]}),
        ({}, r"a\.b", {"a.b": "v"}),
    ],
)
def test_a_value_is_put_where_a_path_leads(held: dict[str, Any], path: str, made: object) -> None:
    """The path leads to it and to nothing else; what was given is not changed."""
    before = json.dumps(held)
    assert with_value(held, parse_path(path).steps, "v") == made
    assert json.dumps(held) == before
    assert list(reference.values_at(made, list(parse_path(path).steps))) == ["v"]
