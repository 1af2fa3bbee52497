"""The configuration of the manifests."""

from __future__ import annotations

import pytest

from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from tests.deploy.manifests import FOLDER


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The configuration of the manifests, with secrets in a folder of this machine."""
    folder = tmp_path_factory.mktemp("secret")
    for name in ("password", "ca.crt"):
        (folder / name).write_text("secret\n")
    text = (FOLDER / "worker.toml").read_text("utf-8")
    (folder / "worker.toml").write_text(text.replace("/etc/stream-dedup/kafka", str(folder)))
    return load_config(folder / "worker.toml", environment={})
