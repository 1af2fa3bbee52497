"""Checks commands without running them: our own by their parser, targets of make, modules and files by being there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator

import click

from stream_dedup.cli import cli
from tests.make_readme import ROOT

OURS = ("stream-dedup", ".venv/bin/stream-dedup")
FOREIGN = frozenset(
    {
        *(
            "cat",
            "cd",
            "curl",
            "export",
            "grep",
            "mkdir",
            "printf",
            "source",
            ".",
            "tail",
            "less",
            "sh",
            "sort",
            "du",
            "apt",
            "pip",
            "openssl",
        ),
        *("docker", "kubectl", "kafka-acls.sh", "kafka-consumer-groups.sh", "kafka-topics.sh", "kafka-transactions.sh"),
        "pg_dump_articles",  # stands for any program of the reader
    }
)
"""Programs that are not ours, which the pages name."""
_ENDS = frozenset(";|&")
_REDIRECTS = frozenset("<>")
_PHONY = re.findall(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
TARGETS = frozenset(" ".join(_PHONY).split())


def check_commands(script: str) -> Iterator[str]:
    """Yields what is wrong with the commands of a script."""
    for words in _commands(script):
        if words[0] in OURS:
            yield from check_ours(words[1:])
        elif words[0] == "make":
            named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
            yield from (f"make has no target {name}" for name in named if name not in TARGETS)
        elif words[0] in {"python", ".venv/bin/python"}:
            yield from _check_python(words[1:])
        elif words[0] not in FOREIGN:
            yield f"unknown program {words[0]}"
        elif "--" in words:  # kubectl exec POD -- COMMAND
            yield from check_commands(shlex.join(words[words.index("--") + 1 :]))


def _commands(script: str) -> Iterator[list[str]]:
    """The simple commands of a script, without assignments before them and without redirections."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        tokens = list(lexer)
        words: list[str] = []
        for before, token in zip(["", *tokens], tokens, strict=False):
            if set(token) <= _ENDS:
                if words:
                    yield words
                words = []
            elif not {*token, *before[:1]} & _REDIRECTS and (words or not re.match(r"[A-Z_]+=", token)):
                words.append(token)
        if words:
            yield words


def check_ours(words: list[str]) -> Iterator[str]:
    """Yields what is wrong with the arguments of ``stream-dedup``, by click: commands, flags, values of flags."""
    command: click.Command = cli
    context = click.Context(cli, info_name="stream-dedup")
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        if found is None:
            if rest[0].startswith("-"):
                break
            yield f"no command {' '.join(words)}"
            return
        context = click.Context(found, context, info_name=rest.pop(0))
        command = found
    try:
        values, _, _ = command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        yield f"{' '.join(words)}: {error.format_message()}"
        return
    for parameter in command.params:
        yield from _check_value(parameter, values.get(parameter.name or ""), context)


def _check_value(parameter: click.Parameter, value: object, context: click.Context) -> Iterator[str]:
    if isinstance(parameter.type, click.Path | click.File):
        return
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str):
            try:
                parameter.type.convert(one, parameter, context)
            except click.UsageError as error:
                yield error.format_message()


def _check_python(words: list[str]) -> Iterator[str]:
    arguments = [word for word in words if word != "-P"]
    if arguments[:1] == ["-m"]:
        if importlib.util.find_spec(arguments[1]) is None:
            yield f"no module {arguments[1]}"
        elif arguments[1] == "stream_dedup":
            yield from check_ours(arguments[2:])
