"""The manifests are valid for Kubernetes, and agree with the image, the configuration and the program."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest

from stream_dedup.cli.size import THREAD_MEMORY, WORKER_MEMORY
from stream_dedup.config.model import Config, read_secret
from stream_dedup.worker.worker import FORCED_EXTRA_S
from tests.deploy.manifests import (
    DEPLOY,
    FOLDER,
    MANIFESTS,
    NO_RIGHTS,
    POD_MONITORS,
    foreign_selectors,
    from_namespace,
    manifest,
    probe_s,
)

VERSIONS = kubernetes_validate.utils.all_versions()[-3:]

# The fields that we use, of the custom resource definition of the Prometheus operator.
POD_MONITOR = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "PodMonitor"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["selector", "podMetricsEndpoints"],
            "additionalProperties": False,
            "properties": {
                "jobLabel": {"type": "string"},
                "selector": {"type": "object", "properties": {"matchLabels": {"type": "object"}}},
                "podMetricsEndpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string"},
                            "interval": {"type": "string", "pattern": r"^(\d+(ms|s|m|h))+$"},
                            "authorization": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "type": {"type": "string"},
                                    "credentials": {
                                        "type": "object",
                                        "required": ["key"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "name": {"type": "string"},
                                            "key": {"type": "string"},
                                            "optional": {"type": "boolean"},
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}


STATEFUL_SET = manifest("statefulset.yaml")["spec"]
POD = STATEFUL_SET["template"]["spec"]
(WORKER,) = POD["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_valid(name: str, version: str) -> None:
    """Every manifest is valid for the newest three versions of Kubernetes, without a field that they do not know."""
    kubernetes_validate.validate(manifest(name), version, strict=True)


@pytest.mark.parametrize("name", POD_MONITORS)
def test_pod_monitor(name: str) -> None:
    """A PodMonitor has fields that the Prometheus operator documents, and no other."""
    jsonschema.validate(manifest(name), POD_MONITOR)


def test_kustomization_has_every_manifest() -> None:
    """The kustomization names every manifest, and files that exist."""
    found = manifest("kustomization.yaml")
    assert sorted(found["resources"]) == MANIFESTS
    files = [name for generator in found["configMapGenerator"] for name in generator["files"]]
    assert [name for name in files if not (FOLDER / name).is_file()] == []


@pytest.mark.parametrize(
    "name", ["service.yaml", "statefulset.yaml", "poddisruptionbudget.yaml", "networkpolicy.yaml", "podmonitor.yaml"]
)
def test_selectors_find_the_workers(name: str) -> None:
    """Every selector is a label of the pods, or the one of the namespace of Prometheus."""
    labels = STATEFUL_SET["template"]["metadata"]["labels"]
    foreign = [from_namespace("monitoring")] if name == "networkpolicy.yaml" else []
    assert foreign_selectors(name, labels) == foreign


def test_two_groups_are_told_apart() -> None:
    """The label of a group goes into every selector, also into the PodMonitor's, which kustomize does not know."""
    (labels,) = manifest("kustomization.yaml")["labels"]
    assert list(labels["pairs"]) == ["app.kubernetes.io/instance"]
    assert labels["includeSelectors"] is True
    assert [(field["kind"], field["path"]) for field in labels["fields"]] == [
        ("PodMonitor", "spec/selector/matchLabels")
    ]


def test_user_and_port_of_the_image() -> None:
    """The pod runs as the user of the image, and its port is the image's."""
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    user, port = re.search(r"^USER (\d+)", image, re.MULTILINE), re.search(r"^EXPOSE (\d+)", image, re.MULTILINE)
    assert user is not None
    assert port is not None
    assert POD["securityContext"]["runAsUser"] == POD["securityContext"]["runAsGroup"] == int(user[1])
    assert WORKER["ports"] == [{"name": "metrics", "containerPort": int(port[1])}]


def test_no_rights() -> None:
    """The container has no capability, no privilege, no token, and writes to its volumes only."""
    assert POD["automountServiceAccountToken"] is False
    assert WORKER["securityContext"] == NO_RIGHTS


def test_files_are_where_the_configuration_looks() -> None:
    """Configuration, secrets and index lie in folders that are mounted, and each mount has its volume."""
    mounts = {mount["name"]: mount["mountPath"] for mount in WORKER["volumeMounts"]}
    volumes = {volume["name"] for volume in (*POD["volumes"], *(STATEFUL_SET["volumeClaimTemplates"][0]["metadata"],))}
    assert set(mounts) == volumes
    assert WORKER["args"] == ["run", "--config", f"{mounts['config']}/worker.toml"]
    text = (FOLDER / "worker.toml").read_text("utf-8")
    assert {str(Path(path).parent) for path in re.findall(r'"(/[^"]+)"', text)} == {mounts["kafka"]}
    index = re.search(r"STREAM_DEDUP_INDEX__PATH=(\S+)", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert index is not None
    assert Path(index[1]).parent == Path(mounts["data"])


def test_times_fit_the_program(config: Config) -> None:
    """A stop ends before the pod is killed, and a rebalance before the next pod is replaced."""
    assert POD["terminationGracePeriodSeconds"] > config.worker.shutdown_s + FORCED_EXTRA_S
    assert STATEFUL_SET["minReadySeconds"] > config.kafka.session_timeout_s
    assert probe_s(WORKER["startupProbe"]) == 60
    assert probe_s(WORKER["livenessProbe"]) == 30


def test_secrets_are_files(config: Config) -> None:
    """No password stands in a manifest: the configuration names files."""
    assert read_secret(config.kafka.sasl_password_file) == "secret"
    assert "env" not in WORKER


def test_memory_covers_what_a_worker_needs(config: Config) -> None:
    """The limit is above the sum of docs/sizing.md, with an index that takes 1.4 times its budget."""
    threads = int(WORKER["resources"]["limits"]["cpu"])
    needed_mb = threads * THREAD_MEMORY.value + WORKER_MEMORY.value + 64 + 1.4 * config.index.memory_mib * 1.049
    assert int(WORKER["resources"]["limits"]["memory"].removesuffix("Gi")) * 1074 > needed_mb
    assert WORKER["resources"]["requests"] == WORKER["resources"]["limits"]


def test_workers_share_the_partitions_evenly(config: Config) -> None:
    """The partitions are a multiple of the workers."""
    assert config.topics.partitions % STATEFUL_SET["replicas"] == 0
