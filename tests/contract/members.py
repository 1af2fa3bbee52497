"""Members of a group in a test: join, begin, read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_dedup.core.model import SourceOffset
from stream_dedup.ports import ArticleSource, CommittedOffset, Membership, Partition, SourceRecord
from tests.contract.world import World

POLL_S = 0.1
QUIET_POLLS = 5
"""So many polls in a row without a record are taken for none to come."""


def start_at(offset: int, topic_id: bytes | None = None, epoch: int | None = None) -> CommittedOffset:
    return CommittedOffset(SourceOffset(offset), topic_id, epoch)


def wait_for_members(
    world: World, sources: Sequence[ArticleSource], partitions: Iterable[Partition]
) -> list[Membership]:
    """Poll all sources until together they have these partitions; return their memberships."""
    wanted = frozenset(partitions)

    def shared() -> bool:
        for source in sources:
            source.poll(POLL_S)
        found = [membership for source in sources if (membership := source.membership()) is not None]
        given = [partition for membership in found for partition in membership.partitions]
        generations = {membership.generation for membership in found}
        return len(found) == len(sources) and len(generations) == 1 and sorted(given) == sorted(wanted)

    world.wait_until(shared, f"{len(sources)} members share {len(wanted)} partitions")
    return [membership for source in sources if (membership := source.membership()) is not None]


def wait_for_generation(world: World, source: ArticleSource, generation: int) -> None:
    """Poll a source until it is a member under this generation or a later one."""

    def is_member() -> bool:
        source.poll(POLL_S)
        membership = source.membership()
        return membership is not None and membership.generation >= generation

    world.wait_until(is_member, f"a member of generation {generation}")


def join(world: World, source: ArticleSource, partitions: Sequence[Partition]) -> Membership:
    """Become the one member of the group."""
    source.join(sorted({partition.topic for partition in partitions}))
    return wait_for_members(world, [source], partitions)[0]


def read(world: World, source: ArticleSource, count: int) -> list[SourceRecord]:
    """Poll until ``count`` records came; return them in the order in which they came."""
    found: list[SourceRecord] = []

    def enough() -> bool:
        for records in source.poll(POLL_S).values():
            found.extend(records)
        return len(found) >= count

    world.wait_until(enough, f"{count} records are polled")
    return found


def is_quiet(source: ArticleSource) -> bool:
    """Whether some polls in a row yield no record."""
    return not any(source.poll(POLL_S) for _ in range(QUIET_POLLS))


def values(records: Iterable[SourceRecord]) -> list[bytes | None]:
    return [record.value for record in records]
