"""The alerts: each is explained, each is made to fire and to stop by ``promtool test rules``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.alert_stage import GROUP, GROUP_CONFIG, SEARCH, WORKER_CONFIG, quickened
from benchmarks.alerts import HARMED, NOT_DONE
from stream_dedup.config.load import load_config
from tests.profiles import write_profile

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "alerts.yml"
CASES = ROOT / "deploy" / "prometheus" / "alerts_test.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"


def alerts() -> list[str]:
    """Names of all alerts, in order."""
    return re.findall(r"^ +- alert: (\w+)$", RULES.read_text("utf-8"), re.MULTILINE)


def entry(name: str) -> str:
    """What the runbook says about an alert."""
    return RUNBOOK.read_text("utf-8").partition(f"\n## {name}\n\n")[2].partition("\n## ")[0]


def test_every_alert_has_an_entry_in_the_runbook() -> None:
    """In the order of the alerts; with its severity, and what to do. The alert's annotation leads to it."""
    text = RULES.read_text("utf-8")
    assert re.findall(r"^## (\w+)$", RUNBOOK.read_text("utf-8"), re.MULTILINE) == alerts()
    for name in alerts():
        rule = text.partition(f"- alert: {name}\n")[2].partition("- alert:")[0]
        severity = re.search(r"severity: (page|ticket)", rule)
        assert severity is not None
        assert entry(name).startswith(f"*{severity[1]}*.")
        assert "* Do: " in entry(name)
        assert f"runbook: docs/runbook.md#{name.lower()}\n" in rule


def test_every_alert_has_a_case() -> None:
    """Which sees it silent first, then firing, then silent again."""
    cases = re.split(r"^  - name: (\w+)$", CASES.read_text("utf-8"), flags=re.MULTILINE)
    assert cases[1::2] == alerts()
    for name, case in zip(cases[1::2], cases[2::2], strict=True):
        assert set(re.findall(r'alertname="(\w+)"', case)) == {name}
        expected = [said == " []" for said in re.findall("exp_samples:(.*)", case)]
        assert expected == [True, False, True]


def test_every_alert_has_a_harm() -> None:
    """``make alerts`` does it, or says why not."""
    assert sorted([*HARMED, *NOT_DONE]) == sorted(alerts())


def test_the_configuration_of_the_harmed_workers_is_valid(tmp_path: Path) -> None:
    """With what each worker adds to that of the group."""
    group = GROUP_CONFIG.format(
        brokers="127.0.0.1:9092",
        group=GROUP,
        partitions=1,
        registry="http://127.0.0.1:1",
        transaction_s=5,
        profile=write_profile(tmp_path, search=SEARCH),
    )
    (tmp_path / "worker.toml").write_text(group + WORKER_CONFIG.format(index=tmp_path, port=1), "utf-8")
    config = load_config(tmp_path / "worker.toml", {}, {})
    assert (config.kafka.group, config.index.path, config.match.profile.candidates) == (GROUP, tmp_path, None)


def test_the_harms_meet_quicker_rules() -> None:
    """Their ranges, delays and looks ahead are divided: a trend of minutes is not carried on for a day."""
    rules = "predict_linear(free_bytes[6h], 86400) < 0\nfor: 30m\n"
    assert quickened(rules, 60) == "predict_linear(free_bytes[360s], 1440) < 0\nfor: 30s\n"
    assert not re.findall(r"\[\d+[mhd]\]|for: \d+[mh]$|86400", quickened(RULES.read_text("utf-8"), 60), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here (Debian's package prometheus)")
def test_the_cases_pass() -> None:
    """``promtool test rules`` sees each alert fire and stop."""
    found = subprocess.run(["promtool", "test", "rules", CASES], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
