"""Texts that the service shows of records with schemas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stream_dedup.core.model import Coordinates, SourceOffset
from stream_dedup.serve.reading import SourceTexts, TextAbsence, TextPorts
from tests.registry.fake import FakeRegistry
from tests.registry.records import AVRO, avro_data, frame, registry_config


def unused() -> TextPorts:
    msg = "the record is there already"
    raise AssertionError(msg)


def test_a_text_by_its_schema() -> None:
    """It is shown; while the registry is away it cannot be, and the answer says which part was away."""
    registry = FakeRegistry()
    registry.register("a", {"schema": AVRO})
    texts = SourceTexts(registry_config(registry.url), unused)
    value = frame(1, avro_data(AVRO, {"id": 7, "text": "The ferry left at noon."}))
    record: Any = SimpleNamespace(key=None, value=value, topic="articles")
    at = Coordinates(b"t" * 16, 0, SourceOffset(3))
    registry.stop()
    away = texts._decoded(record, at)
    assert (away.article, away.absence) == (None, TextAbsence.NO_BROKER)
    assert "the schema registry at" in (away.reason or "")
    registry.start()
    assert texts._decoded(record, at).text == "The ferry left at noon."
    registry.stop()
    texts.close()
