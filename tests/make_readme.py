"""Writes the generated parts of the README (commands, flags, keys, profiles, metrics, findings, exit codes) and docs/.

    python -m tests.make_readme

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end of NAME -->``. Its content is declared once in the
program and derived here. ``tests/test_docs.py`` fails where the README differs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from stream_dedup.audit.report import COUNTS, FAULTS
from stream_dedup.cli import cli
from stream_dedup.cli.options import ALL_FLAGS
from stream_dedup.config.effective import of_profile
from stream_dedup.config.keys import accepted_values, all_keys, default_value
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.profiles import PROFILES
from stream_dedup.exit_codes import MEANINGS
from stream_dedup.metrics.metrics import DECLARATIONS
from tests.broker.rights import acls_part

README = Path(__file__).resolve().parents[1] / "README.md"
ACLS = README.parent / "docs" / "acls.md"
EVERYWHERE = ("--config", "--log-level")
"""Flags that are described once, before the commands."""


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


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table in Markdown."""
    head = list(head)
    lines = (f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return "\n".join(lines)


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
    own = [(flag, option) for flag, option in shown.items() if flag not in keyed]
    if keyed:
        parts.append(f"Configuration flags: {', '.join(f'`{flag}`' for flag in keyed)}.")
    if own:
        parts.append(table(("flag", "meaning"), ((f"`{_with_value(*one)}`", one[1].help or "") for one in own)))
    return "\n\n".join(parts)


def _with_value(flag: str, option: click.Option) -> str:
    value = "" if option.is_flag else option.make_metavar(click.Context(click.Command("")))
    return f"{flag} {value}".rstrip().replace("|", r"\|")


def keys_part() -> str:
    """Returns the table of the keys of the configuration."""
    flags = {flag.key: f"`--{name.replace('_', '-')}`" for name, flag in ALL_FLAGS.items()}
    return table(
        ("key", "flag", "default", "meaning", "values"),
        (
            (f"`{name}`", flags.get(name, ""), default_value(field), field.description or "", accepted_values(field))
            for name, field in all_keys(Config)
        ),
    )


def profiles_part() -> str:
    """Returns the table of the values that each profile gives to its keys."""
    values = {name: of_profile(load_config(None, {"match": {"profile": name}}, {})) for name in PROFILES}
    keys = [key for key, _ in all_keys(Config) if any(key in of_one for of_one in values.values())]
    rows = ((f"`{key}`", *(values[name].get(key, "") for name in PROFILES)) for key in keys)
    return table(("key", *(f"`{name}`" for name in PROFILES)), rows)


def metrics_part() -> str:
    """Returns the table of the metrics."""
    rows = (
        (
            f"`{declared.full_name}`",
            declared.kind,
            ", ".join(f"`{label}`" for label in declared.labels),
            f"{declared.meaning} ({declared.unit})",
            declared.when_it_moves,
        )
        for declared in DECLARATIONS
    )
    return table(("metric", "kind", "labels", "meaning", "when it moves"), rows)


def audit_findings_part() -> str:
    """Returns the tables of what an audit finds: faults, and what it counts beside them."""
    faults = table(("fault", "meaning", "what to do"), ((f"`{one.kind}`", one.meaning, one.remedy) for one in FAULTS))
    counts = table(("count", "meaning"), ((f"`{one.kind}`", one.meaning) for one in COUNTS))
    return f"{faults}\n\n{counts}"


def exit_codes_part() -> str:
    """Returns the table of the exit codes."""
    return table(("code", "meaning"), ((str(int(code)), meaning) for code, meaning in MEANINGS.items()))


PARTS: dict[str, Callable[[], str]] = {
    "profiles": profiles_part,
    "commands": commands_part,
    "audit findings": audit_findings_part,
    "exit codes": exit_codes_part,
    "keys": keys_part,
    "metrics": metrics_part,
}
ACL_PARTS = {"acls": acls_part}


def part_of(text: str, name: str) -> re.Match[str]:
    """Finds a generated part; group 2 is its content."""
    pattern = rf"(<!-- generated: {name} -->\n\n)(.*?)(\n\n<!-- end of {name} -->)"
    found = re.search(pattern, text, re.DOTALL)
    assert found is not None, f"the page has no generated part {name!r}"
    return found


def main() -> None:
    """Writes every part anew."""
    write(README, PARTS)
    write(ACLS, ACL_PARTS)


def write(page: Path, parts: dict[str, Callable[[], str]]) -> None:
    """Writes the parts of one page anew."""
    text = page.read_text("utf-8")
    for name, make in parts.items():
        found = part_of(text, name)
        text = f"{text[: found.start(2)]}{make()}{text[found.end(2) :]}"
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
