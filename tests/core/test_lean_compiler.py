"""What is inlined is compiled once and has no machine code; results are those of numba's own way."""

import gc
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from numba import int64, njit
from numba.core.codegen import JitEngine
from stream_dedup.core.fingerprint.grams_kernel import count
from stream_dedup.core.fingerprint.sums_kernel import _add_rows

from stream_dedup.core import kept_code, kernel, lean_compiler
from stream_dedup.core.kernel import compiled, inlined, popcount
from stream_dedup.core.lean_compiler import without_collections


def weigh(at: int, bits: int) -> int:
    weight: int = (at + 1) * popcount(bits)
    return weight


def made() -> tuple[Any, Any, Any]:
    """An inlined function, another one that calls it, and a caller of that, with a constant and with a variable."""
    inner: Any = inlined(weigh)

    @inlined
    def middle(at: int, bits: int) -> int:
        weight: int = inner(at, bits)
        return weight

    @compiled(int64, int64)
    def total(bits: int) -> int:
        found = middle(0, bits)
        at = 0
        while at < 3:
            found += middle(at, bits)
            at += 1
        return found

    return inner, middle, total


def defined_in(code: str) -> str:
    """The lines with the names of the functions that LLVM's code defines."""
    return "".join(line for line in code.splitlines() if line.startswith("define"))


def modules_while(work: Callable[[], object]) -> int:
    """Return how many modules machine code was generated for."""
    with patch.object(JitEngine, "add_module", autospec=True, side_effect=JitEngine.add_module) as add_module:
        work()
    return add_module.call_count


@pytest.fixture
def _compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept: a function is compiled each time, and what numba compiles once in a process is compiled."""
    monkeypatch.setattr(kernel, "_taken_over", lambda _: "")
    made()


@pytest.mark.usefixtures("_compiles")
def test_an_inlined_function_is_compiled_once_for_constants_and_variables() -> None:
    """Else each loop that begins with 0 would have the functions in it compiled twice."""
    inner, _, total = made()
    assert inner.signatures == [(int64, int64)]
    assert total(0b111) == 3 * (1 + 1 + 2 + 3)


@pytest.mark.usefixtures("_compiles")
def test_an_inlined_function_has_no_machine_code() -> None:
    """It is generated for the caller alone. Each function has its callees in it, and no copies of them beside it."""
    again: list[tuple[Any, Any, Any]] = []
    assert modules_while(lambda: again.append(made())) == 1
    _, middle, total = again[0]
    (code,) = total.inspect_llvm().values()
    assert "total" in defined_in(code)
    assert "weigh" not in defined_in(code)
    assert "middle" not in defined_in(code)
    (library,) = (one.library for one in middle.overloads.values())
    assert "middle" in defined_in(library.get_llvm_str())
    assert "weigh" not in defined_in(library.get_llvm_str())


@pytest.mark.usefixtures("_compiles")
def test_other_versions_of_numba_do_it_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library with machine code for each of the types, constants among them; the same results."""
    monkeypatch.setattr(kept_code, "LIGHT_VERSIONS", ())
    again: list[tuple[Any, Any, Any]] = []
    assert modules_while(lambda: again.append(made())) > 3
    inner, _, total = again[0]
    assert len(inner.signatures) == 2
    assert total(0b111) == 3 * (1 + 1 + 2 + 3)


def test_nothing_is_collected_while_a_function_is_compiled() -> None:
    """Searching the compiler's objects takes a tenth of its time. Afterwards it is as it was before."""
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
        with without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    seen: list[bool] = []
    with patch.object(kept_code.KeptCode, "load_overload", lambda *_: seen.append(gc.isenabled())):
        compiled(int64, int64)(_once)
    assert seen == [False]
    assert gc.isenabled()


def _once(number: int) -> int:
    return number


@pytest.mark.parametrize("function", [count, _add_rows])
def test_a_kernel_compiles_no_text_of_an_error(function: Any) -> None:  # noqa: ANN401
    """That of different shapes needs forty functions for text, a sixth of a first start."""
    again: Any = njit(function.nopython_signatures, **kernel._OPTIONS)(function.py_func)
    (code,) = again.inspect_llvm().values()
    assert "raise_with_shape_context" not in code


def test_the_compiler_is_part_of_the_name_of_kept_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine code is another one if the compiler changes."""
    before, source = kernel._taken_over(_once), kernel._source
    other = {lean_compiler.__name__: "another compiler"}
    monkeypatch.setattr(kernel, "_source", lambda module: other.get(module) or source(module))
    assert kernel._taken_over(_once) != before
