"""The sieve over several keys at once, compiled. Importing this file loads the compiler.

A key passes where the bits of two masks that differ from the article's key are, added up, at most so many. ``LANES``
keys are one vector: its instructions are chosen for the processor by the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from stream_dedup.core.kernel import inlined, several, whole

LANES = 8
"""Keys that are compared at once: a vector of 512 bits, or several where the processor's are shorter."""

_INT, _BIT, _KEY = ir.IntType(32), ir.IntType(1), ir.IntType(64)
_KEYS, _FLAGS = ir.VectorType(_KEY, LANES), ir.VectorType(_BIT, LANES)
_MASKS = several(types.uint64, types.uint64)
_LAST_BIT = 63

_intrinsic = cast("Callable[[Callable[..., Any]], Callable[..., Any]]", extending.intrinsic)
_declared: Any = cgutils.get_or_insert_function


def _all_lanes(builder: Any, number: Any) -> Any:  # noqa: ANN401 - llvmlite's values are untyped
    """Return a vector whose lanes are all this number."""
    first = builder.insert_element(_KEYS(ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(first, _KEYS(ir.Undefined), ir.VectorType(_INT, LANES)(None))


@_intrinsic
def _passing(typing_context: Any, address: Any, count: Any, mine: Any, masks: Any, most: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the lanes of the keys at an address that pass, the first one in the lowest bit; see ``passing``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        lanes = _KEYS(list(range(LANES)))
        there = builder.icmp_signed("<", lanes, _all_lanes(builder, args[1]))
        pointer = builder.inttoptr(args[0], _KEYS.as_pointer())
        kind = ir.FunctionType(_KEYS, [_KEYS.as_pointer(), _INT, _FLAGS, _KEYS])
        load = _declared(builder.module, kind, f"llvm.masked.load.v{LANES}i64.p0")
        keys = builder.call(load, [pointer, _INT(8), there, _KEYS(None)])
        differing = builder.xor(keys, _all_lanes(builder, args[2]))
        ctpop = _declared(builder.module, ir.FunctionType(_KEYS, [_KEYS]), f"llvm.ctpop.v{LANES}i64")
        once, twice = (
            builder.call(ctpop, [builder.and_(differing, _all_lanes(builder, builder.extract_value(args[3], at)))])
            for at in range(2)
        )
        few = builder.icmp_signed("<=", builder.add(once, twice), _all_lanes(builder, args[4]))
        return builder.zext(builder.bitcast(builder.and_(few, there), ir.IntType(LANES)), _KEY)

    return types.uint64(types.int64, types.int64, types.uint64, _MASKS, types.int64), generate


@_intrinsic
def _leading_zeros(typing_context: Any, word: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the number of bits above the highest one of a uint64 that is 1."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        return builder.ctlz(args[0], _BIT(0))

    return types.int64(types.uint64), generate


@inlined
def passing(address: int, count: int, mine: np.uint64, once: np.uint64, twice: np.uint64, most: int) -> np.uint64:
    """Return which of some keys pass: bit i is the key i words behind the address.

    Of ``count`` keys the first ``LANES`` at most are read. A key passes where the bits of ``once`` that differ from
    ``mine``, and those of ``twice``, are ``most`` together at most.
    """
    lanes: np.uint64 = _passing(address, count, mine, (once, twice), most)
    return lanes


@inlined
def last_of(lanes: np.uint64) -> int:
    """Return the number of the highest bit that is 1, of a number that has one."""
    return _LAST_BIT - whole(_leading_zeros(lanes))
