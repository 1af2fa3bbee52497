"""Every command and every snippet of the documentation, by its language: run, or read by the parser that it is for."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import yaml

from stream_dedup.config.load import load_config, read_profile
from stream_dedup.config.model import Config
from stream_dedup.dev.broker import DevBroker
from stream_dedup.errors import UserError
from stream_dedup.kafka.connection import make_admin
from tests.documentation.pages import WRITTEN_BY_BENCHMARKS, Block, all_pages, blocks_of
from tests.documentation.session import Session
from tests.documentation.shell import check_commands
from tests.make_readme import README, ROOT
from tests.waiting import wait_until

BLOCKS = [block for page in all_pages() for block in blocks_of(page)]
LANGUAGES = {"sh", "console", "toml", "python", "json", "yaml", "text"}
RUN_HERE = sorted(
    {block.page for block in BLOCKS if block.runs} - {block.page for block in BLOCKS if block.needs_broker}
)
RUN_ON_BROKER = sorted({block.page for block in BLOCKS if block.needs_broker})
LONG_PAGE = "tutorial-operator.md"
"""Takes as long as all others together; tests of the commands have each of its steps."""
DELETED_LIMIT_S = 60.0


def problems(block: Block) -> Iterator[str]:
    """What is wrong with a block, as far as that is seen without running it."""
    if block.language not in LANGUAGES:
        yield f"the language {block.language!r} is none of {', '.join(sorted(LANGUAGES))}"
    if "not run" in block.marks and not block.marks["not run"]:
        yield "not run, and without a reason"
    if block.language in {"sh", "console"}:
        for command, _ in block.steps():
            checked = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
            yield from checked.stderr.splitlines()
            yield from check_commands(command)
    elif block.language == "json":
        for line in block.content.splitlines():
            json.loads(line)
    elif block.language == "yaml":
        yaml.safe_load(block.content)
    elif block.language == "python":
        yield from _problems_of_python(block.content)


def _problems_of_python(source: str) -> Iterator[str]:
    """Names that our modules do not have, and arguments that our functions do not take."""
    tree = ast.parse(source)
    imported: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "stream_dedup":
            module = importlib.import_module(node.module or "")
            yield from (f"{node.module} has no {one.name}" for one in node.names if not hasattr(module, one.name))
            imported |= {one.asname or one.name: getattr(module, one.name, None) for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and callable(imported.get(node.func.id)):
            taken = inspect.signature(imported[node.func.id]).parameters  # type: ignore[arg-type]
            given = [word.arg for word in node.keywords if word.arg is not None]
            yield from (f"{node.func.id} has no argument {word}" for word in given if word not in taken)


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=[pytest.mark.spark] * ("stream_dedup.spark" in block.content)) for block in BLOCKS],
    ids=str,
)
def test_a_block_is_right_as_far_as_it_is_read(block: Block) -> None:
    """Commands exist, click accepts their flags and values, make has the targets; JSON, YAML and Python are read."""
    assert list(problems(block)) == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_a_configuration_is_accepted(block: Block, tmp_path: Path) -> None:
    """Each file of the configuration that a page shows is read without a problem."""
    file = tmp_path / "shown.toml"
    file.write_text(block.content, "utf-8")
    read = read_profile if block.content.startswith("from =") else partial(load_config, environment={})
    try:
        read(file)
    except UserError as error:
        pytest.fail(f"{block}: {error}")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.name)
def test_a_page_runs(page: Path, tmp_path: Path) -> None:
    """Its commands, one after another, end and write as it says."""
    with Session(tmp_path, page, None) as session:
        for block in blocks_of(page):
            if block.runs:
                session.run(block)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.full] * (page.name == LONG_PAGE)) for page in RUN_ON_BROKER],
    ids=lambda page: page.name,
)
def test_a_page_runs_on_a_broker(page: Path, tmp_path: Path, broker: DevBroker) -> None:
    """Its commands, one after another, end and write as it says; workers end in order."""
    try:
        with Session(tmp_path, page, broker.bootstrap) as session:
            for block in blocks_of(page):
                if block.runs:
                    session.run(block)
    finally:
        _delete_topics(tmp_path, broker)


def _delete_topics(folder: Path, broker: DevBroker) -> None:
    """Delete the topics of the configurations that a page has, which another run of this test needs again."""
    configs = [
        load_config(file, {"kafka": {"brokers": broker.bootstrap}}, {}) for file in (*folder.glob("*.toml"), None)
    ]
    names = {name for config in configs for name in _topics(config)}
    with closing(make_admin(configs[0].kafka)) as admin:
        admin.delete_topics(sorted(names & set(admin.list_topics())))
        wait_until(lambda: names.isdisjoint(admin.list_topics()), DELETED_LIMIT_S, "the topics are deleted")


def _topics(config: Config) -> set[str]:
    topics = config.topics
    return {*topics.input, topics.unique, topics.duplicate, topics.rejected, f"{config.kafka.group}.fingerprints"}


def test_every_page_with_commands_is_run() -> None:
    """What a reader does first runs here: the README, the tutorials and the how-to pages."""
    names = {page.name for page in (*RUN_HERE, *RUN_ON_BROKER)}
    assert README in RUN_ON_BROKER
    assert {"tutorial-crawler.md", "tutorial-comments.md", "tutorial-operator.md", "spam.md", "tuning.md"} <= names
    written = {ROOT / name for name in WRITTEN_BY_BENCHMARKS}
    assert not written & {*RUN_HERE, *RUN_ON_BROKER}
