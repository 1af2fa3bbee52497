"""Cuts runs of ideographs into words as jieba does, compiled. Importing this file loads the compiler.

The words of a run are those of the most probable way through the dictionary. The logarithm of its probability is the
sum of those of its words; of two ways that are equally probable, the one with the longer word is taken. What that
leaves as single characters in a row is cut by a hidden Markov model: each character is the begin (B), end (E) or middle
(M) of a word, or a word of one character (S), and the most probable sequence of these is taken (Viterbi).

Numbers are added in jieba's order, so that sums and ties are jieba's to the last bit.

Which beginnings are in the dictionary cannot be foreseen, and neither can lengths of words. So a stretch of text with
many runs goes through four loops: the first one notes without branches where a word of two characters may begin, the
second one looks these up, the third one notes without branches where a longer word may begin, and the fourth one finds
the way, whose choice between one character and two has no branch. A *joint* says for each character whether the next
one belongs to the same run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int32, int64, uint8, uint32, uint64

from stream_dedup.core.arrays import F64, I32, I64, U8, U32, U64
from stream_dedup.core.fingerprint.dictionary_kernel import (
    DEEP,
    GOES_ON,
    GOES_ON_SHIFT,
    HAN_BEGIN,
    WORD_VALUE_MASK,
    beginning_of,
    bits_of,
    longer_beginning,
    request_edge,
    request_longer_edge,
    slot_of,
)
from stream_dedup.core.kernel import compiled, inlined, read, several, whole, written

BEGIN, END, MIDDLE, SINGLE = range(4)
"""States, in the order in which jieba prefers the later of two that are equally probable."""
STATES = 4
_AHEAD = 12
"""Beginnings ahead for which edges are requested: the table of edges is larger than the level-2 cache."""
_NO_WORD = -np.inf
"""Logarithm of the probability of characters that are no word."""

DICTIONARY = several(
    *(read(int64), read(int64), read(float64), float64, read(float64), read(float64, 2), read(float64, 2)),
    *(read(uint64), read(uint64)),
)
"""Type of ``Dictionary.arrays``."""
ROOM = several(
    *(written(float64), written(float64), written(int32), written(int32), written(int32), written(int32)),
    *(written(uint8), written(uint8)),
)
"""Type of the arrays that cutting needs: each has two more elements than the longest stretch has characters."""
Room = tuple[F64, F64, I32, I32, I32, I32, U8, U8]


@inlined
def _find_beginnings(points: U32, begin: int, size: int, dictionary: Any, room: Any) -> int:  # noqa: ANN401
    """Note the characters with which words of two or more may begin; return how many there are."""
    _, _, _, _, _, _, _, pairs, _ = dictionary
    _, of_two, _, beginnings, _, _, joints, _ = room
    count, character = 0, whole(points[np.uint64(begin)]) - HAN_BEGIN
    for at in range(np.uint64(size - 1)):
        behind = whole(points[np.uint64(begin) + at + np.uint64(1)]) - HAN_BEGIN
        of_two[at] = _NO_WORD
        # Where none begins, the next one takes its place.
        beginnings[np.uint64(count)] = at
        count += whole(joints[at]) & bits_of(pairs, beginning_of(character, behind))
        character = behind
    of_two[size - 1] = _NO_WORD
    return count


@inlined
def _look_up(points: U32, begin: int, count: int, dictionary: Any, room: Any) -> int:  # noqa: ANN401
    """Fill in the probabilities of words of two characters; return how many beginnings longer words have."""
    _, edges, logs, log_total, _, _, _, _, _ = dictionary
    _, of_two, _, beginnings, longer, slots, joints, _ = room
    found, address, run = 0, edges.ctypes.data, np.uint64(begin)
    for number in range(np.uint64(count)):
        ahead = run + np.uint64(beginnings[min(number + np.uint64(_AHEAD), np.uint64(count - 1))])
        first, second = whole(points[ahead]) - HAN_BEGIN, whole(points[ahead + np.uint64(1)]) - HAN_BEGIN
        request_edge(edges, address, beginning_of(first, second))
        at = np.uint64(beginnings[number])
        first, second = whole(points[run + at]) - HAN_BEGIN, whole(points[run + at + np.uint64(1)]) - HAN_BEGIN
        slot = slot_of(edges, first + 1, second)
        if slot < 0:
            continue
        edge = edges[np.uint64(slot)]
        of_two[at] = logs[np.uint64(edge & WORD_VALUE_MASK)] - log_total
        # Where no longer word begins, the next one takes its place.
        longer[np.uint64(found)], slots[np.uint64(found)] = at, slot
        found += whole(joints[at + np.uint64(1)]) & edge >> GOES_ON_SHIFT
    return found


@inlined
def _keep_longer(points: U32, begin: int, count: int, dictionary: Any, room: Any) -> int:  # noqa: ANN401
    """Keep the beginnings of longer words that go on so in the text, by the filter; return how many these are."""
    _, edges, _, _, _, _, _, _, triples = dictionary
    _, _, _, _, longer, slots, _, _ = room
    found, address, run = 0, edges.ctypes.data, np.uint64(begin)
    for number in range(np.uint64(count)):
        at, slot = np.uint64(longer[number]), slots[number]
        first, second = whole(points[run + at]) - HAN_BEGIN, whole(points[run + at + np.uint64(1)]) - HAN_BEGIN
        third = whole(points[run + at + np.uint64(2)]) - HAN_BEGIN
        longer[np.uint64(found)], slots[np.uint64(found)] = at, slot
        found += bits_of(triples, longer_beginning(beginning_of(first, second), third))
    for number in range(np.uint64(found)):
        third = whole(points[run + np.uint64(longer[number]) + np.uint64(2)]) - HAN_BEGIN
        request_longer_edge(edges, address, whole(slots[number]) + DEEP, third)
    return found


@inlined
def _longest(points: U32, begin: int, at: int, slot: int, dictionary: Any, room: Any) -> tuple[float, int]:  # noqa: ANN401
    """Return the best way on from a character by a word of three or more, and the end of this word; 0 if none."""
    _, edges, logs, log_total, _, _, _, _, _ = dictionary
    sums, _, _, _, _, _, joints, _ = room
    best, chosen, end = _NO_WORD, 0, at + 2
    while joints[end - 1]:
        slot = slot_of(edges, slot + DEEP, whole(points[begin + end]) - HAN_BEGIN)
        if slot < 0:
            break
        edge, end = edges[slot], end + 1
        value = edge & WORD_VALUE_MASK
        if value:
            found = logs[value] - log_total + sums[end]
            if found >= best:
                best, chosen = found, end
        if not edge & GOES_ON:
            break
    return best, chosen


@inlined
def find_way(points: U32, begin: int, size: int, dictionary: Any, room: Any) -> None:  # noqa: ANN401
    """Fill in, for each character of a stretch of text with these joints, the end of the word that begins there.

    The last character of a stretch is the last one of its run. Where a character is no ideograph, it is taken for a
    word.
    """
    first, _, logs, log_total, _, _, _, _, _ = dictionary
    sums, of_two, ends, _, longer, slots, joints, _ = room
    number = _find_beginnings(points, begin, size, dictionary, room)
    number = _look_up(points, begin, number, dictionary, room)
    number = _keep_longer(points, begin, number, dictionary, room) - 1
    last = whole(len(first)) - 1
    # The sums behind a word of one character and of two, which are 0 at the end of a run.
    behind_one, behind_two = 0.0, 0.0
    sums[size] = 0.0
    for back in range(1, size + 1):
        at = np.uint64(size - back)
        value = first[np.uint64(min(max(whole(points[np.uint64(begin) + at]) - HAN_BEGIN, 0), last))]
        alone = logs[np.uint64(value)] - log_total
        # What begins no word is one by itself. It is so before the sums, for which the next character waits.
        alone = -log_total if alone == _NO_WORD and of_two[at] == _NO_WORD else alone
        best = alone + behind_one
        two = of_two[at] + behind_two
        end = whole(at) + 1 + whole(two >= best)
        best = max(two, best)
        if number >= 0 and longer[number] == whole(at):
            more, end_of_longer = _longest(points, begin, whole(at), whole(slots[number]), dictionary, room)
            if end_of_longer and (more >= best or (value == 0 and of_two[at] == _NO_WORD)):
                best, end = more, end_of_longer
            number -= 1
        ends[at] = end
        # Of the first character nobody asks.
        behind_two, behind_one = behind_one, best if joints[np.uint64(max(whole(at) - 1, 0))] else 0.0
        sums[at] = behind_one


@inlined
def _is_word(run: U32, edges: I64, pairs: U64) -> bool:
    """Whether a run of more than one character is a word of the dictionary."""
    if not bits_of(pairs, beginning_of(whole(run[0]) - HAN_BEGIN, whole(run[1]) - HAN_BEGIN)):
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
    character = np.uint64(whole(run[0]) - HAN_BEGIN)
    begin = begins[BEGIN] + emissions[character, BEGIN]
    end = begins[END] + emissions[character, END]
    middle = begins[MIDDLE] + emissions[character, MIDDLE]
    single = begins[SINGLE] + emissions[character, SINGLE]
    for at in range(np.uint64(1), np.uint64(len(run))):
        character = np.uint64(whole(run[at]) - HAN_BEGIN)
        emission = emissions[character, BEGIN]
        begin_end, begin_single = end + steps[END, BEGIN] + emission, single + steps[SINGLE, BEGIN] + emission
        emission = emissions[character, END]
        end_begin, end_middle = begin + steps[BEGIN, END] + emission, middle + steps[MIDDLE, END] + emission
        emission = emissions[character, MIDDLE]
        middle_begin, middle_middle = begin + steps[BEGIN, MIDDLE] + emission, middle + steps[MIDDLE, MIDDLE] + emission
        emission = emissions[character, SINGLE]
        single_end, single_single = end + steps[END, SINGLE] + emission, single + steps[SINGLE, SINGLE] + emission
        # Without branches: which of two is the better cannot be foreseen. Sums are never NaN.
        begin, end = max(begin_single, begin_end), max(end_middle, end_begin)
        middle, single = max(middle_middle, middle_begin), max(single_single, single_end)
        later = whole(begin_single >= begin_end) << BEGIN | whole(end_middle >= end_begin) << END
        later |= whole(middle_middle >= middle_begin) << MIDDLE | whole(single_single >= single_end) << SINGLE
        states[at] = later
    state = SINGLE if single >= end else END
    for back in range(1, len(run)):
        last = np.uint64(len(run) - back)
        later = whole(states[last]) >> state & 1
        states[last] = state
        # Before a begin or a single character is an end or a single character, before others a begin or a middle: the
        # later of the two is two states behind the other.
        state = whole((state == BEGIN) | (state == SINGLE)) + 2 * later
    states[0] = state


@inlined
def _find_singles(size: int, room: Any) -> int:  # noqa: ANN401
    """Note the single characters of the way behind which another one follows in the run; return how many these are."""
    _, _, ends, singles, _, _, joints, _ = room
    at, count = np.uint64(0), 0
    while at < np.uint64(size):
        end, behind = whole(ends[at]), whole(ends[at + np.uint64(1)])
        # Where this is none, the next one takes its place.
        singles[np.uint64(count)] = at
        count += whole(joints[at]) & whole(end == whole(at) + 1) & whole(behind == whole(at) + 2)
        at = np.uint64(end)
    return count


@inlined
def join_singles(points: U32, begin: int, size: int, dictionary: Any, room: Any) -> None:  # noqa: ANN401
    """Join single characters in a row, of a stretch whose way is known, to the words that the model makes of them."""
    _, edges, _, _, begins, steps, emissions, pairs, _ = dictionary
    _, _, ends, singles, _, _, _, states = room
    count, number = _find_singles(size, room), 0
    while number < count:
        start, last = whole(singles[number]), whole(singles[number]) + 1
        number += 1
        while number < count and singles[number] == last:
            number, last = number + 1, last + 1
        run = points[begin + start : begin + last + 1]
        # Characters in a row that are a word together are not joined by the model either: the route left them apart.
        if not _is_word(run, edges, pairs):
            _viterbi(run, begins, steps, emissions, states)
            word = start
            for at in range(start, last + 1):
                ends[word] = at + 1
                is_last = states[at - start] == END or states[at - start] == SINGLE
                word = at + 1 if is_last else word


_WORDS = several(written(int32), written(int32))


@inlined
def _words_of(size: int, room: Any, words: Any) -> int:  # noqa: ANN401
    """Fill in starts and sizes of the words of a run; return how many there are."""
    ends, (starts, sizes) = room[2], words
    at, count = 0, 0
    while at < size:
        starts[count], sizes[count] = at, ends[at] - at
        at, count = whole(ends[at]), count + 1
    return count


@inlined
def _find_way_of_run(run: U32, dictionary: Any, room: Any) -> None:  # noqa: ANN401
    joints = room[6]
    joints[: len(run)] = 1
    joints[len(run) - 1] = 0
    find_way(run, 0, len(run), dictionary, room)


@compiled(int64, read(uint32), DICTIONARY, ROOM, _WORDS, makes_arrays=False)
def cut(run: U32, dictionary: Any, room: Any, words: Any) -> int:  # noqa: ANN401 - tuples of arrays
    """Fill in starts and sizes of the words of one run, which has a character at least; return how many there are."""
    _find_way_of_run(run, dictionary, room)
    join_singles(run, 0, len(run), dictionary, room)
    return _words_of(len(run), room, words)


@compiled(int64, read(uint32), DICTIONARY, ROOM, _WORDS, makes_arrays=False)
def cut_by_dictionary(run: U32, dictionary: Any, room: Any, words: Any) -> int:  # noqa: ANN401
    """Do the same without the model: what the dictionary does not join stays apart."""
    _find_way_of_run(run, dictionary, room)
    return _words_of(len(run), room, words)
