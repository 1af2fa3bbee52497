"""The workarounds for kafka-python: loud where a private name is gone, and when each can go.

When a newer version is admitted, take each workaround out in turn and run the test that it is there for:

* ``keep_transaction_requests``: test_client.py::test_commit_that_begins_while_the_broker_is_away
* ``end_sender``: test_committer.py (a producer that is given up while records are left to send)
* ``keep_rejoining``: test_source.py::test_second_member_joins_and_leaves, some thirty times
* ``drop_fetched``: test_source.py::test_partition_in_hand_is_held
"""

from collections.abc import Callable
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from stream_dedup.broker import workarounds
from stream_dedup.errors import UserError

VERIFIED = "3.0.12"
"""The version that the tests named above were run against, with and without each workaround."""


def test_the_version_is_the_one_that_was_verified() -> None:
    """Another one: do as this file's head says, then change the constant and the version in pyproject.toml."""
    assert version("kafka-python") == VERIFIED


@pytest.mark.parametrize(
    "workaround",
    [
        workarounds.keep_transaction_requests,
        workarounds.end_sender,
        workarounds.keep_rejoining,
        workarounds.drop_fetched,
    ],
)
def test_a_name_that_is_gone_is_an_error(workaround: Callable[[Any], None]) -> None:
    """Never a workaround that does nothing."""
    with pytest.raises(UserError, match=r"kafka-python has no SimpleNamespace\._"):
        workaround(SimpleNamespace())


@pytest.mark.parametrize("gone", ["_next_partition_records", "_paused_partition_records", "_paused_completed_fetches"])
def test_a_fetcher_that_keeps_records_elsewhere_is_an_error(gone: str) -> None:
    """Setting an attribute that the client no longer reads would drop nothing."""
    names: dict[str, Any] = {
        "_next_partition_records": None,
        "_paused_partition_records": {},
        "_paused_completed_fetches": {},
    }
    del names[gone]
    with pytest.raises(UserError, match=gone):
        workarounds.drop_fetched(SimpleNamespace(_fetcher=SimpleNamespace(**names)))


def test_a_refused_connection_is_not_yet_a_connection() -> None:
    """The client waits for its coordinator again, instead of forgetting what it wanted to send."""

    def refuse(_node: int, timeout_ms: float) -> bool:
        raise KafkaConnectionError(str(timeout_ms))

    client = SimpleNamespace(await_ready=refuse)
    workarounds.keep_transaction_requests(SimpleNamespace(_sender=SimpleNamespace(_client=client)))
    assert client.await_ready(1, timeout_ms=5) is False
