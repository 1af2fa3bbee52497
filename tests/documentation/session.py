"""Runs the blocks of one page in order, in a folder of their own, as a reader would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.dev.broker.base import free_ports
from tests.documentation.pages import Block
from tests.make_readme import README, ROOT
from tests.waiting import wait_until

BROKER = "127.0.0.1:9092"
"""The address that the pages use for a broker."""
STEP_LIMIT_S = 240.0
REPEAT_PAUSE_S = 1.0
ANY = "…"
"""In output that a page shows: any characters; alone in a line: any lines."""


class Session:
    """The folder, the environment and the background programs of one page."""

    def __init__(self, folder: Path, page: Path, broker: str | None) -> None:
        self._folder = folder
        self._addresses = {} if broker is None else {BROKER: broker}
        self._background: list[subprocess.Popen[bytes]] = []
        own = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_DEDUP_")}
        self._environment = own | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "STREAM_DEDUP_METRICS__ADDRESS": "127.0.0.1:0",
        }
        if page == README:  # its commands are for the clone
            (folder / ".venv").symlink_to(sys.prefix)
            (folder / "stream_dedup").symlink_to(ROOT / "stream_dedup")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._background:
            program.send_signal(signal.SIGTERM)
        ended = [program.wait(timeout=STEP_LIMIT_S) for program in self._background]
        assert error is not None or ended == [0] * len(ended), f"background programs ended with {ended}"

    def run(self, block: Block) -> None:
        """Write the file of a block, or run its commands.

        Raises:
            AssertionError: a command ends with another code, or writes something else, than the page says.
        """
        if "kill" in block.marks:
            self._kill(block.marks["kill"])
        if block.file is not None:
            with (self._folder / block.file).open(
                "a" if "append" in block.attributes else "w", encoding="utf-8"
            ) as file:
                file.write(self._here(block.content))
        elif block.language == "python":
            self._step(block, "python - <<'END OF SNIPPET'\n" + block.content + "END OF SNIPPET", None)
        elif block.language in {"sh", "console"}:
            for command, output in block.steps():
                if "background until" in block.marks:
                    self._start(block, command)
                else:
                    self._step(block, command, output)

    def _kill(self, text: str) -> None:
        killed = [program for program in self._background if text in str(program.args)]
        assert killed, f"no background program has {text} in its command"
        for program in killed:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait(timeout=STEP_LIMIT_S)
            self._background.remove(program)

    def _here(self, text: str) -> str:
        """The text with addresses of this machine: that of the broker, and free ports for the others."""

        def replaced(found: re.Match[str]) -> str:
            return self._addresses.setdefault(found[0], f"127.0.0.1:{free_ports(1)[0]}")

        return re.sub(r"\b127\.0\.0\.1:[1-9]\d*", replaced, text)

    def _step(self, block: Block, command: str, output: str | None) -> None:
        deadline = time.monotonic() + STEP_LIMIT_S
        while True:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", self._here(command)],
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=STEP_LIMIT_S,
            )
            told = f"{block}: {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
            written = "".join(f"{line}\n" for line in done.stdout.splitlines())  # the last end of a line may be missing
            as_shown = output is None or pattern_of(output).fullmatch(written) is not None
            if as_shown and done.returncode == int(block.marks.get("exit code", "0")):
                return
            assert "repeated" in block.marks and time.monotonic() < deadline, told  # noqa: PT018 - one reason
            time.sleep(REPEAT_PAUSE_S)

    def _start(self, block: Block, command: str) -> None:
        log = self._folder / f"background-{len(self._background)}-{block.line}.log"
        with log.open("wb") as file:
            self._background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {self._here(command)}"],
                    cwd=self._folder,
                    env=self._environment,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            )
        awaited = block.marks["background until"]
        program = self._background[-1]
        wait_until(
            lambda: awaited in log.read_text("utf-8") or program.poll() is not None, STEP_LIMIT_S, f"{block}: {awaited}"
        )
        assert program.poll() is None, f"{block}: {log.read_text('utf-8')}"


def pattern_of(output: str) -> re.Pattern[str]:
    """The pattern of an output as a page shows it."""
    lines = [
        r"(?:.*\n)*" if line == ANY else ".*".join(map(re.escape, line.split(ANY))) + r"\n"
        for line in output.splitlines()
    ]
    return re.compile("".join(lines))
