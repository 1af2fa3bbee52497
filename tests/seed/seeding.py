"""``seed`` on a log in memory: the engine, the archives and the log as they are, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stream_dedup.config.effective import fingerprint_settings_of, input_format_of
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.entry import Batch, LogRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Coordinates
from stream_dedup.errors import RefusedError
from stream_dedup.files.inputs import Progress
from stream_dedup.kafka.log import WaitingLog
from stream_dedup.kafka.record import DEFAULT_RECORD_BYTES
from stream_dedup.ports import Append, FingerprintLog
from stream_dedup.seed.archives import Archive, TopicArchive
from stream_dedup.seed.run import archives_in
from stream_dedup.seed.seeding import SameLog, Seeding, SeedTally, read_log
from stream_dedup.threads import FingerprintThreads
from tests.memory.world import MemoryWorld

MOST_SUBMITTED = 2
ACKNOWLEDGED_S = 60.0


def line(number: int, text: str | None = None) -> str:
    """A line of an archive; each number has a text of its own."""
    return json.dumps({"id": f"a{number}", "text": text or f"the ferry number {number} leaves at noon"})


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{one}\n" for one in lines), "utf-8")
    return path


class SameLogAsLong(SameLog):
    """A log that is the same for so many looks, by default always."""

    def __init__(self, looks: int | None = None) -> None:
        self._looks = looks

    def check(self) -> None:
        self.check_now()

    def check_now(self) -> None:
        if self._looks is not None:
            self._looks -= 1
            if self._looks < 0:
                raise RefusedError("the log was recreated")


class SeedWorld:
    """One group with its log."""

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.group = self.world.name("group")
        self.world.make_log(self.group)
        self.log: FingerprintLog = self.world.ports(self.group, "seeder").log
        self.same_log = SameLogAsLong()

    def config(self, **match: Any) -> Config:  # noqa: ANN401 - keys of the section
        values = {
            "kafka": {"group": self.group, "broker_wait_s": 5},
            "match": {"profile": "comment"} | match,
        }
        return load_config(None, values, {})

    def waiting(self, config: Config | None = None) -> WaitingLog:
        return WaitingLog(self.log, config or self.config())

    def seed(self, *archives: Archive, config: Config | None = None, sources: Any = None) -> SeedTally:  # noqa: ANN401
        """Enter these archives, with their sources (by default those of files)."""
        config, tally = config or self.config(), SeedTally()
        wanted = sources or [archive.source[:2] for archive in archives]  # type: ignore[union-attr]
        maker = EntryMaker(fingerprint_settings_of(config), input_format_of(config))
        with FingerprintThreads(1, maker) as fingerprinter:
            read = read_log(config, self.waiting(config), wanted, lambda *_: None)
            Seeding(read, self.same_log, fingerprinter, MOST_SUBMITTED, tally).enter(archives, lambda: None)
        return tally

    def seed_files(self, *paths: Path, name: str | None = None, config: Config | None = None) -> SeedTally:
        archives = archives_in(config or self.config(), [str(path) for path in paths], name, Progress())
        return self.seed(*archives, config=config)

    def seed_topic(self, topic: str, config: Config | None = None) -> SeedTally:
        config = config or self.config()
        offsets = self.world.ports(self.group, "reader").offsets
        archive = TopicArchive(config, topic, self.world.topic_reader(), offsets, DEFAULT_RECORD_BYTES)
        return self.seed(archive, config=config, sources=[source[:2] for source in archive.sources.values()])

    def records(self) -> list[LogRecord]:
        log = self.waiting()
        return list(log.read_all(lambda *_: None))

    def batches(self) -> list[Batch]:
        return [record.payload for record in self.records() if isinstance(record.payload, Batch)]

    def logged(self) -> list[tuple[Coordinates, str]]:
        """Coordinates and id of every entry, in the order of the log."""
        return [(batch.coordinates(row), batch.id(row)) for batch in self.batches() for row in range(len(batch))]

    def ids(self) -> list[str]:
        return [one for _, one in self.logged()]


class BreakingLog:
    """A log whose connection breaks: the ``number``-th append raises, after its effect or before it."""

    def __init__(self, log: FingerprintLog, number: int, *, is_lost: bool, error: Callable[[], Exception]) -> None:
        self._log = log
        self._number = number
        self._is_lost = is_lost
        self._error = error
        self._sent: list[Append] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the log's
        return getattr(self._log, name)

    def append(self, payload: Any) -> Any:  # noqa: ANN401 - the log's
        self._number -= 1
        if self._number == 0:
            if not self._is_lost:
                self._sent.append(self._log.append(payload))
            raise self._error()
        self._sent.append(self._log.append(payload))
        return self._sent[-1]

    def wait_for_appends(self) -> None:
        """Wait until everything that was sent is in the log."""
        for append in self._sent:
            append.wait(ACKNOWLEDGED_S)


def offsets_of(world: SeedWorld) -> list[int]:
    return [int(coordinates.offset) for coordinates, _ in world.logged()]
