"""The dictionary and the hidden Markov model by which runs of ideographs are cut into words: those of jieba's package.

Both are read as arrays for ``segment_kernel``. Importing this file loads the compiler.

A user's words are added to a copy of the dictionary, one after the other as rjieba adds them: the more often a word is
said to occur, the more probable it is. A word without a frequency gets the least by which it is not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from stream_dedup.core.arrays import F64, I64, U16, U32, U64
from stream_dedup.core.fingerprint import dictionary_kernel, segment_kernel
from stream_dedup.core.fingerprint.dictionary_kernel import FILTER_WORDS, HAN_BEGIN, HAN_END, MOST_SLOTS
from stream_dedup.core.fingerprint.segment_kernel import Room
from stream_dedup.core.kept_tables import TableArrays, kept_arrays
from stream_dedup.core.scheme import content_hash, dictionary_path, model_path, segmenter_paths
from stream_dedup.errors import UserError

LEAST_SLOTS = 1 << 20
"""Slots for edges, 8 MB: jieba's dictionary takes less than half of them."""

DIGITS = 6
"""Decimal places of the emissions. jieba has more; rjieba 0.2.2, by which log entries were made first, has these. The
rest decides only between ways that are equally probable but for the last bit of a sum: of 进研研研权, the middle one of
three belongs to the first word or to the second."""

_IDEOGRAPHS = HAN_END - HAN_BEGIN
_NEVER = -3.14e100
"""jieba's logarithm of the probability of what the model does not know."""
_STATES = "BEMS"


class Dictionary(NamedTuple):
    """Words with their frequencies, and the hidden Markov model."""

    first: I64
    """Value of each character as a word: the index of its frequency; 0 if it is no word."""
    edges: I64
    """The values of longer words; see ``dictionary_kernel``."""
    logs: F64
    """Logarithms of the frequencies; the first is that of what is no word, minus infinity."""
    log_total: float
    begins: F64
    """Logarithm of the probability of each state of the first character, shape (4,)."""
    steps: F64
    """The same of each state after each state, shape (4, 4)."""
    emissions: F64
    """The same of each character in each state, shape (characters, 4)."""
    pairs: U64
    """Filter of the beginnings of two characters; see ``dictionary_kernel``."""
    triples: U64
    """Filter of the beginnings of three characters."""
    frequencies: list[int]
    total: int
    """Sum of the frequencies of all words, of other characters too."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernels read, of type ``segment_kernel.DICTIONARY``."""
        return self[:9]

    def cut(self, han: str) -> list[str]:
        """Return the words of Han runs that are separated by spaces, without the spaces."""
        return [word for run in han.split() for word in self._words(run, segment_kernel.cut)]

    def suggested_frequency(self, word: str) -> int:
        """Return the least frequency by which a word is not cut, or its own if that is higher."""
        log = 0.0
        for part in self._words(word, segment_kernel.cut_by_dictionary):
            log = log + math.log(self.frequency(part)) - self.log_total
        return max(int(math.exp(log + self.log_total)) + 1, self.frequency(word))

    def frequency(self, word: str) -> int:
        """Return the frequency of a word; 1 if it is not in the dictionary."""
        return self.frequencies[dictionary_kernel.value_of(_characters(word), self.first, self.edges)]

    def with_words(self, words: Sequence[tuple[str, int | None]]) -> Dictionary:
        """Return a dictionary with more words, each with its frequency, or None for the suggested one.

        Raises:
            UserError: there are too many words.
        """
        edges = int(np.count_nonzero(self.edges)) + sum(len(word) - 1 for word, _ in words)
        base = self if 2 * edges <= len(self.edges) else _loaded(2 * edges)
        frequencies, logs = base.frequencies.copy(), np.append(base.logs, np.zeros(len(words)))
        made = base._replace(first=base.first.copy(), edges=base.edges.copy(), frequencies=frequencies, logs=logs)
        filters = base.pairs.copy(), base.triples.copy()
        made = made._replace(pairs=filters[0], triples=filters[1])
        for word, given in words:
            frequency = made.suggested_frequency(word) if given is None else given
            characters, value = _characters(word), len(frequencies)
            known = dictionary_kernel.value_of(characters, made.first, made.edges)
            total = made.total + frequency - (frequencies[known] if known else 0)
            logs[value] = math.log(frequency)
            frequencies.append(frequency)
            dictionary_kernel.insert(characters, value, made.first, made.edges, filters, len(made.edges))
            made = made._replace(total=total, log_total=math.log(total))
        return made

    def _words(self, run: str, cut: Callable[..., int]) -> list[str]:
        starts, sizes = np.empty(len(run), np.int32), np.empty(len(run), np.int32)
        words = cut(_points(run), self.arrays, room_for(len(run)), (starts, sizes))
        spans = zip(starts[:words].tolist(), sizes[:words].tolist(), strict=True)
        return [run[start : start + size] for start, size in spans]


def room_for(longest: int) -> Room:
    """Return the arrays that cutting a stretch of so many characters needs."""
    size = longest + 2
    (sums, of_two), (ends, beginnings, longer, slots) = np.empty((2, size)), np.empty((4, size), np.int32)
    joints, states = np.empty((2, size), np.uint8)
    return sums, of_two, ends, beginnings, longer, slots, joints, states


@cache
def jieba_dictionary() -> Dictionary:
    """Return jieba's dictionary and model, read at the first call.

    Raises:
        UserError: jieba's package is not installed, or its files are not those of a dictionary and a model.
    """

    def make() -> TableArrays:
        made = _loaded(LEAST_SLOTS)
        arrays = {name: value for name, value in made._asdict().items() if isinstance(value, np.ndarray)}
        others = {"log_total": made.log_total, "frequencies": made.frequencies, "total": made.total}
        return arrays | {name: np.array(value) for name, value in others.items()}

    arrays = kept_arrays("dictionary", map(content_hash, segmenter_paths()), make)
    plain = {name: arrays[name].tolist() for name in ("log_total", "frequencies", "total")}
    return Dictionary(**{**arrays, **plain})


def _loaded(slots: int) -> Dictionary:
    path = dictionary_path()
    content = path.read_bytes().rstrip(b"\n") + b"\n"
    raw, characters = np.frombuffer(content, np.uint8), np.empty(len(content), np.uint16)
    ends, frequencies, starts = np.empty((3, content.count(b"\n")), np.int64)
    words, others = dictionary_kernel.parse(raw, characters, ends, frequencies, starts)
    lines = [content[at : content.index(b"\n", at)].split() for at in starts[:others].tolist()]
    try:
        # One of these words has two lines, and counts once.
        total = int(frequencies[:words].sum()) + sum({line[0]: int(line[1]) for line in lines}.values())
    except (ValueError, IndexError) as error:
        msg = f"{path} has a line without a word and its frequency: install jieba 0.42.1 again"
        raise UserError(msg) from error
    known, values = np.unique(frequencies[:words], return_inverse=True)
    # Python's logarithm, as jieba has it: NumPy's may differ in the last bit.
    logs = np.array([-math.inf, *map(math.log, known.tolist())])
    first, edges, pairs, triples = _trie(characters, (ends[:words], values + 1), slots)
    every = [1, *known.tolist()]
    return Dictionary(first, edges, logs, math.log(total), *_model(), pairs, triples, every, total)


def _trie(characters: U16, words: tuple[I64, I64], least: int) -> tuple[I64, I64, U64, U64]:
    """Return the values of single characters, the edges and the filters; ``words``: the ends of words, their values."""
    slots, pairs, triples = LEAST_SLOTS, *np.zeros((2, FILTER_WORDS), np.uint64)
    while slots <= MOST_SLOTS:
        first, edges = np.zeros(_IDEOGRAPHS, np.int64), np.zeros(slots, np.int64)
        if slots >= least and dictionary_kernel.insert_all(characters, words, first, edges, (pairs, triples)) >= 0:
            return first, edges, pairs, triples
        slots *= 2
    msg = f"the dictionaries have more than {MOST_SLOTS // 2:,} beginnings of words: name a smaller user dictionary"
    raise UserError(msg)


def _model() -> tuple[F64, F64, F64]:
    begins = np.array([_table("start")[state] for state in _STATES])
    steps = np.full((len(_STATES), len(_STATES)), _NEVER)
    for before, after in _table("trans").items():
        for state, value in after.items():
            steps[_STATES.index(before), _STATES.index(state)] = value
    emissions = np.full((_IDEOGRAPHS, len(_STATES)), _NEVER)
    for state, of_characters in _table("emit").items():
        points = np.fromiter(map(ord, of_characters), np.int64, len(of_characters)) - HAN_BEGIN
        known = (points >= 0) & (points < _IDEOGRAPHS)
        values = np.array([round(value, DIGITS) for value in of_characters.values()])
        emissions[points[known], _STATES.index(state)] = values[known]
    return begins, steps, emissions


def _table(name: str) -> dict[str, Any]:
    """Return a table of the model, whose module is loaded alone: importing jieba takes longer than all else here."""
    path = model_path(name)
    module = ModuleType(path.stem)
    try:
        SourceFileLoader(path.stem, str(path)).exec_module(module)
    except OSError as error:
        msg = f"{path} cannot be read ({error.strerror}): install jieba 0.42.1 again"
        raise UserError(msg) from error
    table: dict[str, Any] = module.P
    return table


def _points(text: str) -> U32:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _characters(word: str) -> U16:
    return (_points(word) - HAN_BEGIN).astype(np.uint16)
