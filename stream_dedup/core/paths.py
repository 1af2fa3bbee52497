r"""Where a field is in a record: its path, as a configuration and a flag name it.

    title                     the member title, whatever characters its name has but dots, brackets and backslashes
    payload.after.id          dots lead into objects
    authors[0].name           an element of an array, from 0
    conversations[].value     all elements of an array
    a\.b                      the member a.b; \[ \] \\ likewise, and any other sign or digit

What can be read in two ways is an error, which says both: ``a.0`` (an element, or a member named 0), ``a.*``, ``$.a``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_STEPS = 64
"""Of a path: records have a few levels."""
_MEMBER = re.compile(r"(?:\\[^A-Za-z]|[^.\[\]\\])*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_INDEX = re.compile("0|[1-9][0-9]{0,8}")

PathStep = str | int | None
"""The name of a member, the index of an element, None: all elements."""
NativePath = tuple[bytes, list[bytes | int | None]]
"""A path as the native core takes it: its name and its steps."""


class PathError(ValueError):
    """A path that cannot be read; the message says where, why, and what to write."""

    def __init__(self, at: int, reason: str, remedy: str) -> None:
        """``at`` is an index into the path."""
        super().__init__(f"at character {at + 1}: {reason}; {remedy}")


class FieldPath(NamedTuple):
    """A path that was read."""

    name: str
    """As it was given."""
    steps: tuple[PathStep, ...]

    @property
    def native(self) -> NativePath:
        """The path as the native core takes it."""
        return _bytes(self.name), [_bytes(step) if isinstance(step, str) else step for step in self.steps]

    def is_in(self, other: FieldPath) -> bool:
        """Whether this path, which leads to one value, leads to one of the values of the other, or into it."""
        steps = self.steps[: len(other.steps)]
        return len(steps) == len(other.steps) and all(
            theirs == own or (theirs is None and isinstance(own, int))
            for theirs, own in zip(other.steps, steps, strict=True)
        )


@lru_cache(maxsize=256)
def parse_path(name: str, *, one: bool = False) -> FieldPath:
    """Return the path of a field.

    Args:
        name: the path as it is given.
        one: whether the field is one value, so that all elements of an array are too many.

    Raises:
        PathError: it is malformed, or can be read in two ways.
    """
    member, at = _member(name, 0, is_first=True)
    steps: list[PathStep] = [member]
    step: PathStep
    while at < len(name):
        begin = at
        if name[at] == "[":
            step, at = _element(name, at)
        elif name[at] == ".":
            step, at = _member(name, at + 1, is_first=False)
        else:
            raise PathError(at, "a name follows a bracket", "write a dot before the name")
        if one and step is None:
            raise PathError(begin, "all elements are several values, and one is needed", "write [0] for the first one")
        steps.append(step)
    if len(steps) > MAX_STEPS:
        raise PathError(0, f"a path of {len(steps)} steps", f"name a field at most {MAX_STEPS} steps deep")
    if len(steps) > 1 and name[:2] in {"$.", "$["}:
        remedy = r"leave $ out: a path begins at the record; or write \$ for a member named $"
        raise PathError(0, "$ can be the record or a member", remedy)
    return FieldPath(name, tuple(steps))


def with_value(held: object, steps: tuple[PathStep, ...], value: object) -> object:
    """Return a JSON value in which these steps lead to another value; what the steps pass by is unchanged.

    A step to all elements leads to the first one, and there is no other one then.
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        members = dict(held) if isinstance(held, dict) else {}
        members[step] = with_value(members.get(step), rest, value)
        return members
    elements = list(held) if isinstance(held, list) else []
    if step is None:
        del elements[1:]
    at = step or 0
    elements += [None] * (at + 1 - len(elements))
    elements[at] = with_value(elements[at], rest, value)
    return elements


def _member(path: str, begin: int, *, is_first: bool) -> tuple[str, int]:
    """Read the name of a member, up to a dot, a bracket or the end; return it, and where it ends."""
    written = _MEMBER.match(path, begin)[0]  # type: ignore[index] # it matches nothing, too
    end = begin + len(written)
    stop, after = path[end : end + 1], path[end + 1 : end + 2]
    if stop == "]":
        raise PathError(end, "a ] without a [", r"write \] for a bracket in a name")
    if stop == "\\":
        raise PathError(end, f"\\{after} stands for nothing", r"write \\ for a backslash in a name")
    if not written:
        raise _no_name(begin, path, is_first=is_first)
    if not is_first:
        _refuse_other_readings(written, begin)
    return _ESCAPE.sub(r"\1", written), end


def _element(path: str, begin: int) -> tuple[int | None, int]:
    """Read an index in brackets, or the brackets alone; return it, and where it ends."""
    end = path.find("]", begin)
    if end < 0:
        raise PathError(begin, "a [ without a ]", r"write [0], [], or \[ for a bracket in a name")
    index = path[begin + 1 : end]
    if index == "*":
        raise PathError(begin, "[*] is no index", "write [] for all elements")
    if index and not _INDEX.fullmatch(index):
        remedy = r"write [0] for an element, [] for all, a dot before the name of a member, or \[ for a bracket"
        raise PathError(begin, f"[{index}] is no index", remedy)
    return int(index) if index else None, end + 1


def _refuse_other_readings(written: str, begin: int) -> None:
    if written.isascii() and written.isdigit():
        remedy = rf"write [{int(written)}] for the element, or \{written} for the member"
        raise PathError(begin, f"{written} can be an element or a member", remedy)
    if written == "*":
        remedy = r"write [] for all elements, or \* for the member"
        raise PathError(begin, "* can be all elements or a member", remedy)


def _no_name(at: int, text: str, *, is_first: bool) -> PathError:
    if is_first and text.startswith("["):
        return PathError(at, "a record is an object and has no elements", "begin with the name of a member")
    if not text:
        return PathError(at, "a field without a name", "name a member of the record")
    return PathError(at, "a step without a name", r"remove the dot, or write \. for a dot in a name")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
