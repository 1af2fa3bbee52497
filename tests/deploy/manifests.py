"""The manifests of deploy/kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "kubernetes"
POD_MONITORS = ("podmonitor.yaml", "serve-podmonitor.yaml")
"""Read by the Prometheus operator: the schemas of Kubernetes do not have them."""
NO_MANIFESTS = ("kustomization.yaml", *POD_MONITORS)
NO_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""What the security context of each container is."""


def manifest(name: str) -> Any:  # noqa: ANN401 - what a YAML file has
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


MANIFESTS = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name not in NO_MANIFESTS)


def selectors(node: object) -> Iterator[dict[str, str]]:
    """Every selector of pods in a manifest."""
    if isinstance(node, dict):
        yield from (node[key] for key in ("matchLabels", "selector") if isinstance(node.get(key), dict))
        for value in node.values():
            yield from selectors(value)
    elif isinstance(node, list):
        for value in node:
            yield from selectors(value)


def foreign_selectors(name: str, labels: dict[str, str]) -> list[dict[str, str]]:
    """The selectors of a manifest that are not these labels of its pods."""
    found = [given for given in selectors(manifest(name)) if "matchLabels" not in given]
    assert labels in found
    return [given for given in found if given != labels]


def probe_s(probe: dict[str, Any]) -> int:
    """Seconds after which a probe that fails has an effect."""
    return int(probe["periodSeconds"] * probe["failureThreshold"])


def from_namespace(name: str) -> dict[str, str]:
    """The selector of a namespace."""
    return {"kubernetes.io/metadata.name": name}
