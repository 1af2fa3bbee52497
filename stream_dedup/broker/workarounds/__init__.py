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
    close_abandoned_sockets,
    closed_when_not_made,
    deliver_last_response,
    read_in_large_pieces,
    write_at_once,
)
from stream_dedup.broker.workarounds.consumer import (
    UndecodedError,
    commit_as_member,
    drop_fetched,
    drop_fetched_of,
    fetch_in_one_step,
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
    trust_known_coordinator,
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
from stream_dedup.broker.workarounds.selector import QuickSelector
from stream_dedup.broker.workarounds.sending import (
    HeldSender,
    OnePartition,
    add_partitions_first,
    asleep,
    send_beside_requests,
)

__all__ = [
    "HeldSender",
    "OnePartition",
    "QuickSelector",
    "RawName",
    "RoundRobinAssignor",
    "UndecodedError",
    "add_partitions_first",
    "alter_offsets",
    "asleep",
    "close_abandoned_sockets",
    "closed_when_not_made",
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
    "fetch_in_one_step",
    "forget_after_errors",
    "forget_offset_fetches",
    "initialise_producer",
    "keep_rejoining",
    "keep_transaction_requests",
    "look_up_topics",
    "name_undecoded",
    "position_of",
    "read_any_header_name",
    "read_in_large_pieces",
    "records_left",
    "refuse_unauthorized_topics",
    "return_set_aside",
    "seek_with_epoch",
    "send_beside_requests",
    "send_offsets_within",
    "set_gathering",
    "take_finished_joins",
    "trust_known_coordinator",
    "write_at_once",
]
