"""What every development broker has: a check of its start, ports, and a folder of the caller for its data."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from stream_dedup.dev.broker import BrokerSettings, base, container
from stream_dedup.dev.broker.base import DevBroker, usable_folder, wait_until_ready
from stream_dedup.dev.broker.jvm import JvmBroker
from stream_dedup.errors import UserError


def test_one_that_answers(broker: DevBroker) -> None:
    """A started broker is ready at once."""
    assert wait_until_ready(broker.bootstrap, lambda: True, limit_s=10)


def test_one_that_ended() -> None:
    """There is no wait for a broker that has ended."""
    assert not wait_until_ready("127.0.0.1:1", lambda: False, limit_s=3600)


def test_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that takes connections and never answers is not ready, and the wait ends in its time."""
    monkeypatch.setattr(base, "PROBE_LIMIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not wait_until_ready(f"127.0.0.1:{silent.getsockname()[1]}", lambda: True, limit_s=0.3)


def test_ports_are_free_and_different() -> None:
    """Ports are handed out that can be listened on, below the range of outgoing connections."""
    first, second = base.free_ports(2)
    assert first != second
    for port in (first, second):
        assert port < 32_768
        socket.create_server(("127.0.0.1", port)).close()


def test_a_taken_port_is_not_free() -> None:
    """A port that somebody listens on is not handed out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not base.is_free(taken.getsockname()[1])


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_folder_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    """One that is there is not changed."""
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "meta.properties").touch()
    assert usable_folder(folder) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_missing_folder_is_made_as_any_other(tmp_path: Path) -> None:
    """With its parents, and with the mode that the process gives to folders."""
    mask = os.umask(0o027)
    try:
        folder = usable_folder(tmp_path / "new" / "data")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


@pytest.mark.parametrize("denied", [".", "topic-0"])
def test_a_folder_of_another_user_is_refused(denied: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the path that cannot be written, and the way out; nothing is changed."""
    (tmp_path / "topic-0").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / denied)
    with pytest.raises(
        UserError, match=rf"data folder {tmp_path}: {tmp_path / denied} cannot .* name another with --d"
    ):
        usable_folder(tmp_path)


def test_what_is_no_folder_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """By both ways to a broker: no keeper is started."""
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(UserError, match="cannot be used"):
        container.ContainerBroker(BrokerSettings(data=path), "image")
    with pytest.raises(UserError, match="cannot be used"):
        JvmBroker(BrokerSettings(data=path), "java", tmp_path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["name=seccomp,profile=builtin", "name=rootless"], "0:0"), ([], f"{os.geteuid()}:{os.getegid()}"), (None, None)],
)
def test_the_broker_runs_as_the_caller(
    options: list[str] | None, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the caller's user and group; as root for an engine that itself runs as the caller."""

    def client(**_: object) -> Any:  # noqa: ANN401 - as docker's
        return SimpleNamespace(info=lambda: {"SecurityOptions": options}, close=lambda: None)

    monkeypatch.setattr(docker, "from_env", client)
    asked = container._run_as_caller(tmp_path, tmp_path / "config")
    assert asked["user"] == (expected or f"{os.geteuid()}:{os.getegid()}")
    assert [(mount["Type"], mount["Source"], mount["Target"]) for mount in asked["mounts"]] == [
        ("bind", str(tmp_path), container.DATA_FOLDER),
        ("bind", str(tmp_path / "config"), container.CONFIG_FOLDER),
    ]
    assert container._run_as_caller(None, tmp_path) == {}
