"""The table of docs/simulation.md: for each planted defect the number of seeds that finding it took."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.plants import PLANTS

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
HEAD = "| defect | what it breaks | seeds needed |\n| --- | --- | ---: |\n"
_TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\|\n)*")
_ROW = re.compile(r"^\| (.+?) \| .+? \| (\d+) \|$", re.MULTILINE)


def table_of(needed: dict[str, int | None]) -> str:
    """Return the table; ``needed`` has the number of seeds by the name of the plant, None for one not found."""
    rows = [f"| {plant.name} | {plant.claim} | {needed[plant.name] or 'not found'} |\n" for plant in PLANTS]
    return HEAD + "".join(rows)


def write_table(needed: dict[str, int | None]) -> None:
    """Replace the table of the page."""
    PAGE.write_text(_TABLE.sub(lambda _found: table_of(needed), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def seeds_needed() -> dict[str, int]:
    """Return the number of seeds that each plant needed, as the page says."""
    table = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    return {} if table is None else {name: int(count) for name, count in _ROW.findall(table.group())}
