"""Whether the compiled functions serve: where numba is installed and not switched off.

What is compiled gives the same answers as the NumPy functions beside it, faster. numba is optional: a module of
compiled functions is imported here alone, when it is first needed or when a worker warms up.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

SWITCH = "STREAM_DEDUP_COMPILED"
"""Environment variable; ``off``: NumPy serves."""


@cache
def load(module: str) -> Any:  # noqa: ANN401 - a module is as untyped as what numba makes
    """The module of compiled functions, None where NumPy serves.

    Importing it compiles its functions, or takes them from numba's cache. The answer does not change while the process
    lives.
    """
    if os.environ.get(SWITCH, "").lower() == "off" or find_spec("numba") is None:
        return None
    try:
        import_module("numba")
    except ImportError:  # too old for this NumPy or this Python: it says so by this error
        return None
    return import_module(module)
