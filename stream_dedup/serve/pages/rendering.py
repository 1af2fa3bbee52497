"""Templates with their filters and sentences, and what a reader has chosen: language and theme.

Every sentence stands in ``strings.toml``, in each language. The findings about a group have their English sentences
where the program has them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stream_dedup import __version__
from stream_dedup.clusters.model import Window, cluster_id_of
from stream_dedup.core.logged_scheme import NONE, value_text
from stream_dedup.core.rules import (
    COPIES_LIMIT,
    DIRECTED,
    DUPLICATE,
    EXACT,
    FOR_EVER,
    REJECTED,
    UNIQUE,
    UPDATE,
    Rules,
    rule_values,
)
from stream_dedup.serve.pages.clusters_page import growth_columns, most_of
from stream_dedup.serve.pages.live_page import VERDICT_NAMES, history_columns, rejected_reasons, verdict_name
from stream_dedup.serve.pages.shown_text import MAX_SHOWN, pieces
from stream_dedup.status.findings import FindingCode
from stream_dedup.status.text import bytes_text
from stream_dedup.terminal import shorten, visible

HERE = Path(__file__).parent
STATIC = HERE / "static"
DEFAULT_LANGUAGE = "en"
HTML_LANGUAGES = {"en": "en", "zh": "zh-Hans"}
"""The languages as HTML names them."""


def _read_sentences() -> Mapping[str, Mapping[str, str]]:
    """Return the sentences of each language by their keys."""
    tables = tomllib.loads((HERE / "strings.toml").read_text("utf-8"))
    english, chinese = ({key: pair[at] for key, pair in tables["sentences"].items()} for at in (0, 1))
    for code in FindingCode:
        english |= {f"finding.{code}": code.value.text, f"remedy.{code}": code.value.remedy}
    return {"en": english, "zh": chinese | tables["findings"]}


LANGUAGES = _read_sentences()


def language_of(chosen: str | None, accepted: str) -> str:
    """Return the language of a page.

    Args:
        chosen: what the reader has chosen, if anything.
        accepted: the header Accept-Language; browsers name the preferred one first.
    """
    if chosen in LANGUAGES:
        return str(chosen)
    parts = (part.strip() for part in accepted.lower().split(",")[:16])
    tags = (re.split("[-;]", part, maxsplit=1)[0] for part in parts if not re.search(r";\s*q=0(\.0*)?$", part))
    return next((tag for tag in tags if tag in LANGUAGES), DEFAULT_LANGUAGE)


def said(language: str, key: str, **values: object) -> str:
    """Return a sentence.

    Raises:
        KeyError: there is no such sentence, or it needs another value.
    """
    return LANGUAGES[language][key].format(**values)


VALUE_KEYS = {
    "yes": "yes",
    "no": "no",
    NONE: "none",
    EXACT: "search.exact",
    DIRECTED: "search.directed",
    **{value: f"verdict.{value}" for value in (UNIQUE, REJECTED, DUPLICATE, UPDATE)},
}
"""Values of rules and of parameters that are words, with the keys of their strings; others are names and numbers."""
GROUP_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")
"""States of a consumer group for which the pages have a word; another one is shown as the broker names it."""
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
            "pieces": pieces,
            "data": partial(json.dumps, separators=(",", ":")),
            "rules": _rules,
            "scheme": _scheme,
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
            "group_states": GROUP_STATES,
            "value_keys": VALUE_KEYS,
            "growth_columns": growth_columns,
            "most_of": most_of,
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


def _rules(rules: Rules) -> list[tuple[str, str | None]]:
    """Return each rule that has a value, in the form of the configuration; None: for ever."""
    return [(name, None if value == FOR_EVER else value) for name, value in rule_values(rules).items() if value != NONE]


def _scheme(rules: Rules) -> list[tuple[str, str]]:
    return [(name, value_text(value)) for name, value in rules.scheme.flat().items()]


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
