"""Machine code is kept under a name that changes with whatever it was made from."""

import importlib
import linecache
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import int64, njit, types
from numba.core.errors import NumbaError
from numba.core.types import abstract

from stream_dedup.core import kernel
from stream_dedup.core.fingerprint import short_kernel, words_kernel

INNER = "from stream_dedup.core.kernel import inlined\nSTEP = {step}\n@inlined\ndef inner(x): return x {sign} STEP\n"
MIDDLE = (
    "from inner_kernel import inner\nfrom stream_dedup.core.kernel import inlined\n"
    "@inlined\ndef middle(x): return inner(x)\n"
)
OUTER = "from middle_kernel import middle\ndef outer(x): return middle(x)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "middle_kernel.py").write_text(MIDDLE)
    (tmp_path / "outer_kernel.py").write_text(OUTER)
    return tmp_path


def name_with(folder: Path, step: int, sign: str) -> str:
    """What becomes part of the name of a function that inlines, by way of another file, this inner function."""
    (folder / "inner_kernel.py").write_text(INNER.format(step=step, sign=sign))
    for module in ("inner_kernel", "middle_kernel", "outer_kernel"):
        sys.modules.pop(module, None)
    importlib.invalidate_caches()
    linecache.clearcache()
    kernel._source.cache_clear()
    return kernel._taken_over(importlib.import_module("outer_kernel").outer)


def test_another_inlined_function_is_another_name(folder: Path) -> None:
    """A change of the function, or of a number that it takes from its file, two files away."""
    first = name_with(folder, 1, "+")
    assert name_with(folder, 1, "+") == first
    assert len({first, name_with(folder, 2, "+"), name_with(folder, 1, "-")}) == 3


def test_an_inlined_function_refuses_python(folder: Path) -> None:
    """It has no machine code of its own: a call would end the process."""
    name_with(folder, 1, "+")
    with pytest.raises(TypeError, match="inner is called by compiled functions only"):
        importlib.import_module("inner_kernel").inner(1)


@pytest.mark.parametrize(
    "function", [words_kernel.split, words_kernel.look_up, short_kernel.find_units, short_kernel.normalise]
)
def test_a_kernel_that_makes_no_arrays_counts_no_references(function: Any) -> None:  # noqa: ANN401
    """Each word would be counted for each array that it is read from."""
    assert function.targetoptions["_nrt"] is False


@pytest.mark.parametrize(("options", "counts"), [(kernel._UNCOUNTED, False), ({}, True)])
def test_no_reference_is_counted_in_what_it_inlines(options: dict[str, Any], counts: bool) -> None:
    """Compiled again, for kept code cannot be read; without the option this function counts references."""
    function: Any = words_kernel.look_up
    made = njit(function.nopython_signatures, **kernel._OPTIONS, **options)(function.py_func)
    (code,) = made.inspect_llvm().values()
    assert ("NRT_incref" in code) is counts
    inlined: Any = words_kernel._parts
    assert inlined.targetoptions["_nrt"] is False


def test_a_function_that_makes_arrays_must_not_say_that_it_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba refuses it, where no code is kept of a source that did not say so."""
    monkeypatch.setattr(kernel, "_taken_over", lambda _: "")
    with pytest.raises(NumbaError):
        kernel.compiled(int64, int64, makes_arrays=False)(_sum_of_zeros)
    assert kernel.compiled(int64, int64)(_sum_of_zeros)(3) == 0


def _sum_of_zeros(count: int) -> int:
    return int(np.zeros(count, np.int64).sum())


def test_threads_that_make_a_type_at_once_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of one type, a first call in one of them would find no function for its arguments."""
    made: list[object] = []
    number = getattr(abstract, "_autoincr")  # noqa: B009 - its stubs have no such name
    new: Any = types.UniTuple
    other = threading.Thread(target=lambda: made.append(new(types.int8, 77)))

    def meanwhile() -> int:
        monkeypatch.undo()
        other.start()
        other.join(0.1)  # it cannot end before this thread has made the type
        return int(number())

    monkeypatch.setattr(abstract, "_autoincr", meanwhile)
    own = new(types.int8, 77)
    other.join()
    assert made == [own]
    assert made[0] is own
