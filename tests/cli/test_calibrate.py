"""``calibrate``: the same decisions as ``filter``, counts by plain definition, labels, and what is wrong told."""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from stream_dedup.calibrate.figures import Suggestion, ceiling
from stream_dedup.calibrate.report import suggested
from stream_dedup.cli import run
from stream_dedup.config.effective import fingerprint_settings_of, input_format_of, rules_of
from stream_dedup.config.load import load_config, read_profile
from stream_dedup.config.profile_file import file_text, own_keys
from stream_dedup.core.decode import RawRecord
from stream_dedup.core.fingerprinter import EntryMaker
from stream_dedup.core.model import Status, signed
from stream_dedup.core.profiles import DEFAULT_PROFILE, PROFILES
from tests.amount import FULL
from tests.calibrate.corpus import article, records, write
from tests.forks import ForkedProcess
from tests.profiles import profile_with, write_profile

ARTICLE = PROFILES[DEFAULT_PROFILE]
PROBES = ARTICLE.probes or 0


def calibrated(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert run(["calibrate", "--json", *args]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def filtered(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    """What ``filter`` adds to each line."""
    assert run(["filter", *args]) == 0
    return [json.loads(line)["dedup"] for line in capsys.readouterr().out.splitlines()]


def cell_of(figures: dict[str, Any], limit: int, lookups: int) -> dict[str, Any]:
    return next(cell for cell in figures["cells"] if (cell["limit"], cell["lookups"]) == (limit, lookups))


@pytest.fixture
def long_texts(tmp_path: Path) -> Path:
    return write(tmp_path / "articles.jsonl", records(1, 80))


@pytest.fixture
def mixed_texts(tmp_path: Path) -> Path:
    """Long, short and very short ones, unreadable ones and one without words."""
    short = ({**row, "id": f"s{row['id']}"} for row in records(2, 60, sentences=3))
    tiny = ({"id": f"t{number}", "text": text} for number, text in enumerate(("好的", "收到！", "好的", "谢谢")))
    odd: list[dict[str, Any]] = [{"id": "none"}, {"id": "points", "text": "……！？"}, {"id": "empty", "text": " "}]
    return write(tmp_path / "mixed.jsonl", chain(records(3, 20), short, tiny, odd))


@pytest.mark.parametrize(("probes", "limit"), [(1, 24), (16, 40), (64, 56), (64, 72), (256, 96)])
def test_a_cell_is_what_filter_decides_with_these_settings(
    probes: int, limit: int, long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Duplicates under any number of probes and any limit: those of the real index, to the last one."""
    said = calibrated(capsys, str(long_texts))
    (figures,) = said["figures"]
    flags = ("--profile", write_profile(tmp_path, search={"probes": probes, "limit": limit}))
    verdicts = Counter(one["verdict"] for one in filtered(capsys, *flags, str(long_texts)))
    assert cell_of(figures, limit, probes)["duplicates"] == verdicts["duplicate"]
    assert 0 < verdicts["duplicate"] < 80


@pytest.mark.parametrize("k", range(0, 12, 2 if FULL else 4))
def test_a_distance_is_what_filter_decides_with_it(
    k: int, long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exact search: each k, with its number of look-ups."""
    (figures,) = calibrated(capsys, "--profile", "simhash", str(long_texts))["figures"]
    (cell,) = [cell for cell in figures["cells"] if cell["limit"] == k]
    flags = ("--profile", write_profile(tmp_path, "simhash", search={"distance": k}))
    verdicts = Counter(one["verdict"] for one in filtered(capsys, *flags, str(long_texts)))
    assert cell["duplicates"] == verdicts["duplicate"]
    assert cell["lookups"] == {0: 4, 1: 68, 2: 548}[k // 4]


def test_kinds_of_text_and_scopes_are_kept_apart_as_in_filter(
    mixed_texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long, short and exact duplicates together are those of ``filter``; what has no signature is counted."""
    said = calibrated(capsys, str(mixed_texts))
    assert (said["lines"], said["rejected"], said["featureless"], said["exact"]) == (87, 2, 1, 4)
    assert said["exact_duplicates"] == 1
    assert run(["filter", str(mixed_texts)]) == 3
    verdicts = [json.loads(line)["dedup"]["verdict"] for line in capsys.readouterr().out.splitlines()]
    own = {figures["kind"]: cell_of(figures, figures["limit"], PROBES)["duplicates"] for figures in said["figures"]}
    assert set(own) == {"long", "short"}
    assert sum(own.values()) + said["exact_duplicates"] == verdicts.count("duplicate")


def test_scopes_are_those_of_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two sites with the same articles: each is compared with its own alone."""
    rows = [{**row, "site": site} for site in ("one", "two") for row in records(5, 30)]
    path = str(write(tmp_path / "sites.jsonl", iter(rows)))
    counts = []
    for flags in ((), ("--scope", "site")):
        (figures,) = calibrated(capsys, *flags, path)["figures"]
        verdicts = [one["verdict"] for one in filtered(capsys, *flags, path)]
        assert cell_of(figures, figures["limit"], PROBES)["duplicates"] == verdicts.count("duplicate")
        counts.append(verdicts.count("duplicate"))
    assert counts[0] > counts[1]


def test_the_histogram_counts_nearest_earlier_neighbours(long_texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the definition: each article's least distance to any before it that has enough equal values."""
    said = calibrated(capsys, str(long_texts))
    (figures,) = said["figures"]
    config = load_config(None)
    lines = long_texts.read_bytes().splitlines()
    columns = EntryMaker(fingerprint_settings_of(config), input_format_of(config))(
        [RawRecord(None, line, "") for line in lines]
    )
    assert signed(columns.statuses).all()
    expected: Counter[int] = Counter()
    rules = rules_of(config)
    cut = columns.sketches.shape[1] - rules.scheme.form_bytes
    values = np.stack([columns.sketches[:, :cut] >> 4, columns.sketches[:, :cut] & 15])
    frames, numbers = np.ascontiguousarray(columns.sketches[:, cut:]).view("<u4").T
    for later in range(1, len(lines)):
        apart = np.bitwise_count(columns.signatures[later] ^ columns.signatures[:later]).sum(axis=1, dtype=int)
        equal = (values[:, later, np.newaxis] == values[:, :later]).sum(axis=(0, 2))
        status = Status(int(columns.statuses[later]))
        least = np.where(apart > rules.far_bits, rules.far_min_equal or 0, 0).clip(rules.least_equal(status))
        alike = (apart <= rules.certain_bits) | (equal >= least)
        framed = (frames[later] != 0) & (frames[later] == frames[:later])
        alike &= (apart <= rules.form_bits) | ~(framed & (numbers[later] != numbers[:later]))
        alike |= apart > ceiling(rules)
        expected.update(sorted(apart[alike].tolist())[:1])
    assert figures["histogram"] == [expected[bits] for bits in range(257)]
    assert figures["first"] == len(lines) - expected.total()
    assert sum(figures["reached"]) <= 79


def test_precision_and_recall_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five equal texts: two are labelled copies, one is labelled a copy of another, one is not labelled at all.

    And one labelled copy that is nothing like its original. Judged: four; rightly: two; due: three.
    """
    import random  # noqa: PLC0415 - used here alone

    chance = random.Random(4)
    same, other, third = ("\n".join(article(chance)) for _ in range(3))
    rows = [
        {"id": "x", "text": same},
        {"id": "o", "text": other},
        {"id": "x1", "text": same, "copy_of": "x"},
        {"id": "x2", "text": same, "copy_of": "x1"},
        {"id": "y", "text": same, "copy_of": "elsewhere"},
        {"id": "z", "text": same, "copy_of": ""},
        {"id": "o1", "text": third, "copy_of": "o"},
    ]
    path = write(tmp_path / "labelled.jsonl", iter(rows))
    said = calibrated(capsys, "--original", "copy_of", str(path))
    (figures,) = said["figures"]
    assert cell_of(figures, figures["limit"], PROBES)["score"] == {"judged": 4, "right": 2, "due": 3}
    assert run(["calibrate", "--original", "copy_of", str(path)]) == 0
    assert ".500/.667/.571" in capsys.readouterr().out


def test_labels_decide_the_suggestion(long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The suggested setting has the best F1 of all, or hardly another one, with fewer look-ups; a profile has it."""
    file = tmp_path / "mine.toml"
    flags = ("--original", "copy_of", "--write-profile", str(file))
    said = calibrated(capsys, *flags, str(long_texts))
    (figures,) = said["figures"]
    wanted = figures["suggestion"]
    written = read_profile(file)
    assert (written.limit, written.probes) == (wanted["limit"], wanted["lookups"])
    assert (wanted["limit"], wanted["lookups"]) != (ARTICLE.limit, ARTICLE.probes)
    assert said["profile"] in file.read_text("utf-8")
    scores = [[2 * one["right"] / (one["judged"] + one["due"]) for one in line] for line in figures["scores"]]
    own = scores[figures["steps"].index(wanted["lookups"])][wanted["limit"]]
    assert own >= max(map(max, scores)) - 0.002


def test_a_written_profile_has_what_the_given_one_has(
    mixed_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own keys stay, and it can be read although a limit has come below ``far``; the file itself is an input."""
    given = {"numbers": "drop"}, {"far": 68, "limit": 90}
    profile = write_profile(tmp_path, text=given[0], search=given[1])
    calibrated(capsys, "--profile", profile, "--write-profile", str(tmp_path / "next.toml"), str(mixed_texts))
    read, written = read_profile(Path(profile)), read_profile(tmp_path / "next.toml")
    assert written.settings == read.settings
    assert own_keys(written)["text.numbers"] == "drop"
    assert run(["calibrate", "--profile", profile, "--write-profile", profile, str(mixed_texts)]) == 2
    assert "it is also an input" in capsys.readouterr().err


def test_a_path_that_toml_cannot_have_is_refused(
    long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the articles are compared; nothing is written. Without --write-profile it is no problem."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    (folder / "words").write_text("ferry\n", "utf-8")
    profile, written = write_profile(folder, features={"stop_words": "words"}), tmp_path / "mine.toml"
    assert run(["calibrate", "--profile", profile, "--write-profile", str(written), str(long_texts)]) == 2
    assert "caf\\udce9/words is not UTF-8, as TOML has to be; rename that path" in capsys.readouterr().err
    assert not written.exists()
    assert run(["calibrate", "--json", "--profile", profile, str(long_texts)]) == 0


def suggestion(kind: str, limit: int, lookups: int = 4) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, suggestion=Suggestion(limit, lookups, ()))


@pytest.mark.parametrize(
    ("search", "made", "expected"),
    [
        ({}, [("long", 50, 128), ("short", 40, 256)], {"limit": 50, "short_limit": 40, "probes": 256}),
        ({}, [("short", 40, 16)], {"short_limit": 40, "probes": 16}),
        ({"far": 66}, [("long", 50, 16), ("short", 40, 16)], {"limit": 50, "short_limit": 40, "probes": 16, "far": 50}),
        ({"kind": "exact", "distance": 3}, [("long", 5), ("short", 4)], {"kind": "exact", "distance": 4}),
        ({}, [], {}),
    ],
)
def test_a_profile_of_suggestions(
    search: dict[str, Any], made: list[tuple[Any, ...]], expected: dict[str, Any], tmp_path: Path
) -> None:
    """Each kind has its limit; look-ups are the most, the distance of exact search the least; the file can be read."""
    profile = suggested(profile_with(search=search), [suggestion(*one) for one in made])  # type: ignore[misc]
    assert own_keys(profile) == {f"search.{name}": value for name, value in expected.items()}
    (tmp_path / "mine.toml").write_text(file_text(profile), "utf-8")
    assert own_keys(read_profile(tmp_path / "mine.toml")) == own_keys(profile)


def test_pairs_at_the_edge_are_those_nearest_to_it(
    long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Least similar duplicates first, and beyond the limit the most similar first; each with both texts."""
    flags = ("--profile", write_profile(tmp_path, search={"limit": 30, "probes": 256}))
    said = calibrated(capsys, "--pairs", "3", *flags, str(long_texts))
    lists = {side: [one for one in said["pairs"] if one["side"] == side] for side in ("duplicate", "beyond")}
    assert len(lists["duplicate"]) == len(lists["beyond"]) == 3
    for side, sign in (("duplicate", -1), ("beyond", 1)):
        distances = [sign * one["distance"] for one in lists[side]]
        assert distances == sorted(distances)
    limit = said["figures"][0]["limit"]
    assert all(one["distance"] <= limit for one in lists["duplicate"])
    assert all(one["distance"] > limit for one in lists["beyond"])
    matches = [one["match"] for one in filtered(capsys, *flags, str(long_texts)) if one["verdict"] == "duplicate"]
    assert lists["duplicate"][0]["distance"] == max(match["distance"] for match in matches)
    assert all(one["earlier_passage"] != one["later_passage"] for one in said["pairs"])


def test_the_report_for_a_terminal_has_all_parts(long_texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Histogram with the limit in it, table, pairs, suggestion."""
    assert run(["calibrate", str(long_texts)]) == 0
    told = capsys.readouterr().out
    for part in ("80 lines, 80 articles", "the present limit", "look-ups beside the present 768", "SUGGESTION"):
        assert part in told
    assert "Least similar duplicates" in told


@pytest.mark.parametrize("flags", [(), ("--profile", "simhash"), ("--original", "copy_of")])
def test_the_page_stands_alone_and_is_well_formed(
    flags: tuple[str, ...], long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is fetched, every element is closed, and the charts have their titles."""
    page = tmp_path / "report.html"
    assert run(["calibrate", *flags, "--html", str(page), str(long_texts)]) == 0
    assert str(page) in capsys.readouterr().err
    text = page.read_text("utf-8")
    assert not any(mark in text for mark in ("http://", "https://", "<script", "@import", "url("))
    body = text[text.index("<body>") : text.index("</body>") + 7]
    tree = ET.fromstring(body)  # noqa: S314 - our own page
    assert len(tree.findall(".//svg")) == 1 + ("simhash" not in " ".join(flags))
    assert tree.findall(".//line[@class='limit']")


def test_texts_do_not_become_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text with angle brackets is shown, not run."""
    rows = [
        {"id": f"<b>{number}", "text": "<script>alert('a b c d e f')</script> " * 20 + str(number)}
        for number in range(3)
    ]
    path, page = write(tmp_path / "a.jsonl", iter(rows)), tmp_path / "p.html"
    assert run(["calibrate", "--html", str(page), str(path)]) == 0
    capsys.readouterr()
    assert "<script>" not in page.read_text("utf-8")
    assert "<b>" not in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no article"),
        ('{"id":"a","text":"one ferry"}\n', "only one article"),
        ('{"id":"a"}\n{"id":"b","text":"……"}\n', "no article"),
    ],
)
def test_too_few_articles_are_told(content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with the file's name and what is needed."""
    path = tmp_path / "few.jsonl"
    path.write_text(content, "utf-8")
    assert run(["calibrate", str(path)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert str(path) in told


def test_what_cannot_be_used_is_told(long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label that no line has, a missing file, two reports in one place; a page that cannot be written, at once."""
    (tmp_path / "few").write_text('{"text":"ferry and bridge"}\n', "utf-8")
    for args, said in (
        (["--original", "copied", str(long_texts)], "--original copied: no article has an id in that field"),
        ([str(tmp_path / "none")], "cannot be read"),
        (["--html", "-", "--json", str(long_texts)], "both write to standard output"),
        (["--html", str(tmp_path / "no" / "page.html"), str(tmp_path / "few")], "cannot be written"),
        (["--write-profile", "-", str(long_texts)], "name a file that ends in .toml"),
        (["--write-profile", "a.toml", "--html", "a.toml", str(long_texts)], "name a file for each"),
    ):
        assert run(["calibrate", *args]) == 2
        assert said in capsys.readouterr().err


def test_a_sample_is_told_and_bounds_the_work(long_texts: Path) -> None:
    """Where all pairs would be too many, articles are drawn; each is still compared with all before it."""
    from stream_dedup.calibrate.report import Options, calibrate  # noqa: PLC0415 - used here alone

    def quiet(_done: int, _whole: object) -> None: ...

    whole = calibrate(load_config(None), Options((str(long_texts),)), quiet, quiet)
    some = calibrate(load_config(None), Options((str(long_texts),), comparisons=600), quiet, quiet)
    assert (whole.asked, whole.comparisons, whole.notes) == (80, 80 * 79 // 2, ())
    assert some.asked == 80 * 600 // (80 * 79 // 2)
    assert some.comparisons < 1200
    assert "a sample: 15 articles" in some.notes[0]
    assert some.figures[0].articles == 80


def test_duplicates_that_the_labels_deny_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy that nobody labelled: perhaps the label is missing."""
    rows = list(records(6, 20))
    rows.append({"id": "unlabelled", "text": rows[0]["text"], "copy_of": None})
    said = calibrated(capsys, "--original", "copy_of", str(write(tmp_path / "a.jsonl", iter(rows))))
    denied = [(one["earlier"], one["later"]) for one in said["pairs"] if one["side"] == "denied"]
    assert ("a0", "unlabelled") in denied
    families = {row["id"]: row["copy_of"] for row in rows}
    assert all(families[later] != earlier for earlier, later in denied)


def test_a_page_over_its_input_leaves_the_input(
    long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under another name of the same file too."""
    before = long_texts.read_bytes()
    (tmp_path / "hard").hardlink_to(long_texts)
    (tmp_path / "link").symlink_to(long_texts)
    for name in (long_texts.name, "hard", "link"):
        assert run(["calibrate", "--html", str(tmp_path / name), str(long_texts)]) == 2
        assert "it is also an input" in capsys.readouterr().err
    assert long_texts.read_bytes() == before


def without_time(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in {"files", "seconds"}}


def test_a_named_pipe_says_what_the_file_says(
    long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once: the texts of the pairs come from a copy, of which nothing is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    contents = {tmp_path / "pipe": long_texts.read_bytes(), tmp_path / "empty": b""}
    writers = [Thread(target=pipe.write_bytes, args=[content]) for pipe, content in contents.items()]
    for pipe, writer in zip(contents, writers, strict=True):
        os.mkfifo(pipe)
        writer.start()
    read = without_time(calibrated(capsys, *map(str, contents)))
    for writer in writers:
        writer.join()
    assert read == without_time(calibrated(capsys, str(long_texts)))
    assert all(one["earlier_passage"] and one["later_passage"] for one in read["pairs"])
    assert read["notes"] == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_standard_input_says_what_the_file_says(
    long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fork: Callable[..., ForkedProcess]
) -> None:
    """And its page on standard output is the page alone."""
    out = tmp_path / "out"
    for flags in (["--json"], ["--html", "-"]):
        with long_texts.open("rb") as given, out.open("wb") as file:
            process = fork(["calibrate", *flags, "-"], file.fileno(), given.fileno())
        _, said = process.communicate()
        assert (process.returncode, said) == (0, b"")
        if flags == ["--json"]:
            assert without_time(json.loads(out.read_bytes())) == without_time(calibrated(capsys, str(long_texts)))
    page = out.read_bytes()
    assert (page.startswith(b"<!DOCTYPE html>"), page.endswith(b"</html>\n")) == (True, True)


def test_blank_lines_are_no_articles(long_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `filter`: neither counted nor rejected, and the pairs are still those of their lines."""
    spaced = tmp_path / "spaced.jsonl"
    spaced.write_bytes(long_texts.read_bytes().replace(b"\n", b"\n\n \t\x0b\n"))
    assert without_time(calibrated(capsys, str(spaced))) == without_time(calibrated(capsys, str(long_texts)))


def test_half_surrogates_and_odd_names_become_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cut emoji in ids and texts, a file name that is no UTF-8: JSON and page say them, and nothing raises."""
    path = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.jsonl"))
    texts = [f"the ferry runs to the island and back \\ud83d {word}" for word in ("once", "twice")]
    path.write_text("".join(f'{{"id":"\\ude00{text[-3:]}","text":"{text}"}}\n' for text in texts), "utf-8")
    said = calibrated(capsys, str(path))
    assert said["files"] == [f"{tmp_path}/\\xff.jsonl"]
    assert said["pairs"][0]["earlier"] == "\\ude00nce"
    assert "\\ud83d" in said["pairs"][0]["later_passage"]
    assert run(["calibrate", "--html", str(tmp_path / "p.html"), str(path)]) == 0
    assert "\\ud83d" in (tmp_path / "p.html").read_text("utf-8")
