"""The limit of time of one article, in commands."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_dedup.article_limit import ARTICLE_LIMIT_S
from stream_dedup.cli import run
from stream_dedup.config.checks import ConfigError
from stream_dedup.config.load import load_config
from stream_dedup.core.columns import Columns
from stream_dedup.core.fingerprint.entry_maker import EntryMaker
from stream_dedup.core.text.decode import RawRecord

MAKE = EntryMaker.__call__


def slowly(maker: EntryMaker, records: Sequence[RawRecord]) -> Columns:
    for record in records:
        if b"endless" in (record.value or b""):
            re.match("(a|aa)+$", "a" * 200 + "b")
    return MAKE(maker, records)


@pytest.mark.slow
def test_filter_rejects_what_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line out for each line in, in order; the slow one says why, and the others have their verdicts."""
    monkeypatch.setattr(EntryMaker, "__call__", slowly)
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
