"""The command line: ``stream-dedup COMMAND``.

Owns the list of commands. Rules:

* The module of a command is imported when the command is called: ``filter`` never loads the Kafka client.
* A command returns its exit code, or None for 0. It raises the classes of ``errors``, which have exit codes; this
  module writes the message to standard error without a traceback.
* Standard output contains the result of the command only.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from typing import NamedTuple

import click
from click.shell_completion import shell_complete

from stream_dedup import __version__
from stream_dedup.cli.output import say, write_lines
from stream_dedup.cli.process import close_standard_streams, give_up, hold, open_standard_streams
from stream_dedup.errors import (
    EXIT_HUNG_UP,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE_CLOSED,
    EXIT_TERMINATED,
    EXIT_UNAVAILABLE,
    EXIT_UNEXPECTED,
    EXIT_USER,
    StreamDedupError,
    reason_of,
)

COMPLETION_VARIABLE = "_STREAM_DEDUP_COMPLETE"
"""Environment variable by which a shell requests its script, and the script completions."""
_ENDED_BY_SIGNAL = frozenset((EXIT_HUNG_UP, EXIT_INTERRUPTED, EXIT_TERMINATED))


class _Entry(NamedTuple):
    """The place of a command in this package, ``MODULE:NAME`` or a module with ``command``, and its help line."""

    place: str
    help: str


COMMANDS = {
    "run": _Entry("cli.services:run_command", "Run a worker: read articles from Kafka, write verdicts to Kafka."),
    "filter": _Entry("cli.filter", "Add verdicts to JSON Lines from files or standard input."),
    "fingerprint": _Entry("cli.fingerprint", "Write the fingerprints of texts."),
    "explain": _Entry("cli.explain", "Explain why two texts match or do not."),
    "calibrate": _Entry("cli.calibrate", "Show what each limit and number of probes decides about your articles."),
    "size": _Entry("cli.size", "Compute what a number of articles a day takes."),
    "serve": _Entry("cli.services:serve_command", "Answer over HTTP what an article would be, as of now, and why."),
    "status": _Entry("cli.status", "Show workers, lag, log and rules of a group, and what is wrong."),
    "audit": _Entry("cli.audit", "Recompute every verdict from the log, and compare."),
    "index": _Entry("cli.index", "Inspect, verify or rebuild an index."),
    "seed": _Entry("cli.seed", "Enter published articles into the log, without output."),
    "withdraw": _Entry("cli.log:withdraw_command", "Exclude articles from matching, from now on."),
    "reject": _Entry("cli.log:reject_command", "Reject records whose schema the registry does not know."),
    "rules": _Entry("cli.log:rules_command", "Show or change the rules of a log."),
    "topics": _Entry("cli.topics:topics_command", "Create or check the topics."),
    "offsets": _Entry("cli.topics:offsets_command", "Show or set the committed offsets of a group."),
    "config": _Entry("cli.config", "Check or show the configuration."),
    "produce": _Entry("cli.topics:produce_command", "Send JSON Lines to a topic."),
    "broker": _Entry("dev.command", "Start a Kafka broker for development."),
}


class LazyGroup(click.Group):
    """A group that imports the module of a command when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command and return the command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"stream_dedup.{module}"), name or "command")
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success; 1 a bug; 2 wrong usage or configuration; 3 a line was rejected, an id is unknown, "
    "or a check failed; 4 continuing would break a guarantee; 5 a broker or disk did not answer; "
    "6 stored data is damaged.",
)
@click.version_option(__version__, prog_name="stream-dedup")
def cli() -> None:
    """Find near-duplicate articles, on a Kafka stream or in files.

    An article is a duplicate if a nearly identical article is earlier in the log.
    `stream-dedup COMMAND --help` describes a command.
    """


def main() -> None:
    """Entry point of the program."""
    open_standard_streams()
    # No command multiplies matrices of floats: the threads of NumPy's library for it, one a core, would spin at first.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run()
    hold()  # the command is finished: a signal would replace its exit code
    if code in _ENDED_BY_SIGNAL:  # a signal must not wait for a reader that has stopped reading
        give_up(sys.stdout, 1)
    close_standard_streams()
    gc.freeze()  # what is left is freed by the system: a search for cycles takes a tenth of a second
    sys.exit(code)


def run(args: list[str] | None = None) -> int:
    """Call a command and return its exit code. An error becomes a message and an exit code."""
    if (instruction := os.environ.get(COMPLETION_VARIABLE)) is not None:
        return shell_complete(cli, {}, "stream-dedup", COMPLETION_VARIABLE, instruction)
    try:
        # Not cli.main, which would end the program itself where standard output is closed.
        with cli.make_context("stream-dedup", sys.argv[1:] if args is None else args) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the outermost frame
        return _react(error)
    except SystemExit as ended:  # by a signal
        return ended.code if isinstance(ended.code, int) else EXIT_UNEXPECTED
    return code if isinstance(code, int) else EXIT_OK


def _react(error: BaseException) -> int:
    """Write the message of an error and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        code: int = error.exit_code
    elif isinstance(error, click.ClickException):
        code = _react_to_usage(error)
    elif isinstance(error, KeyboardInterrupt | click.Abort):
        say("interrupted")
        code = EXIT_INTERRUPTED
    elif isinstance(error, BrokenPipeError):
        code = EXIT_PIPE_CLOSED
    elif isinstance(error, StreamDedupError | OSError):  # OSError: a full disk, for example; no bug
        say(f"error: {reason_of(error) if isinstance(error, OSError) else error}")
        code = exit_code_of(error)
    else:
        trace = "".join(traceback.format_exception(error)).rstrip("\n")
        say(f"error: this is a bug: {type(error).__name__}: {error}\n{trace}")
        code = EXIT_UNEXPECTED
    return code


def _react_to_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return EXIT_USER
    if isinstance(error, click.UsageError) and error.ctx is not None:
        write_lines(*error.ctx.get_usage().split("\n"), f"Try '{error.ctx.command_path} --help'.", err=True)
    say(f"error: {' '.join(error.format_message().split())}")
    return EXIT_USER


def exit_code_of(error: StreamDedupError | OSError) -> int:
    """Return the exit code of an error, by its class."""
    return error.exit_code if isinstance(error, StreamDedupError) else EXIT_UNAVAILABLE
