"""Reads texts under one scheme, by the native core: the bytes that log entries have of them, and what a reader sees.

It loads no NumPy: a program that wants the fingerprint of a text starts without it. ``fingerprinter`` makes arrays of
these bytes. A reader may be used by several threads at the same time: the native core has scratch memory for each of
them.

A user's files of words are a dictionary in jieba's format, and words that do not count.

Readable texts are those that the words of the fingerprint come from, as a reader sees them. The steps
(``native/src/decode/readable.rs``) are those of the scheme that drop markup (``markup``, ``entities`` and ``tags``),
and no others: case, addresses, pictures and invisible characters stay. Tags of blocks leave line breaks, where the
fingerprint needs a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stream_dedup import _native
from stream_dedup.core.model import Status
from stream_dedup.core.reasons import DEFECT
from stream_dedup.core.scheme import FingerprintSettings, Normalisation
from stream_dedup.errors import UserError

Text = str | Sequence[str]
"""A text, or the texts of its fields in the order of ``FingerprintSettings.fields``."""
MAX_FREQUENCY = 10**15
"""Of a word: 16 million times the sum of jieba's frequencies. Sums of them stay finite as floats."""
_SHOWN = 60
"""Characters of a wrong line that its error repeats."""
_WORD = re.compile(r"(\S+)(?:\s+0*([1-9][0-9]{0,15}))?(?:\s+(?![0-9]+(?:\s|$))\S+)?")
"""A line of a dictionary: word, frequency, tag. A frequency of 0 is refused: in jieba it forbids the word in every
tokenizer of the process."""
_IDEOGRAPHS = re.compile("[\u4e00-\u9fd5]+")


# The core keeps the names of the fields of settings from the first ones that it reads. A child that is forked while
# another thread is at that would wait for ever, so it reads some when it is loaded.
_native.TextReader(FingerprintSettings(), [], [])


class Readings(NamedTuple):
    """What entries have of n texts: each column is the bytes of all texts, one after the other, as many of each."""

    statuses: bytes
    """``model.Status`` of each text: LONG, SHORT, EXACT or FEATURELESS."""
    signatures: bytes
    """32 bytes, bit 0 the high bit of byte 0; zero without features."""
    margins: bytes
    """8 bytes for each table, two margins in a byte, for the bits of the table keys; zero without features."""
    sketches: bytes
    """As many bytes as the scheme's sketches have; zero without features."""

    def row(self, row: int) -> Readings:
        """Return what the entry of one text has."""
        widths = (len(column) // len(self.statuses) for column in self)
        return Readings(*(column[row * width :][:width] for column, width in zip(self, widths, strict=True)))


class SchemeReader:
    """Reads texts under one scheme."""

    def __init__(self, settings: FingerprintSettings | None = None) -> None:
        """Load nothing yet: a user's words are loaded by ``warm``, or with the first text."""
        self.settings = settings or FingerprintSettings()
        """What the entries depend on."""
        self._native: _native.TextReader | None = None

    @property
    def native(self) -> _native.TextReader:
        """The native core's reader of texts without markup.

        Raises:
            UserError: a file of words cannot be read.
        """
        # No lock: a child that is forked while another thread has it would wait for ever. Two threads may both load.
        made = self._native
        if made is None:
            own, stop = self.settings.user_dictionary, self.settings.stop_words
            words = [] if own is None else list(user_words(own).items())
            stop_words = [] if stop is None else list(read_lines(stop).values())
            made = self._native = _native.TextReader(self.settings, words, stop_words)
        return made

    def warm(self) -> None:
        """Load a user's words now, not with the first text; raises as ``native``."""
        self.native  # noqa: B018 - loaded when it is asked for

    def read(self, texts: Sequence[Text]) -> Readings:
        """Return what entries have of texts; what that of a text has depends on this text alone.

        Raises:
            UserError: as ``native``.
            ValueError: a text has not as many fields as the settings.
            PanicError: the native core panicked at a text, which it names.
        """
        made = Readings(*self.native.read([self.fields(text) for text in texts]))
        for row, status in enumerate(made.statuses):
            if status == Status.REJECTED:
                msg = f"{DEFECT} at text {row}; standard error has its message"
                panic = _native.PanicError(msg)
                panic.article = row
                raise panic
        return made

    def fields(self, text: Text) -> list[str]:
        """Return the fields of a text without markup.

        Raises:
            ValueError: they are not as many as those of the settings.
        """
        fields = [text] if isinstance(text, str) else list(text)
        self.check_fields(len(fields))
        return [
            _native.text_of_html(one, marks_quotes=self.settings.drops_quotes) if html else one
            for one, html in zip(fields, self.settings.html, strict=True)
        ]

    def check_fields(self, count: int) -> None:
        """Raise ValueError unless the settings have this number of fields."""
        if count != len(self.settings.html):
            raise ValueError(
                f"a text of {count} fields has no fingerprint where the settings have "
                f"{len(self.settings.html)}: pass an empty string for a field that is missing"
            )


def readable_texts(texts: Sequence[str], settings: FingerprintSettings) -> list[str]:
    """Return each field without its markup; a field that has none as it is.

    Args:
        texts: the fields, in the order of the settings.
        settings: those of the scheme.
    """
    steps = (settings.long if settings.has_long else settings.short).normalisation
    return [readable(text, steps, is_html=html) for text, html in zip(texts, settings.html, strict=True)]


def readable(text: str, steps: Normalisation, *, is_html: bool = False) -> str:
    """Return a text without the markup that these steps drop, its paragraphs on lines; without markup as it is."""
    return _native.readable(text, is_html=is_html, entities=steps.entities, tags=steps.tags)


def user_words(path: Path) -> dict[str, int | None]:
    """Read words and frequencies of a dictionary in jieba's format, with lines ``word [frequency] [tag]``.

    Only words of ideographs are returned: other words are never cut, so a dictionary cannot change them.

    Raises:
        UserError: the file cannot be read, or a line has another form.
    """
    words: dict[str, int | None] = {}
    for number, line in read_lines(path).items():
        match = _WORD.fullmatch(line)
        frequency = int(match[2]) if match is not None and match[2] else None
        if match is None or (frequency or 0) > MAX_FREQUENCY:
            shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
            raise UserError(
                f"{path}, line {number}: {shown!r} is no entry of a dictionary; write: word [frequency] [tag], with a "
                f"frequency of 1 to {MAX_FREQUENCY}"
            )
        if _IDEOGRAPHS.fullmatch(match[1]):
            words[match[1]] = frequency
    return words


def read_lines(path: Path) -> dict[int, str]:
    """Return the lines of a file of words by their numbers, from 1, without empty lines and comments (#).

    Raises:
        UserError: the file cannot be read as UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): name a text file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return {number: line for number, line in lines if line and not line.startswith("#")}
