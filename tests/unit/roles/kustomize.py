"""A small part of kustomize, for tests on machines without it: resources, namespace, images, JSON patches by kind and
name. Anything else in a kustomization is an error, so that the manifests stay within what is tested everywhere.
tests/unit/roles/test_kubernetes.py holds it against the real one where that is installed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]
KNOWN = {"apiVersion", "kind", "resources", "namespace", "images", "patches"}
POD_KINDS = ("Job", "Deployment")


def build(folder: Path) -> list[Resource]:
    """The resources that `kustomize build FOLDER` prints, in another order."""
    wanted = yaml.safe_load((folder / "kustomization.yml").read_text())
    if unknown := set(wanted) - KNOWN:
        raise ValueError(f"{folder}: this part of kustomize knows no {', '.join(sorted(unknown))}")
    found: list[Resource] = []
    for name in wanted["resources"]:
        path = folder / name
        found += build(path.resolve()) if path.is_dir() else load(path)
    for change in wanted.get("patches", []):
        patch(found, change)
    for resource in found:
        if "namespace" in wanted:
            resource["metadata"]["namespace"] = wanted["namespace"]
        for container in containers(resource):
            container["image"] = renamed(container["image"], wanted.get("images", []))
    return found


def load(path: Path) -> list[Resource]:
    """The documents of a file, each alias a copy of its own."""
    return [
        copy.deepcopy(yaml.safe_load(yaml.dump(item, Dumper=NoAliases)))
        for item in yaml.safe_load_all(path.read_text())
    ]


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def has_pod(resource: Resource) -> bool:
    return resource["kind"] in POD_KINDS


def pod(resource: Resource) -> Resource:
    """The pod's specification in a resource that makes pods."""
    assert has_pod(resource), resource["kind"]
    return resource["spec"]["template"]["spec"]


def containers(resource: Resource) -> list[Resource]:
    specification = pod(resource) if has_pod(resource) else {}
    return specification.get("initContainers", []) + specification.get("containers", [])


def renamed(image: str, images: list[dict[str, str]]) -> str:
    name, _, tag = image.partition(":")
    for wish in images:
        if wish["name"] == name:
            return f"{wish.get('newName', name)}:{wish.get('newTag', tag)}"
    return image


def patch(resources: list[Resource], change: dict[str, Any]) -> None:
    target = change["target"]
    matching = [r for r in resources if (r["kind"], r["metadata"]["name"]) == (target["kind"], target["name"])]
    if len(matching) != 1:
        raise ValueError(f"{len(matching)} resources match {target}")
    for operation in yaml.safe_load(change["patch"]):
        apply(matching[0], operation)


def apply(resource: Any, operation: dict[str, Any]) -> None:
    """One operation of RFC 6902: add, replace, remove."""
    *path, last = (word.replace("~1", "/").replace("~0", "~") for word in operation["path"].lstrip("/").split("/"))
    for word in path:
        resource = resource[int(word) if isinstance(resource, list) else word]
    if isinstance(resource, list) and last == "-" and operation["op"] == "add":
        resource.append(operation["value"])
        return
    key: Any = int(last) if isinstance(resource, list) else last
    if operation["op"] in ("replace", "remove"):
        found = resource[key]  # KeyError: there is nothing to replace
        assert found is not None
    if operation["op"] == "remove":
        del resource[key]
    else:
        resource[key] = operation["value"]
