"""A name stands for one thing in the whole product."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[1] / "stream_dedup"


def class_names(tree: ast.Module) -> Iterator[str]:
    """Names of all classes of a module, nested ones and private ones included."""
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names and expressions of the constants that a module assigns: names that begin with a capital, `_` aside.

    A TypeVar is no constant: it is a variable of the signatures of its module.
    """
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = (
                node.value.elts if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) else [node.value]
            )
            for name, value in zip(
                names, values if len(values) == len(names) else [node.value] * len(names), strict=True
            ):
                if isinstance(name, ast.Name) and name.id.lstrip("_")[:1].isupper() and not _is_type_variable(value):
                    yield name.id, ast.unparse(value)


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "TypeVar"


def constant_names(tree: ast.Module) -> set[str]:
    """What must be defined in one file: public names, and private names with what they are assigned.

    A private name alone may come again: only its own module reads it, and `_TAG` of one room is not mistaken for
    `_TAG` of another. The same private name with the same expression is a copy, and copies drift apart.
    """
    return {f"{name} = {value}" if name.startswith("_") else name for name, value in constants(tree)}


def doubles(files: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Names found more than once, with the files that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, names in files:
        for name in names:
            found[name].append(file)
    return {name: where for name, where in found.items() if len(where) > 1}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the product, parsed."""
    for file in sorted(PRODUCT.rglob("*.py")):
        yield str(file.relative_to(PRODUCT)), ast.parse(file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_class_name_exists_once() -> None:
    """No two classes of the product have the same name."""
    assert doubles((file, class_names(tree)) for file, tree in modules()) == {}


@pytest.mark.slow
def test_a_constant_is_defined_in_one_file() -> None:
    """No public constant or type alias is defined in two files or named like a class; no private one is copied."""
    assert doubles((file, constant_names(tree) | set(class_names(tree))) for file, tree in modules()) == {}


def test_doubles_are_found() -> None:
    """Nested and private classes, typed constants, those of a tuple and copies of private ones are found."""
    one = ast.parse("class A:\n    class B: ...\nLIMIT = 1\nFIRST, LAST = 1, 2\n_OWN = 3\n_COPY = 5\n")
    other = ast.parse("class B: ...\nclass _C: ...\nLIMIT: int = 2\nLAST = 3\n_OWN = 4\n_COPY = 5\n")
    trees = [("one", one), ("other", other)]
    assert set(doubles((file, class_names(tree)) for file, tree in trees)) == {"B"}
    assert set(doubles((file, constant_names(tree)) for file, tree in trees)) == {"LIMIT", "LAST", "_COPY = 5"}
