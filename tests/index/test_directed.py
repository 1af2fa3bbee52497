"""Directed search, scopes and re-crawls against the plain definition, wherever the lists are held."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_dedup.audit.reference import PlainLog, plain_log
from stream_dedup.core.entry import LogRecord
from stream_dedup.core.model import Status, Verdict, Widths, log_position, scope_hash_of
from stream_dedup.core.rules import DIRECTED, Rules
from stream_dedup.errors import RefusedError
from stream_dedup.index import IndexSettings, LogIndex
from tests.amount import FULL
from tests.index.checks import (
    build,
    check_standing,
    check_verdicts,
    covered_positions,
    finish_deleting,
    finish_merges,
    without_trims,
)
from tests.index.scan_cases import BUDGETS, Budget
from tests.logs import START_TIME, Entry, entries_batch, record, rules_record, scheme_of
from tests.random_logs import RandomLog, stepwise_log

pytestmark = pytest.mark.usefixtures("small_limits")

PLACES = [(4, "none"), (4, "large"), (8, "tiny"), (16, "tiny")]
"""Numbers of tables and budgets; all of them with each other in a full run."""
if FULL:
    PLACES = list(product([4, 8, 16], BUDGETS))


KINDS = {(Verdict.UNIQUE, False), (Verdict.UNIQUE, True), (Verdict.DUPLICATE, True), (Verdict.REJECTED, False)}
"""Verdict, and whether it has a match: a unique article with one is an update."""


SKETCH_BYTES = {4: 0, 8: 16, 16: 24}
"""Of the schemes of so many tables."""
WITH_FORMS = {16}
"""Tables of the schemes that have forms."""


@cache
def varied_log(seed: int, tables: int) -> RandomLog:
    """The first log of a sequence of seeds in which every kind of verdict occurs."""
    logs = (random_log(1_000 * seed + at, tables) for at in range(100))
    return next(writer for writer in logs if kinds_of(writer) == KINDS)


@cache
def plain_of(seed: int, tables: int, records: int) -> PlainLog:
    """What the definition says of the first records of this log."""
    return plain_log(varied_log(seed, tables).records[:records])


def kinds_of(writer: RandomLog) -> set[tuple[Verdict, bool]]:
    judged = plain_log(writer.records).judgements()
    return {(judgement.verdict, judgement.match is not None) for _, judgement in judged}


def random_log(seed: int, tables: int) -> RandomLog:
    """Batches with copies under changing rules of directed search, of exact search too where there are four tables."""
    writer = stepwise_log(seed, tables=tables, sketch_bytes=SKETCH_BYTES[tables], form=tables in WITH_FORMS)
    rng = writer.rng
    for revision in range(1, 4):
        if tables == 4 and revision == 2:
            changes: dict[str, Any] = {"distance": rng.randint(0, 11)}
        else:
            limits: dict[str, Any] = {"limit": rng.choice([5, 40, 80]), "short_limit": rng.choice([0, 30, 60])}
            changes = {
                "search": DIRECTED,
                "distance": None,
                "probes": rng.choice([1, 7, 64, 200]),
            } | limits
            if SKETCH_BYTES[tables]:
                changes |= {"min_equal": rng.choice([0, 8, 16]), "short_min_equal": rng.choice([0, 12])}
                changes["certain"] = rng.choice([None, 3, 12])
                changes |= {"far": rng.choice([0, 8, 30]), "far_min_equal": rng.choice([0, 12, 20])}
                changes["dominated"] = rng.choice([None, 20, 40])
            if tables in WITH_FORMS:
                changes["form_limit"] = rng.choice([0, 3, 12])
        changes |= {"window_ms": rng.choice([None, 9_000]), "bucket_limit": rng.choice([1, 3, 16_384])}
        writer.append_rules(revision=revision, recrawl=rng.choice(["duplicate", "update"]), **changes)
        for _ in range(8):
            writer.append_batch()
    return writer


def open_index(path: Path, tables: int, rng: random.Random, budget: str) -> LogIndex:
    settings = Budget(fold_entries=rng.choice([12 * tables, 10_000]), bytes_=BUDGETS[budget])
    scheme = scheme_of(tables, SKETCH_BYTES[tables], form=tables in WITH_FORMS)
    return LogIndex.open(path, scheme=scheme, settings=settings)


@pytest.mark.slow
@pytest.mark.parametrize(("tables", "budget"), PLACES)
@pytest.mark.parametrize("seed", range(2 if FULL else 1))
def test_verdicts_are_the_plain_ones(tmp_path: Path, seed: int, tables: int, budget: str) -> None:
    """Of every kind of text, scope and id, under every rule; merged, flushed and opened again at any moment."""
    records = varied_log(seed, tables).records
    rng = random.Random(seed)
    index = open_index(tmp_path, tables, rng, budget)
    index.begin("a log")
    for at in range(0, len(records), 6):
        index.apply(records[at : at + 6])
        action = rng.choice(["finish_merges", "reopen", "nothing"])
        if action == "finish_merges":
            finish_merges(index)
        elif action == "reopen":
            index.close()
            index = open_index(tmp_path, tables, rng, budget)
        plain = plain_of(seed, tables, at + 6)
        positions = covered_positions(plain)
        check_verdicts(index, plain, rng.sample(positions, min(len(positions), 5)))
    check_verdicts(index, plain, positions)
    check_standing(index, plain)
    assert index.verify() == []
    index.close()


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS if FULL else ["tiny", "large"])
def test_trims_change_no_verdict(tmp_path: Path, budget: str) -> None:
    """What is held in memory forgets with the disk."""
    writer = stepwise_log(9, tables=8, sketch_bytes=SKETCH_BYTES[8])
    changes: dict[str, Any] = {
        "search": DIRECTED,
        "distance": None,
        "probes": 64,
        "limit": 70,
        "short_limit": 50,
        "min_equal": 16,
        "window_ms": 20_000,
    }
    writer.append_rules(**changes)
    index = open_index(tmp_path, 8, random.Random(1), budget)
    index.begin("a log")
    applied = 0
    for _ in range(6):
        for _ in range(15):
            writer.append_batch(copies=False)
        writer.append_rules(**changes)
        index.apply(writer.records[applied:])
        applied = len(writer.records)
        trim = index.trims.offered(writer.time)
        if trim is not None:
            writer.append_trim(trim.before, trim.horizon)
    for _ in range(5):
        writer.append_batch(copies=False)
    index.apply(writer.records[applied:])
    assert index.low_watermark > 0
    plain = plain_log(without_trims(writer.records))
    positions = [
        position for position in covered_positions(plain) if position >= log_position(writer.records[-5].offset, 0)
    ]
    check_verdicts(index, plain, positions)
    finish_deleting(index)
    check_verdicts(index, plain, positions)
    assert index.verify() == []
    index.close()
    index = open_index(tmp_path, 8, random.Random(1), budget)
    check_verdicts(index, plain, positions)
    assert index.verify() == []
    index.close()


def directed_rules(**changes: int | str) -> dict[str, Any]:
    return {"search": DIRECTED, "distance": None, "probes": 4, "limit": 40, "short_limit": 40} | changes


def entries_record(entries: Sequence[Entry]) -> LogRecord:
    """The log record at offset 1 with these entries."""
    return record(1, START_TIME, entries_batch(range(len(entries)), entries))


@pytest.mark.parametrize("recrawl", ["duplicate", "update"])
def test_a_version_of_the_same_article(tmp_path: Path, recrawl: str) -> None:
    """Of several near ones the nearest of one's own id is the version; without any it is a duplicate."""
    entries = [Entry(bits, id=name) for bits, name in ((0, "a"), (0b111, "b"), (0b1, "b"), (0b1, "b"), (0b111, "c"))]
    records = [rules_record(0, **directed_rules(recrawl=recrawl)), entries_record(entries)]
    index = build(LogIndex.open(tmp_path, scheme=None), records)
    judged = index.judge(np.array([log_position(1, row) for row in range(5)]))
    found = [
        (each.verdict, each.match and each.match.position & 7, each.match and each.match.distance) for each in judged
    ]
    unique, duplicate = Verdict.UNIQUE, Verdict.DUPLICATE
    versions = [(unique, 1, 2), (unique, 2, 0)] if recrawl == "update" else [(duplicate, 0, 1), (duplicate, 2, 0)]
    assert found == [(unique, None, None), (duplicate, 0, 3), *versions, (duplicate, 1, 0)]
    index.close()


def test_more_near_ones_than_are_kept_before_ones_own_version(tmp_path: Path) -> None:
    """However many others are nearer, the earlier version is found; hashes of ids choose, the ids decide."""
    entries = [Entry(0b11, id="own"), *[Entry(0, id=f"other {at}") for at in range(40)], Entry(0, id="own")]
    records = [rules_record(0, **directed_rules(recrawl="update")), entries_record(entries)]
    index = build(LogIndex.open(tmp_path, scheme=None), records)
    judged = index.judge(np.array([log_position(1, 41)]))[0]
    assert (judged.verdict, judged.match and judged.match.position) == (Verdict.UNIQUE, log_position(1, 0))
    index.close()


def test_a_flood_of_another_scope_fills_no_list_of_ones_own(tmp_path: Path) -> None:
    """The newest of each list are compared: those of other scopes stand in other lists."""
    own, other = (Entry(5, scope_hash=scope_hash_of(Status.LONG, scope)) for scope in ("one", "two"))
    records = [
        rules_record(0, **directed_rules(bucket_limit=5)),
        entries_record([own, *[other] * 30, own]),
    ]
    index = build(LogIndex.open(tmp_path, scheme=None, settings=IndexSettings(fold_entries=4)), records)
    judged = index.judge(np.array([log_position(1, 31), log_position(1, 30)]))
    assert [each.match and each.match.position for each in judged] == [log_position(1, 0), log_position(1, 25)]
    index.close()


@pytest.mark.parametrize(
    ("widths", "scheme_has"), [(Widths(8), "8 tables and no sketches"), (Widths(4, 16), "4 tables and sketches of 16")]
)
def test_a_batch_of_other_widths_is_refused(tmp_path: Path, widths: Widths, scheme_has: str) -> None:
    """A log has the tables and the sketches of its scheme."""
    index = LogIndex.open(tmp_path, scheme=None)
    records = [record(0, START_TIME, Rules(scheme_of(*widths), **directed_rules())), entries_record([Entry(5)])]
    with pytest.raises(RefusedError, match=f"of 4 tables and no sketches, the log's scheme has {scheme_has}"):
        build(index, records)
    assert index.stats().tables == widths.tables
    index.close()


@pytest.mark.parametrize(("tables", "probes"), [(4, 400), (16, 900), (4, None)])
@pytest.mark.parametrize("bits", [20, 24])
def test_an_index_of_wide_blocks_gives_the_verdicts_of_the_definition(
    tmp_path: Path, bits: int, tables: int, probes: int | None
) -> None:
    """Of edited copies, in memory and from disk; exact search where no number of look-ups is given."""
    rng = random.Random(bits)
    centres = [rng.getrandbits(256) for _ in range(4)]
    margins = [f"{rng.getrandbits(256):064x}" for _ in range(60)]
    flips = [sum(1 << bit for bit in rng.sample(range(256), rng.choice([0, 4, 12, 30]))) for _ in margins]
    entries = [
        Entry(rng.choice(centres) ^ flip, digits[: 16 * tables]) for flip, digits in zip(flips, margins, strict=True)
    ]
    changes: dict[str, Any] = {"distance": 4}
    if probes is not None:
        changes = {"search": DIRECTED, "distance": None, "probes": probes, "limit": 60, "short_limit": 30}
    scheme = scheme_of(tables, block_bits=bits)
    records = [record(0, START_TIME, Rules(scheme, **changes))]
    for at in range(0, len(entries), 10):
        batch = entries_batch(range(at, at + 10), entries[at : at + 10], tables)
        records.append(record(1 + at // 10, START_TIME, batch))
    plain = plain_log(records)
    positions = covered_positions(plain)
    with LogIndex.open(tmp_path, scheme=scheme, settings=IndexSettings(fold_entries=7)) as index:
        check_verdicts(build(index, records), plain, positions)
    with LogIndex.open(tmp_path, scheme=scheme, settings=IndexSettings(fold_entries=7)) as index:
        check_verdicts(index, plain, positions)
        found = [judged.match is not None for judged in index.judge(np.array(positions))]
        assert 10 < sum(found) < 60
        assert index.verify() == []
