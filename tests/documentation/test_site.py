"""The site of the documentation: it builds, every link and anchor leads somewhere, nothing comes from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_site import outside
from docs_site.outside import PAGES
from tests.documentation.pages import all_pages
from tests.make_readme import DOCS, ROOT

pytestmark = pytest.mark.slow
BUILD_LIMIT_S = 110.0
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
_CSS_LOADED = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")


def build(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder, as ``make docs`` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *arguments],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_LIMIT_S,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site.

    Raises:
        AssertionError: MkDocs finds a broken link or anchor, or a page that no part of the navigation names.
    """
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    """Those of docs/, and the README, the changelog and the others that are outside of it."""
    for page in all_pages():
        source = str(page.relative_to(ROOT))
        name = PAGES.get(source) or str(page.relative_to(DOCS))
        assert (site / name).with_suffix(".html").exists(), name


def test_marks_are_not_shown(site: Path) -> None:
    """They are for the tests."""
    for page in site.rglob("*.html"):
        shown = re.sub(r"<!--.*?-->|<code>.*?</code>", "", page.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"not run:|&lt;!--|background until:|<!--", shown), page


def test_lists_are_lists(site: Path) -> None:
    """No paragraph of the site swallows the next item of a list."""
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>.*?</p>", page.read_text("utf-8"), flags=re.DOTALL):
            assert not re.search(r"\n(?:\d+\.|\*) ", paragraph), (page, paragraph)


def test_nothing_comes_from_another_host(site: Path) -> None:
    """No script, style, font or image has the address of a host."""
    for page in site.rglob("*.html"):
        assert _LOADED.findall(page.read_text("utf-8")) == [], page
    for style in site.rglob("*.css"):
        assert _CSS_LOADED.findall(style.read_text("utf-8")) == [], style


def test_links_of_the_project_become_those_of_the_site(site: Path) -> None:
    """From the README to a page, from a page to one outside of docs/; a file that is no page is named by its path."""
    assert 'href="how-it-works.html"' in (site / "index.html").read_text("utf-8")
    assert 'href="benchmarks/quality.html"' in (site / "limits.html").read_text("utf-8")
    assert "alerts.yml (<code>deploy/alerts.yml</code>)" in (site / "runbook.html").read_text("utf-8")


@pytest.mark.parametrize("path", ["no-such-page.md", "../no-such-file.md", "benchmarks/index.md", "../README.md"])
def test_a_link_to_no_file_is_a_warning(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the site, but not the project, has a page of this path; a strict build fails at each warning."""
    exists = (ROOT / "docs" / path).exists()
    written = "".join(outside._with_site_links(f"[text]({path})", "limits.md"))
    assert written == ("[text](index.md)" if exists else f"[text]({path})")
    warned = [record.getMessage() for record in caplog.records if record.name.startswith("mkdocs.")]
    assert [path in warning for warning in warned] == ([] if exists else [True])


@pytest.mark.parametrize("link", ["no-such-page.md", "limits.md#no-such-part", "../no-such-file.md"])
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    """A strict build fails at a page that is not there, at an anchor that is not there."""
    page = tmp_path / "docs" / "index.md"
    page.parent.mkdir()
    page.write_text(f"# A page\n\n[text]({link})\n", "utf-8")
    (page.parent / "limits.md").write_text("# Limits\n", "utf-8")
    settings = tmp_path / "mkdocs.yml"
    shown = re.search(r"^validation:\n(?: .*\n)+", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert shown is not None
    settings.write_text(f"site_name: broken\n{shown[0]}", "utf-8")
    done = build(tmp_path / "site", "--config-file", str(settings))
    assert done.returncode != 0
