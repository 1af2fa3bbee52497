"""Prints what pip is to install, by pyproject.toml: ``python3 deploy/requirements.py [build] [EXTRA ...]``.

The program's dependencies always; with ``build`` what builds the native core; with the name of an extra what it needs.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_BUILD = "build"


def main() -> None:
    """Write one requirement a line."""
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    project = declared["project"]
    sets = {_BUILD: declared["build-system"]["requires"], **project["optional-dependencies"]}
    requirements = [*project["dependencies"], *(line for name in sys.argv[1:] for line in sets[name])]
    sys.stdout.writelines(f"{line}\n" for line in requirements)


if __name__ == "__main__":
    main()
