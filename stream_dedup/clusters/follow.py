"""Reads the output topics on into a store, and lets the publisher write what changed.

The order in one step, all on one thread:

    1  Every ``TOPICS_LOOK_S`` the topics are looked up: which partitions there are, under which id. A partition that is
       new, or whose topic was recreated, is read from its first offset; any other from the position of the store.
    2  The next committed outputs are read, and stored together with the positions behind them.
    3  Now and then old articles are forgotten, clusters are counted, and changed clusters are published. Nothing is
       forgotten before everything is read that was there at the last look, each time: a cluster may have a young
       article that is not read yet. The rest waits for that once, after a start: a cluster may be a part of another.

What is read twice changes nothing, so every doubt is settled by reading again. Outputs that retention deleted before
they were read are gone: the store remembers which, and a warning says so.

Errors that pass (a broker that is away) are tried again without end. Every other error ends the follower, and ``error``
has it: the log was recreated, a missing right, a full disk, a damaged store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Counter, Gauge

from stream_dedup.clusters.model import JudgedOutput, MissingOutputs, OutputReading
from stream_dedup.clusters.publish import PUBLISHED_AT_ONCE, ClusterPublisher
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.effective import clusters_keep_ms, input_format_of
from stream_dedup.config.model import Config
from stream_dedup.core.model import SourceOffset
from stream_dedup.errors import RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.metrics.declaration import Declaration, DeclaredMetrics
from stream_dedup.ports import (
    CommittedOffset,
    FencedError,
    FollowPorts,
    OffsetGoneError,
    Partition,
    PassingError,
    PortError,
    SourceRecord,
    Thread,
    UnreadableError,
)
from stream_dedup.registry.values import RecordReader, Schemas, asks_registry

log = logging.getLogger(__name__)

TOPICS_LOOK_S = 5.0
"""Seconds between two looks at the topics."""
FOLLOW_WAIT_S = 0.5
"""The longest wait for outputs, seconds; a stop is noticed after it."""
PUBLISH_S = 1.0
"""Seconds between two times of publishing: a cluster that grows fast gets one record in that time."""
COUNT_S = 60.0
"""Seconds between two counts of the clusters, of which a million takes some 10 ms."""
FORGET_S = 600.0
"""Seconds between two times of forgetting."""
GATHERED_OUTPUTS = 10_000
"""Outputs of one transaction, while the follower has not caught up; some 20 MiB. A page of the store is then written
once for several of them."""
PASSING_PAUSE_S = 1.0
"""Seconds before a request that failed is tried again."""
MOST_PUBLISHER_FENCINGS = 3
"""Fencings within ``FENCINGS_S`` after which another process is taken to publish the same clusters."""
FENCINGS_S = 600.0
"""Seconds: the broker also fences a publisher whose transaction was open for too long."""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """How far a follower is."""

    lag: int
    """Outputs that were there at the last look and are not stored yet, markers of transactions among them."""
    has_caught_up: bool
    """Whether everything was read once that was there at the last look."""
    unpublished: int | None
    """Clusters that are to be published; None: nothing is published."""


class ClusterFollower:
    """Follows the output topics of one group on a thread of its own, which is the one that writes the store."""

    def __init__(
        self, config: Config, store: ClusterStore, ports: FollowPorts, log_id: bytes, metrics: ClusterMetrics
    ) -> None:
        """``log_id`` is that of the store; ``start`` begins."""
        topics = config.topics
        self._config = config
        self._store = store
        self._ports = ports
        self._log_id = log_id
        self._metrics = metrics
        self._keep_ms = clusters_keep_ms(config)
        self._names = list(dict.fromkeys((topics.unique, topics.duplicate, topics.rejected)))
        schemas = Schemas(config, wait_s=0) if asks_registry(config) else None
        self._outputs = OutputReading(RecordReader(config, input_format_of(config), schemas))
        self._publisher: ClusterPublisher | None = None
        if ports.sink is not None and topics.clusters is not None:
            self._publisher = ClusterPublisher(store, ports, ports.sink, topics.clusters)
        self._positions = store.positions()
        self._followed: Mapping[Partition, int] = {}
        """The next offset of each partition that is read; it may be behind markers that the store's is before."""
        self._ids: Mapping[str, bytes] = {}
        self._ends: Mapping[Partition, int] = {}
        self._has_caught_up = False
        self._unpublished: int | None = None
        self._due: dict[str, float] = {}
        self._fencings: list[float] = []
        self._is_waiting = False
        self._stopping = ports.clock.event()
        self._thread: Thread | None = None
        self.error: BaseException | None = None
        """Why the follower has ended by itself; None while it runs, and after ``stop``."""

    def start(self) -> None:
        """Begin to follow, on a new thread."""
        self._thread = self._ports.clock.spawn("clusters", self._run)

    def stop(self, timeout_s: float) -> None:
        """End the thread, and wait for it up to ``timeout_s``."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def state(self) -> FollowerState:
        """Return how far it is. Any thread."""
        ends, followed = self._ends, self._followed
        lag = sum(max(0, end - followed.get(at, 0)) for at, end in ends.items())
        return FollowerState(lag, self._has_caught_up, self._unpublished)

    def step(self, wait_s: float = FOLLOW_WAIT_S) -> int:
        """Do one step of the above; return the number of outputs that were read. Blocks up to ``wait_s`` for the first.

        Raises:
            PassingError: the next step may succeed.
            StreamDedupError: no further step can succeed.
        """
        try:
            return self._step(wait_s)
        except OffsetGoneError as error:
            self._due.pop("look", None)
            self._followed = {at: offset for at, offset in self._followed.items() if at not in error.partitions}
            raise PassingError(f"outputs that were to be read next are gone: {error}") from error
        except FencedError as error:
            raise self._fenced(error) from error
        except PassingError:
            self._due.pop("look", None)  # it may be the look that failed, and an older one says less
            raise
        except UnreadableError:
            raise
        except PortError as error:
            brokers = self._config.kafka.brokers
            raise UserError(
                f"the broker at {brokers} refuses what clusters need: {error}; see docs/clusters.md and docs/acls.md"
            ) from error

    def _step(self, wait_s: float) -> int:
        # 1
        if self._is_due("look", TOPICS_LOOK_S):
            self._look()
        if self._publisher is not None and not self._publisher.is_settled:
            self._publisher.start()
        # 2
        count = self._read(wait_s)
        self._has_caught_up |= not self.state().lag
        self._metrics.clusters_outputs.inc(count)
        # 3
        if self._has_caught_up:
            if not self.state().lag and self._is_due("forget", FORGET_S):
                self._store.forget(self._ports.clock.time_ms(), self._keep_ms)
            if self._is_due("count", COUNT_S):
                self._metrics.clusters.set(self._store.cluster_count())
            if self._publisher is not None and self._is_due("publish", PUBLISH_S):
                self._publish(self._publisher)
        self._metrics.clusters_lag.set(self.state().lag)
        return count

    # 1

    def _look(self) -> None:
        """Look the topics up, and read new partitions, and those whose topic was recreated, from their beginning."""
        topics = [*self._names, self._config.log_topic]
        if self._config.topics.clusters is not None:
            topics.append(self._config.topics.clusters)
        ids = self._ports.offsets.topic_ids(topics)
        if ids.get(self._config.log_topic, self._log_id) != self._log_id:
            raise RefusedError(
                f"the log {self._config.log_topic} was recreated: its clusters need another store; start again"
            )
        if self._publisher is not None and self._config.topics.clusters is not None:
            self._publisher.note_topic(ids.get(self._config.topics.clusters))
        partitions = [at for at in self._ports.reader.partitions(self._names) if at.topic in ids]
        bounds = self._ports.reader.bounds(partitions)
        starts = {at: self._start_of(at, ids[at.topic], *bounds[at]) for at in partitions}
        is_same = starts.keys() == self._followed.keys() and all(
            ids[at.topic] == self._ids.get(at.topic) for at in starts
        )
        if not is_same:
            self._ports.follower.follow(starts)
            self._followed = starts
        self._ids = ids
        self._ends = {at: end for at, (_, end) in bounds.items()}

    def _start_of(self, at: Partition, topic_id: bytes, begin: int, end: int) -> int:
        """Return the offset from which a partition is read on."""
        known = self._positions.get(at)
        if known is not None and known.topic_id == topic_id and begin <= known.offset <= end:
            return max(int(known.offset), self._followed.get(at, 0))
        missing = None
        if known is None or known.topic_id != topic_id:
            if known is not None:
                log.warning("topic %s was recreated: %s is read from its beginning", at.topic, at)
            if begin > 0:
                missing = MissingOutputs(at, 0, begin)
        elif known.offset < begin:
            missing = MissingOutputs(at, int(known.offset), begin)
        else:
            log.warning("%s has lost its last outputs: it is read from its beginning", at)
        if missing is not None:
            log.warning(
                "%s: the outputs from offset %d to %d were deleted before they were read, and are in no cluster: give "
                "the topic a longer retention (retention.ms)",
                at,
                missing.first,
                missing.end - 1,
            )
        self._store_positions([], {at: CommittedOffset(SourceOffset(begin), topic_id)}, missing)
        return begin

    # 2

    def _read(self, wait_s: float) -> int:
        """Store the next outputs; while much is to be read, those of several polls together."""
        outputs: list[JudgedOutput] = []
        positions: dict[Partition, CommittedOffset] = {}
        count = 0
        while polled := self._ports.follower.poll(0 if count else wait_s):
            for at, records in polled.items():
                outputs += self._read_outputs(records)
                positions[at] = CommittedOffset(SourceOffset(records[-1].offset + 1), self._ids[at.topic])
                count += len(records)
            if self._has_caught_up or count >= GATHERED_OUTPUTS:
                break
        if positions:
            self._store_positions(outputs, positions)
        self._followed = dict(self._ports.follower.positions())
        return count

    def _read_outputs(self, records: Sequence[SourceRecord]) -> list[JudgedOutput]:
        try:
            return self._outputs.read(records)
        except UnavailableError as error:
            # What was polled is read again, from the positions of the store.
            self._due.pop("look", None)
            self._followed = {}
            raise PassingError(str(error)) from error

    def _store_positions(
        self,
        outputs: Sequence[JudgedOutput],
        positions: Mapping[Partition, CommittedOffset],
        missing: MissingOutputs | None = None,
    ) -> None:
        self._store.apply(outputs, positions, missing)
        self._positions |= positions

    # 3

    def _publish(self, publisher: ClusterPublisher) -> None:
        count = publisher.publish()
        self._metrics.clusters_published.inc(count)
        if count == PUBLISHED_AT_ONCE:
            self._due.pop("publish", None)
        self._unpublished = publisher.left()
        self._metrics.clusters_unpublished.set(self._unpublished)

    def _fenced(self, error: FencedError) -> Exception:
        """Return what another producer under the same transactional id means."""
        now = self._ports.clock.monotonic()
        self._fencings = [*(then for then in self._fencings if now - then < FENCINGS_S), now]
        if len(self._fencings) < MOST_PUBLISHER_FENCINGS:
            return PassingError(str(error))
        return RefusedError(
            f"another process publishes the clusters of {self._config.kafka.group}, too: let only one of them have "
            "topics.clusters in its configuration"
        )

    def _is_due(self, what: str, every_s: float) -> bool:
        now = self._ports.clock.monotonic()
        if now < self._due.get(what, now):
            return False
        self._due[what] = now + every_s
        return True

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._step_patiently()
        except StreamDedupError as error:
            log.error("clusters are not followed any more: %s", error)  # noqa: TRY400 - the message says all
            self._metrics.clusters_failures.inc()
            self.error = error
        except BaseException as error:
            log.exception("clusters are not followed any more")
            self._metrics.clusters_failures.inc()
            self.error = error
            raise
        finally:
            self._metrics.clusters_following.set(0)

    def _step_patiently(self) -> None:
        """Do one step; after an error that may pass, wait a moment."""
        try:
            self.step()
        except PassingError as error:
            if not self._is_waiting:
                log.warning("clusters wait for the broker or the schema registry: %s", error)
            self._metrics.clusters_failures.inc()
            self._metrics.clusters_following.set(0)
            self._is_waiting = True
            self._stopping.wait(PASSING_PAUSE_S)
        else:
            self._is_waiting = False
            self._metrics.clusters_following.set(1)


class ClusterMetrics(DeclaredMetrics):
    """The metrics of one follower of outputs, in the given registry. A follower that replaces it counts on."""

    clusters = Declaration(
        Gauge,
        "clusters",
        "clusters of two or more articles in the store, counted once a minute",
        "Grows with the stream; clusters.keep and match.window bound it.",
    )
    clusters_following = Declaration(
        Gauge,
        "0 or 1",
        "1 while the output topics are followed",
        "0: no broker answers, or an error has ended the follower; its log says which. Clusters stay as they were.",
    )
    clusters_outputs = Declaration(
        Counter,
        "records",
        "records of the output topics that were read into the store",
        "Follows the articles of all workers. Constant while they commit: see clusters_following.",
    )
    clusters_lag = Declaration(
        Gauge,
        "records",
        "records of the output topics that are not in the store yet, markers of transactions among them",
        "Large after a start. Later, growing: outputs come faster than they are stored; give the store a faster disk.",
    )
    clusters_published = Declaration(
        Counter,
        "records",
        "records committed to topics.clusters, tombstones among them",
        "Constant 0 without topics.clusters. Constant while clusters_unpublished grows: its topic cannot be written.",
    )
    clusters_unpublished = Declaration(
        Gauge,
        "clusters",
        "clusters that changed and are not published yet; 0 without topics.clusters",
        "Large after the store was rebuilt. Growing: clusters change faster than they are published.",
    )
    clusters_failures = Declaration(
        Counter,
        "failures",
        "failed steps of the follower; all but the one that ends it are tried again",
        "A few while a broker is away. Rising steadily: read the log of the service.",
    )
