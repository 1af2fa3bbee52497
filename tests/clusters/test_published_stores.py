"""Stores that were rebuilt, or put back from a copy: what the topic of clusters gets then."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stream_dedup.clusters import publish
from stream_dedup.core.model import Verdict
from tests.clusters.crashes import (
    WORLDS,
    Crash,
    after_apply,
    after_the_transaction,
    crashing_after,
    delete_outputs,
    lone_articles,
    put_back,
    run_until_crash,
)
from tests.clusters.following import GroupWorld, last_values, refuse_other_values
from tests.clusters.outputs import LoggedArticle, at
from tests.contract.conftest import ONE_CLIENT

pytestmark = pytest.mark.usefixtures("few_at_once")


@pytest.mark.expect_log("were deleted before they were read")
@ONE_CLIENT
def test_a_store_that_was_rebuilt_publishes_its_clusters_and_removes_the_others(group: GroupWorld) -> None:
    """A cluster that is on the topic alone, since its outputs are gone, becomes a tombstone."""
    log = group.random_log(8, 60)
    gone = group.dated([LoggedArticle(at(1_000 + number)) for number in range(9)])
    group.write([*log, *gone])
    with closing(group.open()) as process:
        process.run()
        assert len(last_values(group.published())) > len(gone)
    shutil.rmtree(group.folder)
    delete_outputs(group, Verdict.UNIQUE)
    with closing(group.open()) as process:
        process.run()
        left = {article.coordinates for article in process.store.latest(100)}
    assert not left & {article.coordinates for article in gone}
    refuse_other_values(group, [article for article in log if article.coordinates in left])


def test_a_store_that_was_put_back_publishes_everything_again(group: GroupWorld) -> None:
    """An older copy has other numbers for its changes than the mark means."""
    log = group.random_log(9, 90)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    copy = group.folder.with_name("copy")
    shutil.copytree(group.folder, copy)
    group.write(log[30:60])
    with closing(group.open()) as process:
        process.run()
    put_back(group, copy)
    group.write(log[60:])
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)


def test_changes_of_a_store_that_was_put_back_are_not_those_that_were_published(group: GroupWorld) -> None:
    """It has given numbers up to the mark a second time when it ends before it publishes."""
    log = group.random_log(12, 80)
    group.write(log[:20])
    with closing(group.open()) as process:
        process.run()
    copy = Path(shutil.copytree(group.folder, group.folder.with_name("copy")))
    group.write(log[20:50])
    with closing(group.open()) as process:
        process.run()
    put_back(group, copy)
    left = log[50:]
    assert run_until_crash(group, left, after_apply, 1)
    group.write(left)
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, log)


@pytest.mark.expect_log("were deleted before they were read")
@pytest.mark.parametrize("stepwise", WORLDS, indirect=True)
@pytest.mark.parametrize("commits", range(1, 7))
def test_a_crash_while_a_store_that_was_put_back_begins_anew(
    stepwise: GroupWorld, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    """The outputs since the copy are gone: the topic is as the store, whose clusters are smaller or not there."""
    log = stepwise.random_log(13, 60)
    stepwise.write(log[:30])
    with closing(stepwise.open()) as process:
        process.run()
    copy = Path(shutil.copytree(stepwise.folder, stepwise.folder.with_name("copy")))
    stepwise.write(log[30:])
    with closing(stepwise.open()) as process:
        process.run()
    put_back(stepwise, copy)
    for verdict in set(Verdict) - {Verdict.DELETE}:
        delete_outputs(stepwise, verdict)
    with crashing_after(commits, monkeypatch), suppress(Crash), closing(stepwise.open()) as process:
        process.run()
    with closing(stepwise.open()) as process:
        process.run()
    refuse_other_values(stepwise, log[:30])


def test_a_store_after_another_one_has_published(group: GroupWorld, tmp_path: Path) -> None:
    """The mark of another store says nothing of the changes of this one, even where its number is higher."""
    log = group.random_log(14, 60)
    group.write(log[:30])
    with closing(group.open()) as process:
        process.run()
    lone = lone_articles(group, 3 * publish.PUBLISHED_AT_ONCE)
    group.write(lone)
    left = log[30:]
    assert run_until_crash(group, left, after_apply, 1)
    own, group.folder = group.folder, tmp_path / "other"
    assert run_until_crash(group, left, after_the_transaction, 1)
    group.folder = own
    group.write(left)
    with closing(group.open()) as process:
        process.run()
    refuse_other_values(group, [*log[:30], *lone, *log[30:]])
