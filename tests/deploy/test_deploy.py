"""What stands in deploy/ is about the program as it is."""

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from stream_dedup.config.model import Config
from stream_dedup.dev.broker.settings import DEFAULT_IMAGE
from tests.deploy.metric_names import unknown_metrics

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_alerts_use_metrics_that_exist() -> None:
    """Every metric named in an alert is declared."""
    assert unknown_metrics((DEPLOY / "alerts.yml").read_text()) == set()


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yml"])
def test_variables_are_keys_of_the_configuration(name: str) -> None:
    """Every variable that sets a key names one that there is."""
    found = re.findall(r"\bSTREAM_DEDUP_([A-Z_]+?)__([A-Z_]+)", (DEPLOY / name).read_text())
    assert found
    for section, key in found:
        assert key.lower() in type(getattr(Config(), section.lower())).model_fields, f"{section}__{key}"


def test_one_kafka_for_all() -> None:
    """compose.yml takes the same image of Kafka by default as the development broker."""
    assert f"${{KAFKA_IMAGE:-{DEFAULT_IMAGE}}}" in (DEPLOY / "compose.yml").read_text()


def test_what_compose_mounts_names_its_services() -> None:
    """Prometheus and Grafana, which compose gives their files, look for the services and the folders of compose."""
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text("utf-8"))["services"]
    (scrape,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (names,) = scrape["dns_sd_configs"]
    assert set(names["names"]) <= set(compose)
    assert scrape["job_name"] == "stream-dedup"
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text("utf-8"))["datasources"]
    assert urlsplit(source["url"]).hostname in compose
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "stream-dedup.yml").read_text("utf-8"))["providers"]
    mounted = [mount.split(":")[1] for mount in compose["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted
    assert "/etc/grafana/provisioning" in mounted


def test_image_has_what_the_package_is_built_of() -> None:
    """The files that pyproject.toml names come into the image's context, and from there into the build."""
    root = DEPLOY.parent
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    built_of = {
        "pyproject.toml",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
    }
    context = set(re.findall(r"^!(\S+)$", (root / ".dockerignore").read_text(), re.MULTILINE))
    copied = set(re.findall(r"^COPY (\S+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert built_of <= context
    assert built_of <= copied
