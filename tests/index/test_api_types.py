"""The public API takes arguments of the right types, and says at once which one is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_dedup import Index, distance, fingerprint

CAT = "the cat sat on the mat and looked at the rain for a long time before it fell asleep"

NO_STRINGS = [5, None, b"bytes", True, 1.5, ["a"], np.uint64(5), Path("a")]
NO_CONTENTS = [None, b"bytes", True, np.True_, 1.5, np.float64(1), ["a"], np.array([1, 2]), Path("a")]
NO_NUMBERS = [*NO_CONTENTS, "5"]
FINGERPRINTS = [7, np.uint64(7), np.int8(7), np.array(7)]


def name_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("wrong", NO_STRINGS, ids=name_of)
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("id", lambda index, wrong: index.add(wrong, CAT)),
        ("scope", lambda index, wrong: index.add("a", CAT, wrong)),
        ("scope", lambda index, wrong: index.search(CAT, wrong)),
        ("text", lambda _, wrong: fingerprint(wrong)),
        ("profile", lambda _, wrong: fingerprint(CAT, wrong)),
        ("profile", lambda _, wrong: Index(profile=wrong)),
    ],
)
def test_what_is_no_string_is_refused(argument: str, call: Callable[[Index, object], object], wrong: object) -> None:
    """The message names the argument, what came, and what is expected; a scope may be None."""
    with Index() as index:
        if argument == "scope" and wrong is None:
            call(index, wrong)
            return
        with pytest.raises(TypeError, match=rf"^{argument}: must be a .*, not {name_of(wrong)}$"):
            call(index, wrong)
        assert len(index) == 0


@pytest.mark.parametrize("wrong", NO_CONTENTS, ids=name_of)
def test_what_is_neither_text_nor_fingerprint_is_refused(wrong: object) -> None:
    """By ``add`` and by ``search``; a bool is a mistake, though Python counts with it."""
    message = rf"^content: must be a text or a fingerprint \(str or int\), not {name_of(wrong)}$"
    with Index() as index:
        with pytest.raises(TypeError, match=message):
            index.add("a", wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=message):
            index.search(wrong)  # type: ignore[arg-type]
        assert len(index) == 0


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=name_of)
def test_what_is_no_number_is_refused(wrong: object) -> None:
    """By ``distance``, and as a number of look-ups or bits, where None is the profile's."""
    with pytest.raises(TypeError, match=rf"^a: must be an int, not {name_of(wrong)}$"):
        distance(wrong, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"^b: must be an int, not {name_of(wrong)}$"):
        distance(0, wrong)  # type: ignore[arg-type]
    if wrong is None:
        return
    with Index() as index:
        for argument in ("probes", "limit", "k"):
            with pytest.raises(TypeError, match=rf"^{argument}: must be an int or None, not {name_of(wrong)}$"):
                index.search(CAT, **{argument: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("number", FINGERPRINTS, ids=name_of)
def test_a_whole_number_of_numpy_is_a_fingerprint(number: int) -> None:
    """Added and searched for as Python's own; also as a distance."""
    with Index() as index:
        index.add("seven", number)
        assert [one[:2] for one in index.search(np.uint64(7), k=0)] == [("seven", 0)]
        assert [one[:2] for one in index.search(number, k=0)] == [("seven", 0)]
    assert distance(number, 0) == 3


@pytest.mark.parametrize("number", [-1, 1 << 64, np.int64(-1)])
def test_a_distance_is_between_fingerprints(number: int) -> None:
    """Of 64 bits, none below zero."""
    with pytest.raises(ValueError, match="must be 0 to 2"):
        distance(number, 0)


def test_a_bad_call_loses_nothing_that_was_added(tmp_path: Path) -> None:
    """What was added before and after it is there, in this process and in the next."""
    with Index(tmp_path) as index:
        index.add("before", CAT)
        for wrong in NO_STRINGS:
            with pytest.raises(TypeError):
                index.add(wrong, CAT)  # type: ignore[arg-type]
        for content in NO_CONTENTS:
            with pytest.raises(TypeError):
                index.add("wrong", content)  # type: ignore[arg-type]
        index.add("after", CAT)
        assert [one.id for one in index.search(CAT)] == ["before", "after"]
    with Index(tmp_path) as index:
        assert [one.id for one in index.search(CAT)] == ["before", "after"]


def test_a_closed_index_takes_nothing() -> None:
    """What would be lost is refused."""
    index = Index()
    index.close()
    for call in (lambda: index.add("a", CAT), lambda: index.search(CAT), index.flush, lambda: len(index)):
        with pytest.raises(ValueError, match="the index is closed: open it again"):
            call()


class Renamed(str):
    """A text with an ``encode`` of its own."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"another text"


@pytest.mark.parametrize("text", [CAT, CAT + "\ud83d", "\ud83d渡口的船今天早上开了"])
def test_of_a_class_of_strings_the_characters_count(text: str) -> None:
    """Half surrogates among them, which the core is given in another way."""
    assert fingerprint(Renamed(text)) == fingerprint(text)
