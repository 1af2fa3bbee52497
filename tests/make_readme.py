"""Writes the generated parts of the pages in docs/, those of the reference among others.

    python -m tests.make_readme

``PARTS`` says which page has which part. A part stands between ``<!-- generated: NAME -->`` and
``<!-- end of NAME -->``. Its content is declared once in the program and derived here. ``tests/test_docs.py`` fails
where a page differs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from stream_dedup.audit.report import COUNTS, FAULTS
from stream_dedup.cli import cli, size
from stream_dedup.cli.options import ALL_FLAGS
from stream_dedup.clusters.follow import ClusterMetrics
from stream_dedup.config.keys import accepted_values, all_keys, default_value
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import ProfileFile, shown_values
from stream_dedup.core import columns, entry, headers, reasons, rules
from stream_dedup.core.model import MAX_ROWS
from stream_dedup.core.profiles import PROFILES
from stream_dedup.errors import EXIT_MEANINGS
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.serve.serve_metrics import ServeMetrics
from tests.code_reference import http_part, python_part
from tests.kafka.rights import acls_part
from tests.markdown import table

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
EVERYWHERE = ("--config", "--log-level")
OF_FILES = ("--format", "--encoding")
"""Flags that are described once, before the commands: of nearly every command, and of those that read files."""
KEYED = {f"--{name.replace('_', '-')}" for name in ALL_FLAGS} - {*EVERYWHERE}
"""Flags that set a key of the configuration."""


def all_commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yields every command and every group but the first by its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))


def flags_of(command: click.Command) -> dict[str, click.Option]:
    """Returns the flags of a command by their names."""
    options = (parameter for parameter in command.params if isinstance(parameter, click.Option))
    return {name: option for option in options for name in option.opts if name.startswith("--")}


def commands_part() -> str:
    """Returns a section for each command: its help, its examples and its flags."""
    return "\n\n".join(_command(name, command) for name, command in all_commands())


def _command(name: str, command: click.Command) -> str:
    text, _, examples = inspect.cleandoc(command.help or "").partition("\n\n\b\n")
    parts = [f"### `{name}`", text]
    if examples:
        lines = inspect.cleandoc(examples.partition("\n")[2])
        parts.append(f"```sh\n{lines}\n```")
    flags = flags_of(command)
    shown = {flag: option for flag, option in flags.items() if flag not in {*EVERYWHERE, "--help"}}
    keyed = [flag for flag, option in shown.items() if (option.name or "").startswith("flag_")]
    of_files = [flag for flag in shown if flag in OF_FILES]
    own = [(flag, option) for flag, option in shown.items() if flag not in {*keyed, *of_files}]
    if keyed:
        parts.append(f"Configuration flags: {'all' if set(keyed) == KEYED else _named(keyed)}.")
    if of_files:
        parts.append(f"Flags of files: {_named(of_files)}.")
    if own:
        parts.append(table(("flag", "meaning"), ((f"`{_with_value(*one)}`", one[1].help or "") for one in own)))
    return "\n\n".join(parts)


def _named(flags: list[str]) -> str:
    return ", ".join(f"`{flag}`" for flag in flags)


def _with_value(flag: str, option: click.Option) -> str:
    value = "" if option.is_flag else option.make_metavar(click.Context(click.Command("")))
    return f"{flag} {value}".rstrip().replace("|", r"\|")


def keys_part() -> str:
    """Returns the tables of the keys of the configuration, one for each section."""
    flags = {flag.key: f"`--{name.replace('_', '-')}`" for name, flag in ALL_FLAGS.items()}
    sections: dict[str, list[tuple[str, ...]]] = {}
    for name, field in all_keys(Config):
        row = (f"`{name}`", flags.get(name, ""), default_value(field), field.description or "", accepted_values(field))
        sections.setdefault(name.partition(".")[0], []).append(row)
    head = ("key", "flag", "default", "meaning", "values")
    return "\n\n".join(
        (
            "Sections: " + ", ".join(f"[{section}](#{section})" for section in sections) + ".",
            *(f"## {section}\n\n{table(head, rows)}" for section, rows in sections.items()),
        )
    )


def profiles_part() -> str:
    """Returns the table of the keys of a profile, with their values in the built-in ones."""
    shown = [shown_values(profile) for profile in PROFILES.values()]
    rows = (
        (f"`{key}`", field.description or "", accepted_values(field), *(of_one.get(key, "") for of_one in shown))
        for key, field in all_keys(ProfileFile)
    )
    return table(("key", "meaning", "values", *(f"`{name}`" for name in PROFILES)), rows)


def metrics_part() -> str:
    """Returns the table of the metrics of a worker."""
    return _metrics(Metrics.declarations())


def serve_metrics_part() -> str:
    """Returns the table of the metrics of the service."""
    return _metrics(ServeMetrics.declarations())


def cluster_metrics_part() -> str:
    """Returns the table of the metrics of what follows the outputs into clusters."""
    return _metrics(ClusterMetrics.declarations())


def _metrics(declarations: Iterable[Any]) -> str:
    rows = (
        (
            f"`{declared.full_name}`",
            declared.kind,
            ", ".join(f"`{label}`" for label in declared.labels),
            f"{declared.meaning} ({declared.unit})",
            declared.when_it_moves,
        )
        for declared in declarations
    )
    return table(("metric", "kind", "labels", "meaning", "when it moves"), rows)


def sizing_costs_part() -> str:
    """Returns the table of the costs that ``size`` computes with."""
    named = (value.values() if isinstance(value, dict) else (value,) for value in vars(size).values())
    costs = [one for some in named for one in some if isinstance(one, size.MeasuredCost)]
    rows = ((one.of, f"{one.value:,g} {one.unit}", f"`{one.command}`") for one in costs)
    return table(("cost of", "", "measured by"), rows)


def sizing_widths_part() -> str:
    """Returns the table of the widths of keys, and from which size on each pays."""
    return table(("bits", "tables", "look-ups", "found", "costs least from, articles held"), size.width_rows())


def audit_findings_part() -> str:
    """Returns the tables of what an audit finds: faults, and what it counts beside them."""
    faults = table(("fault", "meaning", "what to do"), ((f"`{one.kind}`", one.meaning, one.remedy) for one in FAULTS))
    counts = table(("count", "meaning"), ((f"`{one.kind}`", one.meaning) for one in COUNTS))
    return f"{faults}\n\n{counts}"


def exit_codes_part() -> str:
    """Returns the table of the exit codes."""
    return table(("code", "meaning"), ((str(int(code)), meaning) for code, meaning in EXIT_MEANINGS.items()))


def headers_part() -> str:
    """Returns the table of the headers of output records."""
    rows = ((f"`{header.name}`", header.on, header.value) for header in headers.OUTPUT_HEADERS)
    return table(("header", "on", "value"), rows)


def reasons_part() -> str:
    """Returns the table of the codes of rejections, with the texts that each stands for."""
    texts: dict[str, list[str]] = {code: [] for code in reasons.CODES}
    for text, code in reasons._CODES.items():
        shown = re.sub(r"{(\w+)[^}]*}", r"<\1>", text)
        texts[code].append(f"`{shown}`")
    return table(("code", "texts of `dedup.reason`"), ((f"`{code}`", ", ".join(of)) for code, of in texts.items()))


def records_part() -> str:
    """Returns the drawing of the log records, as ``entry`` has it."""
    return _drawing(entry.__doc__, "The value of every record", "Decoding raises")


def columns_part() -> str:
    """Returns the drawing of the columns of a batch."""
    return _drawing(columns.__doc__, "Each column has a kind", "")


def rules_part() -> str:
    """Returns which rules record takes effect, and what its fields mean."""
    return f"{_drawing(rules.__doc__, 'Every rules record', '')}\n\n{_markdown(_described(rules.Rules))}"


def _drawing(doc: str | None, begin: str, end: str) -> str:
    """Returns the paragraphs of a docstring from one that begins so to before one that begins so."""
    assert doc is not None
    text = doc[doc.index(begin) :]
    text = text[: text.index(end)] if end else text
    return _markdown(text.replace("MAX_ROWS", str(MAX_ROWS)).replace("MAX_WITHDRAWN", str(entry.MAX_WITHDRAWN)))


def _markdown(text: str) -> str:
    """Returns a text of our docstrings in Markdown: what is indented by four spaces is a drawing in both."""
    paragraphs = (part if part.startswith("    ") else inspect.cleandoc(part) for part in text.rstrip().split("\n\n"))
    return re.sub(r"``(.+?)``", r"`\1`", "\n\n".join(paragraphs))


def _described(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2]


class Part(NamedTuple):
    """A generated part: the page that has it, and its content."""

    page: Path
    make: Callable[[], str]


PARTS = {
    "profiles": Part(DOCS / "reference/profiles.md", profiles_part),
    "commands": Part(DOCS / "reference/commands.md", commands_part),
    "audit findings": Part(DOCS / "audit.md", audit_findings_part),
    "exit codes": Part(DOCS / "reference/exit-codes.md", exit_codes_part),
    "keys": Part(DOCS / "reference/configuration.md", keys_part),
    "metrics": Part(DOCS / "reference/metrics.md", metrics_part),
    "serve metrics": Part(DOCS / "reference/metrics.md", serve_metrics_part),
    "cluster metrics": Part(DOCS / "reference/metrics.md", cluster_metrics_part),
    "headers": Part(DOCS / "reference/records.md", headers_part),
    "reasons": Part(DOCS / "reference/records.md", reasons_part),
    "log records": Part(DOCS / "reference/log-format.md", records_part),
    "log columns": Part(DOCS / "reference/log-format.md", columns_part),
    "log rules": Part(DOCS / "reference/log-format.md", rules_part),
    "sizing costs": Part(DOCS / "sizing.md", sizing_costs_part),
    "sizing widths": Part(DOCS / "sizing.md", sizing_widths_part),
    "acls": Part(DOCS / "acls.md", acls_part),
    "requests": Part(DOCS / "reference/http.md", http_part),
    "python": Part(DOCS / "reference/python.md", python_part),
}


def written(name: str) -> str:
    """Returns a part as its page has it."""
    return part_of(PARTS[name].page.read_text("utf-8"), name)[2]


def part_of(text: str, name: str) -> re.Match[str]:
    """Finds a generated part; group 2 is its content."""
    pattern = rf"(<!-- generated: {name} -->\n\n)(.*?)(\n\n<!-- end of {name} -->)"
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, f"the page has no generated part {name!r}"
    return found


def main() -> None:
    """Writes every part anew."""
    for name, (page, make) in PARTS.items():
        text = page.read_text("utf-8")
        found = part_of(text, name)
        page.write_text(f"{text[: found.start(2)]}{make()}{text[found.end(2) :]}", "utf-8")


if __name__ == "__main__":
    main()
