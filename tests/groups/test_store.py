"""The store: the groups of a log, whatever the order and the batches in which its outputs arrive."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.core.model import Verdict
from stream_dedup.groups import GroupStore, group_id_of
from tests.amount import FULL
from tests.groups.checking import NOW_MS, refuse_other_answers, refuse_other_groups, refuse_wrong_tables
from tests.groups.outputs import (
    LOG_ID,
    LoggedArticle,
    at,
    outputs_of,
    random_log,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GroupStore]:
    with closing(GroupStore.open(tmp_path / "groups", LOG_ID, publishes=True)) as opened:
        yield opened


def batches(rng: random.Random, articles: Sequence[LoggedArticle]) -> Iterator[Sequence[LoggedArticle]]:
    begin = 0
    while begin < len(articles):
        end = begin + rng.choice([1, 2, 5, 40])
        yield articles[begin:end]
        begin = end


@pytest.mark.parametrize("seed", range(12))
def test_the_groups_are_those_of_the_log_in_any_order(store: GroupStore, seed: int) -> None:
    """Shuffled, in batches of any size, some outputs twice: groups, windows, growth and answers are the same."""
    rng = random.Random(seed)
    log = random_log(rng, 150, unique=rng.choice([0.02, 0.1, 0.3, 0.8]))
    read = [*log, *rng.sample(log, 30)]
    rng.shuffle(read)
    for batch in batches(rng, read):
        store.apply(outputs_of(batch), {})
        refuse_wrong_tables(store)
    refuse_other_groups(store, log)
    refuse_other_answers(store, log)


@given(st.data())
def test_small_forests(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Every shape of a group, every order, every cut into batches; also where some outputs never arrive."""
    parents = data.draw(st.lists(st.integers(-3, 7), min_size=1, max_size=8))
    log = [
        LoggedArticle(at(number), at(parent), Verdict.DUPLICATE)
        if 0 <= parent < number
        else LoggedArticle(at(number), None)
        for number, parent in enumerate(parents)
    ]
    read = data.draw(st.permutations(log))[: data.draw(st.integers(1, len(log)))]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(read), max_size=len(read)))
    folder = tmp_path_factory.mktemp("forest")
    with closing(GroupStore.open(folder, LOG_ID, publishes=True)) as store:
        batch: list[LoggedArticle] = []
        for article, cut in zip(read, cuts, strict=True):
            batch.append(article)
            if cut:
                store.apply(outputs_of(batch), {})
                batch = []
        store.apply(outputs_of(batch), {})
        arrived = set(read)
        refuse_other_groups(store, [article for article in log if article in arrived])


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled"])
def test_a_long_chain_is_one_group(store: GroupStore, order: str) -> None:
    """Each duplicate matches the one before it; the group's id is that of the first, and no step is long."""
    length = 100_000 if FULL else 10_000
    log = [LoggedArticle(at(0)), *(LoggedArticle(at(n), at(n - 1), Verdict.DUPLICATE) for n in range(1, length))]
    read = {"forwards": log, "backwards": log[::-1], "shuffled": random.Random(1).sample(log, length)}[order]
    for begin in range(0, length, 1_000):
        store.apply(outputs_of(read[begin : begin + 1_000]), {})
    group = store.group(group_id_of(at(length - 1)), NOW_MS)
    assert group is not None
    assert (group.id, group.size) == (group_id_of(at(0)), length)
    refuse_other_groups(store, log)
