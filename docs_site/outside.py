"""A hook of MkDocs: pages of the site that are no files of docs/, and links between all of them.

The same files are read in two ways: as files of the project, and as pages of the site. Their links are those of the
project, so that they work where a file is. Here they become those of the site:

* ``PAGES`` names the files outside of docs/ that are pages too.
* A link to any other file or folder of the project becomes its text, with the path.
* Comments, which are for the tests, are left out.
* A page of ``WIDE`` has no table of contents.
* A link to a file that does not exist is a warning, also if the site has a page there: a strict build fails.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "benchmarks/quality.md": "benchmarks/quality.md",
    "benchmarks/widths.md": "benchmarks/widths.md",
    "benchmarks/reliability.md": "benchmarks/reliability.md",
    "benchmarks/scale.md": "benchmarks/scale.md",
}
"""Files of the project, and the pages of the site that they are."""
WIDE = {"reference/configuration.md", "reference/metrics.md"}
"""Pages that are one wide table: they have the room of the table of contents too."""
_log = logging.getLogger("mkdocs.hooks.outside")
_SOURCES = {page: source for source, page in PAGES.items()}
_FENCE = re.compile(r"^ *(```+)")
_COMMENT = re.compile(r"^ *<!-- .* -->$")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the hook's arguments
    """Turn the links of a page from those of the project into those of the site."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    return "".join(_with_site_links(markdown, page.file.src_uri))


def _with_site_links(markdown: str, page: str) -> Iterator[str]:
    fence = ""
    for line in markdown.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        if fence or mark:
            yield line
        elif not _COMMENT.match(line):
            yield _LINK.sub(lambda found: _site_link(found, page), line)


def _site_link(found: re.Match[str], page: str) -> str:
    image, text, link = found.groups()
    path, hash_mark, anchor = link.partition("#")
    if not path or "://" in path:
        return found[0]
    source = _SOURCES.get(page, DOCS + page)
    target = os.path.normpath(PurePosixPath(source).parent / path)
    if not (ROOT / target).exists():
        _log.warning("%s: there is no file %s, the target of the link %s", source, target, found[0])
        return found[0]
    site = PAGES.get(target) or (target.removeprefix(DOCS) if target.startswith(DOCS) else None)
    if site is None:
        return f"{text} (`{target}`)" if text != target else text
    relative = os.path.relpath(site, PurePosixPath(page).parent)
    return f"{image}[{text}]({relative}{hash_mark}{anchor})"
