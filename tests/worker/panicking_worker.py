"""A worker whose native core panics when it looks up one article, which is named by its fingerprint."""

from __future__ import annotations

from tests.index.panics import planted_panic
from tests.worker import dying_worker


def main(path: str, step: str, times: str, fingerprint: str) -> int:
    with planted_panic(int(fingerprint)):
        return dying_worker.main(path, step, times)
