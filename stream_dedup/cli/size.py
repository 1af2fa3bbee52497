"""``stream-dedup size``: what a number of articles a day takes."""

from __future__ import annotations

import click

from stream_dedup.cli.options import WholeNumber
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.config.keys import parse_duration_ms
from stream_dedup.core.model import BLOCK_WIDTHS
from stream_dedup.errors import UserError
from stream_dedup.sizing import PLANS, Demand, cheapest_plan, size_lines, size_of

MOST_ARTICLES, MOST_CHARACTERS = 10**12, 10**7
_DAY_MS = 86_400_000


@click.command()
@click.option(
    "--articles-a-day", metavar="N", type=WholeNumber(1, MOST_ARTICLES), required=True, help="Articles a day, mean."
)
@click.option("--window", metavar="TIME", required=True, help="How long an article is remembered, such as 24h or 7d.")
@click.option(
    "--characters",
    metavar="C",
    type=WholeNumber(1, MOST_CHARACTERS),
    default=1_500,
    show_default=True,
    help="Characters of an article.",
)
@click.option(
    "--block-bits",
    type=click.Choice([str(bits) for bits in BLOCK_WIDTHS]),
    help="Width of the keys (default: the one that costs least).",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(articles_a_day: int, window: str, characters: int, block_bits: str | None, *, as_json: bool) -> None:
    """Compute what a number of articles a day takes: key width, look-ups, memory, disk, cores, partitions.

    Computes with costs that were measured on two cores with profile article; docs/sizing.md has them. Another machine
    may take half or twice as much: measure your own with `calibrate` and a test run.

    \b
    Examples:
      stream-dedup size --articles-a-day 1000000 --window 7d
      stream-dedup size --articles-a-day 20000000 --window 30d --characters 3000 --block-bits 24
    """  # noqa: D301 - \b keeps click from folding the examples
    try:
        days = parse_duration_ms(window) / _DAY_MS
    except ValueError as error:
        raise UserError(f"--window {window}: {error}; give a number with s, m, h or d, such as 24h or 7d") from error
    demand = Demand(articles_a_day, days, characters)
    wanted = {str(plan.block_bits): plan for plan in PLANS}
    size = size_of(demand, cheapest_plan(demand.held) if block_bits is None else wanted[block_bits])
    if as_json:
        write_json(size, indented=True)
    else:
        write_lines(*size_lines(demand, size))
