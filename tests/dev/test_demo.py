"""``make run`` on a broker and without one."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient

from stream_dedup.core.model import Verdict
from stream_dedup.dev.broker import BROKERS_VARIABLE, DevBroker

END_S = 110
"""For one demonstration, seconds: about 15 are usual."""
LINE = re.compile(rf"^  ({'|'.join(Verdict)}) +(\S+) ", re.MULTILINE)


def run_demo(**environment: str) -> str:
    command = [sys.executable, "-m", "stream_dedup.dev.demo"]
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", BROKERS_VARIABLE}}
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verdicts(told: str) -> list[tuple[str, str]]:
    """Return verdict and id of each printed line, without the ids that are made of an offset."""
    return [(verdict, "-" if "-0-" in name else name) for verdict, name in LINE.findall(told)]


def filtered(told: str) -> list[tuple[str, str]]:
    """Return the same of the lines that ``filter`` writes; a rejected line stands in its record as it was."""
    records = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    return [(record["dedup"]["verdict"], _id_of(record)) for record in records]


def _id_of(record: dict[str, Any]) -> str:
    try:
        original = json.loads(record["dedup"].get("line", json.dumps(record)))
    except ValueError:
        return "-"
    return str(original.get("id", "-")) if isinstance(original, dict) else "-"


@pytest.fixture(scope="module")
def through_files() -> str:
    """Return the output on a machine where no broker can run."""
    return run_demo(PATH="/nowhere", DOCKER_HOST="unix:///nowhere")


@pytest.mark.slow
def test_without_docker_and_java(through_files: str) -> None:
    """A machine with neither gets one line that says so, and every verdict of the sample."""
    assert through_files.count("neither Docker nor Java") == 1
    assert Counter(verdict for verdict, _ in filtered(through_files)) == {"unique": 33, "duplicate": 21, "rejected": 7}


def test_on_a_broker(broker: DevBroker, through_files: str) -> None:
    """On a real broker the same records get the same verdicts, the audit agrees, and no topic stays.

    Chinese and English texts take about as much of a line, and are cut at the same column.
    """
    told = run_demo(**{BROKERS_VARIABLE: broker.bootstrap})
    assert sorted(verdicts(told)) == sorted(filtered(through_files))
    assert "61 records: 33 unique, 21 duplicate, 7 rejected.\n" in told
    assert "\nnothing is wrong\n" in told
    for text in ("清晨五点，老码头的第一盏灯亮了。渔民老陈把补好…", "The lighthouse at the northern point has been a…"):
        assert text in told
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        assert [name for name in admin.list_topics() if name.startswith("sample-")] == []
