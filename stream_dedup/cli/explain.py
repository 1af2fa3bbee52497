"""``stream-dedup explain``: why two texts match or do not."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stream_dedup.cli.options import WholeNumber, config_options, input_options
from stream_dedup.cli.output import report_columns, write_json, write_lines
from stream_dedup.config.effective import fingerprint_settings_of, index_settings_of, input_format_of, rules_of
from stream_dedup.config.model import Config
from stream_dedup.errors import UserError
from stream_dedup.files.inputs import printable, read_text
from stream_dedup.files.recognition import InputForm

if TYPE_CHECKING:
    from stream_dedup.core.fingerprinter import Fingerprinter
    from stream_dedup.core.rules import Rules
    from stream_dedup.explain.side import Side

SIDES = 2
_NO_ID = "(no id)"
"""Id of a record that gives none."""
_BETWEEN_WORDS = re.compile(r"[\s,，、]+")


@click.command()
@config_options("profile")
@input_options(formats=False)
@click.argument("texts", nargs=-1, metavar="[A] [B]")
@click.option("--id", "ids", metavar="ID", multiple=True, help="An article of the index in place of A, or of both.")
@click.option(
    "--index",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Index with the article and the rules; its worker must be stopped.",
)
@click.option("--words", metavar="WORDS", multiple=True, help="The words of A, then those of B: 'a b b', 'a b c'.")
@click.option(
    "--weights", type=click.Choice(["tfidf", "tf", "level"]), help="Weighting of words (default: the profile's)."
)
@click.option("--records", is_flag=True, help="A and B are JSON objects as read by filter, with fields and scope.")
@click.option("--in-scope", "scope", metavar="SCOPE", help="Scope of the given texts, where the index has scopes.")
@click.option(
    "--features", metavar="N", type=WholeNumber(0), default=12, help="Features shown for each text (default: 12)."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with all features and all 256 sums.")
def command(  # noqa: PLR0917 - one argument for each flag
    config: Config,
    texts: tuple[str, ...],
    ids: tuple[str, ...],
    index: Path | None,
    words: tuple[str, ...],
    weights: str | None,
    records: bool,
    scope: str | None,
    features: int,
    as_json: bool,
    *,
    form: InputForm,
) -> None:
    """Explain whether B, coming after A, is a duplicate of A.

    A and B are texts, or @FILE for the content of a file. --id takes an article of a kept index
    in place of A. The index contains no texts: only the signature, margins, blocks and distances of such an article
    are shown. With --index, the rules are those in force in it; the profile must have its scheme.

    The report has the verdict with its reason; the cosine of the weights and the estimate by the signatures; the
    blocks that agree; the look-up of B's plan that finds A, or the length of a plan that would; and for each text its
    features with counts and weights, the bits that each feature raises or lowers, and the resulting sums and margins.
    It ignores the window, and bucket_limit and candidates of the profile.

    --words gives the words of each text directly. They are not segmented and count as a long text.

    \b
    Examples:
      stream-dedup explain '今天天气很好，我们去公园' '今天天气真好，我们去公园'
      stream-dedup explain --profile simhash @old.txt @new.txt
      stream-dedup explain --index seen/ --id 4711 @new.txt
      stream-dedup explain --weights tf --words 'the cat sat on the mat' --words 'the cat sat on a mat'
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.explain.explain import as_json as to_json  # noqa: PLC0415 - loads numpy
    from stream_dedup.explain.explain import explain  # noqa: PLC0415 - loads numpy
    from stream_dedup.explain.side import side_of_texts  # noqa: PLC0415 - as above

    _check(ids, texts, words, index)
    if scope is not None and (records or words):
        raise UserError("--in-scope is for texts: a record has its own scope (input.scope_field), and words have none")
    maker, rules = _maker(config, weights)
    sides: list[Side] = []
    if index is not None:
        sides, rules = _held(config, index, ids, rules)
    names = ("A", "B")[len(sides) :]  # ids come before texts, and the first one is A
    if words:
        shown = texts or (None,) * len(words)
        sides += [_side_of_words(maker, *one) for one in zip(names, words, shown, strict=True)]
    for name, given in () if words else zip(names, texts, strict=True):
        text = _content(given, form)
        parts, own = _record(config, name, text) if records else ((_text(config, text), scope), None)
        sides.append(replace(side_of_texts(maker, name, *parts), id=own))
    a, b = sides
    explanation = explain(a, b, rules)
    if as_json:
        write_json(to_json(explanation))
        return
    from stream_dedup.explain.text import lines  # noqa: PLC0415 - only where text is asked for

    for line in lines(explanation, report_columns(110), features):
        write_lines(line)


def _check(ids: tuple[str, ...], texts: tuple[str, ...], words: tuple[str, ...], index: Path | None) -> None:
    """Raise UserError where a call does not name two texts."""
    named = len(ids) + (len(words) or len(texts))
    if named != SIDES or (words and texts and len(words) != len(texts)):
        raise UserError(f"texts and ids given: {named}; give two, as texts, @FILE, --id or --words")
    if ids and index is None:
        raise UserError("--id needs --index: name the folder of the index that holds it")


def _maker(config: Config, weights: str | None) -> tuple[Fingerprinter, Rules]:
    """Return what makes fingerprints, and the rules over them."""
    from stream_dedup.core.fingerprinter import Fingerprinter  # noqa: PLC0415 - loads numpy and the dictionary
    from stream_dedup.core.scheme import scheme_of  # noqa: PLC0415 - loads the core

    settings = fingerprint_settings_of(config).with_features(weights=weights)
    return Fingerprinter(settings), replace(rules_of(config), scheme=scheme_of(settings))


def _held(config: Config, path: Path, ids: tuple[str, ...], rules: Rules) -> tuple[list[Side], Rules]:
    """Return the articles of the index, and the rules in force in it; those given where it has none yet."""
    from stream_dedup.explain.side import side_of_id  # noqa: PLC0415 - as below
    from stream_dedup.index import LogIndex  # noqa: PLC0415 - loads RocksDB

    # No look-up is made, so nothing is loaded for it.
    settings = replace(index_settings_of(config), memory_mib=0)
    with LogIndex.read(path, scheme=rules.scheme, settings=settings) as index:
        return [side_of_id(index, one, path) for one in ids], index.rules or rules


def _side_of_words(maker: Fingerprinter, name: str, words: str, text: str | None) -> Side:
    from stream_dedup.explain.side import side_of  # noqa: PLC0415 - loads numpy

    counts = Counter(word for word in _BETWEEN_WORDS.split(words) if word)
    return side_of(name, text, maker.features_of(counts), maker.settings)


def _text(config: Config, text: str) -> str:
    """Return a text that is a whole article."""
    if config.input.fields:
        raise UserError(
            f"input.fields: an article has {len(config.input.fields)} fields; give JSON objects, with --records"
        )
    return text


def _record(config: Config, name: str, text: str) -> tuple[tuple[str | tuple[str, ...], str | None], str | None]:
    """Return the texts of the fields and the scope of a record, and its id, if it has one."""
    from stream_dedup.core.decode import RawRecord, Rejection, decode  # noqa: PLC0415 - loads the core
    from stream_dedup.files.lines import MAX_LINE_BYTES  # noqa: PLC0415 - loads the core

    record = RawRecord(None, text.encode("utf-8", "surrogatepass"), _NO_ID)
    article = decode(record, input_format_of(config, MAX_LINE_BYTES))
    if isinstance(article, Rejection):
        raise UserError(f"{name}: {article.reason}; give a JSON object as filter reads them")
    return (article.texts, article.scope), None if article.id == _NO_ID else article.id


def _content(given: str, form: InputForm) -> str:
    """Return a text as given, or the content of the file that it names."""
    if given == "@":
        raise UserError("@ names no file: give its name after it, as in @new.txt")
    return read_text(given[1:], form) if given.startswith("@") else printable(given)
