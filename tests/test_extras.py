"""What is missing of extras and programs ends each command with one line, before it does anything."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from stream_dedup.cli import run
from stream_dedup.errors import EXIT_USER, UserError
from stream_dedup.extras import SERVE_PACKAGES, SPARK_PACKAGES, need_packages, pip_command
from tests.make_readme import ROOT

Block = Callable[..., None]
JAVA = "apt install default-jre-headless maven"


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Block:
    """Return a function that makes this process, in a folder of its own, lack modules; it finds no program."""

    def without(*modules: str) -> None:
        for name in modules:
            for loaded in [loaded for loaded in sys.modules if loaded.startswith(f"{name}.")]:
                monkeypatch.delitem(sys.modules, loaded)
            monkeypatch.setitem(sys.modules, name, None)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    monkeypatch.delenv("STREAM_DEDUP_BROKERS", raising=False)
    # Another test of this process may have found an engine, and that is kept.
    monkeypatch.setattr("stream_dedup.dev.broker.ways.engine_answers", lambda: False)
    return without


def test_the_line_has_the_command_for_this_interpreter(block: Block) -> None:
    """Packages by their names on an index, and as many verbs as there are packages."""
    block("confluent_kafka", "uvicorn", "jinja2")
    command = f"{shlex.quote(sys.executable)} -m pip install 'stream-dedup[serve]'"
    with pytest.raises(UserError, match=r"^x needs confluent-kafka, which is not installed: "):
        need_packages("x", "confluent", "confluent_kafka")
    with pytest.raises(UserError) as refused:
        need_packages("serve", "serve", *SERVE_PACKAGES)
    assert str(refused.value) == f"serve needs uvicorn, jinja2, which are not installed: {command}"
    need_packages("x", "parquet", "pyarrow")


def test_a_package_that_is_there_and_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the reason, and a command that installs it anew."""
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError) as refused:
        need_packages("x", "serve", "half_there")
    assert str(refused.value) == (
        "x needs half-there, which cannot be imported (No module named 'not_there_at_all'): "
        f"{shlex.quote(sys.executable)} -m pip install --force-reinstall 'stream-dedup[serve]'"
    )


def test_each_package_is_in_the_extra_that_is_named() -> None:
    """By pyproject.toml, which pip reads."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for extra, packages in (("serve", SERVE_PACKAGES), ("spark", SPARK_PACKAGES)):
        assert {re.split(r"\W", needed)[0] for needed in extras[extra]} == set(packages)


@pytest.mark.parametrize(
    ("arguments", "missing", "remedy"),
    [
        ("serve", "starlette", pip_command("serve")),
        ("run --config worker.toml", "confluent_kafka", pip_command("confluent")),
        ("seed archive.parquet", "pyarrow", pip_command("parquet")),
        ("run --config avro.toml", "fastavro", pip_command("registry")),
        ("run --config protobuf.toml", "grpc_tools", pip_command("registry")),
        ("reject --config avro.toml a-0-1", "fastavro", pip_command("registry")),
        ("broker", "", JAVA),
        ("broker --nodes 3", "", JAVA),
    ],
)
def test_a_command_names_what_it_lacks(
    block: Block, arguments: str, missing: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, and nothing is made; the broker that the configuration names is never asked."""
    (tmp_path / "worker.toml").write_text(
        'kafka = { client = "confluent", group = "news" }\ntopics = { input = ["a"] }\n'
    )
    for fmt in ("avro", "protobuf"):
        registry = f'input = {{ format = "{fmt}" }}\nregistry = {{ url = "http://127.0.0.1:1" }}\n'
        (tmp_path / f"{fmt}.toml").write_text(registry)
    (tmp_path / "archive.parquet").write_bytes(b"PAR1")
    before = sorted(tmp_path.iterdir())
    block(*missing.split())
    assert run(arguments.split()) == EXIT_USER
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f": {remedy}")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("script", "missing", "remedy"),
    [
        ("benchmarks.end_to_end", "simhash", pip_command("bench")),
        ("benchmarks.filter_beside", "rensa", pip_command("bench")),
        ("benchmarks.serve", "uvicorn", pip_command("serve")),
        ("benchmarks.alerts", "jinja2", pip_command("serve")),
        ("benchmarks.alerts", "fastavro", pip_command("registry")),
        ("benchmarks.alerts", "", "apt install prometheus"),
        ("stream_dedup.dev.demo", "starlette", pip_command("serve")),
    ],
)
def test_a_script_names_what_it_lacks(
    block: Block, script: str, missing: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its child processes alone need it: before a broker or a process is started."""

    def start(*_: object, **__: object) -> None:
        pytest.fail("something is started")

    module = import_module(script)
    for name in ("find_broker", "staged", "timed", "write_texts", "write_lines"):
        monkeypatch.setattr(module, name, start, raising=False)
    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", [script])
    block(*missing.split())
    with pytest.raises(UserError, match=rf"^.* needs .*, which is not installed: {re.escape(remedy)}$"):
        (module._show_the_pages if script == "stream_dedup.dev.demo" else module.main)()


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_the_library_for_spark_names_what_it_lacks(block: Block, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the error that an import has anyway."""
    for name in [name for name in sys.modules if name.startswith("stream_dedup.spark")]:
        monkeypatch.delitem(sys.modules, name)
    block(missing)
    with pytest.raises(
        ModuleNotFoundError, match=re.escape(f"needs {missing}, which is not installed: {sys.executable}")
    ):
        import_module("stream_dedup.spark")
