"""Which replication of a topic is an error, which a warning, and the command that corrects it."""

from __future__ import annotations

import pytest

from stream_dedup.broker.topics import Replication, log_warnings, written_problems

BOOTSTRAP = "kafka:9092"


@pytest.mark.parametrize(
    ("replicas", "in_sync", "brokers", "expected"),
    [
        (1, 1, [1], []),
        (1, 1, [1, 2, 3], ["it has one replica on a cluster of 3 brokers"]),
        (2, 1, [1, 2, 3], []),
        (2, 2, [1, 2], []),
        (3, 1, [1, 2, 3], ["min.insync.replicas is 1"]),
        (3, 2, [1, 2, 3], []),
    ],
)
def test_warnings_about_a_log(replicas: int, in_sync: int, brokers: list[int], expected: list[str]) -> None:
    """One disk must not be enough to lose the log, where the cluster has more than one."""
    found = log_warnings(Replication("log", replicas, in_sync, brokers), BOOTSTRAP)
    assert all(problem.is_warning for problem in found)
    assert [problem.reason.startswith(start) for problem, start in zip(found, expected, strict=True)] == [True] * len(
        expected
    )


@pytest.mark.parametrize(
    ("replicas", "in_sync", "mended"), [(1, 1, None), (3, 3, None), (1, 2, "1"), (2, 3, "1"), (3, 4, "2")]
)
def test_a_topic_that_takes_no_record(replicas: int, in_sync: int, mended: str | None) -> None:
    """More replicas must be in sync than there are: an error, and a setting with which one may be away."""
    found = written_problems(Replication("unique", replicas, in_sync, [1, 2, 3]), BOOTSTRAP)
    assert [problem.is_warning for problem in found] == [False] * (mended is not None)
    assert [problem.remedy.rpartition("min.insync.replicas=")[2] for problem in found] == [mended] * len(found)


def test_the_command_that_adds_replicas() -> None:
    """It names the first three nodes of the cluster."""
    (problem,) = log_warnings(Replication("log", 1, 1, [7, 2, 9, 4]), BOOTSTRAP)
    assert '{"version":1,"partitions":[{"topic":"log","partition":0,"replicas":[2,4,7]}]}' in problem.remedy
