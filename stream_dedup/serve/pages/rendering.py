"""Templates with their filters and sentences, and what a reader has chosen: language and theme.

Each language has one table of every sentence: ``strings_en``, ``strings_zh``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stream_dedup import __version__
from stream_dedup.clusters import Window, cluster_id_of
from stream_dedup.core.rules import COPIES_LIMIT
from stream_dedup.serve.pages.clusters_page import growth_columns
from stream_dedup.serve.pages.live_page import VERDICT_NAMES, history_columns, rejected_reasons, verdict_name
from stream_dedup.serve.pages.shown_text import MAX_SHOWN
from stream_dedup.serve.pages.strings_en import ENGLISH
from stream_dedup.serve.pages.strings_zh import CHINESE
from stream_dedup.serve.pages.system_page import GROUP_STATES, VALUE_KEYS, as_data, failure_of, is_followed, is_silent
from stream_dedup.status.text import bytes_text
from stream_dedup.terminal import shorten, visible

LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "zh": CHINESE}
DEFAULT_LANGUAGE = "en"
HTML_LANGUAGES = {"en": "en", "zh": "zh-Hans"}
"""The languages as HTML names them."""


def language_of(chosen: str | None, accepted: str) -> str:
    """Return the language of a page.

    Args:
        chosen: what the reader has chosen, if anything.
        accepted: the header Accept-Language.
    """
    if chosen in LANGUAGES:
        return str(chosen)
    wanted = sorted(map(_weighed, accepted.lower().split(",")[:16]), key=lambda one: -one[1])
    return next((tag for tag, weight in wanted if weight > 0 and tag in LANGUAGES), DEFAULT_LANGUAGE)


def _weighed(part: str) -> tuple[str, float]:
    """Return the primary tag of a part of Accept-Language, and its weight."""
    tag, _, weight = part.strip().partition(";q=")
    try:
        return tag.partition("-")[0], float(weight or 1)
    except ValueError:
        return tag, 0.0


def said(language: str, key: str, **values: object) -> str:
    """Return a sentence.

    Raises:
        KeyError: there is no such sentence, or it needs another value.
    """
    return LANGUAGES[language][key].format(**values)


HERE = Path(__file__).parent
STATIC = HERE / "static"
THEMES = ("auto", "light", "dark")
LEAST_MINUTES_S = 120
"""Shorter times are shown in seconds."""
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
        filters: dict[str, Callable[..., Any]] = {
            "number": lambda value: f"{value:,}",
            "decimal": _decimal,
            "percent": lambda share: f"{math.floor(100 * share)}",
            "bytes": bytes_text,
            "clock": _clock,
            "iso": _iso,
            "name": lambda text: shorten(text, 40),
            "visible": visible,
            "cluster_id": cluster_id_of,
            "data": as_data,
        }
        self._environment.filters |= filters
        self._environment.globals |= {
            "version": __version__,
            "languages": tuple(LANGUAGES),
            "themes": THEMES,
            "windows": tuple(Window),
            "copies_limit": COPIES_LIMIT,
            "max_shown": MAX_SHOWN,
            "asset": lambda name: f"/assets/{name}?v={assets[name].version}",
            "is_silent": is_silent,
            "is_followed": is_followed,
            "failure_of": failure_of,
            "group_states": GROUP_STATES,
            "value_keys": VALUE_KEYS,
            "growth_columns": growth_columns,
            "bucket_names": {window: window.width.name.lower() for window in Window},
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
            bits=partial(_bits, t),
            span=partial(_span, t),
            reason_name=partial(_reason_name, t),
            verdict_names={name: t(f"verdict.{name}") for name in VERDICT_NAMES},
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
    """Return how long ago a time is, in whole units: a page that comes again soon shows the same."""
    seconds = max(0, now_ms - time_ms) // 1000
    span = t("unit.s", value=seconds) if seconds < LEAST_MINUTES_S else _span(t, 1000 * seconds)
    return str(t("age", span=span))


def _bits(t: Any, count: int) -> str:  # noqa: ANN401 - a function of sentences
    return str(t("unit.bit" if count == 1 else "unit.bits", value=count))


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


def _reason_name(t: Any, code: str) -> str:  # noqa: ANN401 - a function of sentences
    """Return what a reason code means; the code itself, if it is none of this release."""
    key = f"reason.{code}"
    return str(t(key)) if key in LANGUAGES[DEFAULT_LANGUAGE] else shorten(code, 40)
