"""What only some commands need: the packages of an extra.

A command calls ``need_packages`` before it has any effect: what is missing ends it with one line that has the command
which installs it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from stream_dedup.errors import UserError

SERVE_PACKAGES = ("starlette", "uvicorn", "jinja2")
"""Modules of the extra ``serve``."""
SPARK_PACKAGES = ("pyspark", "pandas", "pyarrow")
"""Modules of the extra ``spark``."""


def need_packages(what: str, extra: str, *modules: str) -> None:
    """Refuse to go on without these modules of an extra; ``what`` is the command, or the setting, that needs them.

    They are imported: one that is there may lack a library, or another package.

    Raises:
        UserError: it names what is missing, or what cannot be imported and why.
    """
    missing = []
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            if not (isinstance(error, ModuleNotFoundError) and error.name == name):
                remedy = pip_command(extra, again=True)
                raise UserError(
                    f"{what} needs {_package(name)}, which cannot be imported ({error}): {remedy}"
                ) from error
            missing.append(name)
    if missing:
        raise UserError(not_installed(what, missing, pip_command(extra)))


def not_installed(what: str, names: Sequence[str], remedy: str) -> str:
    """Return the line that names what is missing, modules by the names of their packages."""
    packages = ", ".join(map(_package, names))
    return f"{what} needs {packages}, which {'is' if len(names) == 1 else 'are'} not installed: {remedy}"


def pip_command(extra: str, *, again: bool = False) -> str:
    """Return the command that installs an extra for this interpreter; ``again``: though it is there."""
    options = "--force-reinstall " * again
    return f"{shlex.quote(sys.executable)} -m pip install {options}'stream-dedup[{extra}]'"


def _package(module: str) -> str:
    return module.replace("_", "-")
