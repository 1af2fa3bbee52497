"""Reads texts under one scheme, by the native core: the bytes that log entries have of them.

It loads no NumPy: a program that wants the fingerprint of a text starts without it. ``fingerprinter`` makes arrays of
these bytes. A reader may be used by several threads at the same time: the native core has scratch memory for each of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream_dedup import _native
from stream_dedup.core.fingerprint.own_words import read_lines, user_words
from stream_dedup.core.model import Status
from stream_dedup.core.reasons import DEFECT
from stream_dedup.core.scheme import FingerprintSettings

Text = str | Sequence[str]
"""A text, or the texts of its fields in the order of ``FingerprintSettings.fields``."""


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

    def __init__(self, settings: FingerprintSettings) -> None:
        """Load nothing yet: a user's words are loaded by ``native``, so with the first text."""
        self.settings = settings
        """What the entries depend on."""
        self._any_html = any(settings.html)
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
        if not self._any_html:
            return fields
        return [
            _native.text_of_html(one, marks_quotes=self.settings.drops_quotes) if html else one
            for one, html in zip(fields, self.settings.html, strict=True)
        ]

    def check_fields(self, count: int) -> None:
        """Raise ValueError unless the settings have this number of fields."""
        if count != len(self.settings.html):
            msg = (
                f"a text of {count} fields has no fingerprint where the settings have "
                f"{len(self.settings.html)}: pass an empty string for a field that is missing"
            )
            raise ValueError(msg)
