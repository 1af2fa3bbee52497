"""Arrays of a table, and how often they were made."""

import numpy as np

from stream_dedup.core.kept_tables import TableArrays, kept_arrays

MADE_KIND = "some_table"


class TableMaker:
    """Makes arrays, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> TableArrays:
        self.calls += 1
        return {"one": np.arange(1000), "two": np.ones((3, 4))}

    def kept(self, made_from: str = "x") -> TableArrays:
        """The arrays, kept or made."""
        found = kept_arrays(MADE_KIND, (made_from,), self)
        assert found["one"].tolist() == list(range(1000))
        assert found["two"].tolist() == [[1.0] * 4] * 3
        return found
