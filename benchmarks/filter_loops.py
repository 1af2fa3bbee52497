"""What one writes without this program to mark near-duplicates in a file: one loop over rensa's MinHash and its index.

    python -m benchmarks.filter_loops INPUT OUTPUT

Reads JSON Lines with ``id`` and ``text``, and writes each record with an object ``dedup``: ``verdict``, and of a
duplicate the id of the nearest earlier text. A sketch is an RMinHash of 128 values of the set of every five
neighbouring characters; candidates of RMinHashLSH with 16 bands are compared by ``jaccard`` of the sketches. A text is
a duplicate where an earlier one has an estimated Jaccard similarity of .5 or more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from rensa import RMinHash, RMinHashLSH

from benchmarks.texts import VALUES, shingles

LEAST_SIMILARITY = 0.5
BANDS = 16


class Loop:
    """The loop's step, and what it remembers."""

    def __init__(self) -> None:
        self._index = RMinHashLSH(threshold=LEAST_SIMILARITY, num_perm=VALUES, num_bands=BANDS)
        self._sketches: list[RMinHash] = []

    def nearest(self, text: str) -> int | None:
        """Return the number of the nearest earlier text, or None; remembers the text."""
        sketch = RMinHash(num_perm=VALUES, seed=1)
        sketch.update(shingles(text))
        best, nearest = LEAST_SIMILARITY, None
        for number in self._index.query(sketch):
            similarity = sketch.jaccard(self._sketches[number])
            if similarity > best or (nearest is None and similarity == best):
                best, nearest = similarity, number
        self._index.insert(len(self._sketches), sketch)
        self._sketches.append(sketch)
        return nearest


def run(given: Path, marked: Path) -> None:
    """Mark the records of a file."""
    loop, ids = Loop(), []
    with given.open("rb") as lines, marked.open("wb") as out:
        for line in lines:
            record = orjson.loads(line)
            found = loop.nearest(record["text"])
            ids.append(record["id"])
            record["dedup"] = {"verdict": "unique"}
            if found is not None:
                record["dedup"] = {"verdict": "duplicate", "match": {"id": ids[found]}}
            out.write(orjson.dumps(record) + b"\n")


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:]))
