"""Workarounds for the admin client: errors that it drops, brokers that it asks for ever."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    GroupIdNotFoundError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    NoError,
    NotControllerError,
    RetriableError,
    UnknownBrokerIdError,
    for_code,
)

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
    from kafka.structs import ConsumerGroupMetadata


RAISED_BARE = {
    "Failed to find active controller id!": NotControllerError,
    "Transport closed for writes": KafkaConnectionError,
}
"""What the client raises as a ``RuntimeError`` though it passes: while the controller moves, and on a connection that
has just been closed."""


def forget_after_errors(admin: KafkaAdminClient) -> None:
    """After a request that failed, let the client ask anew for coordinators, the controller, and the brokers.

    It keeps its first answers: a coordinator and a controller for its life, the brokers for five minutes. Once such a
    broker is away, or another one has its part, every request to it fails, though the error seems to pass: a client
    made in the seconds before a coordinator is replaced is of no use until it is made anew. A broker that it does not
    know, and a partition that has no leader just now, it reports by an error that does not seem to pass, and some
    errors that pass by none of its own (``RAISED_BARE``).
    """
    manager = private(admin, "_manager")
    cluster, run, connection = (private(manager, name) for name in ("cluster", "run", "get_connection"))
    coordinators = private(cluster, "_coordinators")
    private(admin, "_controller_id")

    def run_or_forget(ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401 - the client is untyped
        try:
            return run_or_fail(ask, *args)
        except KafkaError:
            coordinators.clear()
            admin._controller_id = None  # noqa: SLF001 - no public place to forget it
            raise

    def run_or_fail(ask: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401 - the same
        try:
            return run(ask, *args)
        except RuntimeError as error:
            kind = RAISED_BARE.get(str(error))
            if kind is None:
                raise
            raise kind(str(error)) from error

    def connection_of_known(node_id: int | None, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - the same
        try:
            return connection(node_id, *args, **named)
        except UnknownBrokerIdError as error:
            cluster.request_update()
            raise NodeNotReadyError(*error.args) from error

    manager.run, manager.get_connection = run_or_forget, connection_of_known


def describe_group(admin: KafkaAdminClient, group: str) -> Mapping[str, Any]:
    """Describe a group; one that is not there has no members.

    ``describe_groups`` returns the error of a group as a text, beside no members.

    Raises:
        KafkaError: the error of the group.
    """
    coordinator, request, described = (
        private(admin, name)
        for name in ("_find_coordinator_id", "_describe_groups_request", "_describe_groups_process_response")
    )

    send = private(admin, "_manager", "send")

    async def describe() -> Mapping[str, Any]:
        response = await send(request([group]), node_id=await coordinator(group))
        error = for_code(response.groups[0].error_code)
        if error not in {NoError, GroupIdNotFoundError}:
            msg = f"group {group}: {error.__name__}"
            raise error(msg)
        found: Mapping[str, Any] = described(response)[group]
        return found

    return private(admin, "_manager", "run")(describe)  # type: ignore[no-any-return] # the client is untyped


def alter_offsets(
    admin: KafkaAdminClient, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Mapping[TopicPartition, type[KafkaError]]:
    """Set committed offsets; return the error of each partition, ``NoError`` where there is none.

    ``alter_group_offsets`` returns the errors that pass, too.

    Raises:
        KafkaError: an error that passes.
    """
    alter = private(admin, "_async_alter_group_offsets")

    async def alter_or_raise() -> Mapping[TopicPartition, type[KafkaError]]:
        answer: Mapping[TopicPartition, type[KafkaError]] = await alter(group, offsets)
        passing = next((error for error in answer.values() if issubclass(error, RetriableError)), None)
        if passing is not None:
            msg = f"offsets of group {group}: {passing.__name__}"
            raise passing(msg)
        return answer

    return private(admin, "_manager", "run")(alter_or_raise)  # type: ignore[no-any-return] # the client is untyped


def commit_for_member(
    admin: KafkaAdminClient,
    group: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    member: ConsumerGroupMetadata,
    limit_ms: int,
) -> None:
    """Commit offsets under a membership of another client; ``alter_group_offsets`` has no membership.

    One request, which is not sent once the limit is over: if it is late, the broker still refuses it when the group has
    gone on.

    Raises:
        KafkaError: not within the limit, or refused.
    """
    request, coordinator, answers = (
        private(admin, name)
        for name in ("_alter_group_offsets_request", "_find_coordinator_id", "_alter_group_offsets_process_response")
    )
    run, send, call_soon, wait_for = (
        private(admin, "_manager", one) for one in ("run", "send", "call_soon", "wait_for")
    )
    deadline = time.monotonic() + limit_ms / 1_000

    async def commit() -> None:
        asked = request(group, offsets)
        asked.generation_id_or_member_epoch = member.generation_id
        asked.member_id, asked.group_instance_id = member.member_id, member.group_instance_id
        node = await coordinator(group)
        if time.monotonic() > deadline:
            raise KafkaTimeoutError
        for at, error in answers(await send(asked, node_id=node)).items():
            if error is not NoError:
                msg = f"{at.topic}-{at.partition}: {error.__name__}"
                raise error(msg)

    run(wait_for, call_soon(commit), limit_ms)


def describe_topic_settings(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return every setting of each topic, defaults included.

    ``describe_configs`` drops the error of each topic and returns no settings for it, whether the right is missing or
    the broker does not know a new topic yet.

    Raises:
        KafkaError: the error of a topic.
    """
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    request = private(admin, "_describe_configs_request")(resources)
    response = admin._manager.run(private(admin, "_manager", "send"), request)  # noqa: SLF001
    for result in response.results:
        error = for_code(result.error_code)
        if error is not NoError:
            msg = f"topic {result.resource_name}: {error.__name__}"
            raise error(msg)
    return {result.resource_name: {one.name: one.value for one in result.configs} for result in response.results}
