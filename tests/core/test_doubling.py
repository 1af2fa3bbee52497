"""No text takes time with more than its length: twice the text, twice the time, by families and ways."""

import gc
import math
from collections.abc import Callable, Iterator, Sequence

import pytest

from stream_dedup.core.columns import Columns
from stream_dedup.core.decode import Article, RawRecord, decode
from stream_dedup.core.fingerprinter import EntryMaker
from tests.amount import FULL
from tests.core.adversarial import PAGES, RECORDS, TEXTS, WAYS, Case, Family, Path, cases
from tests.core.test_clean import plain_host, plain_url
from tests.reference import clean as reference
from tests.reference import markup as reference_markup

SIZE, PAGE_SIZE, RECORD_SIZE = 10_000 if FULL else 6_000, 20_000, 100_000
"""Characters of the smaller text; of the smaller page, in which much is open before the rest begins; of JSON alone."""
SUSPECT = 2.7
"""Time for twice the text, to the time of the text, from which it is looked at closely: 2 is linear, 4 quadratic."""
CLOSER, WORSE = 4, 10
"""The closer look's larger size to its smaller one, and time to time that fails: 4 is linear, 16 quadratic."""
LOOKS, PAIRS = 3, 5
"""Closer looks, and runs of the larger size in each: all must fail, so that no noise of a busy machine fails a test."""
TRIES = 5
"""To find a quadratic step that was planted: noise may hide it from a single look."""
LEAST_SECONDS = 0.002 if FULL else 0.001
"""What takes less at twice the size takes 30 s for a megabyte at worst; most of it is noise."""

SAMPLE = {"every step", "HTML", "records"}
"""The ways of a run that is not full."""
FOUND = {
    "'/'",
    "\u9ad4 '/'",
    "\u9ad4 '_.cn/'",
    "half, '/'",
    "half, '_.cn/'",
    "'_.cn/'",
    "'@a.cn/'",
    "<!-- where much is open",
    "<div> and a stray end",
    "attributes without end",
    "half surrogates",
}
"""Families that found a quadratic step."""
EACH = 1 if FULL else 4
"""One family of so many is taken in a run that is not full, and every one that found something."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """A larger text alone would make the garbage collector look through everything that the test run holds."""
    gc.disable()
    yield
    gc.enable()


def grows(path: Path, family: Family, size: int) -> bool:
    """Whether a family takes more than in proportion to its length: suspected first, then confirmed at larger sizes."""
    took = path.seconds(family(2 * size), 1)
    if took < LEAST_SECONDS or took < SUSPECT * path.seconds(family(size), 1):
        return False
    return all(_grows_for_certain(path, family, (1 + look) * size) for look in range(LOOKS))


def _grows_for_certain(path: Path, family: Family, size: int) -> bool:
    """Compare the least times of several runs of both sizes in turns, as long as they are not linear."""
    small = large = math.inf
    for _ in range(PAIRS):
        small = min(small, path.seconds(family(size), 3))
        large = min(large, path.seconds(family(CLOSER * size), 1))
        if large <= WORSE * small:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases() if FULL or case.name in SAMPLE])
def test_twice_the_text_takes_twice_the_time(case: Case) -> None:
    """From a record's bytes to its entry; whatever the text repeats, and whatever it begins and never ends."""
    path = Path(case.settings, case.kind)
    families = [family for at, family in enumerate(case.families.items()) if at % EACH == 0 or family[0] in FOUND]
    size = {id(PAGES): PAGE_SIZE, id(RECORDS): RECORD_SIZE}.get(id(case.families), SIZE)
    assert [name for name, family in families if grows(path, family, size)] == []


def test_there_are_families_enough() -> None:
    """Some hundred, of text and of pages; a run that is not full has some of each, and those that found a step."""
    assert len(TEXTS) > 200
    assert len(PAGES) > 150
    every = {id(case.families) for case in cases()}
    assert {id(case.families) for case in cases() if case.name in SAMPLE} == every
    assert {*TEXTS, *PAGES, *RECORDS} >= FOUND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "plain", "family"),
    [("_url_at", plain_url, "'/'"), ("_host_at", plain_host, "'_.cn/'"), ("_host_at", plain_host, "'@a.cn/'")],
)
def test_a_step_that_is_quadratic_is_found(
    step: str, plain: object, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check fails where the steps of the definition are taken first, and one is its former quadratic version."""
    path, family = Path(WAYS["article"]), f"half, {family}"
    assert not grows(path, TEXTS[family], SIZE)
    monkeypatch.setattr("tests.core.test_doubling.LOOKS", 1)
    monkeypatch.setattr("tests.core.test_doubling.PAIRS", 1)
    monkeypatch.setattr(reference, step, plain)
    _take_before(lambda text: reference.before_nfkc(text, WAYS["article"].long.normalisation), monkeypatch)
    assert any(grows(path, TEXTS[family], SIZE) for _ in range(TRIES))


def _take_before(step: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each text of a record take a step before its entry is made."""
    make = EntryMaker.__call__

    def taking(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
        for record in records:
            article = decode(record, maker._format)
            assert isinstance(article, Article)
            for text in article.texts:
                step(text)
        return make(maker, records)

    monkeypatch.setattr(EntryMaker, "__call__", taking)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "family"),
    [
        (reference_markup.stripped, "<!-- where much is open"),
        (reference_markup.text_of, "ever more elements to make again"),
    ],
)
def test_a_quadratic_way_through_a_page_is_found(
    step: Callable[[str], object], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With comments and scripts cut by one regular expression, or with a parser without limits."""
    path = Path(next(case.settings for case in cases() if case.families is PAGES))
    monkeypatch.setattr("tests.core.test_doubling.LOOKS", 1)
    monkeypatch.setattr("tests.core.test_doubling.PAIRS", 1)
    _take_before(step, monkeypatch)
    assert any(grows(path, PAGES[family], PAGE_SIZE // 2) for _ in range(TRIES))
