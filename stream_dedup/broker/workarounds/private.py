"""Access to names of kafka-python that are not public; one that no longer exists is an error that names it."""

from __future__ import annotations

from typing import Any

from stream_dedup.errors import UserError


def private(owner: object, *path: str) -> Any:  # noqa: ANN401 - the client is untyped
    """Return the attribute behind names that are not public.

    Raises:
        UserError: a name does not exist.
    """
    for name in path:
        if not hasattr(owner, name):
            msg = (
                f"the installed kafka-python has no {_name_of(owner)}.{name}, which this program relies on: "
                "install the version that its pyproject.toml names"
            )
            raise UserError(msg)
        owner = getattr(owner, name)
    return owner


def _name_of(owner: object) -> str:
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__
