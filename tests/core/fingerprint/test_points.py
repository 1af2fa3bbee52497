"""The tables of code points, against the definition of the steps that they stand for."""

from stream_dedup.core.fingerprint.points import MOST_TIMES, SIZE, Raw, code_point_tables
from stream_dedup.core.text.normalise import nfkc_casefold
from tests.amount import code_points


def test_a_plain_character_becomes_what_normalising_makes_of_it() -> None:
    """One character, or a few times the same; those that need a closer look and those that are dropped say so."""
    tables = code_point_tables()
    told, expected = {}, {}
    for point in code_points():
        if point < SIZE - 1 and not tables.raw[point] & (Raw.CLOSER | Raw.DROPPED):
            times = int(tables.times[point])
            told[point] = (chr(tables.normalised[point]) * times, bool(tables.raw[point] & Raw.SEVERAL))
            became = nfkc_casefold(chr(point))
            expected[point] = (" " if became.isspace() else became, len(became) > 1)
    assert told == expected
    assert {len(became) for became, _ in told.values()} == set(range(1, MOST_TIMES + 1))
    assert len(told) > 10_000
