"""The clusters of what workers write on a broker: equal to those of one pass over the log."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_dedup.audit.reference import plain_log
from stream_dedup.clusters.store import ClusterStore
from stream_dedup.config.model import Config, KafkaConfig
from stream_dedup.core.model import Coordinates, Verdict
from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import UserError
from stream_dedup.kafka.admin import KafkaOffsets
from stream_dedup.kafka.clients import connect_log
from tests.clusters.checking import stored_first
from tests.clusters.followed import follow_until_done
from tests.clusters.following import last_values, refuse_repeated
from tests.clusters.outputs import members_of
from tests.forks import forks
from tests.kafka.rights import FOLLOW_CLUSTERS, WORKERS
from tests.kafka.test_acls import SecuredGroup
from tests.secured import DENIED, USERS, Secured, login
from tests.waiting import wait_until
from tests.worker.mixture import records
from tests.worker.pipeline import Pipeline, pipeline, toml_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ARTICLES = 120
PARTITIONS = 3
KILLS = 3
SEED = 11
RESTART_S = 60.0


@pytest.fixture
def made(broker: DevBroker, tmp_path: Path, topic_name: Callable[[str], str]) -> Iterator[Pipeline]:
    name = topic_name("clusters")
    with pipeline(
        broker.bootstrap, tmp_path, name, partitions=PARTITIONS, topics={"clusters": f"{name}-clusters"}
    ) as one:
        yield one


def log_id_of(made: Pipeline) -> bytes:
    config = made.config()
    with closing(KafkaOffsets(config.kafka)) as offsets:
        return offsets.topic_ids([config.log_topic])[config.log_topic]


def clusters_of_log(made: Pipeline) -> dict[Coordinates, Coordinates]:
    """The first article of the cluster of each readable article: one pass over the log."""
    with closing(connect_log(made.config())) as opened:
        log = plain_log(opened.read_all(lambda *_: None))
    first: dict[Coordinates, Coordinates] = {}
    for index, judgement in log.judgements():
        if judgement.verdict is not Verdict.REJECTED:
            own = log.coordinates(index)
            first[own] = own if judgement.match is None else first[judgement.match.coordinates]
    return first


def refuse_other_than_log(made: Pipeline, folder: Path) -> None:
    """Store and topic have the clusters of the log; each change is on the topic once."""
    expected = clusters_of_log(made)
    with closing(ClusterStore.open(folder, log_id_of(made), publishes=True)) as store:
        assert stored_first(store) == expected
    published = made.read(f"{made.name}-clusters")
    sizes = {str(first): len(members) for first, members in members_of(expected).items()}
    assert {key: value["size"] for key, value in last_values(published).items()} == sizes
    assert max(sizes.values()) > 1
    refuse_repeated(published)


@pytest.mark.full  # test_killed kills the store between and within its writes; this one, on a broker, takes a minute
def test_the_clusters_of_a_stream_with_kills_of_the_follower(made: Pipeline, tmp_path: Path) -> None:
    """Workers write while processes that follow are killed at random moments; the last one ends in order."""
    rng = random.Random(SEED)
    folder, path = tmp_path / "clusters", tmp_path / "follower.toml"
    path.write_text(toml_of(made.values("main")), "utf-8")
    stream = records(ARTICLES, SEED)
    worker = made.start()
    begun = 0
    for part in range(KILLS):
        made.produce(stream[part * len(stream) // KILLS : (part + 1) * len(stream) // KILLS])
        reader, writer = os.pipe()
        arguments = [str(path), str(folder), log_id_of(made).hex()]
        process = forks().start("tests.clusters.followed:main", arguments, [0, writer, 2])
        os.close(writer)
        with os.fdopen(reader) as told:
            begun += told.readline() == "begun\n"
            time.sleep(rng.uniform(0.3, 1.5))
            process.kill()
            process.wait()
    assert begun == KILLS
    made.wait_done()
    made.stop(worker)
    follow_until_done(made.config(), folder, log_id_of(made))
    refuse_other_than_log(made, folder)


@pytest.mark.full
def test_a_broker_that_goes_away(own_broker: DevBroker, tmp_path: Path) -> None:
    """The follower waits, and goes on when it is back."""
    name = "away"
    with pipeline(own_broker.bootstrap, tmp_path, name, topics={"clusters": f"{name}-clusters"}) as made:
        made.produce(records(30, SEED))
        worker = made.start()
        made.wait_done()
        made.stop(worker)
        path, folder, log_id = tmp_path / "follower.toml", tmp_path / "clusters", log_id_of(made)
        made.set("kafka", broker_wait_s=5)
        path.write_text(toml_of(made.values("main")), "utf-8")
        own_broker.kill()
        log = tmp_path / "follower.log"
        with log.open("wb") as error:
            process = forks().start(
                "tests.clusters.followed:main", [str(path), str(folder), log_id.hex()], [0, 1, error.fileno()]
            )
        wait_until(lambda: b"clusters wait for the broker" in log.read_bytes(), RESTART_S, "the follower waits")
        own_broker.restart()
        assert process.wait(RESTART_S) == 0, log.read_text()
        refuse_other_than_log(made, folder)


@pytest.mark.expect_log("clusters are not followed any more")
def test_the_rights_of_a_follower(secured: Secured, tmp_path: Path) -> None:
    """It works with the rights of the page on ACLs; without one of them it ends, and names the broker's reason."""
    group = SecuredGroup(secured, tmp_path)
    with closing(group.made):
        made = group.made
        made.produce(records(30, SEED))
        worker = made.start()
        made.wait_done()
        made.stop(worker)
        log_id, user, config = log_id_of(made), USERS["status"], made.config()

        def login_as(name: str) -> Config:
            kafka = config.kafka.model_dump() | {"brokers": secured.users, **login(secured, name)}
            return config.model_copy(update={"kafka": KafkaConfig(**kafka)})

        group.allow(user, FOLLOW_CLUSTERS)
        group.allow(DENIED, tuple(right for right in FOLLOW_CLUSTERS if right.resource != WORKERS))
        follow_until_done(login_as(user), tmp_path / "clusters", log_id)
        refuse_other_than_log(made, tmp_path / "clusters")
        with pytest.raises(UserError, match=r"TransactionalIdAuthorizationFailedError.*docs/acls\.md"):
            follow_until_done(login_as(DENIED), tmp_path / "denied", log_id)
