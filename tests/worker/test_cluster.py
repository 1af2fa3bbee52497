"""Three workers on three nodes, under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.dev.broker import DevCluster
from tests.amount import FULL
from tests.worker.drill import Drill, drill
from tests.worker.mixture import records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEED = 9
ARTICLES = 2_000
PER_SECOND = 30.0


@pytest.mark.parametrize("client", ["kafka-python", pytest.param("confluent", marks=pytest.mark.full)])
def test_leaders_and_nodes_come_and_go(
    cluster: DevCluster,
    tmp_path: Path,
    topic_name: Callable[..., str],
    record_property: Callable[[str, object], None],
    client: str,
) -> None:
    """Leaders move, a node is killed and comes back, each is restarted in turn: every article leaves once, as audited.

    The stream gets on after each of these, also while the killed node is away.
    """
    stream = records(ARTICLES, SEED)
    with drill(cluster, tmp_path, topic_name("pipe"), stream, PER_SECOND, client) as under_load:
        under_load.move_leaders()
        under_load.kill_node(1)
        for number in (1, 2, 3) if FULL else (2,):
            under_load.restart_node(number)
        under_load.finish()
        record_property("longest pause, s", round(under_load.watch.longest_s, 1))
        record_property("during", under_load.watch.longest_during)
        assert_each_left_once(under_load)


def assert_each_left_once(under_load: Drill) -> None:
    made = under_load.made
    made.assert_sound()
    assert len(made.stamps()) == sum(made.ends().values()) == under_load.feeder.acknowledged
