"""Compiles functions with numba, and provides instructions that Python lacks. Importing this file loads the compiler.

Every compiled function declares its types, so it is compiled when its module is imported and never while an article
waits. Its machine code is kept (``kept_code``). Compiled functions release the interpreter's lock: the caller must hold
a reference to every array that it passes by address.

The source of a function's file is part of the name under which its code is kept, and so is all that it takes from other
files: imported numbers and types, functions that are inlined, the instructions below.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import xxhash
from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher

from stream_dedup.core import kept_code, lean_compiler
from stream_dedup.core.kept_code import KeptCode
from stream_dedup.core.lean_compiler import InlinedFunction, without_collections
from stream_dedup.core.levels import compiled_for

Function = TypeVar("Function", bound=Callable[..., Any])

whole = cast("Callable[[Any], int]", np.int64)
"""Makes an int64 of a number, within compiled functions: of two kinds of whole numbers numba makes a float."""

ONE = np.uint64(1)
"""For what is counted in uint64."""

_get_or_insert: Any = cgutils.get_or_insert_function

_NUMBERS = (int, float, np.number)
_WORD = ir.IntType(64)
# Nobody calls these functions from C: without a wrapper for that there is less to compile and to load.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Such a function counts no references to its arrays: its caller has one, and counting takes longer than most words.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
_ALONE: dict[str, Any] = {"nopython": True, "boundscheck": None, "forceinline": True, "no_cpython_wrapper": True}
_INLINED_OPTIONS = _OPTIONS | _UNCOUNTED | _ALONE

compiled_for()  # before the first function


def _intern_alone() -> None:
    """Let one thread at a time make types of numba.

    It keeps one object of each type, with a number. Two threads whose first calls make a type at once would make two of
    them, and a call with the number of one finds no function that takes the other (TypeError).
    """
    kinds: Any = type(types.Type)
    alone = threading.RLock()
    intern = kinds._intern  # noqa: SLF001 - there is no other way

    def intern_alone(kind: Any, made: Any) -> Any:  # noqa: ANN401 - numba's types are untyped
        with alone:
            return intern(kind, made)

    kinds._intern = intern_alone  # noqa: SLF001 - as above


_intern_alone()


def read(kind: Any, dimensions: int = 1) -> Any:  # noqa: ANN401 - numba's types are untyped
    """Return the type of a contiguous array that is only read; read-only arrays are accepted."""
    return types.Array(kind, dimensions, "C", readonly=True)


def written(kind: Any, dimensions: int = 1) -> Any:  # noqa: ANN401
    """Return the type of a contiguous array that is written."""
    return types.Array(kind, dimensions, "C")


def several(*kinds: Any) -> Any:  # noqa: ANN401
    """Return the type of a tuple of these types."""
    return types.Tuple(kinds)  # type: ignore[no-untyped-call]


def compiled(result: Any, *arguments: Any, makes_arrays: bool = True) -> Callable[[Function], Function]:  # noqa: ANN401
    """Return a decorator that compiles a function for these types.

    ``makes_arrays``: whether it makes arrays by itself. References are counted only then, and numba refuses a function
    that makes one and does not say so.
    """
    signature = result(*arguments)
    options = _OPTIONS if makes_arrays else _OPTIONS | _UNCOUNTED

    def decorate(function: Function) -> Function:
        made, taken = njit(**options)(function), _taken_over(function)
        kept = KeptCode(function, taken, str(signature))
        if taken:
            made._cache = kept  # noqa: SLF001 - numba has no way to name another cache
        with kept.turn, without_collections():
            made.compile(signature)
        made.disable_compile()
        return cast("Function", made)

    return decorate


def _taken_over(function: Callable[..., Any]) -> str:
    """Return a digest of what a function's machine code is made from; empty without source: nobody knows then."""
    compiling = (__name__, kept_code.__name__, lean_compiler.__name__)
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    names = function.__globals__ | dict(zip(function.__code__.co_freevars, cells, strict=True))
    try:
        taken = {name: _source(name) for name in (function.__module__, *compiling)}
        _collect(names, taken)
    except OSError:
        return ""
    return xxhash.xxh3_64_hexdigest(repr(sorted(taken.items())).encode())


def _collect(names: Mapping[str, Any], taken: dict[str, str]) -> None:
    """Add the numbers and types of a file, and all of the files whose compiled functions it has."""
    file = names["__name__"]
    taken |= {f"{file}.{name}": f"{type(value).__name__} {value}" for name, value in names.items() if _is_taken(value)}
    for value in names.values():
        if isinstance(value, Dispatcher) and value.py_func.__module__ not in {file, *taken}:
            taken[value.py_func.__module__] = _source(value.py_func.__module__)
            _collect(value.py_func.__globals__, taken)


def _is_taken(value: object) -> bool:
    """Return whether a value is a number, several numbers, or a type."""
    if isinstance(value, tuple):
        return all(isinstance(one, _NUMBERS) for one in value)
    return isinstance(value, (*_NUMBERS, types.Type))


@cache
def _source(module: str) -> str:
    """Return the source of a module.

    Raises:
        OSError: it was installed without source.
    """
    return inspect.getsource(sys.modules[module])


class _Inlined(InlinedFunction):
    """A function that only compiled functions call. A wrapper for Python takes longer to compile than most of them."""

    def __call__(self, *_: object) -> object:
        """Refuse: there is no machine code that could be called.

        Raises:
            TypeError: always.
        """
        msg = f"{self.py_func.__name__} is called by compiled functions only; its definition is its py_func"
        raise TypeError(msg)


def inlined(function: Function) -> Function:
    """Compile a small function that is inlined into the compiled functions that call it.

    It neither makes nor returns arrays: no references are counted.

    Left to itself LLVM calls those that are used more than once, which costs more than they do where they take arrays.
    """
    return cast("Function", _Inlined(function, _INLINED_OPTIONS))


@inlined
def copied(elements: Any, count: int, others: Any, size: int) -> int:  # noqa: ANN401 - two arrays of one kind
    """Copy the first elements of an array behind those of another, of which there are ``size``; return the new size."""
    for at in range(np.uint64(count)):
        others[np.uint64(size) + at] = elements[at]
    return size + count


def _instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the generated code callable from compiled functions, without the typing context."""
    return cast("Callable[..., Any]", extending.intrinsic(function))


@_instruction
def popcount(typing_context: Any, word: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the number of bits that are 1 in a uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@_instruction
def load_word(typing_context: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the uint64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()))

    return types.uint64(types.int64), generate


@_instruction
def load_half(typing_context: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the uint32 at an address, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        half = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        return builder.zext(half, _WORD)

    return types.int64(types.int64), generate


def record_at(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - numba's types are untyped
    """Make the instruction that gives the record of this type at an address, to be read by its columns' names."""

    @_instruction
    def at(typing_context: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
            return builder.inttoptr(args[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return at


@_instruction
def prefetch(typing_context: Any, address: Any) -> Any:  # noqa: ANN401, ARG001
    """Request the cache line of an address without waiting; any address is allowed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = _get_or_insert(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = flag(0), flag(3), flag(1)
        builder.call(function, [builder.inttoptr(args[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _broadcast(builder: Any, number: Any) -> Any:  # noqa: ANN401
    """Return 64 uint16 that are all this number."""
    numbers = ir.VectorType(ir.IntType(16), 64)
    first = builder.insert_element(numbers(ir.Undefined), builder.trunc(number, ir.IntType(16)), ir.IntType(32)(0))
    return builder.shuffle_vector(first, numbers(ir.Undefined), ir.VectorType(ir.IntType(32), 64)(None))


@_instruction
def add_where(typing_context: Any, address: Any, bits: Any, each: Any) -> Any:  # noqa: ANN401, ARG001
    """Add numbers to those of 64 uint16 at an address whose bit in a uint64 is 1; the first has the lowest bit.

    Both are tuples: the bits of each of the numbers.
    """
    numbers, flags = ir.VectorType(ir.IntType(16), 64), ir.VectorType(ir.IntType(1), 64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        pointer = builder.inttoptr(args[0], numbers.as_pointer())
        total = builder.load(pointer, align=2)
        for at in range(len(bits)):
            added = _broadcast(builder, builder.extract_value(args[2], at))
            chosen = builder.bitcast(builder.extract_value(args[1], at), flags)
            total = builder.add(total, builder.select(chosen, added, numbers(None)))
        builder.store(total, pointer, align=2)
        return context.get_dummy_value()

    return types.void(types.int64, bits, each), generate


@_instruction
def multiply_high(typing_context: Any, one: Any, other: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the high half of the product of two uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@_instruction
def swap_bytes(typing_context: Any, word: Any) -> Any:  # noqa: ANN401, ARG001
    """Return a uint64 with its bytes in the opposite order."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        return builder.bswap(args[0])

    return types.uint64(types.uint64), generate
