"""Asks a schema registry for schemas, by the API that Confluent's registry defined and others have.

    GET /schemas/ids/ID                        {"schema": "…", "schemaType": "AVRO", "references": […]}
    GET /subjects/SUBJECT/versions/VERSION     the same, of a schema that another one refers to

A schema that has an id never changes, so it is asked for once (``schemas``). Redirections are not followed: the
credentials are for the configured server alone.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import chain
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlsplit

from stream_dedup.config.model import RegistryConfig, read_secret
from stream_dedup.errors import UserError

REGISTRY_ANSWER_S = 5.0
"""Longest wait for a connection, and for each part of an answer."""
WHOLE_ANSWER_S = 30.0
"""Longest time that the body of an answer takes; a slow network has 16 MB in it. Then the registry is as one that does
not answer, which is reported."""
_PART_BYTES = 1 << 16
MAX_ANSWER_BYTES = 16 << 20
"""A schema has some KB; registries refuse those of some MB."""
MAX_REFERENCES = 200
"""Schemas that one schema refers to, at any depth."""
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryAwayError(Exception):
    """The registry does not answer, or cannot: the same request may succeed later. The message names it."""


class UnknownSchemaError(Exception):
    """The registry answers that it has no schema with this id; it may have one later."""


class SchemaProblemError(Exception):
    """A schema that cannot be used; the message says why, in a few words."""


class Reference(NamedTuple):
    """A schema that another one refers to."""

    name: str
    """How the other one names it: the path of an import in Protobuf."""
    text: str


class RegisteredSchema(NamedTuple):
    """A schema as it was registered."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[Reference, ...]
    """Everything that it refers to, at any depth; each after what it refers to itself."""


class RegistryClient:
    """Asks for schemas, each time on a connection of its own. Any thread."""

    def __init__(self, config: RegistryConfig) -> None:
        """Connect to nothing yet.

        Raises:
            UserError: the file of certificates cannot be used.
        """
        self.url = config.url or ""
        self._config = config
        parts = urlsplit(self.url)
        host, port, self._path = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._connect = partial(HTTPConnection, host, port, timeout=REGISTRY_ANSWER_S)
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=config.ssl_cafile)
            except (OSError, ssl.SSLError) as error:
                raise UserError(
                    f"registry.ssl_cafile {config.ssl_cafile}: no certificates in PEM ({error}); name such a file"
                ) from error
            self._connect = partial(HTTPSConnection, host, port, timeout=REGISTRY_ANSWER_S, context=context)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id. May block for some seconds.

        Raises:
            UnknownSchemaError: the registry has none.
            SchemaProblemError: it refers to too many others.
            RegistryAwayError: it did not answer.
            UserError: it refuses this client, or is no schema registry.
        """
        found = self._get(f"/schemas/ids/{schema_id}")
        try:
            references = tuple(self._references(found, set()))
            made = RegisteredSchema(found.get("schemaType") or "AVRO", found["schema"], references)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            self._give_up("an answer that is no schema", error)
        if not all(isinstance(part, str) for part in (made.kind, made.text, *chain.from_iterable(references))):
            self._give_up("an answer that is no schema")
        return made

    def _references(self, schema: dict[str, Any], seen: set[str]) -> Iterator[Reference]:
        """Yield what a schema refers to, before that what this refers to; what was seen already is left out."""
        for reference in schema.get("references") or ():
            name, subject, version = reference["name"], reference["subject"], int(reference["version"])
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > MAX_REFERENCES:
                raise SchemaProblemError(f"it refers to more than {MAX_REFERENCES} others")
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            yield from self._references(found, seen)
            yield Reference(name, found["schema"])

    def _get(self, path: str) -> dict[str, Any]:
        status, body = self._ask(path)
        if status == HTTPStatus.OK:
            try:
                answer = json.loads(body)
            except (ValueError, RecursionError):
                answer = None
            if isinstance(answer, dict):
                return answer
            self._give_up("an answer that is no JSON object")
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            msg = f"the schema registry at {self.url} refuses this client ({status}): check registry.username and "
            msg += "registry.password_file, or registry.token_file, and the right to read schemas"
            raise UserError(msg)
        if status == HTTPStatus.NOT_FOUND and _error_code(body) is not None:
            raise UnknownSchemaError
        if (
            status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
            or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            self._give_up(f"status {status}")
        raise UserError(f"no schema registry at {self.url}: it answers {path} with status {status}; check registry.url")

    def _ask(self, path: str) -> tuple[int, bytes]:
        """Return status and body of an answer."""
        connection = self._connect()
        try:
            connection.request("GET", self._path + path, headers={"Accept": _ACCEPT, **self._authorization()})
            answer = connection.getresponse()
            body = self._body(answer)
        except ssl.SSLCertVerificationError as error:
            msg = f"the schema registry at {self.url} has a certificate that is not trusted ({error.verify_message}): "
            msg += "set registry.ssl_cafile to the certificates of its authority"
            raise UserError(msg) from error
        except (OSError, HTTPException) as error:
            self._give_up(str(error) or type(error).__name__, error)
        finally:
            connection.close()
        return answer.status, body

    def _body(self, answer: HTTPResponse) -> bytes:
        """Return the body of an answer, part by part: each may come in time, and the whole never."""
        deadline = time.monotonic() + WHOLE_ANSWER_S
        body = bytearray()
        while part := answer.read1(_PART_BYTES):
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                self._give_up(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                self._give_up(f"an answer that is not whole after {WHOLE_ANSWER_S:g} s")
        return bytes(body)

    def _authorization(self) -> dict[str, str]:
        """Return the header with the credentials; a token is read each time, because something else renews it."""
        config = self._config
        if config.token_file is not None:
            token = read_secret(config.token_file) or ""
            if not (token.isascii() and token.isprintable() and token):
                raise UserError(
                    f"registry.token_file {config.token_file}: no token, which is one line of ASCII characters"
                )
            return {"Authorization": f"Bearer {token}"}
        if config.username is not None:
            pair = f"{config.username}:{read_secret(config.password_file) or ''}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def _give_up(self, problem: str, cause: Exception | None = None) -> NoReturn:
        raise RegistryAwayError(f"the schema registry at {self.url} does not answer: {problem}") from cause


def _error_code(body: bytes) -> int | None:
    """Return the code by which a registry says that it has no such schema; a server of another kind has none."""
    try:
        code = json.loads(body)["error_code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return code if isinstance(code, int) and code // 100 == HTTPStatus.NOT_FOUND else None
