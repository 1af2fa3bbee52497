"""A worker whose fingerprinting processes die of some articles, and take as long as the test wants for others."""

from __future__ import annotations

from stream_dedup.pool import process
from tests.worker import dying_worker

CRASHING = "crash the process"
WAITING = "wait for the file "
_STEP = f"""\
import time
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
make = EntryMaker.__call__
def poisoned(maker, records):
    for value in [(record.value or b"").decode("utf-8", "replace") for record in records]:
        if "{CRASHING}" in value:
            os.kill(os.getpid(), signal.SIGSEGV)
        while "{WAITING}" in value and not os.path.exists(value.partition("{WAITING}")[2].partition('"')[0]):
            time.sleep(0.01)
    return make(maker, records)
EntryMaker.__call__ = poisoned
"""


def poison_processes() -> None:
    """Let the fingerprinting processes that this process starts do so."""
    process.CHILD_CODE = process.CHILD_CODE.replace("serve({", _STEP + "serve({")


def main(*arguments: str) -> int:
    poison_processes()
    return dying_worker.main(*arguments)
