"""The processors that machine code is compiled for: on x86-64 a level, so that all machines of a level share the code.

Left to itself numba compiles for the very processor that it runs on, and the code is of use on the same model alone. A
level names what processors of many years have in common: x86-64-v2, v3 and v4 are those of the x86-64 psABI, and the
highest has besides what Ice Lake, Sapphire Rapids, Zen 4 and all after them have.

Rules:

* A processor takes the highest level of which it has every feature; below the lowest one, and on another architecture,
  numba does as it does by itself.
* ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` have precedence. Empty they count as not set.
* numba decides once in a process what it compiles for. Where another part of the process has used it before, that is
  the machine's own processor; the code is then kept for that one, and that of a level is not looked for.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.core.registry import cpu_target

_ARCHITECTURE = "x86_64"
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICE_LAKE = (*_V4, "avx512bitalg", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq")


class Level(NamedTuple):
    """A processor that code is compiled for, in LLVM's terms."""

    name: str
    needs: tuple[str, ...]

    @property
    def features(self) -> str:
        """As numba and LLVM read them. No two levels have the same, and no machine's own are written like this."""
        return ",".join(f"+{feature}" for feature in self.needs)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a process compiles for this level, whatever machine it is on."""
        return {"NUMBA_CPU_NAME": self.name, "NUMBA_CPU_FEATURES": self.features}


LEVELS = (
    Level("x86-64-v4", _ICE_LAKE),
    Level("x86-64-v4", _V4),
    Level("x86-64-v3", _V3),
    Level("x86-64-v2", _V2),
)
"""The highest first."""


class CompiledFor(NamedTuple):
    """What numba compiles for in this process."""

    triple: str
    name: str
    features: str


def levels_here() -> tuple[Level, ...]:
    """Return the levels of this machine's architecture."""
    return LEVELS if llvmlite.binding.get_process_triple().startswith(_ARCHITECTURE) else ()


def level_with(features: Collection[str]) -> Level | None:
    """Return the highest level of a processor with these features of LLVM; None if it is below the lowest."""
    return next((level for level in levels_here() if set(level.needs) <= set(features)), None)


@cache
def compiled_for() -> CompiledFor:
    """Let numba compile for the level of this machine from now on, and return what it really compiles for.

    The features are those with which numba made its code generator. They tell whether that was made before: its name
    for the processor is read from the configuration anew each time.
    """
    chosen: Any = config
    before = chosen.CPU_NAME, chosen.CPU_FEATURES
    level = None if any(before) else level_with(_host_features())
    if level is not None:
        chosen.CPU_NAME, chosen.CPU_FEATURES = level.name, level.features
        if _code_generator().features != level.features:
            chosen.CPU_NAME, chosen.CPU_FEATURES = before
    return _code_generator()


def _host_features() -> set[str]:
    """Return the features of this machine's processor, without AVX if numba is told so."""
    found: str = get_host_cpu_features()  # type: ignore[no-untyped-call]
    return {feature[1:] for feature in found.split(",") if feature.startswith("+")}


def _code_generator() -> CompiledFor:
    return CompiledFor(*cpu_target.target_context.codegen().magic_tuple())
