"""``explain``: the literature's examples, ids of an index, the same verdicts as ``filter``, and what is wrong told."""

import json
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.cli import run
from tests.calibrate.corpus import records, write
from tests.profiles import write_profile

CAT = ("the cat sat on the mat", "the cat sat on a mat", "we all scream for ice cream")
MOTHER = ("你妈妈喊你回家吃饭哦，回家罗回家罗", "你妈妈叫你回家吃饭啦，回家罗回家罗")


def explained(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert run(["explain", "--json", *args]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def told(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert run(["explain", *args]) == 0
    return capsys.readouterr().out


def test_the_cosine_of_the_literature(capsys: pytest.CaptureFixture[str]) -> None:
    """Words given, weights their counts: (1 2 2 1 1 1 0) and (1 2 2 1 1 2 1) have the cosine 0.938."""
    texts = ("我喜欢看电视，不喜欢看电影", "我不喜欢看电视，也不喜欢看电影")
    words = ("我 喜欢 看 电视 不 喜欢 看 电影", "我,不,喜欢,看,电视,也,不,喜欢,看,电影")
    args = (*texts, "--weights", "tf", "--words", words[0], "--words", words[1])
    assert "cosine        0.938" in told(capsys, *args)
    said = explained(capsys, *args)
    assert round(said["cosine"], 3) == 0.938
    counts = [{one["name"]: one["count"] for one in said[side]["features"]} for side in "ab"]
    order = ("我", "喜欢", "看", "电视", "电影", "不", "也")
    assert [counts[0].get(word, 0) for word in order] == [1, 2, 2, 1, 1, 1, 0]
    assert [counts[1].get(word, 0) for word in order] == [1, 2, 2, 1, 1, 2, 1]
    assert all(one["count"] == one["weight"] for side in "ab" for one in said[side]["features"])


@pytest.mark.parametrize("texts", [CAT[:2], MOTHER])
def test_nearly_equal_texts_differ_in_few_bits(texts: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nearer than a text about something else, and the cosine says the same."""
    near, far = explained(capsys, *texts), explained(capsys, texts[0], CAT[2])
    assert near["distance"] < far["distance"]
    assert near["cosine"] > far["cosine"]
    assert far["verdict"] == "unique"


def test_sums_signature_and_margins_hang_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Each sum is what the features push; a bit is 1 where the sum is above 0."""
    side = explained(capsys, "--profile", "simhash", *CAT[:2])["a"]
    hashes = [int(one["hash"], 16) for one in side["features"]]
    for bit in range(256):
        pushed = sum(
            one["weight"] if whole >> (255 - bit) & 1 else -one["weight"]
            for one, whole in zip(side["features"], hashes, strict=True)
        )
        assert side["sums"][bit] == pushed
        assert int(side["signature"], 16) >> (255 - bit) & 1 == (pushed > 0)
    assert side["fingerprint"] == side["signature"][:16]


@pytest.mark.parametrize(("base", "search"), [("article", {"probes": 1}), ("article", {"limit": 20}), ("simhash", {})])
def test_the_verdict_is_that_of_filter(
    base: str, search: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For pairs at many distances: what ``filter`` says of a file with these two texts."""
    flags = ("--profile", write_profile(tmp_path, base, search=search))
    rows = list(records(9, 24))
    by_id = {row["id"]: row for row in rows}
    verdicts = set()
    for row in rows:
        if row["copy_of"] is None:
            continue
        two = (by_id[row["copy_of"]], row)
        path = write(tmp_path / "two.jsonl", iter(two))
        assert run(["filter", *flags, str(path)]) == 0
        dedup = json.loads(capsys.readouterr().out.splitlines()[1])["dedup"]
        said = explained(capsys, *flags, *(one["text"] for one in two))
        assert said["verdict"] == dedup["verdict"]
        if dedup["verdict"] == "duplicate":
            key = "fingerprint_distance" if base == "simhash" else "distance"
            assert said[key] == dedup["match"]["distance"]
        verdicts.add(said["verdict"])
    assert verdicts == {"unique", "duplicate"}


def test_an_id_of_a_kept_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The article is found by its id; its text is not there, and that is said; the verdict is that of its text."""
    rows = list(records(3, 12))
    path, index = write(tmp_path / "a.jsonl", iter(rows)), tmp_path / "index"
    assert run(["filter", "--index", str(index), "--unique", "/dev/null", "--duplicate", "/dev/null", str(path)]) == 0
    text = rows[5]["text"]
    said = explained(capsys, "--index", str(index), "--id", "a4", text)
    expected = explained(capsys, rows[4]["text"], text)
    for name in ("verdict", "distance", "fingerprint_distance", "blocks"):
        assert said[name] == expected[name]
    assert (said["a"]["name"], said["a"]["features"], said["cosine"]) == ("a4", None, None)
    assert said["a"]["signature"] == expected["a"]["signature"]
    assert "the index holds no texts" in told(capsys, "--index", str(index), "--id", "a4", text)
    both = explained(capsys, "--index", str(index), "--id", "a4", "--id", "a5")
    assert (both["b"]["name"], both["distance"]) == ("a5", said["distance"])


def test_the_rules_of_an_index_are_those_in_force_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of its last call, whatever the configuration says; of two given texts as well."""
    index, row = tmp_path / "index", next(iter(records(3, 1)))
    path, profile = write(tmp_path / "a.jsonl", iter([row])), write_profile(tmp_path, "article", search={"limit": 20})
    flags = ["--index", str(index), "--unique", "/dev/null", "--duplicate", "/dev/null"]
    assert run(["filter", "--profile", profile, *flags, str(path)]) == 0
    for texts in (["--id", row["id"], "text"], ["one text", "text"]):
        assert explained(capsys, "--index", str(index), *texts)["rules"]["limit"] == 20
    assert explained(capsys, "one text", "text")["rules"]["limit"] != 20


def test_the_newest_of_several_with_one_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A re-crawl stands for its id, in a later call as well."""
    rows = [{**row, "id": "same"} for row in records(8, 4)]
    index = tmp_path / "index"
    for row in rows:
        path = write(tmp_path / "a.jsonl", iter([row]))
        flags = ["--unique", "/dev/null", "--duplicate", "/dev/null"]
        assert run(["filter", "--index", str(index), *flags, str(path)]) == 0
    said = explained(capsys, "--index", str(index), "--id", "same", rows[-1]["text"])
    assert said["distance"] == 0


def test_files_and_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's content, and JSON objects with a scope: other sites never match."""
    (tmp_path / "a").write_text(CAT[0], "utf-8")
    assert explained(capsys, f"@{tmp_path / 'a'}", CAT[0])["distance"] == 0
    config = tmp_path / "c.toml"
    config.write_text('[input]\nscope_field = "site"\nfields = { title = 3, text = 1 }\n', "utf-8")
    records_of = [json.dumps({"title": "ferry", "text": CAT[0], "site": site}) for site in ("one", "two")]
    said = explained(capsys, "--config", str(config), "--records", *records_of)
    assert (said["verdict"], said["distance"], said["a"]["scope"]) == ("unique", 0, "one")
    assert "different scopes" in said["reason"]
    assert run(["explain", "--config", str(config), *CAT[:2]]) == 2
    assert "--records" in capsys.readouterr().err


def test_a_record_is_an_update_of_one_with_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of another record and of an article of an index, under the configured rule; a record without an id is of none."""
    config, index = tmp_path / "c.toml", tmp_path / "index"
    config.write_text('[match]\nrecrawl = "update"\n', "utf-8")
    row = next(iter(records(3, 1)))
    record, unnamed = (json.dumps(one) for one in ({"id": row["id"], "text": row["text"]}, {"text": row["text"]}))
    path, flags = write(tmp_path / "a.jsonl", iter([row])), ("--config", str(config), "--records")
    outputs = ["--unique", "/dev/null", "--duplicate", "/dev/null"]
    assert run(["filter", "--config", str(config), "--index", str(index), *outputs, str(path)]) == 0
    for a in ([record], ["--index", str(index), "--id", row["id"]]):
        assert f"both have the id {row['id']}" in explained(capsys, *flags, *a, record)["reason"]
        assert explained(capsys, *flags, *a, unnamed)["verdict"] == "duplicate"
    assert explained(capsys, *flags, unnamed, unnamed)["verdict"] == "duplicate"


def test_kinds_of_text_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The shortest texts match their equals alone, and never a longer one."""
    long = "".join(row["text"] for row in records(1, 2))
    said = explained(capsys, long, "好的")
    assert (said["a"]["kind"], said["b"]["kind"], said["verdict"]) == ("long", "exact", "unique")
    assert "these kinds never match" in said["reason"]
    equal, other = explained(capsys, "好的", "好的"), explained(capsys, "好的", "好吧")
    assert (equal["verdict"], other["verdict"]) == ("duplicate", "unique")
    assert equal["reason"] == "they are so short that only an equal text matches, and they are equal"
    assert "has no words" in explained(capsys, "……", "！！")["reason"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["only one"], "texts and ids given: 1"),
        (["one", "two", "three"], "texts and ids given: 3"),
        (["--id", "x", "text"], "--id needs --index"),
        (["--index", "no-such-index", "--id", "x", "text"], "there is none"),
        (["@no-such-file", "text"], "no-such-file"),
        (["--words", "a b"], "texts and ids given: 1"),
        (["--records", "{}", "{}"], "text field text is missing"),
        (["--in-scope", "a", "--records", '{"text": "a"}', '{"text": "b"}'], "--in-scope is for texts"),
        (["--in-scope", "a", "--words", "a b", "--words", "b c"], "--in-scope is for texts"),
        (["@", "text"], "@ names no file"),
        (["--profile", "simhas", "a", "b"], "match.profile"),
    ],
)
def test_what_is_wrong_is_told(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what to do."""
    assert run(["explain", *args]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_id_and_another_scheme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are told, the scheme before anything is compared."""
    index = tmp_path / "index"
    path = write(tmp_path / "a.jsonl", records(3, 2))
    assert run(["filter", "--index", str(index), "--unique", "/dev/null", "--duplicate", "/dev/null", str(path)]) == 0
    assert run(["explain", "--index", str(index), "--id", "nobody", "text"]) == 2
    assert "no article has the id nobody" in capsys.readouterr().err
    assert run(["explain", "--index", str(index), "--profile", "simhash", "--id", "a1", "text"]) == 2
    assert "scheme" in capsys.readouterr().err
