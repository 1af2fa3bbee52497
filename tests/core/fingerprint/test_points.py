"""The tables of code points, against the definition of the steps that they stand for."""

from stream_dedup.core.fingerprint.points import MOST_TIMES, SIZE, Raw, code_point_tables
from stream_dedup.core.text.normalise import nfkc_casefold
from tests.amount import code_points


def test_a_plain_character_becomes_what_normalising_makes_of_it() -> None:
    """One character, or a few times the same; those that need a closer look say so."""
    tables = code_point_tables()
    told, expected = {}, {}
    for point in code_points():
        if point < SIZE - 1 and not tables.raw[point] & Raw.CLOSER:
            told[point] = chr(tables.normalised[point]) * int(tables.times[point])
            became = nfkc_casefold(chr(point))
            expected[point] = " " if became.isspace() else became
    assert told == expected
    assert set(map(len, told.values())) == set(range(1, MOST_TIMES + 1))
    assert len(told) > 10_000
