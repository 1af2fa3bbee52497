"""Signatures of which one look-up finds another, and what the reference says of them."""

from __future__ import annotations

from stream_dedup.core.rules import Rules
from tests.logs import Entry, LogOfTest, entries_batch, said

A = 0x0123_4567_89AB_CDEF_1122_3344_5566_7788_99AA_BBCC_DDEE_FF00_0F1E_2D3C_4B5A_6978
FAR_BITS = 0xF
"""Flipped in a block, no mask finds it."""


def bits(*positions: int) -> int:
    """A signature with these bits, 0 being the highest."""
    return sum(1 << (255 - position) for position in positions)


def in_block(block: int, value: int) -> int:
    """A signature with this value in one block."""
    return value << (240 - 16 * block)


def spread(but: int, tables: int = 4, flips: int = FAR_BITS) -> int:
    """``flips`` in every block that has a table, but one."""
    return sum(in_block(block, flips) for block in range(tables) if block != but)


def log_with(rules: Rules) -> LogOfTest:
    log = LogOfTest()
    log.add(rules)
    return log


def asked(rules: Rules, *entries: Entry) -> str:
    """What is said of the last of these entries."""
    log = log_with(rules)
    for offset, entry in enumerate(entries):
        log.add(entries_batch([offset], [entry], rules.scheme.tables, rules.scheme.sketch_bytes))
    return said(log.plain())[-1]
