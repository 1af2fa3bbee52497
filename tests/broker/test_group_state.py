"""The members of a group as the brokers describe them, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from stream_dedup.broker.group_state import Member, described_group
from stream_dedup.ports import Partition


class DescribedGroup:
    """An admin client that describes one group."""

    def __init__(self, *assignments: object) -> None:
        self._assignments = assignments

    def describe_groups(self, groups: list[str]) -> dict[str, Any]:
        members = [
            {"client_id": f"g-{number}", "client_host": "/10.0.0.7", "member_assignment": assignment}
            for number, assignment in enumerate(self._assignments)
        ]
        return {groups[0]: {"group_state": "Stable", "members": members}}


@pytest.mark.parametrize("assignment", [b"\x00\x01connect", b"", None, "", {}])
def test_a_member_of_another_protocol_has_no_partition(assignment: object) -> None:
    """The client cannot read what it is assigned, and leaves it as bytes; a worker beside it is described."""
    worker = {"assigned_partitions": [{"topic": "t", "partitions": [1, 0]}]}
    state, members = described_group(DescribedGroup(assignment, worker), "g")
    assert state == "Stable"
    assert members == (
        Member("g-0", "10.0.0.7", ()),
        Member("g-1", "10.0.0.7", (Partition("t", 0), Partition("t", 1))),
    )
