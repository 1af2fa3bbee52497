"""``stream-dedup completion``: the script by which a shell completes commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stream_dedup.cli.output import write_lines

SHELLS = ("bash", "zsh", "fish")
COMPLETION_VARIABLE = "_STREAM_DEDUP_COMPLETE"
"""Environment variable by which the script requests completions from the program."""


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Write the script that completes commands and flags in a SHELL: bash, zsh or fish.

    \b
    Examples:
      stream-dedup completion bash > ~/.local/share/bash-completion/completions/stream-dedup
      stream-dedup completion zsh > ~/.zfunc/_stream-dedup
      stream-dedup completion fish > ~/.config/fish/completions/stream-dedup.fish
    """  # noqa: D301 - \b keeps click from folding the examples
    root = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    if kind is None:
        msg = f"click has no completion for {shell}"
        raise click.UsageError(msg)
    script = kind(root.command, {}, root.info_name or "stream-dedup", COMPLETION_VARIABLE).source()
    write_lines(*script.strip("\n").split("\n"))
