"""The workaround for header names that are not UTF-8."""

from __future__ import annotations

from functools import cache
from typing import Any

from kafka.record.default_records import DefaultRecordBatch

from stream_dedup.broker.workarounds.private import private


class RawName(str):
    """A header's name that is not UTF-8: text with escapes to read, and the bytes that came when it is sent."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> RawName:
        """Make a name of these bytes."""
        name = cls(raw, "utf-8", "backslashreplace")
        name.raw = raw
        return name

    def encode(self, *_: object) -> bytes:
        """Return the bytes that came, in whatever encoding."""
        return self.raw


class _NameBuffer(bytes):
    """Bytes whose parts are decoded to names."""

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - as that of bytes
        part = super().__getitem__(at)
        return _NameBuffer(part) if isinstance(part, bytes) else part

    def decode(self, *_: object) -> str:
        try:
            return super().decode()
        except UnicodeDecodeError:
            return RawName.of(bytes(self))


@cache
def read_any_header_name() -> None:
    """Read records whose header names are not UTF-8; done once for the process.

    Neither the broker nor every client requires it, and this client calls the whole batch corrupt: one record of such a
    producer would end every consumer. A batch with such a name is read again, in a buffer that decodes any name.
    """
    read = private(DefaultRecordBatch, "_read_msg")

    def read_leniently(self: DefaultRecordBatch) -> Any:  # noqa: ANN401 - the client's record
        try:
            return read(self)
        except UnicodeDecodeError:
            self._buffer = _NameBuffer(self._buffer)
            return read(self)

    DefaultRecordBatch._read_msg = read_leniently  # noqa: SLF001 - no public place to change this
