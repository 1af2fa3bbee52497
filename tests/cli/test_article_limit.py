"""The limit of time of one article, in commands."""

import json
import re
from pathlib import Path

import pytest

from stream_dedup.article_limit import ARTICLE_LIMIT_S
from stream_dedup.cli import run
from stream_dedup.config.checks import ConfigError
from stream_dedup.config.load import load_config
from stream_dedup.core.fingerprint import entry_maker
from stream_dedup.core.text.decode import Article, InputFormat, RawRecord, Rejection, decode


def slowly(record: RawRecord, fmt: InputFormat) -> Article | Rejection:
    if b"endless" in (record.value or b""):
        re.match("(a|aa)+$", "a" * 200 + "b")
    return decode(record, fmt)


@pytest.mark.slow
def test_filter_rejects_what_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line out for each line in, in order; the slow one says why, and the others have their verdicts."""
    monkeypatch.setattr(entry_maker, "decode", slowly)
    source = tmp_path / "a.jsonl"
    texts = ["the river froze early that year", "endless", "the river froze early that year"]
    source.write_text("".join(f'{{"text":"{text}"}}\n' for text in texts))
    assert run(["filter", "--processes", "0", "--article-limit", "1", str(source)]) == 3
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["dedup"]["verdict"] for one in said] == ["unique", "rejected", "duplicate"]
    assert said[1]["dedup"]["reason"] == "takes longer than 1 s to fingerprint"
    assert [one["text"] for one in said] == texts


@pytest.mark.parametrize("value", [0, 0.5, 3601, "nan"])
def test_the_limit_has_a_range(value: object) -> None:
    """From a second to an hour."""
    with pytest.raises(ConfigError, match=r"worker\.article_limit_s"):
        load_config(overrides={"worker": {"article_limit_s": value}}, environment={})
    assert load_config(environment={}).worker.article_limit_s == ARTICLE_LIMIT_S
