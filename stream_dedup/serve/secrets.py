"""The files that make the service safe to reach: the token, and the certificate with its key."""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from stream_dedup.errors import UserError

if TYPE_CHECKING:
    from stream_dedup.config.sections import ServeConfig

MIN_TOKEN = 16
"""Characters of the shortest token: one that can be guessed protects nothing."""
_HOW = "make one with: (umask 077; openssl rand -hex 32 > FILE)"


class Token:
    """The token that requests must have; compared in constant time."""

    def __init__(self, text: str) -> None:
        """Take the token itself."""
        self._bytes = text.encode()

    def allows(self, authorization: bytes | None) -> bool:
        """Return whether a header ``Authorization`` has the token.

        Either as ``Bearer TOKEN`` or, for browsers, as the password of ``Basic`` with any user name.
        """
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        given = given.strip()
        if scheme.lower() == b"basic":
            given = _password(given)
        elif scheme.lower() != b"bearer":
            given = b""
        return hmac.compare_digest(given, self._bytes)


def _password(basic: bytes) -> bytes:
    try:
        return base64.b64decode(basic, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def read_token(path: Path | None) -> Token | None:
    """Return the token of a file, None without a file.

    Raises:
        UserError: the file cannot be read, everybody may read it, or it contains no token.
    """
    if path is None:
        return None
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        msg = f"serve.token_file {path}: cannot be read ({reason}); {_HOW}"
        raise UserError(msg) from error
    if mode & stat.S_IROTH:
        msg = f"serve.token_file {path}: everybody on this machine may read it; chmod o-r {path}"
        raise UserError(msg)
    if len(text) < MIN_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        msg = f"serve.token_file {path}: must contain one token of at least {MIN_TOKEN} ASCII characters; {_HOW}"
        raise UserError(msg)
    return Token(text)


def tls_context(serve: ServeConfig) -> ssl.SSLContext | None:
    """Return the TLS settings of the service, None without a certificate.

    Raises:
        UserError: certificate or key cannot be read, or do not belong together.
    """
    if serve.tls_cert is None or serve.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(serve.tls_cert, serve.tls_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else error.reason or "no PEM files"
        msg = (
            f"serve.tls_cert {serve.tls_cert}, serve.tls_key {serve.tls_key}: cannot be used ({reason}); name a "
            "certificate chain and its private key without a password, as PEM files"
        )
        raise UserError(msg) from error
    return context


def _no_password() -> str:
    """Refuse a key with a password, which would be asked for on the terminal."""
    return ""
