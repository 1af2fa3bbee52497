"""Cuts runs of ideographs into words as jieba does, compiled. Importing this file loads the compiler.

The words of a run are those of the most probable way through the dictionary. The logarithm of its probability is the
sum of those of its words; of two ways that are equally probable, the one with the longer word is taken. What that
leaves as single characters in a row is cut by a hidden Markov model: each character is the begin (B), end (E) or middle
(M) of a word, or a word of one character (S), and the most probable sequence of these is taken (Viterbi).

Numbers are added in jieba's order, so that sums and ties are jieba's to the last bit.
"""

from __future__ import annotations

from typing import Any

from numba import float64, int32, int64, uint8, uint32, uint64

from stream_dedup.core.arrays import F64, I32, I64, U8, U32, U64
from stream_dedup.core.fingerprint.dictionary_kernel import (
    DEEP,
    HAN_BEGIN,
    WORD_VALUE_MASK,
    beginning_of,
    longer_beginning,
    may_begin,
    request_edge,
    slot_of,
)
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written

BEGIN, END, MIDDLE, SINGLE = range(4)
"""States, in the order in which jieba prefers the later of two that are equally probable."""
STATES = 4
_AHEAD = 6
"""Characters ahead for which edges are requested: the table of edges is larger than the level-2 cache."""

DICTIONARY = several(
    *(read(int64), read(int64), read(float64), float64, read(float64), read(float64, 2), read(float64, 2)),
    *(read(uint64), read(uint64)),
)
"""Type of ``Dictionary.arrays``."""
ROOM = several(written(float64), written(int32), written(uint8))
"""Type of the arrays that cutting needs: one more element than the longest run has characters, and as many, twice."""
Room = tuple[F64, I32, U8]


@inlined
def _request(run: U32, at: int, dictionary: Any) -> None:  # noqa: ANN401 - a tuple of arrays
    """Request the edge between two characters if there may be one."""
    _, edges, _, _, _, _, _, pairs, _ = dictionary
    beginning = beginning_of(whole(run[at]) - HAN_BEGIN, whole(run[at + 1]) - HAN_BEGIN)
    if may_begin(pairs, beginning):
        request_edge(edges, edges.ctypes.data, beginning)


@inlined
def _second_slot(run: U32, at: int, dictionary: Any) -> int:  # noqa: ANN401 - a tuple of arrays
    """Return the slot of the edge between a character and the next one; below 0 if there is none."""
    _, edges, _, _, _, _, _, pairs, _ = dictionary
    first, second = whole(run[at]) - HAN_BEGIN, whole(run[at + 1]) - HAN_BEGIN
    return slot_of(edges, first + 1, second) if may_begin(pairs, beginning_of(first, second)) else whole(-1)


@inlined
def _has_third(run: U32, at: int, triples: U64) -> bool:
    """Whether a word may begin with these three characters."""
    first, second, third = whole(run[at]) - HAN_BEGIN, whole(run[at + 1]) - HAN_BEGIN, whole(run[at + 2]) - HAN_BEGIN
    return may_begin(triples, longer_beginning(beginning_of(first, second), third))


@inlined
def _route(run: U32, dictionary: Any, sums: F64, ends: I32) -> None:  # noqa: ANN401 - a tuple of arrays
    """Fill in, for each character, the end of the word that begins there, and the logarithm of the rest's probability.

    ``sums`` has one more element than there are characters.
    """
    first, edges, logs, log_total, _, _, _, _, triples = dictionary
    sums[len(run)] = 0.0
    for at in range(len(run) - 1, -1, -1):
        if at >= _AHEAD:
            _request(run, at - _AHEAD, dictionary)
        value, end = first[whole(run[at]) - HAN_BEGIN], at + 1
        best, chosen = 0.0, 0
        if value:
            best, chosen = logs[value] - log_total + sums[end], end
        slot = _second_slot(run, at, dictionary) if end < len(run) else whole(-1)
        while slot >= 0:
            value, end = edges[slot] & WORD_VALUE_MASK, end + 1
            if value:
                found = logs[value] - log_total + sums[end]
                if chosen == 0 or found >= best:
                    best, chosen = found, end
            if end == len(run) or (end == at + 2 and not _has_third(run, at, triples)):
                break
            slot = slot_of(edges, slot + DEEP, whole(run[end]) - HAN_BEGIN)
        if chosen == 0:
            best, chosen = logs[0] - log_total + sums[at + 1], at + 1
        sums[at], ends[at] = best, chosen


@inlined
def _is_word(run: U32, edges: I64, pairs: U64) -> bool:
    """Whether a run of more than one character is a word of the dictionary."""
    if not may_begin(pairs, beginning_of(whole(run[0]) - HAN_BEGIN, whole(run[1]) - HAN_BEGIN)):
        return False
    node, value = whole(run[0]) - HAN_BEGIN + 1, 0
    for at in range(1, len(run)):
        slot = slot_of(edges, node, whole(run[at]) - HAN_BEGIN)
        if slot < 0:
            return False
        value, node = edges[slot] & WORD_VALUE_MASK, slot + DEEP
    return value != 0


@inlined
def _viterbi(run: U32, begins: F64, steps: F64, emissions: F64, states: U8) -> None:
    """Fill in the most probable states.

    ``states`` first has, for each character, one bit for each state: which of the two states before it is the better.
    """
    character = whole(run[0]) - HAN_BEGIN
    begin = begins[BEGIN] + emissions[character, BEGIN]
    end = begins[END] + emissions[character, END]
    middle = begins[MIDDLE] + emissions[character, MIDDLE]
    single = begins[SINGLE] + emissions[character, SINGLE]
    for at in range(1, len(run)):
        character = whole(run[at]) - HAN_BEGIN
        emission = emissions[character, BEGIN]
        begin_end, begin_single = end + steps[END, BEGIN] + emission, single + steps[SINGLE, BEGIN] + emission
        emission = emissions[character, END]
        end_begin, end_middle = begin + steps[BEGIN, END] + emission, middle + steps[MIDDLE, END] + emission
        emission = emissions[character, MIDDLE]
        middle_begin, middle_middle = begin + steps[BEGIN, MIDDLE] + emission, middle + steps[MIDDLE, MIDDLE] + emission
        emission = emissions[character, SINGLE]
        single_end, single_single = end + steps[END, SINGLE] + emission, single + steps[SINGLE, SINGLE] + emission
        later = 0
        begin, end, middle, single = begin_end, end_begin, middle_begin, single_end
        if begin_single >= begin:
            begin, later = begin_single, later | 1 << BEGIN
        if end_middle >= end:
            end, later = end_middle, later | 1 << END
        if middle_middle >= middle:
            middle, later = middle_middle, later | 1 << MIDDLE
        if single_single >= single:
            single, later = single_single, later | 1 << SINGLE
        states[at] = later
    state = SINGLE if single >= end else END
    for at in range(len(run) - 1, 0, -1):
        later = states[at] >> state & 1
        states[at] = state
        if state in {BEGIN, SINGLE}:  # noqa: SIM108 - one choice at a time
            state = SINGLE if later else END
        else:
            state = MIDDLE if later else BEGIN
    states[0] = state


@inlined
def mark_words(run: U32, dictionary: Any, room: Any, last: U8) -> None:  # noqa: ANN401 - tuples of arrays
    """Mark the last character of each word of a run of ideographs; ``last`` has as many elements."""
    _, edges, _, _, begins, steps, emissions, pairs, _ = dictionary
    sums, ends, states = room
    _route(run, dictionary, sums, ends)
    at = 0
    while at < len(run):
        end = whole(ends[at])
        if end - at > 1:
            last[at : end - 1] = 0
            last[end - 1] = 1
            at = end
            continue
        while end < len(run) and ends[end] == end + 1:
            end += 1
        # Characters in a row that are a word together are not joined by the model either: the route left them apart.
        if end - at == 1 or _is_word(run[at:end], edges, pairs):
            last[at:end] = 1
        else:
            _viterbi(run[at:end], begins, steps, emissions, states)
            for number in range(end - at):
                last[at + number] = states[number] == END or states[number] == SINGLE
        at = end


@compiled(int64, read(uint32), DICTIONARY, ROOM, written(uint8))
def mark_words_of(run: U32, dictionary: Any, room: Any, last: U8) -> int:  # noqa: ANN401
    """Do the same for one run, called from Python."""
    mark_words(run, dictionary, room, last)
    return len(run)


@compiled(int64, read(uint32), DICTIONARY, ROOM, written(uint8))
def mark_words_of_dictionary(run: U32, dictionary: Any, room: Any, last: U8) -> int:  # noqa: ANN401
    """Do the same without the model: what the dictionary does not join stays apart."""
    sums, ends, _ = room
    _route(run, dictionary, sums, ends)
    last[:] = 0
    at = 0
    while at < len(run):
        at = whole(ends[at])
        last[at - 1] = 1
    return len(run)
