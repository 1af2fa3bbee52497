"""The manifests of the HTTP service agree with each other, the image, the configuration and the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_dedup.cli import cli
from stream_dedup.cli.size import THREAD_MEMORY, WORKER_MEMORY
from stream_dedup.config.load import load_config
from stream_dedup.config.model import Config
from stream_dedup.errors import UserError
from stream_dedup.serve.checking import CHECKED_S
from stream_dedup.serve.clusters import END_S
from stream_dedup.serve.server import BODIES, OPEN_PAGES
from tests.deploy.manifests import (
    DEPLOY,
    FOLDER,
    NO_RIGHTS,
    foreign_selectors,
    from_namespace,
    manifest,
    probe_s,
)

DEPLOYMENT = manifest("serve-deployment.yaml")["spec"]
POD = DEPLOYMENT["template"]["spec"]
(SERVE,) = POD["containers"]
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}
MOUNTS = {mount["name"]: Path(mount["mountPath"]) for mount in SERVE["volumeMounts"]}
(PORT,) = SERVE["ports"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")


def flag(name: str) -> str:
    """The value of a flag of the container's command."""
    return str(SERVE["args"][SERVE["args"].index(name) + 1])


@pytest.mark.parametrize(
    ("name", "namespaces"),
    [
        ("serve-deployment.yaml", []),
        ("serve-service.yaml", []),
        ("serve-podmonitor.yaml", []),
        ("serve-networkpolicy.yaml", ["ingress-nginx", "monitoring"]),
    ],
)
def test_selectors_find_the_service(name: str, namespaces: list[str]) -> None:
    """Every selector is a label of its pod, which no worker has, or a namespace that may reach it."""
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    assert labels != manifest("statefulset.yaml")["spec"]["template"]["metadata"]["labels"]
    assert foreign_selectors(name, labels) == [from_namespace(one) for one in namespaces]


def test_one_process_has_the_volume() -> None:
    """A second one would be refused by the lock of the folder: the old pod ends before the new one starts."""
    assert (DEPLOYMENT["replicas"], DEPLOYMENT["strategy"]) == (1, {"type": "Recreate"})
    claim = manifest("serve-volume.yaml")
    assert claim["metadata"]["name"] == VOLUMES["data"]["persistentVolumeClaim"]["claimName"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_every_port_is_the_port_of_the_address() -> None:
    """Container, image, Service, NetworkPolicy, PodMonitor and probes name the port on which the service listens."""
    host, _, port = flag("--address").rpartition(":")
    assert (host, PORT) == ("0.0.0.0", {"name": "http", "containerPort": int(port)})  # noqa: S104 - in its pod
    exposed = re.search(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert exposed is not None
    assert port in exposed[1].split()
    (served,) = manifest("serve-service.yaml")["spec"]["ports"]
    (ingress,) = manifest("serve-networkpolicy.yaml")["spec"]["ingress"]
    (scraped,) = manifest("serve-podmonitor.yaml")["spec"]["podMetricsEndpoints"]
    probes = [SERVE[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {served["targetPort"], ingress["ports"][0]["port"], scraped["port"], *probes} == {PORT["name"]}


def test_probes_ask_pages_that_need_no_token() -> None:
    """Alive: whether it answers. Ready: whether it is up to date."""
    paths = {name: SERVE[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert set(paths.values()) <= set(OPEN_PAGES)
    assert probe_s(SERVE["startupProbe"]) == 60
    assert probe_s(SERVE["livenessProbe"]) == 30


def test_the_service_has_no_rights() -> None:
    """No capability, no privilege, no token of the cluster; it writes to its volumes only, as the user of the image."""
    assert SERVE["securityContext"] == NO_RIGHTS
    assert POD["automountServiceAccountToken"] is False
    context = manifest("statefulset.yaml")["spec"]["template"]["spec"]["securityContext"]
    assert POD["securityContext"] == context
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in DOCKERFILE


def test_the_token_is_a_file_of_a_secret() -> None:
    """Of the Secret from which Prometheus has it, too; not everybody may read it; it is in no variable, no manifest."""
    secret = VOLUMES["token"]["secret"]
    (item,) = secret["items"]
    assert flag("--token-file") == f"{MOUNTS['token']}/{item['path']}"
    assert secret["defaultMode"] & 0o007 == 0
    (scraped,) = manifest("serve-podmonitor.yaml")["spec"]["podMetricsEndpoints"]
    assert scraped["authorization"] == {"credentials": {"name": secret["secretName"], "key": item["key"]}}
    assert "env" not in SERVE
    kinds = [manifest(path.name)["kind"] for path in FOLDER.glob("*.yaml")]
    assert "Secret" not in kinds


def test_files_of_the_service_are_where_it_looks() -> None:
    """Its data, the configuration of the workers and their secret; each mount has its volume."""
    assert set(MOUNTS) == set(VOLUMES)
    data = re.search(r"STREAM_DEDUP_SERVE__DATA_DIR=(\S+)", DOCKERFILE)
    assert data is not None
    assert Path(data[1]).parent == MOUNTS["data"]
    assert flag("--config") == f"{MOUNTS['config']}/worker.toml"
    worker = manifest("statefulset.yaml")["spec"]["template"]["spec"]
    assert all(VOLUMES[name] in worker["volumes"] for name in ("config", "kafka", "tmp"))
    text = (FOLDER / "worker.toml").read_text("utf-8")
    assert {Path(path).parent for path in re.findall(r'"(/[^"]+)"', text)} == {MOUNTS["kafka"]}


def test_the_command_of_the_container_is_one(config: Config, tmp_path: Path) -> None:
    """`stream-dedup serve` has its flags, and the configuration with them is valid; without the token it is not."""
    shown = CliRunner().invoke(cli, [SERVE["args"][0], "--help"])
    given = [arg for arg in SERVE["args"] if arg.startswith("--")]
    assert all(f"{one} " in shown.output for one in given)
    secrets = str(config.kafka.sasl_password_file and config.kafka.sasl_password_file.parent)
    toml = tmp_path / "worker.toml"
    toml.write_text((FOLDER / "worker.toml").read_text("utf-8").replace(str(MOUNTS["kafka"]), secrets))
    address, token = flag("--address"), flag("--token-file")
    assert load_config(toml, {"serve": {"address": address, "token_file": token}}, {}).serve.address == address
    with pytest.raises(UserError, match="token_file"):
        load_config(toml, {"serve": {"address": address}}, {})


def test_the_service_ends_in_time(config: Config) -> None:
    """Requests under way and the thread of the clusters end before the pod is killed."""
    assert POD["terminationGracePeriodSeconds"] >= CHECKED_S + END_S
    assert config.serve.client_s < CHECKED_S


def test_memory_covers_what_the_service_needs(config: Config) -> None:
    """The limit is above the sum of docs/sizing.md: the threads, all bodies, the pages of the clusters."""
    assert config.serve.threads is None, "as many as the limit has cores"
    threads = int(SERVE["resources"]["limits"]["cpu"])
    parts_mb = [WORKER_MEMORY.value, threads * THREAD_MEMORY.value, 100.0]
    parts_mb.append(BODIES * config.serve.max_body_bytes / 10**6)
    parts_mb.append(1.4 * config.index.memory_mib * 1.049)
    assert int(SERVE["resources"]["limits"]["memory"].removesuffix("Gi")) * 1074 > sum(parts_mb)
    assert SERVE["resources"]["requests"]["memory"] == SERVE["resources"]["limits"]["memory"]
