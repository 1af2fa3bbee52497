"""The members of a group as the brokers describe them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import BrokerResponseError, CoordinatorLoadInProgressError, NotCoordinatorError

from stream_dedup.config.model import Config
from stream_dedup.kafka.admin import Member, described_group
from stream_dedup.kafka.errors import patiently
from stream_dedup.kafka.hanging_transactions import hanging_transactions
from stream_dedup.ports import Partition


@pytest.mark.parametrize("assignment", [b"\x00\x01connect", b"", None, "", {}])
def test_a_member_of_another_protocol_has_no_partition(assignment: object) -> None:
    """The client cannot read what it is assigned, and leaves it as bytes; a worker beside it is described."""
    worker = {"assigned_partitions": [{"topic": "t", "partitions": [1, 0]}]}
    described = [
        {"client_id": f"g-{number}", "client_host": "/10.0.0.7", "member_assignment": one}
        for number, one in enumerate([assignment, worker])
    ]
    group = {"error": None, "group_state": "Stable", "members": described}
    admin: Any = SimpleNamespace(describe_groups=lambda groups: dict.fromkeys(groups, group))
    state, members = described_group(admin, "g")
    assert state == "Stable"
    assert members == (
        Member("g-0", "10.0.0.7", ()),
        Member("g-1", "10.0.0.7", (Partition("t", 0), Partition("t", 1))),
    )


@pytest.mark.parametrize("error", [NotCoordinatorError, CoordinatorLoadInProgressError])
def test_an_error_is_not_a_group_without_members(
    config: Config, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch, error: type[BrokerResponseError]
) -> None:
    """While its coordinator moves, a group is not described; the transactions of its members would seem to hang."""
    group, manager = config.kafka.group, admin._manager
    assert patiently(config.kafka, "group", lambda: described_group(admin, group)) == ("Dead", ())
    send = manager.send

    async def refused(request: object, **node: int) -> object:
        answer = await send(request, **node)
        for described in getattr(answer, "groups", ()):
            described.error_code = error.errno
        return answer

    monkeypatch.setattr(manager, "send", refused)
    with pytest.raises(error):
        described_group(admin, group)
    monkeypatch.undo()
    assert hanging_transactions(admin, group) == set()
    monkeypatch.setattr(manager, "send", refused)
    with pytest.raises(error):
        hanging_transactions(admin, group)
