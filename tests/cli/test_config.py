"""`config show` and `config check`."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from stream_dedup.cli import run
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import PROFILES
from tests.config.files import write
from tests.profiles import write_profile

ARTICLE = PROFILES["article"]


def test_config_show_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `config show` writes is a configuration file of the same configuration; its paths are absolute."""
    fields = write(tmp_path, '[input]\nfields = { title = 3, "the text" = 1 }\n')
    flags = ["--window", "24h", "--input", "a", "--input", "b", "--observe"]
    assert run(["config", "show", "--config", str(fields), *flags]) == 0
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["match"]["window"] == "24h"
    given = {"match": {"window": "24h", "observe": True}, "topics": {"input": ["a", "b"]}}
    given |= {"index": {"path": Path("index").absolute()}, "serve": {"data_dir": Path("serve").absolute()}}
    again = load_config(None, {**given, "input": {"fields": {"title": 3, "the text": 1}}}, {})
    assert load_config(write(tmp_path, shown), {}, {}) == again


def test_config_show_refuses_a_path_that_toml_cannot_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it writes can be read, or it writes nothing."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    for flags in (("--index", str(folder)), ("--profile", write_profile(folder))):
        assert run(["config", "show", *flags]) == 2
        said = capsys.readouterr()
        assert (said.out, "is not UTF-8, as TOML has to be; rename that path" in said.err) == ("", True)


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        ("article", [f"# search.limit = {ARTICLE.limit}", "# text.unspace = false; short text: true"]),
        ("comment", ["# text.unspace = true", "# text.article_size = every text is short"]),
        ("simhash", ["# search.distance = 3", "# search.kind = exact", "# features.idf = jieba"]),
    ],
)
def test_config_show_has_the_values_of_the_profile(
    profile: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that it has a use for: no limit in exact search, no features of words where every text is short."""
    assert run(["config", "show", "--profile", profile]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert {f'# profile "{profile}"', *lines} <= set(shown)
    keys = {line.split(" ")[1] for line in shown if re.match(r"# (text|features|search)\.", line)}
    assert ("search.limit" in keys, "search.distance" in keys, "features.idf" in keys) == (
        profile != "simhash",
        profile == "simhash",
        profile != "comment",
    )


def test_config_show_says_which_values_are_those_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest comes from the profile that the file starts from."""
    write_profile(tmp_path, "comment", text={"urls": "drop", "emails": "drop"}, search={"limit": 44})
    monkeypatch.chdir(tmp_path)
    assert run(["config", "show", "--profile", "profile.toml"]) == 0
    shown = capsys.readouterr().out
    assert f'# profile "{tmp_path}/profile.toml", from comment\n' in shown
    assert [line for line in shown.splitlines() if line.endswith("(its own)")] == [
        "# text.urls = drop (its own)",
        "# text.emails = drop (its own)",
        "# search.limit = 44 (its own)",
        "# search.short_limit = 44 (its own)",
    ]
    assert tomllib.loads(shown)["match"]["profile"] == str(tmp_path / "profile.toml")


def test_config_show_says_what_an_unset_key_means(capsys: pytest.CaptureFixture[str]) -> None:
    """A key without a value is shown with what is in force: no window is for ever, no number of threads is not 0."""
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    window, threads = lines[lines.index("# window =") - 1], lines[lines.index("# threads =") - 1]
    assert window == "# time for which an article is remembered; default: for ever"
    assert threads.endswith("default: one for each core of its affinity and CPU quota")


def test_config_check_tells_all_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` names every wrong value, of the profile's file too, and exits with 2."""
    profile = write_profile(tmp_path, search={"distance": 15, "probs": 4})
    assert run(["config", "check", "--profile", profile, "--metrics", "x"]) == 2
    told = capsys.readouterr().err
    assert f"search.distance = 15 (file {profile})" in told
    assert "search.probs" in told
    assert "metrics.address = 'x'" in told


def test_config_check_of_a_right_one_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` of what can be used names the log topic."""
    assert run(["config", "check", "--group", "crawl"]) == 0
    assert "crawl.fingerprints" in capsys.readouterr().out
