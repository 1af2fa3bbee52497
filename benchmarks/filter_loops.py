"""What one writes without this program to mark near-duplicates in a file: one loop, MinHash and its index in memory.

    python -m benchmarks.filter_loops NAME INPUT OUTPUT

Reads JSON Lines with ``id`` and ``text``, and writes each record with an object ``dedup``: ``verdict``, and of a
duplicate the id of the nearest earlier text. A sketch has 128 values of the set of every five neighbouring characters.

* ``rensa``: RMinHash and RMinHashLSH with 16 bands; candidates are compared by ``jaccard`` of the sketches.
* ``datasketch``: MinHash and MinHashLSH; candidates are compared by ``jaccard`` of the sketches.

A text is a duplicate where an earlier one has an estimated Jaccard similarity of .5 or more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.fingerprint_shingles import VALUES, shingles

LEAST_SIMILARITY = 0.5
BANDS = 16

Nearest = Callable[[int, str], int | None]
"""The number of the nearest earlier text of a text with this number, or None; remembers the text."""


def rensa_loop() -> Nearest:
    """Return the loop's step with rensa."""
    from rensa import RMinHash, RMinHashLSH  # noqa: PLC0415 - each loop loads what it needs alone

    index = RMinHashLSH(threshold=LEAST_SIMILARITY, num_perm=VALUES, num_bands=BANDS)
    sketches: list[RMinHash] = []

    def nearest(number: int, text: str) -> int | None:
        sketch = RMinHash(num_perm=VALUES, seed=1)
        sketch.update(shingles(text))
        found = _nearest(sketch, {other: sketches[other] for other in index.query(sketch)})
        index.insert(number, sketch)
        sketches.append(sketch)
        return found

    return nearest


def datasketch_loop() -> Nearest:
    """Return the loop's step with datasketch."""
    from datasketch import MinHash, MinHashLSH  # noqa: PLC0415 - as above

    index = MinHashLSH(threshold=LEAST_SIMILARITY, num_perm=VALUES)
    sketches: list[MinHash] = []

    def nearest(number: int, text: str) -> int | None:
        sketch = MinHash(num_perm=VALUES, seed=1)
        sketch.update_batch([one.encode() for one in set(shingles(text))])
        found = _nearest(sketch, {other: sketches[other] for other in index.query(sketch)})
        index.insert(number, sketch)
        sketches.append(sketch)
        return found

    return nearest


LOOPS: dict[str, Callable[[], Nearest]] = {"rensa": rensa_loop, "datasketch": datasketch_loop}


def _nearest(sketch: Any, candidates: dict[int, Any]) -> int | None:  # noqa: ANN401 - of either library
    best, nearest = LEAST_SIMILARITY, None
    for number, other in candidates.items():
        similarity = sketch.jaccard(other)
        if similarity > best or (nearest is None and similarity == best):
            best, nearest = similarity, number
    return nearest


def run(name: str, given: Path, marked: Path) -> None:
    """Mark the records of a file."""
    nearest, ids = LOOPS[name](), []
    with given.open("rb") as lines, marked.open("wb") as out:
        for number, line in enumerate(lines):
            record = orjson.loads(line)
            found = nearest(number, record["text"])
            ids.append(record["id"])
            record["dedup"] = {"verdict": "unique"}
            if found is not None:
                record["dedup"] = {"verdict": "duplicate", "match": {"id": ids[found]}}
            out.write(orjson.dumps(record) + b"\n")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
