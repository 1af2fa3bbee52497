"""The pages of the documentation, their fenced blocks, and the marks that say how a block is tested.

A block is tested by its language (``test_snippets``). A mark is a comment of HTML in the lines before the fence, which
is not shown:

    <!-- not run: REASON -->             checked, but not run; REASON says why
    <!-- broker -->                      needs Kafka: 127.0.0.1:9092 is the address of the tests' broker
    <!-- background until: TEXT -->      runs until the end of the page; the next block waits for TEXT in its output
    <!-- kill: TEXT -->                  before this block the background program with TEXT in its command is killed
    <!-- repeated -->                    run again until it writes what stands in the block
    <!-- exit code: N -->                ends with N; without this mark, with 0

A fence may name a file: ``title="FILE"`` is written before the next block runs, with ``append`` at the end of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs_site.outside import PAGES
from tests.make_readme import DOCS, ROOT

_FENCE = re.compile(r"^( *)(```+)([^`]*)$")
_MARK = re.compile(r"^<!-- (not run|broker|background until|kill|repeated|exit code)(?:: (.+))? -->$")
_PROMPT = "$ "
WRITTEN_BY_BENCHMARKS = ("benchmarks/quality.md", "benchmarks/reliability.md", "benchmarks/widths.md")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    attributes: dict[str, str]
    marks: dict[str, str]
    content: str
    generated: bool
    """Whether it is in a generated part, which comes from the code."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        return self.attributes.get("title")

    @property
    def runs(self) -> bool:
        """Whether the test of its page runs it, or writes its file."""
        done = self.file is not None or self.language in {"sh", "console", "python"}
        return done and "not run" not in self.marks and not self.generated

    @property
    def needs_broker(self) -> bool:
        return self.runs and not {"broker", "background until"}.isdisjoint(self.marks)

    def steps(self) -> Iterator[tuple[str, str | None]]:
        """The commands, each with the output that the block shows, or None where it shows none."""
        if self.language != "console":
            yield self.content, None
            return
        for part in re.split(rf"^(?={re.escape(_PROMPT)})", self.content, flags=re.MULTILINE):
            if part:
                command, _, output = part.removeprefix(_PROMPT).partition("\n")
                yield command, output


def all_pages() -> list[Path]:
    """Every page of the site."""
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / source for source in PAGES)]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order.

    Raises:
        AssertionError: a fence has no end, or a mark stands before no block.
    """
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    opened: tuple[int, str, str, list[str]] | None = None
    generated = False
    for number, line in enumerate(page.read_text("utf-8").split("\n"), start=1):
        fence = _FENCE.match(line)
        if opened is not None:
            start, mark, info, lines = opened
            if fence and fence[2] == mark and not fence[3].strip():
                blocks.append(_block(page, start, info, marks, lines, generated=generated))
                opened, marks = None, {}
            else:
                lines.append(line)
        elif fence:
            opened = number, fence[2], fence[3], []
        elif found := _MARK.match(line.strip()):
            marks[found[1]] = found[2] or ""
        else:
            generated = (generated and "<!-- end of" not in line) or "<!-- generated: " in line
            assert not marks or not line.strip(), f"{page.name}, line {number}: a mark that belongs to no block"
    assert opened is None, f"{page.name}: a fence without an end"
    return blocks


def _block(page: Path, line: int, info: str, marks: dict[str, str], lines: list[str], *, generated: bool) -> Block:
    language, _, rest = info.strip().partition(" ")
    attributes = dict(part.partition("=")[::2] for part in shlex.split(rest))
    indent = min((len(text) - len(text.lstrip()) for text in lines if text.strip()), default=0)
    content = "".join(f"{text[indent:]}\n" for text in lines)
    return Block(page, line, language, attributes, marks, content, generated)
