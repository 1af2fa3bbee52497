"""What it costs: text to log entry, look-up and insert, end to end, each beside its peers in the same run.

A figure of text to log entry is the median over turns, a ratio the median of the ratios within a turn. The index and
the way through the broker are measured by ``benchmarks.index`` and ``benchmarks.pipeline``.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import orjson
from datasketch import MinHash

from benchmarks.index_report import Figure, Searched, read_figures
from benchmarks.quality import data, lsh, peers, report
from benchmarks.quality.report import Aim
from benchmarks.quality.seeds import alone
from benchmarks.turns import Work, in_chunks, microseconds
from stream_dedup.core.decode import InputFormat, RawRecord
from stream_dedup.core.fingerprinter import EntryMaker, Fingerprinter
from stream_dedup.core.profiles import PROFILES
from stream_dedup.core.scheme import FingerprintSettings

TURNS = 5
ARTICLES, COMMENTS = 400, 8_000
ENTRY_AIM = 0.2
"""Of what MinHash takes, at most."""
INDEX_AIMS = {("in memory", 1_000_000): 40, ("in memory", 10_000_000): 120, ("no memory", 1_000_000): 150}
"""Microseconds an article."""
INDEX_PROBES = 64
"""Look-ups that these aims hold for; the table has the profiles' number of look-ups too."""
INDEX_RUNS = {
    "in memory": ("--sizes", "1000000,10000000", "--memory", "4096"),
    "no memory": ("--sizes", "1000000", "--memory", "0"),
}
PIPELINE_FLAGS = ("--profile", "article", "--plain", "3000", "--latency-s", "0", "--filtered", "0")
PIPELINE_AIM = 6
"""Times the plain consumer."""


def measure_entries(_seeds: list[int]) -> tuple[str, list[Aim]]:
    """Text to log entry."""
    return alone(_entries, "text to log entry")


def measure_index(_seeds: list[int]) -> tuple[str, list[Aim]]:
    """Look-up and insert."""
    parts = ["## Look-up and insert\n"]
    aims = []
    for name, flags in INDEX_RUNS.items():
        searches = f"--probes={INDEX_PROBES},{PROFILES['article'].probes}"
        given = (*flags, searches, "--distances=", "--no-peer")
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "figures.jsonl")
            told = _run("benchmarks.index", *given, "--out", str(out))
            aims += _index_aims(name, read_figures(out))
        parts += [f"{name}: `python -m benchmarks.index {' '.join(given)}`\n", told.strip(), ""]
    return "\n".join([*parts, alone(lsh.section, "MinHash LSH")]), aims


def measure_pipeline(_seeds: list[int]) -> tuple[str, list[Aim]]:
    """End to end through a real broker."""
    told = _run("benchmarks.pipeline", *PIPELINE_FLAGS)
    rows = {row[0]: row for row in _rows(told)}
    times = float(rows["stream-dedup run"][2].split()[0])
    aim = Aim("end to end: times the plain consumer", times, least=PIPELINE_AIM, digits=1)
    return f"## End to end\n\n`python -m benchmarks.pipeline {' '.join(PIPELINE_FLAGS)}`\n\n{told.strip()}", [aim]


def _entries() -> tuple[str, list[Aim]]:
    parts, aims = ["## Text to log entry\n"], []
    for profile, name, texts, shingle in (
        ("article", "articles", data.articles()[:ARTICLES], data.ARTICLE_SHINGLE),
        ("comment", "comments", data.comments("zh")[:COMMENTS], data.COMMENT_SHINGLE),
    ):
        times = microseconds(_contenders(profile, shingle), texts, TURNS)
        floor = times[MINHASH]
        size = sum(map(len, texts)) / len(texts)
        rows = []
        for who, own in times.items():
            ratio = median(base / mine for mine, base in zip(own, floor, strict=True))
            rows.append([who, f"{median(own):,.0f}", f"{ratio:.1f} x"])
        parts.append(f"{len(texts):,} {name} of {size:,.0f} characters, one process, {TURNS} turns:\n")
        parts.append(report.table(("", "µs a text", "times as fast as MinHash"), rows) + "\n")
        share = median(mine / base for mine, base in zip(times[OURS], floor, strict=True))
        aims.append(Aim(f"{name}: text to log entry, share of MinHash's time", share, most=ENTRY_AIM, digits=2))
    return "\n".join(parts), aims


OURS, MINHASH = "stream-dedup", f"datasketch MinHash of {peers.VALUES} values"


def _contenders(profile: str, shingle: int) -> dict[str, Work]:
    return {
        OURS: _fingerprints(PROFILES[profile].settings),
        "stream-dedup, no sketch": _fingerprints(replace(PROFILES[profile].settings, sketch=())),
        "stream-dedup, JSON decoded too": _records(profile),
        MINHASH: _minhash(shingle),
        "simhash package": _package,
    }


def _fingerprints(settings: FingerprintSettings) -> Work:
    fingerprinter = Fingerprinter(settings)

    def run(texts: Sequence[str]) -> None:
        for chunk in in_chunks(texts):
            fingerprinter.fingerprint(chunk)

    return run


def _records(profile: str) -> Work:
    maker = EntryMaker(PROFILES[profile].settings, InputFormat())

    def run(texts: Sequence[str]) -> None:
        for chunk in in_chunks(texts):
            maker([RawRecord(None, orjson.dumps({"id": "a", "text": text}), "") for text in chunk])

    return run


def _package(texts: Sequence[str]) -> None:
    for text in texts:
        peers.package_value(text)


def _minhash(size: int) -> Work:
    def run(texts: Sequence[str]) -> None:
        for text in texts:
            MinHash(peers.VALUES).update_batch(
                [text[at : at + size].encode() for at in range(max(len(text) - size + 1, 1))]
            )

    return run


def _index_aims(where: str, figures: Iterable[Figure]) -> list[Aim]:
    """Means over batches: the merging of runs is in them."""
    aims = []
    for one in figures:
        if isinstance(one, Searched) and one.lookups == INDEX_PROBES:
            size = 10 ** round(math.log10(one.articles))
            name = f"{where}, {size:,} articles: µs, mean"
            aims.append(Aim(name, one.mean_us, most=INDEX_AIMS[where, size], digits=1))
    return aims


def _rows(told: str) -> list[list[str]]:
    """Cells of the rows of Markdown tables."""
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in told.splitlines() if line.startswith("|")
    ]


def _run(module: str, *flags: str) -> str:
    """What another benchmark prints; its progress goes to standard error."""
    print(f"{module} {' '.join(flags)} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", module, *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
