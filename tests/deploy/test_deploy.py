"""What stands in deploy/ is about the program as it is."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from stream_dedup.config.model import Config
from stream_dedup.dev.broker.base import DEFAULT_IMAGE
from tests.deploy.metric_names import unknown_labels, unknown_metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
SCRAPES: dict[str, Any] = {
    scrape["job_name"]: scrape
    for scrape in yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
}
IMAGE_USER = "10001"


@pytest.mark.parametrize("name", ["alerts.yml", "prometheus/alerts_test.yml"])
def test_alerts_use_metrics_that_exist(name: str) -> None:
    """Every metric named in an alert or in its case is declared, with the labels that select its series."""
    text = (DEPLOY / name).read_text("utf-8")
    assert unknown_metrics(text) == set()
    assert unknown_labels(text) == set()


def test_alerts_are_about_jobs_that_are_scraped() -> None:
    """Every job named in an alert is one of prometheus.yml."""
    text = (DEPLOY / "alerts.yml").read_text("utf-8")
    assert set(re.findall(r'\bjob="([^"]+)"', text)) == set(SCRAPES)
    for pattern in re.findall(r'\bjob=~"([^"]+)"', text):
        assert [job for job in SCRAPES if re.fullmatch(pattern, job)] == list(SCRAPES)


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
    found = {job: scrape["dns_sd_configs"][0] for job, scrape in SCRAPES.items()}
    assert {job: (names["names"], names["port"]) for job, names in found.items()} == {
        "stream-dedup": (["worker"], port_of("METRICS__ADDRESS", (DEPLOY / "Dockerfile").read_text("utf-8"))),
        "stream-dedup-serve": (["serve"], port_of("SERVE__ADDRESS", (DEPLOY / "compose.yml").read_text("utf-8"))),
    }
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text("utf-8"))["datasources"]
    assert urlsplit(source["url"]).hostname in SERVICES
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "stream-dedup.yml").read_text("utf-8"))["providers"]
    mounted = mounts_of("grafana").values()
    assert provider["options"]["path"] in mounted
    assert "/etc/grafana/provisioning" in mounted


def port_of(key: str, text: str) -> int:
    """The port of an address that a file sets by its variable."""
    found = re.search(rf"\bSTREAM_DEDUP_{key}\W+[0-9.]+:(\d+)", text)
    assert found is not None
    return int(found[1])


def mounts_of(service: str) -> dict[str, str]:
    """The folder of each volume in the containers of a service of compose."""
    return dict(mount.split(":")[:2] for mount in SERVICES[service]["volumes"])


def test_the_token_is_a_file_of_a_volume() -> None:
    """Made where the service and Prometheus read it; in no variable; of the group of the image, not of everybody."""
    folder = mounts_of("serve")["serve-token"]
    assert SERVICES["serve"]["environment"]["STREAM_DEDUP_SERVE__TOKEN_FILE"] == f"{folder}/token"
    authorization = SCRAPES["stream-dedup-serve"]["authorization"]
    assert authorization == {"credentials_file": f"{mounts_of('prometheus')['serve-token']}/token"}
    assert SERVICES["prometheus"]["group_add"] == [IMAGE_USER]
    (made,) = SERVICES["serve-token"]["command"]
    assert "umask 027" in made
    assert re.search(r">token\)?$", made)
    assert list(mounts_of("serve-token")) == ["serve-token"]
    finished = {"condition": "service_completed_successfully"}
    assert (
        SERVICES["serve"]["depends_on"]["serve-token"]
        == SERVICES["prometheus"]["depends_on"]["serve-token"]
        == finished
    )
    assert not re.search(r"\b[0-9a-f]{32,}\b", (DEPLOY / "compose.yml").read_text("utf-8"))


def test_the_service_of_compose() -> None:
    """It is reached from this machine only, at its port; its index has a volume; its health is asked at its port."""
    serve = SERVICES["serve"]
    port = port_of("SERVE__ADDRESS", (DEPLOY / "compose.yml").read_text("utf-8"))
    assert serve["ports"] == [f"127.0.0.1:${{SERVE_PORT:-{port}}}:{port}"]
    assert f"http://127.0.0.1:{port}/healthz" in serve["healthcheck"]["test"][-1]
    assert serve["command"] == ["serve"]
    data = re.search(r"STREAM_DEDUP_SERVE__DATA_DIR=(\S+)", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert data is not None
    assert Path(data[1]).parent == Path(mounts_of("serve")["serve"])
    worker = SERVICES["worker"]["environment"]["STREAM_DEDUP_KAFKA__BROKERS"]
    assert serve["environment"]["STREAM_DEDUP_KAFKA__BROKERS"] == worker
    assert set(COMPOSE["volumes"]) >= {"serve", "serve-token"}


@pytest.mark.parametrize("name", ["worker", "serve", "serve-token"])
def test_containers_of_ours_have_no_rights(name: str) -> None:
    """They run read-only and without capabilities, as in Kubernetes."""
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_of_this_machine(name: str) -> None:
    """No port of compose can be reached from another machine."""
    assert [port for port in SERVICES[name].get("ports", []) if not port.startswith("127.0.0.1:")] == []


def test_image_has_the_dependencies_of_the_service_and_of_both_clients() -> None:
    """What the Dockerfile has pip install, the program's dependencies and those of two extras, is that."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))["project"]
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    called = re.search(r"python3 (deploy/requirements.py .+) >requirements.txt", dockerfile)
    assert called is not None
    command = [sys.executable, *called[1].replace("$EXTRAS", "").split()]
    listed = subprocess.run(command, cwd=DEPLOY.parent, capture_output=True, text=True, check=True)
    extras = project["optional-dependencies"]
    assert listed.stdout.splitlines() == [*project["dependencies"], *extras["serve"], *extras["confluent"]]


def test_image_has_what_the_package_is_built_of() -> None:
    """The files that pyproject.toml names come into the image's context, and from there into the build."""
    root = DEPLOY.parent
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    built_of = {
        "pyproject.toml",
        project["project"]["readme"],
        *project["project"]["license-files"],
        *project["tool"]["maturin"]["python-packages"],
        str(Path(project["tool"]["maturin"]["manifest-path"]).parent),
        "deploy/requirements.py",
    }
    context = set(re.findall(r"^!(\S+)$", (root / ".dockerignore").read_text(), re.MULTILINE))
    copied = set(re.findall(r"^COPY (\S+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert built_of <= context
    assert built_of <= copied
