"""What the commands write for people and programs.

The only place of the command line that writes to a terminal (ruff keeps ``click.echo`` out of the others), so that
foreign text can do nothing there but be read: not move the cursor, not set a title, not turn the order of letters
around, not look like a line of ours. ``filter`` is the exception: its output is the caller's own records, unchanged.
"""

from __future__ import annotations

import click

from stream_dedup.terminal import visible, visible_json


def write_lines(*lines: str, err: bool = False) -> None:
    """Write lines, each of which may hold foreign text: a line feed inside of one is shown, not obeyed."""
    _write("\n".join(map(visible, lines)), err=err)


def write_json(text: str) -> None:
    """Write JSON, its hidden characters escaped: the same value, to a terminal or not."""
    _write(visible_json(text))


def say(message: str) -> None:
    """Write a message to standard error under the program's name.

    Lines after the first are indented, so that none of them, whatever it quotes, looks like a message of its own.
    """
    first, *more = message.split("\n")
    write_lines(f"stream-dedup: {first}", *map(_indented, more), err=True)


def _indented(line: str) -> str:
    return line if line.startswith(" ") or not line else f"  {line}"


def _write(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err)  # noqa: TID251 - the one place
