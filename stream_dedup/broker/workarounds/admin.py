"""Workarounds for the admin client: errors that it drops, brokers that it asks for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoError, for_code

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from kafka import KafkaAdminClient


def ask_who_coordinates(admin: KafkaAdminClient) -> None:
    """Let the client ask at each request which broker coordinates a group, and which one is the controller.

    It keeps the first answer for its life. Once that broker is away, or another one has its part, every request for the
    group fails, with an error that seems to pass: a client made in the seconds before a coordinator is replaced is of
    no use until it is made anew.
    """
    cluster = private(admin, "_manager", "cluster")
    private(cluster, "get_coordinator")
    cluster.get_coordinator = lambda *_: None
    private(admin, "_controller_id")
    send = private(admin, "_send_request_to_controller")

    async def send_to_controller(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - the client is untyped
        admin._controller_id = None  # noqa: SLF001 - no public place to forget it
        return await send(*args, **named)

    admin._send_request_to_controller = send_to_controller  # noqa: SLF001 - the same


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
