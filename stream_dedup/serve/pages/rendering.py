"""Templates with their filters, and what a reader has chosen: language and theme."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stream_dedup import __version__
from stream_dedup.core.model import Coordinates
from stream_dedup.core.rules import COPIES_LIMIT
from stream_dedup.groups import Window, group_id_of
from stream_dedup.serve.pages.groups_page import growth_columns
from stream_dedup.serve.pages.live_page import history_columns, rejected_reasons, verdict_name
from stream_dedup.serve.pages.shown_text import MAX_SHOWN
from stream_dedup.serve.pages.strings import HTML_LANGUAGES, LANGUAGES, said
from stream_dedup.serve.pages.system_page import as_data, is_silent, progress_of
from stream_dedup.status.text import bytes_text
from stream_dedup.terminal import shorten, visible

HERE = Path(__file__).parent
STATIC = HERE / "static"
THEMES = ("auto", "light", "dark")
_MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class PageReader(NamedTuple):
    """What the reader of a page has chosen."""

    language: str
    theme: str


class Asset(NamedTuple):
    """A file that pages load; its address has its version, so that browsers may keep it."""

    body: bytes
    media: str
    version: str


def read_assets() -> dict[str, Asset]:
    """Return the static files by their names; nothing else can be asked for."""
    assets = {}
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in _MEDIA:
            body = path.read_bytes()
            version = hashlib.sha256(body).hexdigest()[:12]
            assets[path.relative_to(STATIC).as_posix()] = Asset(body, _MEDIA[path.suffix], version)
    return assets


class Renderer:
    """Makes the HTML of a page."""

    def __init__(self, assets: Mapping[str, Asset]) -> None:
        """Load the templates. Everything that they show is escaped."""
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "number": lambda value: f"{value:,}",
            "decimal": _decimal,
            "percent": lambda share: f"{math.floor(100 * share)}",
            "bytes": bytes_text,
            "clock": _clock,
            "iso": _iso,
            "name": lambda text: shorten(text, 40),
            "visible": visible,
            "group_id": _group_id,
            "article_name": _article_name,
            "data": as_data,
        }
        self._environment.globals |= {
            "version": __version__,
            "languages": tuple(LANGUAGES),
            "themes": THEMES,
            "windows": tuple(Window),
            "copies_limit": COPIES_LIMIT,
            "max_shown": MAX_SHOWN,
            "asset": lambda name: f"/assets/{name}?v={assets[name].version}",
            "progress_of": progress_of,
            "is_silent": is_silent,
            "growth_columns": growth_columns,
            "history_columns": history_columns,
            "rejected_reasons": rejected_reasons,
            "verdict_name": verdict_name,
        }

    def page(self, template: str, reader: PageReader, now_ms: int, **values: Any) -> str:  # noqa: ANN401 - what a template shows
        """Return a page."""
        t = partial(said, reader.language)
        return self._environment.get_template(template).render(
            t=t,
            age=partial(_age, t, now_ms),
            span=partial(_span, t),
            language=reader.language,
            html_language=HTML_LANGUAGES[reader.language],
            theme=reader.theme,
            now_ms=now_ms,
            **values,
        )


def _decimal(value: float) -> str:
    """Return a rate: two digits where it is small."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004 - three digits are enough


def _iso(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")[:19]
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"  # a producer may set any timestamp


def _clock(time_ms: int) -> str:
    return _iso(time_ms)[-8:]


def _age(t: Any, now_ms: int, time_ms: int) -> str:  # noqa: ANN401 - a function of sentences
    return _span(t, max(0, now_ms - time_ms))


def _span(t: Any, ms: float) -> str:  # noqa: ANN401 - a function of sentences
    """Return a duration in the unit in which it has one to three digits."""
    units = (("unit.d", 2 * 86_400_000, 86_400_000), ("unit.h", 7_200_000, 3_600_000), ("unit.min", 120_000, 60_000))
    for key, least, size in units:
        if ms >= least:
            return str(t(key, value=f"{ms / size:.0f}"))
    if ms >= 10_000:  # noqa: PLR2004 - ten seconds
        return str(t("unit.s", value=f"{ms / 1000:.0f}"))
    if ms >= 1000:  # noqa: PLR2004 - a second
        return str(t("unit.s", value=f"{ms / 1000:.1f}"))
    return str(t("unit.ms", value=f"{ms:.0f}"))


def _group_id(first: Coordinates) -> str:
    return group_id_of(first)


def _article_name(coordinates: Coordinates, topic: str) -> str:
    """Return how an address names an article of the stream."""
    return f"{coordinates}@{topic}"
