"""What the sentences of the documentation name exists: commands, flags, keys, metrics, headers, alerts, files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stream_dedup.clusters.follow import ClusterMetrics
from stream_dedup.config.keys import all_keys
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import ProfileFile
from stream_dedup.core.headers import OUTPUT_HEADERS
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.serve.serve_metrics import ServeMetrics
from tests.documentation.pages import WRITTEN_BY_BENCHMARKS, all_pages
from tests.documentation.shell import check_commands
from tests.make_readme import README, ROOT, all_commands, flags_of

README_LINES = 200
"""Most lines of the README: a stranger reads it in five minutes."""
HISTORY = ROOT / "CHANGELOG.md"
"""Names what is no more."""
PAGES = [page for page in all_pages() if page != HISTORY and str(page.relative_to(ROOT)) not in WRITTEN_BY_BENCHMARKS]
_GENERATED = re.compile(r"<!-- generated: ([a-z ]+) -->.*?<!-- end of \1 -->", re.DOTALL)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_URL = re.compile(r"https?:[^\s)>\"'`|]*")
_FILE_NAME = re.compile(r"\.(py|toml|md|yml|yaml|jsonl)$")
_QUERY = re.compile(r"(sum|count|avg|max|min|rate|histogram_quantile)\b.*\(")
_FOLDERS = "benchmarks|boards|deploy|docs|docs_site|stream_dedup|tests"

KEYS = {name for model in (Config, ProfileFile) for name, _ in all_keys(model)}
SECTIONS = {name.partition(".")[0] for name in KEYS if "." in name}
METRICS = {one.full_name for metrics in (Metrics, ServeMetrics, ClusterMetrics) for one in metrics.declarations()}
NAMES = {header.name for header in OUTPUT_HEADERS}
ALERTS = set(re.findall(r"- alert: (\w+)$", (ROOT / "deploy/alerts.yml").read_text("utf-8"), re.MULTILINE))
FLAGS = {flag for _, command in all_commands() for flag in flags_of(command)}
FOREIGN_FLAGS = {"--build-arg", "--cascade", "--cpus"}
"""Flags of docker and kubectl."""
FOREIGN_FLAGS |= {"--help", "--only", "--factor", "--size", "--mixture", "--plants", "--agree", "--bytes"}
"""Flags of benchmarks and of the simulation."""


def _no_placeholder(span: str) -> bool:
    return "…" not in span and not re.search(r"(stream-dedup|stream_dedup) [A-Z]", span)


def unknown_names(span: str) -> Iterator[str]:
    """What a text in code type names that does not exist."""
    if span.startswith(("stream-dedup ", "make ", "python -m ")) and _no_placeholder(span):
        yield from check_commands(span)
    if flag := re.match(r"--[a-z][a-z-]*", span):
        yield from {flag[0]} - FLAGS - FOREIGN_FLAGS
    if re.fullmatch(r"[a-z_]+\.[a-z_]+", span) and not _FILE_NAME.search(span) and span.partition(".")[0] in SECTIONS:
        yield from {span} - KEYS
    for metric in re.findall(r"\bstream_dedup_[a-z_]+", span):
        yield from {re.sub(r"_(bucket|count|sum)$", "", metric)} - METRICS
    for header in re.findall(r"(?<![.\w])dedup(?:\.[a-z_0-9]+)+(?![\w.]*\*)", span):
        yield from {header} - NAMES
    for path in re.findall(rf"^(?:{_FOLDERS})/[\w./-]+$", span):
        if not (ROOT / path).exists():
            yield path


def sentences(page: Path) -> str:
    """A page without its blocks and its generated parts."""
    return _FENCED.sub("", _GENERATED.sub("", page.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    """Each command, flag, key, metric, header, alert and file that its sentences name."""
    text = sentences(page)
    unknown = [(span, name) for span in _SPAN.findall(text) for name in unknown_names(span)]
    assert unknown == []
    assert set(re.findall(r"\bStreamDedup\w+", text)) <= ALERTS


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here (Debian's package prometheus)")
def test_queries_are_those_of_prometheus(tmp_path: Path) -> None:
    """Each query that a sentence names is read by promtool."""
    queries = {span for page in PAGES for span in _SPAN.findall(sentences(page)) if _QUERY.match(span)}
    assert queries
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(sorted(queries))]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "documentation", "rules": rules}]}), "utf-8")
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_addresses_are_well_formed(page: Path) -> None:
    """Each link to another host has a scheme and a host. None is asked."""
    for url in _URL.findall(sentences(page)):
        assert urlsplit(url).hostname, url


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_are_the_same_in_both_readers(page: Path) -> None:
    """What follows a blank line inside of a list is indented by four: the site ends the list at less."""
    text = page.read_text("utf-8")
    assert (
        re.findall(r"(?<=\n\n) {1,3}(?:\S.*)", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)) == []
    )


@pytest.mark.parametrize("page", ["README.md", "docs/limits.md", "docs/sizing.md"])
def test_figures_of_recall_are_those_that_were_measured(page: str) -> None:
    """Each share with three digits stands in benchmarks/quality.md."""
    share = re.compile(r"(?<![\d,])\.\d{3}\b")
    named = set(share.findall((ROOT / page).read_text("utf-8")))
    assert named
    assert named <= set(share.findall((ROOT / "benchmarks/quality.md").read_text("utf-8")))


def test_the_readme_is_short() -> None:
    """What does not fit is in docs/."""
    assert len(README.read_text("utf-8").splitlines()) <= README_LINES


@pytest.mark.parametrize(
    "span",
    [
        "stream-dedup filtre",
        "stream-dedup filter --profil comment",
        "stream-dedup explain --weights idf",
        "make tests",
        "--recrawls",
        "match.candidate",
        "sum(rate(stream_dedup_article_total[5m]))",
        "dedup.match.name",
        "deploy/alert.yml",
        "python -m benchmarks.qualty",
    ],
)
def test_a_wrong_name_is_seen(span: str) -> None:
    """A wrong command, flag, value, target, key, metric, header, file or module."""
    assert list(unknown_names(span))
