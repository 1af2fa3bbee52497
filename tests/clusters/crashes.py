"""Crashes of a process that publishes clusters, and stores that are put back: for the tests of both."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.clusters import publish
from stream_dedup.clusters.schema import transaction
from stream_dedup.core.model import Verdict
from stream_dedup.ports import Partition
from tests.clusters.following import Following, GroupWorld
from tests.clusters.outputs import LoggedArticle, at


class Crash(BaseException):
    """Stands for the end of the process."""


Patch = Callable[[Following, Callable[[], None]], None]
"""Lets a function be called at one place of a process."""


def after_apply(process: Following, crash: Callable[[], None]) -> None:
    apply = process.store.apply

    def applied(*arguments: Any) -> None:  # noqa: ANN401 - as of the method
        apply(*arguments)
        if arguments[0]:
            crash()

    process.store.apply = applied  # type: ignore[method-assign,assignment]


def before_the_transaction(process: Following, crash: Callable[[], None]) -> None:
    sink: Any = process.ports.sink
    publishes = sink.publish

    def published(*arguments: object) -> None:
        crash()
        publishes(*arguments)

    sink.publish = published


def after_the_transaction(process: Following, crash: Callable[[], None]) -> None:
    sink: Any = process.ports.sink
    publishes = sink.publish

    def published(*arguments: object) -> None:
        publishes(*arguments)
        crash()

    sink.publish = published


def after_dropping(process: Following, crash: Callable[[], None]) -> None:
    publisher: Any = process.follower._publisher
    drop = publisher._drop_published

    def dropped(sequence: int) -> None:
        drop(sequence)
        crash()

    publisher._drop_published = dropped


def run_until_crash(group: GroupWorld, articles: list[LoggedArticle], patch: Patch, times: int) -> bool:
    """Write articles one by one, until the place is reached for the n-th time; whether it was.

    Those that are not written then are left in ``articles``.
    """
    left = times

    def crash() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    with closing(group.open()) as process, suppress(Crash):
        patch(process, crash)
        while articles:
            group.write([articles.pop(0)])
            process.run()
    return left == 0


def lone_articles(group: GroupWorld, count: int = 3) -> list[LoggedArticle]:
    """Articles whose clusters change no more: what is lost of them is not made good later."""
    return group.dated([LoggedArticle(at(1_000 + number)) for number in range(count)])


@contextmanager
def crashing_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Crash after the n-th transaction of the publisher on its store; yields how many there were."""
    counted = [0]

    @contextmanager
    def counting(connection: Any) -> Iterator[None]:  # noqa: ANN401 - as of the function
        with transaction(connection):
            yield
        counted[0] += 1
        if counted[0] == commits:
            raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(publish, "transaction", counting)
        yield counted


WORLDS = ["memory_world", pytest.param("kafka_world", marks=[pytest.mark.broker, pytest.mark.full])]
"""Where the steps are those of the store alone, the broker has no part in what a crash leaves."""


def delete_outputs(group: GroupWorld, verdict: Verdict) -> None:
    """Delete all outputs of a topic."""
    records = group.world.committed_records(group.topic(verdict))
    for number in {record.partition for record in records}:
        end = max(record.offset for record in records if record.partition == number) + 1
        group.world.delete_records(Partition(group.topic(verdict), number), end)


def put_back(group: GroupWorld, copy: Path) -> None:
    shutil.rmtree(group.folder)
    shutil.move(copy, group.folder)
