"""The headers of one output, from its parts."""

from __future__ import annotations

from stream_dedup.core.headers import Headers, OmittedValue, OutputHeaders
from stream_dedup.core.model import Coordinates, Judgement


def output_headers(  # noqa: PLR0917 - one argument for each part of the headers
    judgement: Judgement,
    fingerprint: int,
    scheme_id: str,
    topic: str,
    at: Coordinates,
    timestamp: int,
    omitted: OmittedValue | None = None,
) -> Headers:
    """Return the headers that a worker adds to the record at these coordinates."""
    made = OutputHeaders(scheme_id, topic, at.partition, at.topic_id)
    return made.of(judgement, fingerprint, at.offset, timestamp, omitted)
