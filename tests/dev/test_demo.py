"""``make run`` on a broker and without one."""

import os
import re
import subprocess
import sys
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from stream_dedup.core.model import Verdict
from stream_dedup.dev.broker import BROKERS_VARIABLE, DevBroker
from stream_dedup.dev.demo import SAMPLE

END_S = 110
"""For one demonstration, seconds: about 15 are usual."""
LINE = re.compile(rf"^  ({'|'.join(Verdict)}) +(\S+(?: \d+)?) ", re.MULTILINE)


def run_demo(**environment: str) -> str:
    command = [sys.executable, "-m", "stream_dedup.dev.demo"]
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", BROKERS_VARIABLE}}
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=END_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verdicts(told: str) -> list[tuple[str, str]]:
    """Return verdict and id of each printed line, without the ids that are made of a place."""
    return [
        (verdict, name if "-0-" not in name and "line" not in name else "-") for verdict, name in LINE.findall(told)
    ]


@pytest.fixture(scope="module")
def through_files() -> str:
    """Return the output on a machine where no broker can run."""
    return run_demo(PATH="/nowhere", DOCKER_HOST="unix:///nowhere")


@pytest.mark.slow
def test_without_docker_and_java(through_files: str) -> None:
    """A machine with neither gets one line that says so, and every verdict of the sample."""
    assert through_files.count("neither Docker nor Java") == 1
    assert len(verdicts(through_files)) == len(SAMPLE.read_bytes().splitlines())
    assert through_files.endswith("61 records: 33 unique, 21 duplicate, 7 rejected.\n")


def test_texts_are_shown_as_far_as_they_fit(through_files: str) -> None:
    """Chinese and English take about as much of a line, and are cut at the same column."""
    for text in ("清晨五点，老码头的第一盏灯亮了。渔民老陈把补好…", "The lighthouse at the northern point has been a…"):
        assert text in through_files


def test_on_a_broker(broker: DevBroker, through_files: str) -> None:
    """On a real broker the same records get the same verdicts, the audit agrees, and no topic stays."""
    told = run_demo(**{BROKERS_VARIABLE: broker.bootstrap})
    assert sorted(verdicts(told)) == sorted(verdicts(through_files))
    assert "nothing missing, twice, wrong or self-matched" in told
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        assert [name for name in admin.list_topics() if name.startswith("sample-")] == []
