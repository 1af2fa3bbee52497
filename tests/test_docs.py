"""The README is held against the program: every command, flag, key and metric stands in it, none that is gone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

from stream_dedup.cli import COMMANDS, EXIT_CODES, cli
from stream_dedup.config.effective import of_profile
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.core.profiles import PROFILES
from stream_dedup.metrics.metrics import DECLARATIONS, PREFIX

README = Path(__file__).resolve().parents[1] / "README.md"


def section(title: str) -> str:
    """The part of the README under a heading, up to the next one of its level."""
    level, text = title.split(" ", maxsplit=1)[0], README.read_text("utf-8")
    start = re.search(rf"^{re.escape(title)}$", text, re.MULTILINE)
    assert start is not None, f"README.md has no heading {title!r}"
    end = re.search(rf"^#{{1,{len(level)}}} ", text[start.end() :], re.MULTILINE)
    return text[start.end() :][: end.start() if end else None]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its full name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


ALL = dict(commands(cli))
EVERYWHERE = {"--help", "--config", "--log-level"}
"""Flags told once, before the commands."""


def flags(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name.startswith("--")
    }


def keys() -> Iterator[tuple[str, str]]:
    """Each key of the configuration with its row in the README."""
    for name, field in Config.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for key in inner.model_fields:
                yield f"{name}.{key}", row(f"{name}.{key}", inner, key)
        else:
            yield name, row(name, Config, name)


def row(name: str, model: type[BaseModel], key: str) -> str:
    field = model.model_fields[key]
    assert isinstance(field.json_schema_extra, dict)
    value = field.default
    default = "" if value is None else f"`{json.dumps(str(value) if isinstance(value, Path) else value)}`"
    return f"| `{name}` | {default} | {field.description} | {field.json_schema_extra['give']} |"


KEYS = dict(keys())


def profile_rows() -> list[str]:
    """What each profile makes of the keys that it decides: a row for each key."""
    told = {name: of_profile(load_config(None, {"match": {"profile": name}}, {})) for name in PROFILES}
    decided = [key for key in KEYS if any(key in values for values in told.values())]
    return [f"| `{key}` | " + " | ".join(told[name].get(key, "") for name in PROFILES) + " |" for key in decided]


@pytest.mark.parametrize("name", ALL)
def test_every_command_stands_in_the_readme_with_its_flags(name: str) -> None:
    """Under a heading of its own, a row for each flag; no row of one that the command does not have."""
    text = section(f"### `{name}`")
    assert set(re.findall(r"^\| `(--[a-z-]+)", text, re.MULTILINE)) == flags(ALL[name]) - EVERYWHERE


def test_flags_of_every_command_stand_in_the_readme_once() -> None:
    """Before the first command; all but the broker's have them."""
    told = section("## Commands").partition("###")[0]
    assert all(f"`{flag} " in told for flag in EVERYWHERE - {"--help"})
    assert [name for name in ALL if not flags(ALL[name]) >= EVERYWHERE - {"--help"}] == ["broker"]


@pytest.mark.parametrize("name", ALL)
def test_every_command_teaches_itself(name: str) -> None:
    """`--help` has a text, and each flag has one."""
    command = ALL[name]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts


@pytest.mark.parametrize("key", KEYS)
def test_every_key_stands_in_the_readme(key: str) -> None:
    """With its default, its meaning and what may be given."""
    assert KEYS[key] in section("## Configuration").splitlines()


def test_every_profile_stands_in_the_readme() -> None:
    """With what it makes of each key that it decides."""
    told = [line for line in section("## Profiles").splitlines() if line.startswith("| `")]
    assert told == profile_rows()


def test_no_other_key_stands_in_the_readme() -> None:
    """A key that is gone is not described."""
    assert re.findall(r"^\| `([a-z_.]+)` \|", section("## Configuration"), re.MULTILINE) == list(KEYS)


@pytest.mark.parametrize("name", [declared.full_name for declared in DECLARATIONS])
def test_every_metric_stands_in_the_readme(name: str) -> None:
    """With its kind, labels, meaning and what to do."""
    (declared,) = (one for one in DECLARATIONS if one.full_name == name)
    labels = ", ".join(f"`{label}`" for label in declared.labels)
    line = (
        f"| `{name}` | {declared.kind} | {labels} | {declared.meaning} ({declared.unit}) | {declared.when_it_moves} |"
    )
    assert line in section("## Metrics").splitlines()


def test_no_other_metric_stands_in_the_readme() -> None:
    """A metric that is gone is not described."""
    named = re.findall(rf"^\| `({PREFIX}\w+)` \|", section("## Metrics"), re.MULTILINE)
    assert named == [declared.full_name for declared in DECLARATIONS]


def test_every_exit_code_stands_in_the_readme() -> None:
    """Each code has its row."""
    told = re.findall(r"^\| (\d+) \|", section("## Exit codes"), re.MULTILINE)
    assert set(told) >= {"0", "1", "3", *map(str, EXIT_CODES.values())}


def test_the_example_without_kafka_says_what_comes_out() -> None:
    """The command of the README gives the lines that stand under it."""
    block = re.search(r"^```sh\n\$ (printf.*?filter)\n(.*?)```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    command = block[1].replace(".venv/bin/stream-dedup", f"{sys.executable} -m stream_dedup")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=README.parent)
    assert (done.stdout, done.returncode) == (block[2], 0), done.stderr


def test_the_example_from_python_runs() -> None:
    """And finds the article that it adds."""
    block = re.search(r"^```python\n(.*?)```$", section("## From Python"), re.MULTILINE | re.DOTALL)
    assert block is not None
    script = re.sub(r"^    index\.search\((.*)\)$", r"    print(index.search(\1)[0].id)", block[1], flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=README.parent
    )
    assert (done.stdout, done.returncode) == ("a\n", 0), done.stderr


def test_every_registered_command_is_there() -> None:
    """Each entry of the list has a module with a command of that name."""
    assert {name.split(" ")[0] for name in ALL} == set(COMMANDS)
