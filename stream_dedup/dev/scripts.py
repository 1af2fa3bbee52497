"""How the project's scripts end where an error is no bug: benchmarks, boards, and tests that are commands."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from types import TracebackType

from stream_dedup.errors import StreamDedupError
from stream_dedup.extras import not_installed, pip_command

_EXTRA = re.compile(r"([\w.-]+).*\bextra == ['\"]([\w-]+)['\"]")


def say_errors() -> None:
    """From now on an error of the program, or an extra that is missing, is one line; the exit code stays 1.

    The packages of the scripts call it when they are imported: a script's own imports may be what fails.
    """
    sys.excepthook = _say


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    said = _said(error)
    if said is None:
        sys.__excepthook__(kind, error, trace)
    else:
        print(said, file=sys.stderr)  # noqa: T201 - a script


def _said(error: BaseException) -> str | None:
    """Return the line, None of an error that needs its traceback."""
    if isinstance(error, StreamDedupError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        package = error.name.partition(".")[0]
        if (extra := _extra_of(package)) is not None:
            return not_installed(_script(), [package], pip_command(extra))
    return None


def _script() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "this script" if spec is None else str(spec.name).removesuffix(".__main__")


def _extra_of(module: str) -> str | None:
    """Return an extra that has the package of a module, by the metadata of the program; None if none has."""
    try:
        found = map(_EXTRA.match, requires("stream-dedup") or ())
    except PackageNotFoundError:
        return None
    extras = {match[1].lower().replace("-", "_"): match[2] for match in found if match is not None}
    return extras.get(module.lower())
