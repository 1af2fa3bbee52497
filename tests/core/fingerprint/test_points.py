"""The tables of code points, against the definition of the steps that they stand for."""

import sys

from stream_dedup.core.fingerprint.features import is_word
from stream_dedup.core.fingerprint.points import MOST_TIMES, SIZE, Kind, Raw, code_point_tables
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


def test_a_unit_is_a_word_where_its_first_character_is_a_letter_of_the_table() -> None:
    """Every character; those beyond the table begin no word."""
    kinds = code_point_tables().kinds
    found = [bool(kinds[min(point, SIZE - 1)] & Kind.LETTER) for point in range(sys.maxunicode + 1)]
    assert found == [is_word(chr(point)) for point in range(sys.maxunicode + 1)]
