"""Errors, named by the reaction that they ask for.

Every message says what was wrong, why, and what to do about it. The command
line turns each class into one exit code (see ``EXIT_CODES`` in ``cli``).

* ``UserError``     the user has to change something (configuration, flags, topic settings).
* ``RefusedError``  going on would break a promise about the data: stop, and say how to mend it.
* ``UnavailableError``  something outside (broker, disk) did not answer in its named time: start again later.
* ``CorruptError``  stored bytes are not what was written: rebuild what can be rebuilt.
* ``DefectError``   the program itself is wrong: report it, and use another release meanwhile.

A record that cannot be read is no error: it is a ``rejected`` verdict with a reason.
"""


class StreamDedupError(Exception):
    """Base of every error that the program raises on purpose."""


class UserError(StreamDedupError):
    """The configuration, a flag or a file is wrong; the message names it and the remedy."""


class RefusedError(StreamDedupError):
    """Going on would break a promise about the data; the message names the remedy."""


class UnavailableError(StreamDedupError):
    """A part outside the program did not answer within its named time."""


class CorruptError(StreamDedupError):
    """Stored bytes are not what this program writes."""


class DefectError(StreamDedupError):
    """The native core has a defect; the message names the record at which it showed. What is stored is intact."""


def reason_of(error: OSError) -> str:
    """Return what the system says of an error, with the file where it names one, and without the number."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"
