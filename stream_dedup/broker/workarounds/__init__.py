"""Workarounds for defects of kafka-python: one function for each, and no workaround outside this package.

Each defect was seen with kafka-python 3.0.12 on Kafka 4.3.1, and most workarounds use names that are not public. If
such a name no longer exists, the workaround raises at once instead of silently doing nothing. pyproject.toml admits
only the version that these were run against; ``tests/broker/test_workarounds.py`` says for each how to find out whether
a newer version still needs it.
"""

from stream_dedup.broker.workarounds.admin import (
    alter_offsets,
    commit_for_member,
    describe_group,
    describe_topic_settings,
    forget_after_errors,
)
from stream_dedup.broker.workarounds.assignor import RoundRobinAssignor
from stream_dedup.broker.workarounds.connections import (
    NetClients,
    close_abandoned_sockets,
    deliver_last_response,
)
from stream_dedup.broker.workarounds.consumer import (
    UndecodedError,
    commit_as_member,
    drop_fetched,
    drop_fetched_of,
    forget_offset_fetches,
    keep_rejoining,
    look_up_topics,
    name_undecoded,
    position_of,
    records_left,
    refuse_unauthorized_topics,
    return_set_aside,
    seek_with_epoch,
    set_gathering,
    take_finished_joins,
)
from stream_dedup.broker.workarounds.header_names import RawName, read_any_header_name
from stream_dedup.broker.workarounds.producer import (
    drop_refused_offsets,
    end_sender,
    error_of_producer,
    initialise_producer,
    keep_transaction_requests,
    send_offsets_within,
)

__all__ = [
    "NetClients",
    "RawName",
    "RoundRobinAssignor",
    "UndecodedError",
    "alter_offsets",
    "close_abandoned_sockets",
    "commit_as_member",
    "commit_for_member",
    "deliver_last_response",
    "describe_group",
    "describe_topic_settings",
    "drop_fetched",
    "drop_fetched_of",
    "drop_refused_offsets",
    "end_sender",
    "error_of_producer",
    "forget_after_errors",
    "forget_offset_fetches",
    "initialise_producer",
    "keep_rejoining",
    "keep_transaction_requests",
    "look_up_topics",
    "name_undecoded",
    "position_of",
    "read_any_header_name",
    "records_left",
    "refuse_unauthorized_topics",
    "return_set_aside",
    "seek_with_epoch",
    "send_offsets_within",
    "set_gathering",
    "take_finished_joins",
]
