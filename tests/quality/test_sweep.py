"""The sweep of ``make quality`` measures what it says: cells, edits and figures on texts of the tests' own."""

import os
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from benchmarks.quality import cells, data, peers, sweep, sweep_report
from benchmarks.quality.cells import declaration, edits, manuals, official, templates, texts
from benchmarks.quality.cells.model import Cell, Pair, Pairs, Unlike, as_peer, no_more
from benchmarks.quality.sweep_report import FOUND, OURS, PEER, Figure
from tests.quality.cases import TEXTS
from tests.reference.normalise import normalise

ZH, EN = "zh", "en"
PROSE = {ZH: TEXTS["bridge"].strip().split("\n"), EN: TEXTS["keyboard"].strip().split("\n")}


@pytest.fixture(autouse=True)
def own_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prose of the hard cases in place of the labelled texts."""
    monkeypatch.setattr(texts, "prose", PROSE.__getitem__)


def _copy(rng: Random) -> Pair:
    whole = texts.text(EN, 700, rng)
    return whole, whole


def _stranger(rng: Random) -> Pair:
    return texts.text(EN, 700, rng), texts.text(ZH, 700, rng)


def _measured(monkeypatch: pytest.MonkeyPatch, *given: Cell) -> dict[str, sweep.Verdicts]:
    monkeypatch.setattr(cells, "every", lambda: iter(given))
    return sweep.verdicts_of(1, sweep.Choice(), 0)


@pytest.mark.slow
def test_a_copy_is_found_and_a_stranger_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later texts that equal their own earlier one are found by every method, others by none."""
    found = _measured(monkeypatch, Pairs("copies", "article", 5, _copy), Pairs("others", "comment", 5, _stranger))
    assert {method: flags.tolist() for method, flags in found["copies"].items()} == dict.fromkeys(
        sweep_report.METHODS, [True] * 5
    )
    assert not any(flags.any() for flags in found["others"].values())


@pytest.mark.slow
def test_of_a_set_the_later_copy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a set a text counts if an earlier one is near it; a copy in another cell does not count."""
    whole, other = TEXTS["bees"], TEXTS["bridge"]
    found = _measured(
        monkeypatch,
        Unlike("with a copy", "article", partial(list, (whole, other, whole))),
        Unlike("without", "article", partial(list, (other,))),
    )
    for method in (OURS, PEER):
        assert found["with a copy"][method].tolist() == [False, False, True]
        assert found["without"][method].tolist() == [False]


@pytest.mark.slow
def test_each_pair_has_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds share the pairs of a cell among them; with ``each_seed`` every seed has all, a set without it one seed."""
    given = (
        Pairs("shared", "article", 5, _copy),
        Pairs("all", "article", 5, _copy, each_seed=True),
        Unlike("one", "article", lambda: [TEXTS["bees"]], each_seed=False),
    )
    monkeypatch.setattr(cells, "every", lambda: iter(given))
    sizes = [
        {name: len(found[OURS]) for name, found in sweep.verdicts_of(2, sweep.Choice(), seed).items()}
        for seed in range(2)
    ]
    assert [one["shared"] for one in sizes] == [3, 2]
    assert [one["all"] for one in sizes] == [5, 5]
    assert sum(one["one"] for one in sizes) == 1


def test_estimate_is_near_the_exact_similarity() -> None:
    """MinHash estimates Jaccard similarities without bias: over 20 seeds within three standard errors."""
    first, second = TEXTS["library"], TEXTS["library"].replace("图书馆", "博物馆")
    plain = ("".join(normalise(one).split()) for one in (first, second))
    exact = data.jaccard(*(frozenset(data.shingles(one, 5)) for one in plain))
    estimates = [
        float(peers.equal(*(peers.sketches([one], 5, seed) for one in (first, second)))[0]) for seed in range(20)
    ]
    error = (exact * (1 - exact) / peers.VALUES / len(estimates)) ** 0.5
    assert sum(estimates) / len(estimates) == pytest.approx(exact, abs=3 * error)


@pytest.mark.parametrize("language", [ZH, EN])
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_edited_share(language: str, share: float) -> None:
    """An edited text keeps the length within the share, and about the share of its characters is another."""
    rng = Random(language)
    for _ in range(20):
        whole = texts.text(language, 600, rng)
        made = edits.edited(whole, share, rng, language)
        assert made != whole
        assert abs(len(made) - len(whole)) <= 1.5 * share * len(whole)
        kept = len(frozenset(data.shingles(whole, 2)) & frozenset(data.shingles(made, 2)))
        assert kept >= (1 - 2 * share) * len(frozenset(data.shingles(whole, 2)))


def test_small_edits() -> None:
    """One letter is one letter; scattered ones are no more than asked; sentences that leave have no more than asked."""
    rng = Random(1)
    for language in (ZH, EN):
        whole = texts.text(language, 600, rng)
        other = edits.one_letter(whole, rng, language)
        assert sum(a != b for a, b in zip(whole, other, strict=True)) == 1
        strewn = edits.scattered(whole, 0.1, rng, language)
        assert 30 <= sum(a != b for a, b in zip(whole, strewn, strict=True)) <= 60
        assert "".join(texts.sentences(whole)) == whole
        assert 0.7 * len(whole) <= len(edits.sentences_out(whole, 0.3, rng)) < len(whole)
        assert sorted(edits.reordered(whole, rng)) == sorted(whole)
        assert normalise(edits.spaced(whole)).replace(" ", "") == normalise(whole).replace(" ", "")


@pytest.mark.parametrize("share", [0.03, 0.05])
def test_share_of_wrong_letters(share: float) -> None:
    """So many letters are others, or are read as what they look like; all else stays."""
    # Without m, which is read as two letters.
    whole = texts.text(EN, 2000, Random(7)).replace("m", "w")
    for made, number in (
        (edits.wrong_letters(whole, share, Random(8), EN), round(share * sum(map(str.isalnum, whole)))),
        (edits.misread(whole, share, Random(8)), round(share * len(whole))),
    ):
        changed = [(one, other) for one, other in zip(whole, made, strict=True) if one != other]
        assert len(changed) == number
        assert all(one.isalnum() and other.isalnum() for one, other in changed)
    assert all(edits.MISREAD[one] == other for one, other in changed)
    assert edits.misread("mm mm", 0.2, Random(8)).count("rn") == 1


def test_twenty_templates() -> None:
    """There are twenty kinds of 40 to 400 characters or a little more, each with a correction that fits."""
    assert len(templates.KINDS) == 20
    for kind in templates.KINDS:
        assert 35 <= len(kind["text"]) <= 460
        assert kind["correction"][0] in kind["text"]
    names = [cell.name for cell in templates.cells()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("cell", list(templates.cells()), ids=lambda cell: cell.name)
def test_template_pairs_differ_and_depend_on_their_number_alone(cell: Pairs) -> None:
    """Every pair of a template differs, has no slot left, and is the same whenever it is made."""
    for at in range(10):
        first, second = cell.pair(at)
        assert first != second
        assert "{" not in first + second
        assert cell.pair(at) == (first, second)


def test_official_news_are_different_articles() -> None:
    """Two articles of offices share words, and less than half of their shingles."""
    first, second = (frozenset(data.shingles(official.article(1500, Random(seed)), 3)) for seed in range(2))
    assert 0.05 < data.jaccard(first, second) < 0.5


def _figure(length: int, ours: float, wanted: str = FOUND) -> Figure:
    return Figure(f"length/zh article/an edit/{length}", wanted, 10_000, {OURS: ours, PEER: 1.0})


def test_dip_between_neighbours_is_found() -> None:
    """A length below both neighbours is a dip, in recall and in false ones; a slope is none."""
    slope = [_figure(8 * 2**at, 0.5 + at / 20) for at in range(8)]
    assert sweep_report.dips(slope) == []
    planted = [*slope[:3], _figure(64, 0.5), *slope[4:]]
    (dip,) = sweep_report.dips(planted)
    assert (dip.cell, round(dip.depth, 3)) == ("length/zh article/an edit/64", 0.1)
    false = [_figure(8 * 2**at, 0.2 if at == 3 else 0.0, "apart") for at in range(8)]
    assert [one.cell for one in sweep_report.dips(false)] == ["length/zh article/an edit/64"]
    assert [aim.reached for aim in sweep_report.aims(planted, whole=True)] == [True, False]


def test_aims_stand_beside_minhash() -> None:
    """A recall may be .02 below MinHash's and false ones as many as MinHash's; what misses is counted."""
    figures = [
        Figure("near", FOUND, 100, {OURS: 0.98, PEER: 1.0}, as_peer(1.0)),
        Figure("below", FOUND, 100, {OURS: 0.97, PEER: 1.0}, as_peer(1.0)),
        Figure("as many", "apart", 100, {OURS: 0.1, PEER: 0.1}, no_more(0.1)),
        Figure("more", "apart", 100, {OURS: 0.2, PEER: 0.1}, no_more(0.1)),
    ]
    assert [one.reached for one in figures] == [True, False, True, False]
    assert sweep_report.aims(figures, whole=False)[0].value == 2


def test_templates_are_judged_together() -> None:
    """Of all templates with changed facts at most half of what MinHash confuses may be called duplicates."""
    names = [f"{templates.CHANGED}/comment {count}, below 180" for count in (1, 6)]
    shares = [{OURS: 0.9, PEER: 1.0}, {OURS: 0.2, PEER: 0.1}]
    figures = [Figure(name, "apart", 100, share) for name, share in zip(names, shares, strict=True)]
    every, together = sweep_report.aims(figures, whole=False)
    assert every.reached
    assert together.value == pytest.approx(0.55)
    assert together.most == pytest.approx(0.275)


def test_a_family_is_one_line() -> None:
    """The mean and the worst of its cells, for what is to be found the least; how many are short of their aim."""
    cells = [("a/one", 1.0, 0.5, 0.9), ("a/two", 0.8, 0.7, 0.9)]
    figures = [Figure(name, FOUND, 100, {OURS: ours, PEER: peer}, aim) for name, ours, peer, aim in cells]
    figures += [
        Figure("a/apart", "apart", 100, {OURS: 0.0, PEER: 0.2}),
        Figure("a/other", "apart", 9, {OURS: 0.1, PEER: 0}),
    ]
    assert sweep_report.families(figures).splitlines()[2:] == [
        "| a | found | 2 | .900, .800 | .600, .500 | 1 |",
        "| a | apart | 2 | .050, .100 | .100, .200 |  |",
    ]


def test_a_language_is_one_line() -> None:
    """The mean and the worst of its lengths, for each profile and verdict that any language has."""
    figures = [_figure(8, 0.5), _figure(16, 0.9), Figure("length/th article/x/8", "apart", 40, {OURS: 0.1, PEER: 0.2})]
    assert sweep_report.languages(figures).splitlines() == [
        "| language | article, found | article, apart |",
        "| --- | ---: | ---: |",
        "| zh | .700, .500 / 1.00, 1.00 |  |",
        "| th |  | .100, .100 / .200, .200 |",
    ]


def test_a_table_of_lengths() -> None:
    """Octaves, and a column for an edit with which ours is wrong somewhere; the others are named above it."""
    figures = [_figure(length, 0.5 if length == 11 else 1.0) for length in (8, 11, 16)]
    figures += [Figure(f"length/zh article/{edit}/8", FOUND, 200, {OURS: 0.99, PEER: 1.0}) for edit in ("a", "b")]
    (shown,) = sweep_report._matrices(figures)
    head, _, columns, _, *rows = shown.splitlines()
    assert head.endswith(": a, b.")
    assert columns == "| characters | an edit |"
    assert rows == ["| 8 | 1.00 / 1.00 |", "| 16 | 1.00 / 1.00 |"]


def test_comparison_shows_what_changed(tmp_path: Path) -> None:
    """Figures written and read again are the same, and a comparison names the cells that differ, and no others."""
    before = [_figure(8, 0.5), _figure(16, 0.9)]
    sweep_report.write(tmp_path / "before.jsonl", before)
    assert sweep_report.read(tmp_path / "before.jsonl") == before
    shown = sweep_report.changes(before, [_figure(8, 0.5), _figure(16, 0.95)])
    assert "an edit/16 |" in shown
    assert "an edit/8 |" not in shown


def _away(*_: object, **__: object) -> None:
    raise FileNotFoundError(2, os.strerror(2), "npm")


@pytest.mark.parametrize(
    ("module", "language", "remedy"), [(declaration, "th", "install npm"), (manuals, "ja", "apt-")]
)
def test_texts_that_cannot_be_fetched(
    module: ModuleType, language: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the texts of other languages cannot be fetched, the error says what to do."""
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr("subprocess.run", _away)
    with pytest.raises(SystemExit, match=remedy):
        module.paragraphs.__wrapped__(language)
