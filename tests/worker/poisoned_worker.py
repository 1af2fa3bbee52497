"""A worker whose fingerprinting processes die of some articles, and take as long as the test wants for others."""

from __future__ import annotations

from stream_dedup.pool import process
from tests.worker import dying_worker

CRASHING = "crash the process"
WAITING = "wait for the file "
_STEP = f"""\
import time
from stream_dedup.core.fingerprint import entry_maker
read = entry_maker.decode
def poisoned(record, fmt):
    value = (record.value or b"").decode("utf-8", "replace")
    if "{CRASHING}" in value:
        os.kill(os.getpid(), signal.SIGSEGV)
    while "{WAITING}" in value and not os.path.exists(value.partition("{WAITING}")[2].partition('"')[0]):
        time.sleep(0.01)
    return read(record, fmt)
entry_maker.decode = poisoned
"""


def poison_processes() -> None:
    """Let the fingerprinting processes that this process starts do so."""
    process.CHILD_CODE = process.CHILD_CODE.replace("serve({", _STEP + "serve({")


def main(*arguments: str) -> int:
    poison_processes()
    return dying_worker.main(*arguments)
