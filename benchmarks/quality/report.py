"""Figures as tables: the mean, the least and the most over seeds, and aims beside what was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple


class Aim(NamedTuple):
    """What a figure is to reach."""

    name: str
    value: float
    """The figure of this run; NaN where there is none."""
    least: float | None = None
    most: float | None = None
    digits: int = 3

    @property
    def reached(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    def row(self) -> list[str]:
        edge = f"≥ {_number(self.least, self.digits)}" if self.least is not None else ""
        edge = f"≤ {_number(self.most, self.digits)}" if self.most is not None else edge
        here = _number(self.value, self.digits)
        return [self.name, edge, here if self.reached else f"**{here}**"]


def shares(values: Sequence[float]) -> str:
    """Mean of shares of 1, and beside it the least and the most where they are several."""
    return _shown(values, lambda value: "1.00" if value == 1 else f"{value:.3f}".removeprefix("0"))


def numbers(values: Sequence[float]) -> str:
    """Mean of counts, the least and the most."""
    return _shown(values, lambda value: f"{value:,.1f}".removesuffix(".0"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown: the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def aims_table(aims: Iterable[Aim]) -> str:
    """What is missed is bold."""
    return table(("to reach", "", "here"), (aim.row() for aim in aims))


def _shown(values: Sequence[float], as_text: Callable[[float], str]) -> str:
    mean = as_text(fmean(values))
    if len(values) == 1 or min(values) == max(values):
        return mean
    return f"{mean} ({as_text(min(values))}–{as_text(max(values))})"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
