"""The exit codes of the program, each declared once with its meaning.

``MEANINGS`` is the list: the table of the reference is generated from it.
"""

from __future__ import annotations

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

MEANINGS = {
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
