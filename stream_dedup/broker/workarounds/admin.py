"""The workaround for the admin client: errors that it drops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoError, for_code

from stream_dedup.broker.workarounds.private import private

if TYPE_CHECKING:
    from kafka import KafkaAdminClient


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
