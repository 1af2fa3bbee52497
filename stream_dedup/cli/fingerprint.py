"""``stream-dedup fingerprint``: the fingerprints of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from stream_dedup.cli.options import config_options, input_options
from stream_dedup.cli.output import write_json, write_lines
from stream_dedup.config.effective import fingerprint_settings_of
from stream_dedup.config.model import Config
from stream_dedup.core.decode import is_blank
from stream_dedup.core.model import FINGERPRINT_BITS, Status
from stream_dedup.core.reader import Readings, SchemeReader
from stream_dedup.files.inputs import printable, read_text, shown_name
from stream_dedup.files.recognition import InputForm

SHOWN_CHARACTERS = 40
"""Characters of a text shown beside its fingerprint."""


class _Named(NamedTuple):
    """A text and the name of its file; None for an argument."""

    name: str | None
    text: str


@click.command()
@config_options("profile", "html")
@input_options(formats=False)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", "files", metavar="FILE", multiple=True, help="File with one text; - is standard input.")
@click.option("--lines", is_flag=True, help="Read each line of a FILE as a text.")
@click.option("--signature", is_flag=True, help="Add the 256 bits of the signature.")
@click.option(
    "--margins", is_flag=True, help="Add the margins of the bits in the tables: 0 (an edit flips the bit easily) to 15."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON Lines.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    texts: tuple[str, ...],
    files: tuple[str, ...],
    lines: bool,
    signature: bool,
    margins: bool,
    as_json: bool,
    *,
    form: InputForm,
) -> None:
    """Write the fingerprint of each TEXT: 16 hex digits, and the text or file name.

    Without TEXT and --file, standard input is the text. A text without words (only punctuation) has
    fingerprint 0. A FILE may be compressed (docs/inputs.md). --json adds the kind of the text: long, short, exact or
    featureless. Texts of one kind are nearly the same if their fingerprints differ in few bits.

    \b
    Examples:
      stream-dedup fingerprint '今天天气很好' '今天天气真好'
      stream-dedup fingerprint --json --margins --file article.txt
    """  # noqa: D301 - \b keeps click from folding the examples
    named = [_Named(None, printable(text)) for text in texts]
    for file in files or (() if texts else ("-",)):
        named += _read(file, form, lines=lines)
    if not named:
        return
    made = SchemeReader(fingerprint_settings_of(config)).read([item.text for item in named])
    for row, item in enumerate(named):
        said = _say(made.row(row), signature=signature, margins=margins)
        if as_json:
            write_json(said | ({"text": item.text} if item.name is None else {"file": item.name}))
        else:
            write_lines(_plain_line(item, said))


def _say(made: Readings, *, signature: bool, margins: bool) -> dict[str, Any]:
    """Return what is written of one text."""
    whole = made.signatures.hex()
    said: dict[str, Any] = {"fingerprint": whole[: FINGERPRINT_BITS // 4]}
    said["kind"] = Status(made.statuses[0]).name.lower()
    if signature:
        said["signature"] = whole
    if margins:
        said["margins"] = [half for byte in made.margins for half in (byte >> 4, byte & 15)]
    return said


def _plain_line(item: _Named, said: dict[str, Any]) -> str:
    margins = "".join(f"{margin:x}" for margin in said.get("margins", ()))
    name = " ".join(item.text.split())[:SHOWN_CHARACTERS] if item.name is None else item.name
    return "  ".join(part for part in (said["fingerprint"], said.get("signature", ""), margins, name) if part)


def _read(file: str, form: InputForm, *, lines: bool) -> Sequence[_Named]:
    text = read_text(file, form)
    name = shown_name(file)
    if not lines:
        return [_Named(name, text)]
    return [
        _Named(f"{name}:{number}", line)
        for number, line in enumerate(text.split("\n"), 1)
        if not is_blank(line.encode())
    ]
