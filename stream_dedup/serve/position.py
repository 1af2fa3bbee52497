"""How far the service has followed the log, and what it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stream_dedup.core.model import LogOffset

if TYPE_CHECKING:
    from stream_dedup.core.rules import Rules


class Phase(StrEnum):
    """What the follower is doing."""

    STARTING = "starting"
    NO_LOG = "no_log"
    """It waits for a log."""
    OPENING = "opening"
    READING = "reading"
    """It reads the log to its end, after the index was opened."""
    LOADING = "loading"
    FOLLOWING = "following"
    SILENT = "silent"
    """The log was read to its end, and no broker answers now."""
    FAILED = "failed"
    """The log cannot be followed; it is opened again."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What is being done, in codes and in words."""

    phase: Phase
    detail: str
    """In English, for ``/readyz``, the log and problems."""
    progress: tuple[int, int] | None = None
    """While the log is read: the records that are read, and all."""

    @classmethod
    def reading(cls, done: int, total: int) -> Activity:
        """Return the activity of reading a log of ``total`` records."""
        return cls(Phase.READING, f"reading the log: {done} of {total} records", (done, total))


STARTING = Activity(Phase.STARTING, "starting")
OPENING = Activity(Phase.OPENING, "opening the index")
LOADING = Activity(Phase.LOADING, "loading the dictionaries")
FOLLOWING = Activity(Phase.FOLLOWING, "following the log")
SILENT = Activity(Phase.SILENT, "no broker answers")


@dataclass(frozen=True, slots=True)
class Position:
    """How far the follower is. Any thread may read it."""

    ready: bool = False
    """Whether the index is open and was once read to the end of the log."""
    up_to_date: bool = False
    """Whether, besides, a broker answers and the index is at the end that it named."""
    activity: Activity = STARTING
    log_id: str | None = None
    offset: LogOffset = LogOffset(0)
    """Log offset before which every record is applied."""
    end: LogOffset = LogOffset(0)
    """Offset after the log's last record, as of the last answer of a broker."""
    rules: Rules | None = None
    """The rules in force at the end of what is applied."""

    @property
    def detail(self) -> str:
        """What the follower is doing, in English."""
        return self.activity.detail

    @property
    def lag(self) -> int:
        """Records that are not applied yet: of those that there were at the opening, while they are read."""
        if self.activity.progress is not None:
            done, total = self.activity.progress
            return total - done
        return max(0, self.end - self.offset)
