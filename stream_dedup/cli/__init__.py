"""The command line: ``stream-dedup COMMAND``.

Owns the list of commands and the exit codes. Rules:

* A command's module is imported when it is called: ``filter`` never loads the Kafka client.
* A command returns its exit code, or nothing for 0. It raises the errors of ``errors``; here
  each class becomes one exit code and one message on standard error, without a traceback.
* Standard output holds what a command is for, and nothing else.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import NamedTuple

import click

from stream_dedup import __version__
from stream_dedup.cli.output import say, write_lines
from stream_dedup.cli.signals import hold
from stream_dedup.cli.streams import close_standard_streams, give_up, open_standard_streams
from stream_dedup.errors import CorruptError, RefusedError, StreamDedupError, UnavailableError, UserError
from stream_dedup.exit_codes import (
    EXIT_CORRUPT,
    EXIT_HUNG_UP,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE_CLOSED,
    EXIT_REFUSED,
    EXIT_TERMINATED,
    EXIT_UNAVAILABLE,
    EXIT_UNEXPECTED,
    EXIT_USER,
)

_ENDED_BY_SIGNAL = frozenset((EXIT_HUNG_UP, EXIT_INTERRUPTED, EXIT_TERMINATED))

EXIT_CODES: dict[type[StreamDedupError], int] = {
    UserError: EXIT_USER,
    RefusedError: EXIT_REFUSED,
    UnavailableError: EXIT_UNAVAILABLE,
    CorruptError: EXIT_CORRUPT,
}


class _Entry(NamedTuple):
    """Where a command lives and what it does."""

    module: str
    help: str


COMMANDS = {
    "run": _Entry("stream_dedup.cli.worker", "The worker: articles in on Kafka, verdicts out on Kafka."),
    "filter": _Entry("stream_dedup.cli.filter", "Verdicts on JSON Lines from files or standard input."),
    "fingerprint": _Entry("stream_dedup.cli.fingerprint", "Fingerprints of texts."),
    "explain": _Entry("stream_dedup.cli.explain", "Why two texts match or do not: features, bits, blocks, distances."),
    "calibrate": _Entry(
        "stream_dedup.cli.calibrate", "What each limit and number of probes makes of your own articles."
    ),
    "audit": _Entry("stream_dedup.cli.audit", "Recompute every verdict from the log and compare."),
    "index": _Entry("stream_dedup.cli.index", "Look into an index, rebuild or verify it."),
    "rules": _Entry("stream_dedup.cli.rules", "Show or change the rules of a log."),
    "topics": _Entry("stream_dedup.cli.topics", "Make or check the topics."),
    "offsets": _Entry("stream_dedup.cli.offsets", "Show or set how far a group has read."),
    "config": _Entry("stream_dedup.cli.config", "Check or show the configuration."),
    "produce": _Entry("stream_dedup.cli.produce", "Send JSON Lines to a topic."),
    "broker": _Entry("stream_dedup.dev.command", "A Kafka broker for development."),
}


class LazyGroup(click.Group):
    """A group that imports the module of a command when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names, in the order of ``COMMANDS``."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, its module imported now."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done; 1 a bug; 2 wrong use or configuration; 3 something was rejected or found; "
    "4 going on would break a promise; 5 something did not answer; 6 stored bytes are damaged.",
)
@click.version_option(__version__, prog_name="stream-dedup")
def cli() -> None:
    """Find near-duplicate articles, on a Kafka stream or in files.

    An article is a duplicate when one that is nearly the same stands earlier in the log.
    `stream-dedup COMMAND --help` teaches each command.
    """


def main() -> None:
    """Entry point of the program."""
    open_standard_streams()
    code = run()
    hold()  # the command is finished: a signal would replace its exit code
    if code in _ENDED_BY_SIGNAL:  # whoever ends it does not wait for a reader that has stopped reading
        give_up(sys.stdout, 1)
    close_standard_streams()
    sys.exit(code)


def run(args: list[str] | None = None) -> int:
    """Call a command and give its exit code; errors become a message and a code."""
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
    """Say what is to be said of an error and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        code: int = error.exit_code
    elif isinstance(error, click.ClickException):
        code = _react_to_usage(error)
    elif isinstance(error, KeyboardInterrupt | click.Abort):
        say("interrupted")
        code = EXIT_INTERRUPTED
    elif isinstance(error, BrokenPipeError):
        code = EXIT_PIPE_CLOSED
    elif isinstance(error, StreamDedupError | OSError):  # a full disk, say: no bug, and it tells itself
        say(f"error: {error}")
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
    say(f"error: {error.format_message()}")
    return EXIT_USER


def exit_code_of(error: StreamDedupError | OSError) -> int:
    """Exit code of an error, by the reaction that its class asks for."""
    if isinstance(error, OSError):
        return EXIT_UNAVAILABLE
    for kind, code in EXIT_CODES.items():
        if isinstance(error, kind):
            return code
    return EXIT_UNEXPECTED
