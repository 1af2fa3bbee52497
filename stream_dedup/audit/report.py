"""The findings of an audit, each declared once, and the report that counts them.

The table of findings in docs/audit.md is generated from ``FAULTS`` and ``COUNTS``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

EXAMPLES = 10
"""Findings of each kind that the report describes; it counts all of them."""


class Finding(NamedTuple):
    """A kind of finding: its name in the report, what it means, and what to do about it."""

    kind: str
    meaning: str
    remedy: str


FAULTS = (
    Finding(
        "missing",
        "an article before the committed offset is in no output topic, and retention cannot have deleted its output; "
        "or a record of the source should be in the log and is not",
        "if an offset was moved past it by hand, send the record again; otherwise set the offset back to it "
        "(`offsets set`) and audit with `--allow-repeats`",
    ),
    Finding(
        "twice",
        "an article has more than one output",
        "if offsets were set back by hand, audit with `--allow-repeats`; otherwise readers have seen it twice",
    ),
    Finding(
        "wrong",
        "an output contradicts the log, its source record (`--texts`) or its own headers, or its article is not in "
        "the log",
        "see whether another program writes to the output topics; otherwise the worker that wrote it had a damaged "
        "index: `index verify`, `index rebuild`",
    ),
    Finding("self-matched", "an output whose match is the article itself", "as for `wrong`"),
    Finding(
        "out of order",
        "in one partition of an output topic, an article comes after a later one of its source partition",
        "if offsets were set back by hand, audit with `--allow-repeats`; otherwise two workers owned the source "
        "partition at the same time",
    ),
    Finding(
        "logged again",
        "the log has an article twice: a trim had dropped its coordinates, or the worker had already read the first "
        "entry",
        "later articles may match the second entry; see whether offsets were set back, and whether a worker was "
        "suspended for longer than the window",
    ),
    Finding(
        "trimmed early",
        "a trim dropped an entry inside the window of an article that was still to be judged, or the coordinates of "
        "an article without an output",
        "verdicts within one window of the trim may be wrong; see whether a broker's clock was changed by more than "
        "`worker.clock_allowance_s`",
    ),
    Finding(
        "wrong entry",
        "with `--texts`: the source record gives another entry than the logged one; or a record claims that its author "
        "had read the log beyond it",
        "see whether the workers and the audit have the same release and configuration (`input`), and whether "
        "records of the source were replaced",
    ),
)
COUNTS = (
    Finding("updates", "a unique article near an earlier version of the same article id", ""),
    Finding("pending", "logged, but its offset is not committed: the output is still to come", ""),
    Finding("repeats", "equal outputs of one article, with `--allow-repeats`", ""),
    Finding("trimmed", "the verdict cannot be recomputed, or the log has lost the entry: the log was cut", ""),
    Finding(
        "earlier log",
        "the output was written before the log began, for an article of a log that was lost (`run --new-log`); it is "
        "not checked, and the source partition is audited from the next offset on",
        "",
    ),
    Finding("seeded", "entered by `seed`: published before, so no output is owed, and there is none", ""),
    Finding("deletes", "withdrew articles by their id (`input.deletes`): no output is owed, and there is none", ""),
    Finding("not kept", "no output, but one may have been in the part of its topic that retention has deleted", ""),
    Finding("source gone", "no output, and the source topic was deleted before the output was written", ""),
    Finding(
        "not compared", "with `--texts`: the source record is gone, a limit rejected it, or its schema is unknown", ""
    ),
)
FAULT_KINDS = tuple(finding.kind for finding in FAULTS)
COUNT_KINDS = tuple(finding.kind for finding in COUNTS)


@dataclass(slots=True)
class AuditReport:
    """The result of an audit; ``examples`` describes the first few findings of each kind."""

    articles: int = 0
    recomputed: int = 0
    outputs: int = 0
    texts: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def faults(self) -> int:
        """Number of faults of all kinds."""
        return sum(self.found[kind] for kind in FAULT_KINDS)

    def add(self, kind: str, text: str = "") -> None:
        """Count a finding, and keep its description while there is room."""
        self.found[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if text and len(examples) < EXAMPLES:
            examples.append(text)
