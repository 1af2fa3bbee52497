"""``make demo``: the pages answer over a running stream; Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import closing
from itertools import islice
from pathlib import Path

from kafka import KafkaAdminClient

from stream_dedup.dev.broker import DevBroker
from stream_dedup.dev.broker.base import BROKERS_VARIABLE
from stream_dedup.dev.stream import SampleStream
from tests.waiting import wait_until

READY_S = 100.0
END_S = 60.0
PAGES = {
    "/check?sample=1": 'id="verdict"',
    "/clusters": "<h1>Clusters</h1>",
    "/live": 'id="verdicts"',
    "/system": "Stable",
}


def processes_of(folder: str) -> list[str]:
    """The command lines of processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it has ended
        if folder in command:
            found.append(command)
    return found


def test_the_pages_over_a_stream_until_ctrl_c(broker: DevBroker, tmp_path: Path) -> None:
    """Every page answers and shows the stream; SIGINT ends all processes, and no topic and no folder stays."""
    log = tmp_path / "demo.log"
    environment = os.environ | {BROKERS_VARIABLE: broker.bootstrap, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "stream_dedup.dev.demo", "pages"], stdout=out, stderr=out, env=environment
        )
    try:
        wait_until(lambda: "Ctrl-C" in log.read_text() or demo.poll() is not None, READY_S, "the pages are there")
        found = re.search(r"The pages: (http://127\.0\.0\.1:\d+)/", log.read_text())
        assert found is not None, log.read_text()
        assert processes_of(str(tmp_path))

        def page(path: str) -> str:
            with urllib.request.urlopen(found[1] + path) as answer:  # noqa: S310 - the address is the demo's
                return str(answer.read().decode())

        wait_until(lambda: 'class="verdict duplicate"' in page("/live"), END_S, "a duplicate is shown")
        wait_until(lambda: "demo-" in page("/system"), END_S, "the brokers describe the group")
        group = re.search(r"demo-[0-9a-f]{8}", page("/system"))
        assert group is not None
        for path, part in PAGES.items():
            assert part.lower() in page(path).lower(), path
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            code = demo.wait(END_S)
        finally:
            demo.kill()
    assert code == 0, log.read_text()
    assert processes_of(str(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == [log.name]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        assert [name for name in admin.list_topics() if name.startswith(group[0])] == []


def test_the_stream_is_repeatable_and_has_every_kind() -> None:
    """One seed makes one stream; its ids differ but for pages that are crawled again."""
    one, other = (list(islice(SampleStream(3), 600)) for _ in range(2))
    assert one == other
    assert {record.way for record in one} == {"unique", "story", "spam", "comment", "recrawl", "broken"}
    keys = [record.key for record in one if record.way != "recrawl"]
    assert len(set(keys)) == len(keys)
    assert {record.key for record in one if record.way == "recrawl"} <= set(keys)
