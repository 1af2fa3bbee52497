"""The section of the configuration for `stream-dedup serve` (``sections`` has the others)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from stream_dedup.config import checks
from stream_dedup.config.keys import key
from stream_dedup.config.sections import Section

SERVED_INDEX = "index"
"""Name of the index in the folder of the service."""
MAX_BODY_BYTES = 64 << 20
"""Bytes: no request with 500 articles is larger."""


class ServeConfig(Section):
    """The HTTP service over an index of its own."""

    address: Annotated[str, AfterValidator(checks.listening_address)] = key(
        "127.0.0.1:8787",
        "address of the HTTP service; any but a loopback address needs token_file",
        form="host:port (port 0: any free port)",
    )
    data_dir: Path = key(
        Path("serve"), "folder of the index and the groups of the service", form="a folder on a local disk"
    )
    threads: int | None = key(
        None,
        "fingerprinting threads of the service",
        unset="one for each core of its affinity and CPU quota",
        ge=1,
        le=256,
    )
    token_file: Path | None = key(
        None,
        "file that contains the token; every request but /healthz and /readyz must have it",
        form="a file that not everybody may read",
    )
    tls_cert: Path | None = key(None, "certificate chain of the service; requests are then HTTPS", form="a PEM file")
    tls_key: Path | None = key(None, "private key of that certificate", form="a PEM file")
    max_body_bytes: int = key(8 << 20, "size of the largest request", form="bytes", ge=1024, le=MAX_BODY_BYTES)
    queue_articles: int = key(
        2000, "articles that may be under way; a request beyond it is answered with 503", ge=500, le=100_000
    )
    connections: int = key(128, "connections that may be open", ge=8, le=10_000)
    client_s: Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)] = key(
        10, "time in which a client must send the head of a request, its body, or read the answer", form="seconds"
    )
