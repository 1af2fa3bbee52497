"""Errors, named by the reaction that they ask for, and the exit codes of the program.

Every message says what was wrong, why, and what to do about it. A record that cannot be read is no error: it is a
``rejected`` verdict with a reason.
"""

EXIT_OK = 0
EXIT_UNEXPECTED = 1
EXIT_USER = 2
EXIT_FOUND = 3
EXIT_REFUSED = 4
EXIT_UNAVAILABLE = 5
EXIT_CORRUPT = 6
EXIT_HUNG_UP = 129
"""128 + SIGHUP, as for a program that the signal ended."""
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141
"""128 + SIGPIPE."""
EXIT_TERMINATED = 143
"""128 + SIGTERM."""

EXIT_MEANINGS = {
    EXIT_OK: "success; also a worker that SIGTERM or Ctrl-C ended",
    EXIT_UNEXPECTED: "a bug: please report it with the output on standard error; where the native core has it, the "
    "message names the record",
    EXIT_USER: "wrong usage or configuration: the message names what to change",
    EXIT_FOUND: "`filter` or `seed` rejected a line, `withdraw` did not find an id, or a check (`status`, `audit`, "
    "`index verify`, `topics check`) found a fault",
    EXIT_REFUSED: "continuing would break a guarantee about the data: the message names the remedy",
    EXIT_UNAVAILABLE: "a broker or the disk did not answer within its time limit: start again later",
    EXIT_CORRUPT: "stored data is damaged: rebuild it where it can be rebuilt",
    EXIT_HUNG_UP: "SIGHUP ended `filter`, `seed` or `calibrate`",
    EXIT_INTERRUPTED: "Ctrl-C ended the command",
    EXIT_PIPE_CLOSED: "the reader of standard output closed it",
    EXIT_TERMINATED: "SIGTERM ended `filter`, `seed` or `calibrate`",
}
"""Every exit code: the table of the reference is generated from it."""


class StreamDedupError(Exception):
    """Base of every error that the program raises on purpose."""

    exit_code = EXIT_UNEXPECTED


class UserError(StreamDedupError):
    """The configuration, a flag or a file is wrong; the message names it and the remedy."""

    exit_code = EXIT_USER


class RefusedError(StreamDedupError):
    """Going on would break a promise about the data; the message names the remedy."""

    exit_code = EXIT_REFUSED


class UnavailableError(StreamDedupError):
    """A part outside the program (broker, disk) did not answer within its named time: start again later."""

    exit_code = EXIT_UNAVAILABLE


class CorruptError(StreamDedupError):
    """Stored bytes are not what this program writes: rebuild what can be rebuilt."""

    exit_code = EXIT_CORRUPT


class DefectError(StreamDedupError):
    """The native core has a defect; the message names the record at which it showed. What is stored is intact."""


def reason_of(error: OSError) -> str:
    """Return what the system says of an error, with the file where it names one, and without the number."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"
