"""Computes signatures and margins of texts, a batch at a time.

The steps: status and counts of features (``reader``), whole-number weights (``weights``), sums, signature and margins
(``simhash``), and the sketch (``sketch``). The signature of an exact text is the hash of the text itself, as of one
feature; its margins have the maximum value.

Use one ``Fingerprinter`` per thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core.arrays import I64, U8
from stream_dedup.core.fingerprint import simhash
from stream_dedup.core.fingerprint.form import Form, form_of, packed
from stream_dedup.core.fingerprint.hashing import feature_hash
from stream_dedup.core.fingerprint.mixing import WHOLE, factor, factors, shares_of_short
from stream_dedup.core.fingerprint.reader import Counted, Reader
from stream_dedup.core.fingerprint.sketcher import Letters, Sketcher
from stream_dedup.core.fingerprint.weigher import Feature, Weigher
from stream_dedup.core.fingerprint.weights import Sums, damping
from stream_dedup.core.model import (
    BLOCK_BITS,
    SIGNATURE_BYTES,
    Status,
    signed,
)
from stream_dedup.core.scheme import FingerprintSettings
from stream_dedup.core.text.clean import TOKEN_NAMES

if TYPE_CHECKING:
    from stream_dedup.core.fingerprint.short import ShortFingerprinter
    from stream_dedup.core.fingerprint.words import LongFingerprinter, LongTexts

CHUNK_TEXTS = 256
"""Texts processed together; their features bound by how much a table may exceed its limit."""

_BY_FEATURES = frozenset((Status.LONG, Status.SHORT))
"""Kinds of texts that are compared by their features, and have sketches."""

Numbers = NDArray[np.intp]

Text = str | Sequence[str]
"""A text, or the texts of its fields in the order of ``FingerprintSettings.fields``."""


class Fingerprints(NamedTuple):
    """Fingerprints of n texts, one row for each."""

    signatures: U8
    """Shape (n, 32), bit 0 the high bit of byte 0; zero without features."""
    margins: U8
    """Shape (n, 8 x tables), two margins in a byte, for the bits of the table keys; zero without features."""
    statuses: U8
    """``model.Status`` of each text: LONG, SHORT, EXACT or FEATURELESS."""
    sketches: U8
    """Shape (n, bytes of the scheme's sketches); zero without features."""

    @property
    def featured(self) -> NDArray[np.bool_]:
        """Whether each text has features."""
        return signed(self.statuses)


class Explained(NamedTuple):
    """One text and every value that its entry is made from."""

    status: Status
    text: str
    """The normalised text; of short text the characters that count."""
    features: tuple[Feature, ...]
    """Heaviest first; an exact text is one feature."""
    sums: I64
    """256 sums, whole numbers."""
    signature: bytes
    margins: U8
    """One for each bit that the tables are keyed by, 0 to 15."""
    sketch: bytes
    """Empty if the scheme has none."""
    frame: str
    """Words of grammar of the text's form, separated by spaces; empty if the text or the scheme has no form."""
    numbers: str
    """Digits of the text's form."""


class Fingerprinter:
    """Computes statuses, signatures and margins of texts under one scheme."""

    def __init__(self, settings: FingerprintSettings | None = None) -> None:
        """Load nothing yet: tables are loaded by ``warm`` or with the first text."""
        self._settings = settings or FingerprintSettings()
        self._reader, self._any_html = Reader(self._settings), any(self._settings.html)
        self._sketcher = Sketcher(self._settings.sketch, self._settings.seed)
        self._weighers = {
            Status.LONG: Weigher(self._settings.long.features, self._settings.seed),
            Status.SHORT: Weigher(self._settings.short.features, self._settings.seed),
        }

    @cached_property
    def _quick(self) -> ShortFingerprinter | None:
        """Reads texts as short text; None if all are read by the definition."""
        return _short_fingerprinter(self._settings)

    @cached_property
    def _beside(self) -> ShortFingerprinter | None:
        """Reads texts as short text that are long in part."""
        return _short_fingerprinter(replace(self._settings, article_size=None)) if self._settings.has_long else None

    @cached_property
    def _long(self) -> LongFingerprinter | None:
        """Reads texts as long text; None if none is long, or all are read by the definition."""
        if not self._settings.has_long or self._settings.segmenter == "jieba":
            return None
        from stream_dedup.core.fingerprint.words import LongFingerprinter  # noqa: PLC0415 - loads the compiler

        return LongFingerprinter(self._settings, self._reader.surely_long)

    @property
    def settings(self) -> FingerprintSettings:
        """The settings that the entries depend on."""
        return self._settings

    def warm(self) -> None:
        """Load dictionaries and tables now, not with the first text.

        Raises:
            UserError: a package or its data are missing or differ from what the scheme names.
        """
        self._reader.warm()
        if self._quick is not None:
            self._quick.warm()
        if self._long is not None:
            self._long.warm()
        damping()

    def fingerprint(self, texts: Sequence[Text]) -> Fingerprints:
        """Return signatures, margins and statuses; those of a text depend on this text alone.

        Raises:
            UserError: as ``warm``.
            ValueError: a text has no field.
        """
        _refuse_no_field(texts)
        parts = [self._chunk(texts[start : start + CHUNK_TEXTS]) for start in range(0, len(texts), CHUNK_TEXTS)]
        if len(parts) == 1:
            return parts[0]
        return Fingerprints(*map(np.concatenate, zip(self._blank(0), *parts, strict=True)))

    def features(self, text: Text) -> Explained:
        """Return one text with every value that its entry is made from.

        Raises:
            UserError: as ``warm``.
            ValueError: the text has no field.
        """
        _refuse_no_field([text])
        fields = _fields(text)
        counted = self._reader.read(fields)
        compared = self._reader.compared(fields, counted.status)
        return self._explain(counted, compared)

    def features_of(self, counts: Mapping[str, int], status: Status = Status.LONG) -> Explained:
        """Return the same for a text whose features the caller counted.

        Raises:
            UserError: as ``warm``.
        """
        status = status if counts else Status.FEATURELESS
        counted = Counter(counts)
        whole = Counted(status, long=counted) if status is Status.LONG else Counted(status, short=counted, share=WHOLE)
        return self._explain(whole, " ".join(counts))

    def _chunk(self, texts: Sequence[Text]) -> Fingerprints:
        made = self._blank(len(texts))
        rows = list(range(len(texts))) if self._quick is None else self._read_quickly(self._quick, texts, made)
        if rows and self._long is not None:
            rows = self._read_long(self._long, texts, rows, made)
        if rows:
            self._read_by_definition(texts, rows, made)
        return made

    def _read_by_definition(self, texts: Sequence[Text], rows: Sequence[int], made: Fingerprints) -> None:
        """Fill in the rows of texts one by one."""
        counted = {row: self._reader.read(_fields(texts[row])) for row in rows}
        made.statuses[rows] = [one.status for one in counted.values()]
        self._fill_exact(
            made, {row: next(iter(one.short)) for row, one in counted.items() if one.status is Status.EXACT}
        )
        featured = [row for row, one in counted.items() if one.status in _BY_FEATURES]
        if featured:
            own = [counted[row] for row in featured]
            long = self._weighers[Status.LONG].sums([one.long for one in own])
            short = self._weighers[Status.SHORT].sums([one.short for one in own])
            self._fill(made, featured, _mixed(long, short, np.array([one.share for one in own])))
            forms = {row: form_of(counted[row].formed) for row in featured} if self._settings.form else {}
            self._fill_sketches(made, featured, Letters.of([one.sketched for one in own]), forms)

    def _read_quickly(self, quick: ShortFingerprinter, texts: Sequence[Text], made: Fingerprints) -> list[int]:
        """Fill in the rows that the batch reader of short text can read; return the deferred rows."""
        deferred: list[int] = []
        plain = [text if isinstance(text, str) else text[0] for text in texts]
        for rows in quick.batches(plain, deferred):
            found = quick([plain[row] for row in rows])
            made.statuses[rows] = found.statuses
            deferred += [rows[at] for at in found.deferred]
            short = np.flatnonzero(found.statuses == Status.SHORT)
            own = np.array(rows)[short]
            self._fill(made, own, found.sums)
            self._fill_exact(made, {rows[at]: text for at, text in found.exact.items()})
            self._fill_sketches(made, own, found.letters, {rows[at]: form for at, form in found.forms.items()})
        return deferred

    def _read_long(
        self, long: LongFingerprinter, texts: Sequence[Text], rows: Sequence[int], made: Fingerprints
    ) -> list[int]:
        """Fill in the rows of texts that are long, all or in part; return those that the definition has to read."""
        every = np.array(rows)
        given = map(texts.__getitem__, rows)
        fields: list[Sequence[str]] = [(text,) if isinstance(text, str) else text for text in given]
        found = long(list(map(self._reader.plain, fields)) if self._any_html else fields)
        surely = found.sizes >= self._reader.surely_long
        certain, others = surely & found.featured, every[~surely]
        made.statuses[every[surely]] = Status.FEATURELESS
        made.statuses[every[certain]] = Status.LONG
        if certain.any():
            self._fill(made, every[certain], found.sums.where(certain))
            self._fill_sketches(made, every[certain], found.letters.where(certain), {})
        if len(others) and self._beside is not None:
            plain = [fields[at][0] for at in np.flatnonzero(~surely).tolist()]
            others = others[self._read_between(self._beside, plain, others, found.where(~surely), made)]
        left: list[int] = others.tolist()
        return left

    def _read_between(
        self,
        beside: ShortFingerprinter,
        plain: Sequence[str],
        rows: Numbers,
        long: LongTexts,
        made: Fingerprints,
    ) -> list[int]:
        """Fill in the rows of texts between short and long; return which texts the definition has to read.

        ``long``: what they are as long text.
        """
        left: list[int] = []
        article_size = self._settings.article_size or 0
        shares = np.where(long.featured, shares_of_short(long.sizes, article_size), WHOLE)
        is_long = (shares < WHOLE) & (long.sizes >= article_size)
        statuses = np.where(is_long, Status.LONG, Status.SHORT)
        for batch in map(np.array, beside.batches(plain, left)):
            short = beside([plain[at] for at in batch.tolist()] if len(batch) < len(plain) else plain)
            is_short = short.statuses == Status.SHORT
            mixed = is_short & (shares[batch] > 0)
            left += batch[~mixed].tolist()
            own, kept = batch[mixed], mixed[is_short]
            made.statuses[rows[own]] = statuses[own]
            chosen = np.zeros(len(plain), np.bool_)
            chosen[own] = True
            sums = _mixed(long.sums.where(chosen), short.sums.where(kept), shares[own])
            self._fill(made, rows[own], sums)
            letters = short.letters.where(kept) if self._settings.sketch else short.letters
            where = dict(zip(np.flatnonzero(mixed).tolist(), rows[own].tolist(), strict=True))
            forms = {where[at]: form for at, form in short.forms.items() if at in where}
            self._fill_sketches(made, rows[own], letters, forms)
        return left

    def _fill(self, made: Fingerprints, rows: Sequence[int] | Numbers, sums: Sums) -> None:
        if not len(rows):
            return
        made.signatures[rows] = simhash.reduce(sums.sums)
        margins = simhash.margins(sums.sums[:, : self._settings.tables * BLOCK_BITS], sums.squares)
        made.margins[rows] = simhash.pack_margins(margins)

    def _fill_exact(self, made: Fingerprints, texts: Mapping[int, str]) -> None:
        for row, text in texts.items():
            made.signatures[row] = np.frombuffer(feature_hash(text, self._settings.seed), np.uint8)
            made.margins[row] = 0xFF

    def _fill_sketches(
        self, made: Fingerprints, rows: Sequence[int] | Numbers, sketched: Letters, forms: Mapping[int, Form]
    ) -> None:
        """Fill in the sketches of these rows, which end with the forms; ``forms``: by row, of those that have one."""
        size = self._sketcher.size
        if not (size and len(rows)):
            return
        made.sketches[rows, :size] = self._sketcher.of_points(*sketched)
        if forms:
            made.sketches[list(forms), size:] = packed(forms.values(), self._settings.seed)

    def _blank(self, n: int) -> Fingerprints:
        return Fingerprints(
            np.zeros((n, SIGNATURE_BYTES), np.uint8),
            np.zeros((n, self._settings.widths.margin_bytes), np.uint8),
            np.zeros(n, np.uint8),
            np.zeros((n, self._settings.widths.sketch_bytes), np.uint8),
        )

    def _explain(self, counted: Counted, compared: str) -> Explained:
        status, seed, width = counted.status, self._settings.seed, self._settings.tables * BLOCK_BITS
        if status in _BY_FEATURES:
            features = self._features(counted)
        else:
            features = [Feature(name, count, 1, feature_hash(name, seed)) for name, count in counted.short.items()]
        weights = np.array([one.weight for one in features], np.int64)
        hashes = np.frombuffer(b"".join(one.hash for one in features), np.uint8).reshape(-1, SIGNATURE_BYTES)
        sums = simhash.add(weights, hashes)
        # One feature alone: every bit is as sure as can be only where the exact form decides.
        margins = simhash.margins(sums[np.newaxis, :width], np.array([weights @ weights]))[0]
        margins = np.full(width, simhash.MAX_MARGIN, np.uint8) if status is Status.EXACT else margins
        signature = simhash.reduce(sums).tobytes()
        named = tuple(replace(one, name=_readable(one.name)) for one in features)
        made, form = self._blank(1), form_of(counted.formed if status in _BY_FEATURES else "")
        if status in _BY_FEATURES:
            self._fill_sketches(made, [0], Letters.of([counted.sketched]), {0: form} if self._settings.form else {})
        whole, sketch = sums.astype(np.int64), made.sketches[0].tobytes()
        return Explained(status, _readable(compared), named, whole, signature, margins, sketch, *form)

    def _features(self, counted: Counted) -> list[Feature]:
        """Return the features of a text of either kind, or of one between, heaviest first."""
        parts = (
            (Status.LONG, counted.long, WHOLE - counted.share),
            (Status.SHORT, counted.short, counted.share),
        )
        features: list[Feature] = []
        for kind, counts, share in parts:
            own = self._weighers[kind].features(counts) if counts else []
            if own:
                scale = _factor(share, sum(one.weight**2 for one in own))
                features += [replace(one, weight=one.weight * scale) for one in own]
        return sorted(features, key=lambda one: -one.weight)


def _short_fingerprinter(settings: FingerprintSettings) -> ShortFingerprinter | None:
    """Return None if texts are never short, not compared by characters, of several fields, or HTML."""
    if not settings.has_short or settings.short.features.kind != "chars" or settings.fields or any(settings.html):
        return None
    from stream_dedup.core.fingerprint.short import ShortFingerprinter  # noqa: PLC0415 - loads the compiler

    return ShortFingerprinter(settings)


def _mixed(long: Sums, short: Sums, shares: I64) -> Sums:
    """Return the sums of texts that have features of both kinds; ``shares``: those of the short text's features."""
    of_long, of_short = factors(WHOLE - shares, long.squares), factors(shares, short.squares)
    return Sums(
        long.sums * of_long[:, np.newaxis] + short.sums * of_short[:, np.newaxis],
        long.squares * of_long * of_long + short.squares * of_short * of_short,
    )


def _factor(share: int, square: int) -> int:
    """Return what the weights of one kind of features are multiplied by; 1 if all features are of this kind."""
    return share and (1 if share == WHOLE else factor(share, square))


def _fields(text: Text) -> Sequence[str]:
    return (text,) if isinstance(text, str) else text


def _refuse_no_field(texts: Sequence[Text]) -> None:
    if not all(texts) and any(not text and not isinstance(text, str) for text in texts):
        msg = "a text without any field has no fingerprint: pass an empty string for a field that is missing"
        raise ValueError(msg)


def _readable(text: str) -> str:
    """Replace the letters that stand for tokens by the names of the tokens."""
    return "".join(TOKEN_NAMES.get(character, character) for character in text)
