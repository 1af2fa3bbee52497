"""``stream-dedup compile``: machine code and tables, made before the first article needs them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import click

import stream_dedup
from stream_dedup.cli.output import say
from stream_dedup.errors import UserError
from stream_dedup.startup import keep_tables

KERNEL = "_kernel"
"""End of the names of modules with compiled functions, which are compiled when the module is imported."""
MOST_PROCESSES = 8
"""A process takes some 400 MB, and the module that takes longest a quarter of the time of all."""


@click.command()
@click.option("--all-levels", is_flag=True, help="For every level of x86-64, and not for this machine's alone.")
def command(*, all_levels: bool) -> None:
    """Compile the inner loops now, so that no later start does.

    The first command that fingerprints, searches or reads a log otherwise does it, for half a minute of one core or so;
    further cores help it where there are 500 MB of memory for each. The machine code and the tables are kept in
    NUMBA_CACHE_DIR if it is set, else in the package, else in the user's cache folder. Where they are kept already,
    nothing is done. The code is that of the highest level of x86-64 that the processor of this machine has; with
    --all-levels it is of use on every machine, as in a container image.

    \b
    Examples:
      stream-dedup compile
      stream-dedup compile --all-levels
      NUMBA_CACHE_DIR=/var/cache/stream-dedup stream-dedup compile
    """  # noqa: D301 - \b keeps click from folding the examples
    from stream_dedup.core.levels import levels_here  # noqa: PLC0415 - loads the compiler

    names = kernel_modules()
    levels = levels_here() if all_levels else ()
    for environment in [level.environment for level in levels] or [{}]:
        _compile_all(names, environment)
    _make_tables()
    say(f"{len(names)} modules are compiled{f' for {len(levels)} levels' if levels else ''}, and their code is kept")


def kernel_modules() -> list[str]:
    """Return the names of all modules with compiled functions."""
    root = Path(stream_dedup.__file__).parent
    paths = (path.relative_to(root.parent).with_suffix("") for path in root.rglob(f"*{KERNEL}.py"))
    return sorted(".".join(path.parts) for path in paths)


def _compile_all(names: Sequence[str], environment: Mapping[str, str]) -> None:
    """Compile modules in processes that have these variables besides.

    Raises:
        UserError: the code cannot be kept, or a process was killed.
    """
    processes = min(os.cpu_count() or 1, MOST_PROCESSES)
    try:
        with ProcessPoolExecutor(processes, get_context("spawn"), _begin, (environment,)) as pool:
            not_kept = [reason for reasons in pool.map(_compile, names) for reason in reasons]
    except BrokenProcessPool as error:
        msg = f"a process that compiled was killed: {processes} at once take 400 MB each; try again with more memory"
        raise UserError(msg) from error
    if not_kept:
        msg = f"machine code cannot be kept ({not_kept[0]}): let NUMBA_CACHE_DIR name a folder that can be written"
        raise UserError(msg)


def _begin(environment: Mapping[str, str]) -> None:
    os.environ |= environment
    keep_tables()


def _compile(name: str) -> list[str]:
    """Import a module; return the reasons why code could not be kept."""
    import_module(name)
    from stream_dedup.core.kept_code import not_kept  # noqa: PLC0415 - loads the compiler

    return list(not_kept)


def _make_tables() -> None:
    from stream_dedup.core.fingerprint.fingerprinter import Fingerprinter  # noqa: PLC0415 - loads the compiler
    from stream_dedup.core.profiles import PROFILES  # noqa: PLC0415 - as above

    for profile in PROFILES.values():
        Fingerprinter(profile.settings).warm()
