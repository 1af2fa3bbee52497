"""A start of a program with one compiled function, in a forked process that has the compiler loaded already.

``tests.core.test_kept_code`` writes the function, and reads what the start prints.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

from numba.core import event

from stream_dedup.core import kept_code
from stream_dedup.startup import keep_tables


def main(folder: str, kept: str, how: str) -> int:
    """Import the function and print what it returns, how often its code was loaded and compiled, what was not kept.

    Args:
        folder: that of the file with the function.
        kept: that of the machine code.
        how: "killed" if the process kills itself before it renames the file of the code; "full" if code is loaded as
            numba does it; else empty.
    """
    os.environ["NUMBA_CACHE_DIR"] = kept
    keep_tables()
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    kept_code.not_kept.clear()
    if how == "full":
        patch.object(kept_code, "LIGHT_VERSIONS", ()).start()
    if how == "killed":
        patch.object(Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL)).start()
    compiling = event.RecordingListener()  # type: ignore[no-untyped-call]
    with event.install_listener("numba:compile", compiling):
        triple = importlib.import_module("one_kernel").triple
    loaded = sum(triple.stats.cache_hits.values())
    compiled = sum(each.is_start for _, each in compiling.buffer)
    print(json.dumps([triple(14), loaded, compiled, kept_code.not_kept]), flush=True)  # noqa: T201 - the test reads it
    return 0
