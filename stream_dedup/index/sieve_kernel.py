"""Several keys compared at once, compiled: with the sieve, and by their blocks. Importing this loads the compiler.

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

from stream_dedup.core.kernel import inlined, popcount, several, whole
from stream_dedup.core.model import FINGERPRINT_BITS

LANES = 16
"""Keys that are compared at once: two vectors of 512 bits, or more where the processor's are shorter. With ten keys in
a list or so, a look-up takes a twentieth less time than with 8, and no less with 32."""

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


def _loaded(builder: Any, address: Any, count: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the first keys at an address, and which lanes have one; behind the last one nothing is read."""
    there = builder.icmp_signed("<", _KEYS(list(range(LANES))), _all_lanes(builder, count))
    kind = ir.FunctionType(_KEYS, [_KEYS.as_pointer(), _INT, _FLAGS, _KEYS])
    load = _declared(builder.module, kind, f"llvm.masked.load.v{LANES}i64.p0")
    pointer = builder.inttoptr(address, _KEYS.as_pointer())
    return builder.call(load, [pointer, _INT(8), there, _KEYS(None)]), there


def _as_bits(builder: Any, flags: Any) -> Any:  # noqa: ANN401
    """Return flags of lanes as a number, the first one in the lowest bit."""
    return builder.zext(builder.bitcast(flags, ir.IntType(LANES)), _KEY)


@_intrinsic
def _passing(typing_context: Any, address: Any, count: Any, mine: Any, masks: Any, most: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the lanes of the keys at an address that pass, the first one in the lowest bit; see ``passing``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        keys, there = _loaded(builder, args[0], args[1])
        differing = builder.xor(keys, _all_lanes(builder, args[2]))
        ctpop = _declared(builder.module, ir.FunctionType(_KEYS, [_KEYS]), f"llvm.ctpop.v{LANES}i64")
        once, twice = (
            builder.call(ctpop, [builder.and_(differing, _all_lanes(builder, builder.extract_value(args[3], at)))])
            for at in range(2)
        )
        few = builder.icmp_signed("<=", builder.add(once, twice), _all_lanes(builder, args[4]))
        return _as_bits(builder, builder.and_(few, there))

    return types.uint64(types.int64, types.int64, types.uint64, _MASKS, types.int64), generate


@_intrinsic
def _below(typing_context: Any, address: Any, count: Any, rotation: Any, block_bits: Any, block: Any) -> Any:  # noqa: ANN401, ARG001
    """Return the lanes of the keys at an address whose block is lower; see ``few_below``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401, ARG001
        keys, there = _loaded(builder, args[0], args[1])
        turn = _declared(builder.module, ir.FunctionType(_KEYS, [_KEYS] * 3), f"llvm.fshl.v{LANES}i64")
        turned = builder.call(turn, [keys, keys, _all_lanes(builder, args[2])])
        others = builder.sub(_KEY(FINGERPRINT_BITS), args[3])
        lower = builder.icmp_unsigned(
            "<", builder.lshr(turned, _all_lanes(builder, others)), _all_lanes(builder, args[4])
        )
        return _as_bits(builder, builder.and_(lower, there))

    return types.uint64(types.int64, types.int64, types.int64, types.int64, types.int64), generate


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
def few_below(keys: int, entries: int, block: int, rotation: int, block_bits: int) -> int:
    """Return how many of some entries, ``LANES`` at most, have a lower block; without a branch."""
    lower: int = popcount(_below(keys, entries, rotation, block_bits, block))
    return lower


@inlined
def last_of(lanes: np.uint64) -> int:
    """Return the number of the highest bit that is 1, of a number that has one."""
    return _LAST_BIT - whole(_leading_zeros(lanes))
