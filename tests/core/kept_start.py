"""A start of a program with one compiled function, in a forked process that has the compiler loaded already.

``tests.core.test_kept_code`` writes the function, and reads what the start prints.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from unittest.mock import patch

from numba.core import config, event
from numba.core.caching import IndexDataCacheFile

from stream_dedup.core import kept_code, kernel


def main(folder: str, kept: str, locator: str, how: str) -> int:
    """Import the function and print what it returns, how often its code was loaded and compiled, what was not kept.

    Args:
        folder: that of the file with the function.
        kept: that of the machine code.
        locator: numba's class that finds the latter.
        how: "killed" if the process kills itself between numba's index and the code; "full" if code is loaded as numba
            does it; else empty.
    """
    os.environ |= {"NUMBA_CACHE_DIR": kept, "NUMBA_CACHE_LOCATOR_CLASSES": locator}
    config.reload_config()  # type: ignore[no-untyped-call]
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    kernel.not_kept.clear()
    if how == "full":
        patch.object(kept_code, "LIGHT_VERSIONS", ()).start()
    if how == "killed":
        patch.object(IndexDataCacheFile, "_save_data", lambda *_: os.kill(os.getpid(), signal.SIGKILL)).start()
    compiling = event.RecordingListener()  # type: ignore[no-untyped-call]
    with event.install_listener("numba:compile", compiling):
        triple = importlib.import_module("one_kernel").triple
    loaded = sum(triple.stats.cache_hits.values())
    compiled = sum(each.is_start for _, each in compiling.buffer)
    print(json.dumps([triple(14), loaded, compiled, kernel.not_kept]), flush=True)  # noqa: T201 - the test reads it
    return 0
