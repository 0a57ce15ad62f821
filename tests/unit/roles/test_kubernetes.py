"""The Kubernetes manifests: valid by the official schemas, and within rules that schemas do not know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import kustomize
import pytest
import yaml
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "deploy/kubernetes"
CONTAINERFILE = (REPOSITORY / "deploy/container/Containerfile").read_text()
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
# The oldest version in which all that is used is stable (podFailurePolicy: 1.31), and the newest with schemas.
VERSIONS = ("1.31", kubernetes_validate.latest_version())
GPU = "nvidia.com/gpu"

BUILT = {name: kustomize.build(FOLDER / "overlays" / name) for name in OVERLAYS}
NAMED = {f"{name}-{item['kind']}-{item['metadata']['name']}": item for name, items in BUILT.items() for item in items}
NAMED_PODS = {name: item for name, item in NAMED.items() if kustomize.has_pod(item)}
NAMED_CONTAINERS = {
    f"{name}-{container['name']}": (item, container)
    for name, item in NAMED_PODS.items()
    for container in kustomize.containers(item)
}
RESOURCES = [pytest.param(item, id=name) for name, item in NAMED.items()]
PODS = [pytest.param(item, id=name) for name, item in NAMED_PODS.items()]
CONTAINERS = [pytest.param(*pair, id=name) for name, pair in NAMED_CONTAINERS.items()]


def one(overlay: str, kind: str, name: str) -> dict[str, Any]:
    found = [r for r in BUILT[overlay] if (r["kind"], r["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1
    return found[0]


def trainer(overlay: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Job of an overlay and its container."""
    job = next(r for r in BUILT[overlay] if r["kind"] == "Job")
    return job, kustomize.containers(job)[0]


# -- schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("resource", RESOURCES)
def test_the_official_schema_accepts_it(resource: dict, version: str) -> None:
    kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_key_would_be_found() -> None:
    broken = json.loads(json.dumps(trainer("gpu")[0]))
    broken["spec"]["template"]["spec"]["containers"][0]["securitycontext"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_real_kustomize_makes_the_same(overlay: str) -> None:
    program = next((p for p in (["kustomize", "build"], ["kubectl", "kustomize"]) if shutil.which(p[0])), None)
    if program is None:
        pytest.skip("neither kustomize nor kubectl is on this machine: tests/unit/roles/kustomize.py alone was used")
    done = subprocess.run([*program, str(FOLDER / "overlays" / overlay)], capture_output=True, text=True, check=True)
    real = {(r["kind"], r["metadata"]["name"]): r for r in yaml.safe_load_all(done.stdout)}
    own = {(r["kind"], r["metadata"]["name"]): r for r in BUILT[overlay]}
    assert real == own


# -- policy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", PODS)
def test_pods_meet_the_restricted_standard(resource: dict) -> None:
    """kubernetes.io, "Pod Security Standards", profile Restricted, and no token for the cluster."""
    pod = kustomize.pod(resource)
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == 10001
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    assert {next(iter(set(v) - {"name"})) for v in pod["volumes"]} <= {"configMap", "persistentVolumeClaim", "emptyDir"}
    assert pod["serviceAccountName"] == "gan-trainer"


@pytest.mark.parametrize(("resource", "container"), CONTAINERS)
def test_containers_meet_the_restricted_standard(resource: dict, container: dict) -> None:
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security.get("privileged") and security.get("runAsUser", 1) != 0


@pytest.mark.parametrize(("resource", "container"), CONTAINERS)
def test_containers_have_limits_probes_and_a_fixed_image(resource: dict, container: dict) -> None:
    for kind in ("requests", "limits"):
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"][kind])
    assert container["livenessProbe"]["timeoutSeconds"] >= 5
    name, _, tag = container["image"].rpartition(":")
    assert name and re.match(r"[0-9]+\.[0-9]+\.[0-9]+", tag), container["image"]


@pytest.mark.parametrize(("resource", "container"), CONTAINERS)
def test_every_mount_has_its_volume(resource: dict, container: dict) -> None:
    volumes = {volume["name"]: volume for volume in kustomize.pod(resource)["volumes"]}
    for mount in container["volumeMounts"]:
        claim = volumes[mount["name"]].get("persistentVolumeClaim", {})
        assert mount.get("readOnly", False) or not claim.get("readOnly", False), mount
    for volume in volumes.values():
        assert "emptyDir" not in volume or "sizeLimit" in volume["emptyDir"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_claims_configuration_and_accounts_exist(overlay: str) -> None:
    there = {(r["kind"], r["metadata"]["name"]) for r in BUILT[overlay]}
    for resource in BUILT[overlay]:
        assert resource["metadata"]["namespace"] == "gan"
        for volume in kustomize.pod(resource)["volumes"] if kustomize.has_pod(resource) else []:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_samples_are_made_by_the_deployment_and_nothing_is_written_to_runs(overlay: str) -> None:
    sampler, web = kustomize.containers(one(overlay, "Deployment", "gan-samples"))
    assert {m["name"] for m in web["volumeMounts"]} == {"samples"}, "checkpoints and data are not served"
    assert all(m.get("readOnly") for m in sampler["volumeMounts"] if m["name"] in ("runs", "config"))
    assert web["readinessProbe"]["httpGet"]["path"].lstrip("/") in sampler["command"][-1]


# -- trainings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_training_is_told_from_a_stopped_one(overlay: str) -> None:
    job, container = trainer(overlay)
    assert container["command"][0] == "gan-job"
    rules = job["spec"]["podFailurePolicy"]["rules"]
    stopped = [rule for rule in rules if rule.get("onExitCodes", {}).get("values") == [75]]
    assert [rule["action"] for rule in stopped] == ["Ignore"]
    assert kustomize.pod(job)["restartPolicy"] == "Never", "podFailurePolicy needs it"
    assert kustomize.pod(job)["terminationGracePeriodSeconds"] >= 120


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_probe_watches_the_folder_that_the_configuration_names(overlay: str) -> None:
    config = yaml.safe_load(one(overlay, "ConfigMap", "gan-config")["data"]["config.yml"])
    container = trainer(overlay)[1]
    assert container["livenessProbe"]["exec"]["command"] == ["gan-health", config["run_dir"]]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert any(config["run_dir"].startswith(path + "/") and not m.get("readOnly") for path, m in mounts.items())
    assert "--config" in container["args"] and "/etc/gan" in mounts


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_shared_memory_is_counted_and_the_pod_is_guaranteed(overlay: str) -> None:
    job, container = trainer(overlay)
    resources = container["resources"]
    # Only then does the kubelet pin CPUs next to the GPU.
    assert resources["requests"] == resources["limits"] and resources["requests"]["cpu"].isdigit()
    shm = next(v for v in kustomize.pod(job)["volumes"] if v["name"] == "shm")["emptyDir"]
    assert shm["medium"] == "Memory"
    assert int(shm["sizeLimit"].removesuffix("Gi")) < int(resources["limits"]["memory"].removesuffix("Gi"))


def test_gpus_are_asked_for_where_there_are_some() -> None:
    assert {name: trainer(name)[1]["resources"]["limits"].get(GPU) for name in OVERLAYS} == {
        "cpu": None,
        "gpu": "4",
        "gpu-nodes": "2",
    }
    assert "device=cpu" in trainer("cpu")[1]["args"]


def test_the_nodes_of_a_training_find_each_other() -> None:
    job, container = trainer("gpu-nodes")
    spec, name = job["spec"], job["metadata"]["name"]
    arguments = dict(word.lstrip("-").split("=") for word in container["args"] if "=" in word)
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(arguments["nnodes"])
    service = one("gpu-nodes", "Service", kustomize.pod(job)["subdomain"])
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert arguments["master-addr"] == f"{name}-0.{service['metadata']['name']}"
    assert (
        int(arguments["master-port"]) == service["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"]
    )
    rank = next(item for item in container["env"] if item["name"] == "NODE_RANK")
    assert "job-completion-index" in rank["valueFrom"]["fieldRef"]["fieldPath"]
    assert arguments["node-rank"] == "$(NODE_RANK)"
    assert all(
        claim["spec"]["accessModes"] == ["ReadWriteMany"] for claim in BUILT["gpu-nodes"] if "Claim" in claim["kind"]
    )


def test_images_are_those_of_the_containerfile() -> None:
    version = part_of(r"^ARG VERSION=(\S+)$", CONTAINERFILE, re.MULTILINE)
    tags = {container["image"].rpartition(":")[2] for _resource, container in NAMED_CONTAINERS.values()}
    assert tags == {version, f"{version}-cpu"}
    numbers = re.search(r"^USER ([0-9]+):([0-9]+)$", CONTAINERFILE, re.MULTILINE)
    assert numbers and numbers.groups() == ("10001", "10001")
    for command in ("gan-job", "gan-health"):
        assert f"/usr/local/bin/{command}" in CONTAINERFILE
