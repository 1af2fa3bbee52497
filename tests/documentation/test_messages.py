"""The messages of the program: sentences that were put together from halves fit together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import stream_dedup
from stream_dedup.kafka.topics import FAULT_SENTENCES, TopicFault, TopicProblem
from stream_dedup.status.findings import FindingCode, GroupFinding

PACKAGE = Path(stream_dedup.__file__).parent
BROKEN = re.compile(r"\b(?:or|and|but)(?:[;:.]|$)|[;:,]\s*[;:,]|[;:,]\s*\.(?!\.)|\.\s*;|\w  \w.*[.;:]|\w [;,:](?: |$)")
"""A conjunction at the end, two marks of punctuation in a row, two spaces in a sentence."""


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module that have a space, but docstrings and patterns; a value is an X."""
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in ast.walk(node) if part is not node)
        elif isinstance(node, ast.Expr):
            inner.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = re.sub(r"\{[^{}]*\}", "X", node.value)
        else:
            continue
        if " " in text.strip() and "\n" not in text and ".*" not in text:
            yield node.lineno, text


def test_no_message_has_a_seam() -> None:
    """In each string of the program."""
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in sentences(ast.parse(path.read_text("utf-8")))
        if BROKEN.search(text)
    ]
    assert found == []


def filled(parts: tuple[str, str]) -> dict[str, int]:
    """A value for every name in the sentences."""
    return {name: 0 for part in parts for _, name, _, _ in Formatter().parse(part) if name}


@pytest.mark.parametrize(
    "message",
    [
        *(str(TopicProblem("articles", fault, filled(FAULT_SENTENCES[fault]))) for fault in TopicFault),
        *(str(GroupFinding(code, filled(code.value))) for code in FindingCode),
    ],
)
def test_a_finding_and_its_remedy_fit_together(message: str) -> None:
    """As they are printed: one sentence, one remedy."""
    assert BROKEN.search(message) is None


def test_a_remedy_is_one_sentence() -> None:
    """The reason of a fault has no remedy of its own: it names no command. Only what is harmless has none at all."""
    for fault, (reason, remedy) in FAULT_SENTENCES.items():
        assert "{command}" not in reason, fault
        assert remedy.count("{command}") == (fault is not TopicFault.SPARE_PARTITIONS), fault
    assert all("{command}" not in one.value.text for one in FindingCode)
