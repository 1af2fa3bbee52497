"""The documentation is tested against the program: its tables are generated from the declarations."""

from __future__ import annotations

import re

import click
import pytest
from pydantic.fields import FieldInfo

from stream_dedup.cli import COMMANDS
from stream_dedup.clusters.follow import ClusterMetrics
from stream_dedup.config.keys import accepted_values, all_keys
from stream_dedup.config.model import Config
from stream_dedup.config.profile_file import ProfileFile
from stream_dedup.core import headers
from stream_dedup.errors import EXIT_MEANINGS, StreamDedupError
from stream_dedup.metrics.metrics import Metrics
from stream_dedup.serve.serve_metrics import ServeMetrics
from tests.make_readme import EVERYWHERE, KEYED, OF_FILES, PARTS, README, all_commands, flags_of, written

ALL = dict(all_commands())
LEAVES = {name: command for name, command in ALL.items() if not isinstance(command, click.Group)}


def first_cells(name: str) -> list[str]:
    """The first cell of each row of the generated tables, without their heads."""
    cells = re.findall(r"^\| (.+?) \|", written(name), re.MULTILINE)
    rules = {at for at, cell in enumerate(cells) if cell == "---"}
    return [cell.strip("`") for at, cell in enumerate(cells) if at not in rules and at + 1 not in rules]


@pytest.mark.parametrize("name", PARTS)
def test_a_generated_part_is_that_of_the_program(name: str) -> None:
    """Every generated table and text in docs/ equals the declarations in the code; that of rights equals their test."""
    assert written(name) == PARTS[name].make(), (
        f"{PARTS[name].page.name} differs from the program; write it with: python -m tests.make_readme"
    )


def test_the_reference_has_every_command() -> None:
    """A section for each command, in the order of the program, and none for a command that does not exist."""
    assert re.findall(r"^### `(.+)`$", written("commands"), re.MULTILINE) == list(ALL)
    assert {name.split(" ")[0] for name in ALL} == set(COMMANDS)


@pytest.mark.parametrize("name", LEAVES)
def test_the_reference_has_every_flag(name: str) -> None:
    """The section of a command names each of its flags, and no other."""
    text = re.split(rf"^### `{name}`$", written("commands"), flags=re.MULTILINE)[1].partition("\n### ")[0]
    listed = re.findall(r"^\| `(--[a-z-]+)", text, re.MULTILINE)
    for line in re.findall(r"^(?:Configuration flags|Flags of files): (.*)$", text, re.MULTILINE):
        listed += KEYED if line == "all." else re.findall(r"--[a-z-]+", line)
    assert sorted(listed) == sorted(flags_of(LEAVES[name]).keys() - {*EVERYWHERE, "--help"})


def test_flags_of_every_command_are_described_once() -> None:
    """Before the first command. Size and broker do not have those of every command."""
    intro = PARTS["commands"].page.read_text("utf-8").partition("<!-- generated")[0]
    assert all(f"`{flag} " in intro for flag in (*EVERYWHERE, *OF_FILES))
    assert [name for name, command in LEAVES.items() if not flags_of(command).keys() >= set(EVERYWHERE)] == [
        "size",
        "broker",
    ]


def test_the_reference_has_every_key_metric_header_and_exit_code() -> None:
    """A row for each, and none for one that does not exist."""
    assert first_cells("keys") == [name for name, _ in all_keys(Config)]
    assert first_cells("profiles") == [name for name, _ in all_keys(ProfileFile)]
    assert first_cells("metrics") == [declared.full_name for declared in Metrics.declarations()]
    assert first_cells("serve metrics") == [declared.full_name for declared in ServeMetrics.declarations()]
    assert first_cells("cluster metrics") == [declared.full_name for declared in ClusterMetrics.declarations()]
    assert set(first_cells("headers")) == {value for name, value in vars(headers).items() if _is_header(name, value)}
    assert first_cells("exit codes") == [str(code) for code in EXIT_MEANINGS]
    assert {kind.exit_code for kind in StreamDedupError.__subclasses__()} <= set(EXIT_MEANINGS)


def _is_header(name: str, value: object) -> bool:
    return name.isupper() and isinstance(value, str) and value.startswith(headers.PREFIX) and value != headers.PREFIX


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help(name: str) -> None:
    """`--help` has a text, and each flag has one."""
    assert ALL[name].help
    assert all(option.help for flag, option in flags_of(ALL[name]).items() if flag != "--help")


@pytest.mark.parametrize(("name", "field"), [*all_keys(Config), *all_keys(ProfileFile)])
def test_every_key_is_declared_completely(name: str, field: FieldInfo) -> None:
    """A key has a meaning and accepted values; a number has a range."""
    assert field.description, name
    assert accepted_values(field), name
    assert field.annotation not in {int, float} or re.search(r"\d to \d", accepted_values(field)), name


def test_the_architecture_names_files_that_exist() -> None:
    """Each path in backquotes is a file or folder of the package or of the project."""
    root = README.parent
    paths = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/[a-z_]+))`", (root / "docs/architecture.md").read_text("utf-8"))
    places = ("", "stream_dedup", "stream_dedup/index")
    assert len(paths) > 20
    assert [path for path in paths if not any((root / place / path).exists() for place in places)] == []
