"""`config show` and `config check`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stream_dedup.cli import run
from stream_dedup.config.load import load_config
from stream_dedup.core.profiles import PROFILES
from tests.config.files import write

ARTICLE = PROFILES["article"]


SECRET = "hunter2-do-not-print"  # noqa: S105 - what the tests look for


def test_config_show_masks_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config show` says that a secret is there, not which; nor does the value's own text."""
    path = write(
        tmp_path,
        '[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "me"\n'
        f'sasl_password = "{SECRET}"\n',
    )
    assert run(["config", "show", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert 'sasl_password = "********"' in shown
    assert SECRET not in shown + repr(load_config(path, {}, {}))


def test_config_show_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `config show` writes is a configuration file of the same configuration."""
    fields = write(tmp_path, '[input]\nfields = { title = 3, "the text" = 1 }\n')
    flags = ["--window", "24h", "--input", "a", "--input", "b", "--observe"]
    assert run(["config", "show", "--config", str(fields), *flags]) == 0
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["match"]["window"] == "24h"
    given = {"match": {"window": "24h", "observe": True}, "topics": {"input": ["a", "b"]}}
    again = load_config(None, {**given, "input": {"fields": {"title": 3, "the text": 1}}}, {})
    assert load_config(write(tmp_path, shown), {}, {}) == again


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (
            [],
            [
                f"# limit = {ARTICLE.limit} (the profile's)",
                "# unspace = false; short text: true (the profile's)",
                "# distance =",
            ],
        ),
        (["--limit", "44"], ["limit = 44", "# probes = 768 (the profile's)"]),
        (
            ["--profile", "comment"],
            ["# unspace = true (the profile's)", "# article_size = every text is short (the profile's)", "# kind ="],
        ),
        (["--profile", "simhash"], ["# distance = 3 (the profile's)", "# limit =", "# search = exact (the profile's)"]),
    ],
)
def test_config_show_tells_what_the_profile_makes_of_it(
    flags: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in force stands beside each key that the profile decides, and given keys stand over it."""
    assert run(["config", "show", *flags]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


def test_config_show_says_what_an_unset_key_means(capsys: pytest.CaptureFixture[str]) -> None:
    """A key without a value is shown with what is in force: no window is for ever, no number of threads is not 0."""
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    window, threads = lines[lines.index("# window =") - 1], lines[lines.index("# threads =") - 1]
    assert window == "# time for which an article is remembered; default: for ever"
    assert threads.endswith("default: one for each core of its affinity and CPU quota")


def test_config_check_tells_all_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` names every wrong flag and exits with 2."""
    assert run(["config", "check", "--distance", "15", "--metrics", "x"]) == 2
    told = capsys.readouterr().err
    assert "match.distance = '15'" in told
    assert "metrics.address = 'x'" in told


def test_config_check_of_a_right_one_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    """`config check` of what can be used names the log topic."""
    assert run(["config", "check", "--group", "crawl"]) == 0
    assert "crawl.fingerprints" in capsys.readouterr().out


def test_a_distance_in_a_directed_profile_names_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    """`--distance` is about fingerprints; article and comment have `limit` and `probes`."""
    for profile in ("article", "comment"):
        assert run(["config", "check", "--profile", profile, "--distance", "5"]) == 2
        told = capsys.readouterr().err
        assert all(word in told for word in ("match.distance", "match.limit", "match.probes", "--limit", "--probes"))
