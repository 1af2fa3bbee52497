"""The entries of drawn and real texts by the native core, beside those of the definition.

A shard has its own seed. Its texts come in batches of any size. Each batch goes through every profile and, in turn, one
of the other settings. A difference is reported with the smallest text that still shows it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np

from stream_dedup.core.fingerprinter import Fingerprinter, Fingerprints
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.reader import Text
from stream_dedup.core.scheme import FingerprintSettings
from tests.core.adversarial import STEPS
from tests.core.texts import all_texts
from tests.fuzz.core import say
from tests.fuzz.texts import TextFuzzer
from tests.reference.fingerprint import Reference

SHARD_TEXTS = 2_000
"""Texts of one seed."""
MOST_FAULTS = 3
"""Differences of one shard and one way that are shrunk and reported."""
MOST_TRIES = 600
"""Texts that are tried to make one difference smaller."""

_ARTICLE, _COMMENT, _CLASSIC = (PROFILES[name].settings for name in ("article", "comment", "simhash"))
_WORDS = replace(_ARTICLE, article_size=0, exact_size=0, form=False)
_TF = replace(_COMMENT.short, features=replace(_COMMENT.short.features, weights="tf"))
WAYS: dict[str, FingerprintSettings] = {name: profile.settings for name, profile in PROFILES.items()}
"""Every batch is read with each of these."""
OTHER_WAYS: dict[str, FingerprintSettings] = {
    "every step": replace(_ARTICLE.with_normalisation(**STEPS), key_sentences=2),
    "every step, comments": _COMMENT.with_normalisation(**STEPS),
    "words": _WORDS,
    "fields": replace(_WORDS, fields=(("title", 3), ("body", 1)), key_sentences=2),
    "tokens, all characters": replace(_ARTICLE, sketch_text="characters", article_size=40).with_normalisation(
        numbers="token", emails="token", users="token", urls="token", emoji="token", rejoin=False
    ),
    "few steps": _ARTICLE.with_normalisation(invisible=False, tags=False, entities=False, simplify=False),
    "comments, few steps": _COMMENT.with_normalisation(invisible=False, tags=False, unspace=False, urls="keep"),
    "comments, dropped": replace(_COMMENT, exact="characters").with_normalisation(
        urls="drop", numbers="drop", emoji="drop", join_numbers=True, lookalikes=False
    ),
    "comments, other grams": replace(_COMMENT, form=True, seed=2**32 - 1, short=_TF),
    "heaviest words": _CLASSIC.with_features(top_k=5),
    "words with the weights of grams": _CLASSIC.with_features(kind="chars"),
    "words of HTML": replace(_WORDS, markup="html"),
    "words of the profile simhash, steps against spam": _CLASSIC.with_normalisation(
        unspace=True, lookalikes=True, repeats=True, emails="drop", numbers="drop"
    ),
}  # fmt: skip
"""Every batch is read with one of these."""
T = TypeVar("T")


@dataclass
class EntriesReport:
    """What became of the texts of one shard."""

    shard: str
    texts: int = 0
    read: Counter[str] = field(default_factory=Counter)
    """Texts by way."""
    digests: dict[str, str] = field(default_factory=dict)
    """Hash of all entries by way."""
    faults: list[str] = field(default_factory=list)


class Comparison:
    """One way to read texts: the native core, and the definition."""

    def __init__(self, name: str, settings: FingerprintSettings) -> None:
        self.name = name
        self.native = Fingerprinter(settings)
        self._definition = Reference(settings)
        self._fields = len(settings.fields)

    def given(self, texts: Sequence[str]) -> list[Text]:
        """Return the texts as the settings have them: of several fields each text is the title of the next."""
        return list(zip([*texts[1:], ""], texts, strict=True)) if self._fields else list(texts)

    def defined(self, texts: Sequence[Text]) -> Fingerprints:
        """Return the entries of the definition."""
        return self._definition.fingerprint(texts)

    def read(self, texts: Sequence[Text]) -> Fingerprints | str:
        """Return the entries of the native core, or the error that it raises."""
        try:
            return self.native.fingerprint(texts)
        except Exception as error:  # noqa: BLE001 - whatever it is, the text that causes it is to be named
            return repr(error)

    def faults(self, texts: Sequence[Text], made: Fingerprints | str) -> Iterator[str]:
        """Yield what differs from the definition, with the smallest texts that show it."""
        if isinstance(made, str):
            yield self._in_a_batch(texts, made)
            return
        for row in differing(made, self.defined(texts))[:MOST_FAULTS].tolist():
            if self.differ([texts[row]]):
                yield self._alone(texts[row])
            else:
                yield self._in_a_batch(texts, f"text {row} of {len(texts)}")

    def differ(self, texts: Sequence[Text]) -> bool:
        """Whether the native core gives a batch other entries, or raises an error."""
        made = self.read(texts)
        return isinstance(made, str) or bool(differing(made, self.defined(texts)).size)

    def _alone(self, text: Text) -> str:
        fields = shrunk(_as_fields(text), lambda fewer: self.differ([_as_text(fewer)]))
        return f"{self.name}: {self._columns(_as_text(fields))}: {_as_text(fields)!a}"

    def _in_a_batch(self, texts: Sequence[Text], what: str) -> str:
        if not self.differ(texts):
            return f"{self.name}: {what}, not a second time: {texts!a}"
        fewer = fewest(texts, self.differ)
        return self._alone(fewer[0]) if len(fewer) == 1 else f"{self.name}: only beside others: {fewer!a}"

    def _columns(self, text: Text) -> str:
        made, expected = self.read([text]), self.defined([text])
        if isinstance(made, str):
            return made
        return ", ".join(
            name for name in made._fields if not np.array_equal(getattr(made, name), getattr(expected, name))
        )


def differing(made: Fingerprints, expected: Fingerprints) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rows that differ in any column."""
    differs = made.statuses != expected.statuses
    for one, other in zip(made, expected, strict=True):
        if one.ndim == 2:
            differs |= (one != other).any(axis=1)
    return np.flatnonzero(differs)


def fewest(parts: Sequence[T], shows: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return parts of a sequence that still show a difference: large parts are left out first, then small ones."""
    size, tries = max(1, len(parts) // 2), MOST_TRIES
    while size and tries:
        at, before = 0, len(parts)
        while at < len(parts) and tries:
            fewer = [*parts[:at], *parts[at + size :]]
            tries -= 1
            if fewer and shows(fewer):
                parts = fewer
            else:
                at += size
        size = size // 2 if len(parts) == before or size > 1 else size
    return parts


def shrunk(fields: list[str], shows: Callable[[list[str]], bool]) -> list[str]:
    """Return the smallest fields found that still show a difference."""
    for number in range(len(fields)):
        changed = partial(_with, fields, number)
        fields = changed(fewest(fields[number], _shows_with(changed, shows)))
    return fields


def _shows_with(
    changed: Callable[[Sequence[str]], list[str]], shows: Callable[[list[str]], bool]
) -> Callable[[Sequence[str]], bool]:
    return lambda letters: shows(changed(letters))


def _with(fields: list[str], number: int, letters: Sequence[str]) -> list[str]:
    return [*fields[:number], "".join(letters), *fields[number + 1 :]]


def _as_fields(text: Text) -> list[str]:
    return [text] if isinstance(text, str) else list(text)


def _as_text(fields: Sequence[str]) -> Text:
    return fields[0] if len(fields) == 1 else tuple(fields)


@cache
def comparison(name: str) -> Comparison:
    return Comparison(name, (WAYS | OTHER_WAYS)[name])


def compare_drawn(seed: int, shard: int, count: int = SHARD_TEXTS) -> EntriesReport:
    """Compare the entries of drawn texts."""
    fuzzer = TextFuzzer(f"{seed}/{shard}")
    return _compare(str(shard), fuzzer.texts(count), fuzzer.batch_size, shard)


def compare_real(shard: int) -> EntriesReport:
    """Compare the entries of real texts, or of the sample."""
    texts = all_texts()[shard * SHARD_TEXTS : (shard + 1) * SHARD_TEXTS]
    return _compare(f"real {shard}", iter(texts), TextFuzzer(f"real {shard}").batch_size, shard)


def _compare(shard: str, texts: Iterator[str], size: Callable[[], int], first: int) -> EntriesReport:
    report = EntriesReport(shard)
    hashes = {name: hashlib.blake2b(digest_size=8) for name in WAYS | OTHER_WAYS}
    others = islice(cycle(OTHER_WAYS), first % len(OTHER_WAYS), None)
    while batch := list(islice(texts, size())):
        for name in (*WAYS, next(others)):
            one = comparison(name)
            given = one.given(batch)
            made = one.read(given)
            report.read[name] += len(given)
            for column in made if isinstance(made, Fingerprints) else ():
                hashes[name].update(column.tobytes())
            if sum(fault.startswith(f"{name}:") for fault in report.faults) < MOST_FAULTS:
                report.faults += one.faults(given, made)
        report.texts += len(batch)
    report.digests = {name: made.hexdigest() for name, made in hashes.items() if report.read[name]}
    report.faults = [f"shard {shard}, {fault}" for fault in report.faults]
    return report


def fuzz_entries(count: int, seed: int, first: int, jobs: int) -> list[EntriesReport]:
    """Compare the entries of drawn texts, then those of all real ones; print how many of each."""
    shards = range(first, first + -(-count // SHARD_TEXTS))
    sizes = [min(SHARD_TEXTS, count - number * SHARD_TEXTS) for number in range(len(shards))]
    real = range(-(-len(all_texts()) // SHARD_TEXTS))
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        every = pool.map(partial(compare_drawn, seed), shards, sizes), pool.map(compare_real, real)
        reports = list(_shown(chain.from_iterable(every)))
    for name in WAYS | OTHER_WAYS:
        say(f"{name}: {sum(report.read[name] for report in reports):,} texts")
    return reports


def _shown(reports: Iterable[EntriesReport]) -> Iterator[EntriesReport]:
    for report in reports:
        say("\n  ".join([f"shard {report.shard}: {report.texts} texts, {len(report.faults)} faults", *report.faults]))
        yield report


def write_digests(path: Path, reports: Iterable[EntriesReport]) -> None:
    """Write the hashes of all entries as JSON, by shard and way."""
    path.write_text(json.dumps({report.shard: report.digests for report in reports}, indent=0), "utf-8")


def other_digests(path: Path, reports: Iterable[EntriesReport]) -> list[str]:
    """Return the shards whose entries are not those that another version of the program wrote.

    A shard or a way that only one of both has is no difference.
    """
    theirs = json.loads(path.read_text("utf-8"))
    return [
        f"shard {report.shard}, {name}: other entries than in {path}"
        for report in reports
        for name, digest in report.digests.items()
        if theirs.get(report.shard, {}).get(name, digest) != digest
    ]
