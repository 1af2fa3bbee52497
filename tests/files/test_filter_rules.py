"""The rules of `filter`: limits, scope, updates, observing, fields, windows."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.files.filtering import EDITED, OTHER, STORY, Filter, record, write
from tests.profiles import write_profile


def test_distance_is_a_limit_in_bits(tmp_path: Path, call: Filter) -> None:
    """In exact search, at the distance that a match has it is one, below it is none."""
    source = write(tmp_path / "a", record("a", STORY), record("b", EDITED))

    def within(distance: int) -> tuple[str, ...]:
        return ("--profile", write_profile(tmp_path, "simhash", search={"distance": distance}))

    distance = call(*within(11), source)[1]["dedup"]["match"]["distance"]
    assert 0 < distance <= 11
    assert call.verdicts(*within(distance), source) == ["unique", "duplicate"]
    assert call.verdicts(*within(distance - 1), source) == ["unique", "unique"]


@pytest.mark.parametrize(("copies", "key"), [(1, "short_limit"), (4, "limit")])
def test_limits_are_bits_of_the_signature(tmp_path: Path, call: Filter, copies: int, key: str) -> None:
    """In directed search too, one limit for short texts and one for long ones; the similarity goes with it."""
    long, edited = STORY * copies, EDITED + STORY * (copies - 1)
    source = write(tmp_path / "a", record("a", long), record("b", edited))
    match = call(source)[1]["dedup"]["match"]
    assert match["similarity"] == round(math.cos(math.pi * match["distance"] / 256), 4)
    for limit, verdict in ((match["distance"], "duplicate"), (match["distance"] - 1, "unique")):
        profile = write_profile(tmp_path, search={key: limit})
        assert call.verdicts("--profile", profile, source) == ["unique", verdict]


def test_the_classic_on_demand(tmp_path: Path, call: Filter) -> None:
    """Profile simhash: a text that differs in many words is unique, an equal one is a duplicate at distance 0."""
    source = write(tmp_path / "a", record("a", STORY), record("b", OTHER), record("c", STORY.lower()))
    assert call.verdicts("--profile", "simhash", source) == ["unique", "unique", "duplicate"]


def test_a_scope_parts_articles(tmp_path: Path, call: Filter) -> None:
    """The same text in another scope, or in none, is another article."""
    source = write(
        tmp_path / "a",
        record("a", STORY, site="x"),
        record("b", STORY, site="y"),
        record("c", STORY),
        record("d", STORY, site="x"),
    )
    outs = call("--scope", "site", source)
    assert [out["dedup"].get("match", {}).get("id") for out in outs] == [None, None, None, "a"]


def test_an_update_is_unique_and_names_its_earlier_version(tmp_path: Path, call: Filter) -> None:
    """With --recrawl update an edited record under its own id leaves as unique, a copy under another does not."""
    source = write(tmp_path / "a", record("a", STORY), record("b", STORY), record("a", EDITED), record("c", OTHER))
    outs = call("--recrawl", "update", source)
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", "duplicate", "unique", "unique"]
    assert [out["dedup"].get("match", {}).get("id") for out in outs] == [None, "a", "a", None]
    assert call.verdicts(source) == ["unique", "duplicate", "duplicate", "unique"]


def test_observing_writes_everything_where_unique_ones_go(tmp_path: Path, call: Filter) -> None:
    """With its verdict; files that would stay empty are refused."""
    config = tmp_path / "c.toml"
    config.write_text("[match]\nobserve = true\n")
    source = write(tmp_path / "a", record("a", STORY), record("b", STORY), b"bad")
    assert call("--config", config, "--unique", tmp_path / "u", source) == []
    told = [json.loads(line)["dedup"]["verdict"] for line in (tmp_path / "u").read_bytes().splitlines()]
    assert told == ["unique", "duplicate", "rejected"]
    assert call("--config", config, "--duplicate", tmp_path / "d", source) == []
    assert call.code == 2
    assert "match.observe" in call.err


def test_fields_and_html_make_one_text(tmp_path: Path, call: Filter) -> None:
    """A page is the text that it shows, whichever of the fields it stands in."""
    config = tmp_path / "c.toml"
    config.write_text('[input]\nfields = { text = 1, page = 1 }\nhtml_fields = ["page"]\n')
    page = (
        f"<html><head><script>var x = 1;</script></head><body><p><b>{STORY[:9]}</b>{STORY[9:]}&nbsp;</p></body></html>"
    )
    source = write(tmp_path / "a", record("a", STORY), {"id": "b", "page": page}, {"id": "c", "title": STORY})
    outs = call("--config", config, source)
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", "duplicate", "rejected"]
    assert outs[1]["page"] == page


def test_a_window_forgets_by_the_time_field(tmp_path: Path, call: Filter) -> None:
    """A copy within the window is a duplicate, one past it is unique; the log time is the field's alone."""
    times = ["2024-05-01T00:00:00Z", "2024-05-01T01:00:00Z", "2024-05-01T02:00:00.001Z"]
    source = write(tmp_path / "a", *(record(time, STORY, at=time) for time in times))
    assert call.verdicts("--window", "1h", "--time-field", "at", source) == ["unique", "duplicate", "unique"]


@pytest.mark.parametrize("late", ["2024-05-01T08:00:00+08:00", "2024-05-01", 1714521600, 1714521600000, 1714521600.0])
def test_times_are_iso_or_seconds_or_milliseconds(tmp_path: Path, call: Filter, late: object) -> None:
    """Each says the same moment, one second after the window's begin."""
    source = write(tmp_path / "a", record(1, STORY, at="2024-04-30T23:59:59Z"), record(2, STORY, at=late))
    assert call.verdicts("--window", "1s", "--time-field", "at", source) == ["unique", "duplicate"]
    source = write(tmp_path / "a", record(1, STORY, at="2024-04-30T23:59:58.999Z"), record(2, STORY, at=late))
    assert call.verdicts("--window", "1s", "--time-field", "at", source) == ["unique", "unique"]


@pytest.mark.parametrize("time", [None, "", " ", "yesterday", True, [1], 1e300])
def test_a_record_without_a_time_is_rejected(tmp_path: Path, call: Filter, time: object) -> None:
    """It leaves as it came, with the reason, and is nobody's match; a time that is not understood is not missing."""
    source = write(tmp_path / "a", record(1, STORY, at=time), record(2, STORY, at=5))
    outs = call("--time-field", "at", source)
    is_missing = time is None or (isinstance(time, str) and not time.strip())
    reason = "no time in field at" if is_missing else "the time in field at has no known form"
    assert outs[0]["dedup"] == {"verdict": "rejected", "reason": reason}
    assert outs[1]["dedup"]["verdict"] == "unique"


def test_an_article_of_the_future_does_not_expire_the_rest(tmp_path: Path, call: Filter) -> None:
    """Expiry is a matter of two records: one from 2099 between them changes nothing."""
    source = write(
        tmp_path / "a", record(1, STORY, at=1000), record(2, OTHER, at="2099-01-01"), record(3, STORY, at=1001)
    )
    assert call.verdicts("--window", "1h", "--time-field", "at", source) == ["unique", "unique", "duplicate"]


@pytest.mark.parametrize("late", ["1714521600", "2024/05/01 00:00:00", "Wed, 01 May 2024 08:00:00 +0800", "20240501"])
def test_times_as_text_are_read(tmp_path: Path, call: Filter, late: str) -> None:
    """Of a field by path, in an array too."""
    first = {"id": 1, "text": STORY, "meta": [{"at": "2024-04-30T23:59:59Z"}]}
    source = write(tmp_path / "a", first, {"id": 2, "text": STORY, "meta": [{"at": late}]})
    assert call.verdicts("--window", "1s", "--time-field", "meta[0].at", source) == ["unique", "duplicate"]


@pytest.mark.parametrize(
    ("path", "remedy"), [("a.0", "[0]"), ("a[]", "[0]"), ("a..b", "remove the dot"), ("", "a member")]
)
def test_a_time_field_that_is_no_path_is_refused(tmp_path: Path, call: Filter, path: str, remedy: str) -> None:
    """Before a line is read; the error names flag, value and place."""
    assert call("--time-field", path, write(tmp_path / "a", record(1, STORY, at=5))) == []
    assert call.code == 2
    assert re.search(rf"--time-field.*{re.escape(repr(path))}, at character \d+: .*{re.escape(remedy)}", call.err)


def test_fields_have_paths(tmp_path: Path, call: Filter) -> None:
    """Id, text and scope, as a search engine and a log of conversations have them; records leave as they came."""
    first = {"_id": "n1", "_source": {"body": STORY, "site": "x"}}
    source = write(tmp_path / "a", first, *(first | {"_id": name} for name in ("n2", "n3")))
    outs = call("--id-field", "_id", "--text-field", "_source.body", "--scope", "_source.site", source)
    assert [out["dedup"].get("match", {}).get("id") for out in outs] == [None, "n1", "n1"]
    assert {name: value for name, value in outs[0].items() if name != "dedup"} == first
    turns = [{"from": "user", "value": "When?"}, {"from": "bot", "value": STORY}]
    source = write(tmp_path / "b", {"id": 1, "talk": turns}, {"id": 2, "talk": [*turns, {"from": "tool"}]}, {"id": 3})
    outs = call("--text-field", "talk[].value", source)
    assert [out["dedup"]["verdict"] for out in outs] == ["unique", "duplicate", "rejected"]
    assert outs[2]["dedup"]["reason"] == "text field talk[].value is missing"


def test_a_whole_number_is_one_id(tmp_path: Path, call: Filter) -> None:
    """A new version of an article is an update, whichever program wrote its id."""
    lines = (b'{"id": %b, "text": "%b"}' % (number, STORY.encode()) for number in (b"4711", b"4711.0", b"4.711e3"))
    outs = call("--recrawl", "update", write(tmp_path / "a", *lines))
    assert [(out["dedup"]["verdict"], out["dedup"].get("match", {}).get("id")) for out in outs] == [
        ("unique", None),
        ("unique", "4711"),
        ("unique", "4711"),
    ]


def test_an_id_that_cannot_be_used_is_said(tmp_path: Path, call: Filter) -> None:
    """The record leaves with its text and the reason; NaN beside the text costs nothing and stays as it is."""
    bad = [b"true", b"[1]", b'{"$oid": "a"}', b"NaN"]
    lines = [b'{"id": %b, "text": "%b"}' % (one, STORY.encode()) for one in bad]
    outs = call(write(tmp_path / "a", *lines))
    assert [out["dedup"]["reason"].rpartition(" but ")[2] for out in outs] == [
        "a boolean",
        "an array",
        "an object",
        "NaN",
    ]
    assert all(out["text"] == STORY for out in outs)
    line = b'{"id": 1, "score": NaN, "text": "%b", "x": [-Infinity]}' % STORY.encode()
    assert [out["dedup"]["verdict"] for out in call(write(tmp_path / "b", line))] == ["unique"]
    assert call.raw.startswith(line[:-1] + b',"dedup":')


def test_a_novel_is_an_article(tmp_path: Path, call: Filter) -> None:
    """The limit of a worker is not that of `filter`, unless a key sets it; the reason names the key."""
    novel = write(tmp_path / "a", record(1, f"{STORY} " * (1_600_000 // len(STORY.encode()))))
    size = (tmp_path / "a").stat().st_size - 1
    assert size > 1_500_000
    assert call.verdicts(novel) == ["unique"]
    config = tmp_path / "c.toml"
    config.write_text("[input]\nmax_bytes = 1500000\n")
    (out,) = call("--config", config, novel)
    assert out["dedup"]["reason"] == f"too long: {size} bytes, input.max_bytes is 1500000"


def test_fields_are_configurable(tmp_path: Path, call: Filter) -> None:
    """Other names of id and text by the configuration file."""
    config = tmp_path / "c.toml"
    config.write_text('[input]\nid_field = "url"\ntext_field = "body"\n')
    source = write(tmp_path / "a", {"url": "u1", "body": STORY}, {"url": "u2", "body": STORY})
    assert call("--config", config, source)[1]["dedup"]["match"]["id"] == "u1"
