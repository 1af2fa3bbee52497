"""Records, files and calls of `filter` for the tests."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.cli import run
from tests.forks import forks

STORY = (
    "市图书馆周末恢复夜间开放,读者可以在二楼阅览室看书到晚上十点。馆长说,去年因为维修,夜间服务停了八个月,"
    "这次换了新的灯和座椅,还添了三十台可以借用的电脑。附近的学生听到消息都很高兴。"
)


EDITED = STORY.replace("三十台", "四十台")


OTHER = (
    "The harbour ferry will run every twenty minutes from June, the council said on Monday. "
    "Commuters had asked for a denser timetable since the bridge was closed for repairs last autumn."
)


def record(article: object, text: str, **more: object) -> dict[str, Any]:
    return {"id": article, "text": text, **more}


def write(path: Path, *records: dict[str, Any] | bytes) -> str:
    lines = [line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() for line in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


class Filter:
    """Calls `filter` in this process and keeps what it says."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture
        self.code = 0
        self.raw = b""
        self.err = ""

    def __call__(self, *args: object) -> list[dict[str, Any]]:
        self._capture.readouterr()
        self.code = run(["filter", *map(str, args)])
        told = self._capture.readouterr()
        self.raw, self.err = told.out, told.err.decode()
        return [json.loads(line) for line in self.raw.splitlines()]

    def verdicts(self, *args: object) -> list[str]:
        return [line["dedup"]["verdict"] for line in self(*args)]


class PipedFilter:
    """`filter` as a forked process on pipes; the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, *args: object) -> None:
        (stdin, self._in), (self._out, stdout), (self._err, stderr) = (os.pipe() for _ in range(3))
        given = ["{}", "filter", *map(str, args)]
        self._process = forks().start("tests.files.dying_filter:main", given, [stdin, stdout, stderr])
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)
        self.pid = self._process.pid
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(ours, mode) for ours, mode in ((self._in, "wb"), (self._out, "rb"), (self._err, "rb"))
        )
        self.wait, self.send_signal = self._process.wait, self._process.send_signal

    def close(self) -> None:
        """Kill the process, if it runs, and close the pipes."""
        self._process.kill()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
