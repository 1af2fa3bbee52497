"""Codes of reasons: every reason that the product makes has one, and no text of a record gets in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_dedup.core import reasons
from stream_dedup.core.decode import InputFormat, RawRecord, Rejection, decode
from stream_dedup.core.reasons import CODES, OTHER, code_of

PRODUCT = Path(reasons.__file__).parents[1]
FIELDS = InputFormat(fields=("title", "body"), scope_field="site", max_bytes=5_000)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "no_value"),
        (b"x" * 5_001, "too_large"),
        (b'{"title": "\xff"}', "invalid_utf8"),
        (b"{", "invalid_json"),
        (b"[" * 600, "nested_too_deep"),
        (b"[1]", "not_an_object"),
        (b"7", "not_an_object"),
        (b"{}", "missing_field"),
        (b'{"title": 3}', "invalid_field"),
        (b'{"title": "a", "site": []}', "invalid_scope"),
        (b'{"title": " "}', "empty_text"),
        (b'{"id": "%s", "title": "a"}' % (b"x" * 600), "id_too_long"),
        (b'{"id": NaN, "title": "a"}', "invalid_id"),
        (b'{"title": Infinity}', "invalid_field"),
    ],
)
def test_every_rejection_of_decoding_has_a_code(value: bytes | None, code: str) -> None:
    """The code of each kind of record that cannot be read."""
    decoded = decode(RawRecord(None, value, "t-0-1"), FIELDS)
    assert isinstance(decoded, Rejection)
    assert code_of(decoded.reason) == code


def test_one_field_that_is_missing() -> None:
    """With one text field the reason is another text of the same code, whatever the field is called."""
    for name in ("text", "a is missing", "two\nlines", "正文"):
        decoded = decode(RawRecord(None, b"{}", "t-0-1"), InputFormat(text_field=name))
        assert isinstance(decoded, Rejection)
        assert code_of(decoded.reason) == "missing_field"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("record too large: 1048588 bytes with key and headers, 1048576 fit max.message.bytes", "too_large"),
        ("no time in field published", "missing_time"),
        ("the time in field published has no known form", "invalid_time"),
        ("line too long: 70000000 bytes, the fixed limit is 67108864", "too_large"),
        ("text without words", "no_words"),
        ("the value does not begin with the id of a schema", "no_schema_id"),
        ("the value does not fit schema 17", "not_of_schema"),
        ("schema 17 is JSON Schema, input.format is avro", "unusable_schema"),
        ("schema 17 cannot be used: not a valid file of Protobuf", "unusable_schema"),
        ("unknown schema 17: the registry does not have it", "unknown_schema"),
        ("a defect in the native core", "defect"),
        ("invalid UTF-8 at byte 27", "invalid_utf8"),
        ("invalid gb18030 at character 27", "invalid_encoding"),
        ("invalid JSON text", OTHER),
        ("", OTHER),
    ],
)
def test_texts_in_logs_have_codes(reason: str, code: str) -> None:
    """Texts as logs hold them, and as no release wrote them."""
    assert code_of(reason) == code


def test_codes_are_names() -> None:
    """Few, in lower case, each once: fit for a label of a metric and for a query."""
    assert len(CODES) == len(set(CODES)) <= 24
    assert all(re.fullmatch("[a-z0-9_]{2,20}", code) for code in CODES)


def test_reasons_are_made_from_the_table() -> None:
    """Nothing in the product rejects with a text of its own: each call names a constant of the table."""
    texts = {name for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)} - {"OTHER"}
    calls = re.compile(r"Rejection\([^,()]+(?:\([^()]*\))?, (f?\"[^\"]*\"|[A-Z][A-Z_0-9]+)")
    for path in PRODUCT.rglob("*.py"):
        for said in calls.findall(path.read_text("utf-8")):
            assert said in texts, f"{path.name}: {said}"
