"""Code is compiled for a level of x86-64 that the machine has, is kept for that level, and is loaded for no other."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import pytest

from stream_dedup.core.levels import LEVELS, Level, level_with

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are those of x86-64")

UPPER, V4, V3, V2 = LEVELS
FUNCTION = """
from numba import int64
from stream_dedup.core.kernel import compiled

@compiled(int64, int64)
def double(x):
    return 2 * x
"""
START = """
import json, sys
from unittest.mock import patch
import numba
from numba.core import codegen
features, how, folder = sys.argv[1:]
if how == "used":
    numba.njit("int64(int64)")(lambda x: x)
if features:
    patch.object(codegen, "get_host_cpu_features", lambda: features).start()
from stream_dedup.startup import keep_tables
keep_tables()
sys.path.insert(0, folder)
from one_kernel import double
from stream_dedup.core.levels import compiled_for

def total(numbers):
    found = 0
    for at in range(len(numbers)):
        found += numbers[at] * at
    return found

code = "".join(numba.njit("int32(int32[::1])")(total).inspect_asm().values()) if how == "read" else ""
widest = next((name for name in ("zmm", "ymm", "xmm") if name in code), "")
print(json.dumps([compiled_for(), sum(double.stats.cache_hits.values()), widest]))
"""


class Start(NamedTuple):
    """What numba compiles for in a process, how often kept code was loaded, and its widest registers in a loop."""

    made_for: tuple[str, str, str]
    loaded: int
    widest: str


def start(
    folder: Path, host: Level | None = None, environment: Mapping[str, str] | None = None, how: str = ""
) -> Start:
    """Start a process, on a machine of this level if one is given.

    ``how``: "used" if numba was used before; "read" if a loop is compiled besides, to read its registers; else empty.
    """
    (folder / "one_kernel.py").write_text(FUNCTION)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"NUMBA_CACHE_DIR": str(folder), **(environment or {})}
    features = "" if host is None else host.features
    command = [sys.executable, "-c", START, features, how, str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    made_for, loaded, widest = json.loads(done.stdout)
    return Start(tuple(made_for), loaded, widest)


def test_a_level_without_one_of_its_features_is_not_taken() -> None:
    """The highest is taken of which all is there, none below the lowest; one missing leads to a lower one."""
    for level in LEVELS:
        assert level_with(level.needs) == level
        for missing in level.needs:
            found = level_with(set(UPPER.needs) - {missing})
            assert found is None or missing not in found.needs
    assert level_with(set(UPPER.needs) - {"avx512vl"}) == V3
    assert level_with(set(UPPER.needs) - {"popcnt"}) is None


def test_levels_are_told_apart_by_their_features() -> None:
    """Those with which numba made its code generator are all that says for certain what it compiles for."""
    of_the_host: Any = llvmlite.binding.get_host_cpu_features()
    assert len({level.features for level in LEVELS} | {of_the_host.flatten(), ""}) == len(LEVELS) + 2


@pytest.mark.slow
def test_code_is_that_of_the_level_and_is_loaded_for_no_other(tmp_path: Path) -> None:
    """By the features of the machine, and by variables that are set; empty they are not set."""
    for level, widest in ((V3, "ymm"), (V2, "xmm")):
        assert start(tmp_path, level, how="read")[1:] == (0, widest)
        assert start(tmp_path, level, {"NUMBA_CPU_NAME": "", "NUMBA_CPU_FEATURES": ""}).loaded == 1
    found = start(tmp_path, UPPER, V3.environment)
    assert (found.made_for[1:], found.loaded) == ((V3.name, V3.features), 1)


@pytest.mark.slow
def test_where_numba_was_used_before_its_code_is_not_called_that_of_a_level(tmp_path: Path) -> None:
    """It is compiled for the machine itself then, and that is said of it."""
    of_the_host: Any = llvmlite.binding.get_host_cpu_features()
    own = (llvmlite.binding.get_host_cpu_name(), of_the_host.flatten())
    level = start(tmp_path)
    assert level.made_for[1:] != own
    found = [start(tmp_path, how="used") for _ in range(2)]
    assert [each.made_for[1:] for each in found] == [own, own]
    assert [each.loaded for each in (*found, start(tmp_path))] == [0, 1, 1]
