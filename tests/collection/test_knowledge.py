"""Newer tables of versions: written by the installed collection's playbook, and used, or refused with the reason."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Call

TODAY = datetime.date.today()
# Nothing is asked that is not on this machine.
NO_NETWORK = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/dev/null"}
NO_NETWORK |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
NO_NETWORK |= {"no_proxy": "", "NO_PROXY": ""}
HOLE = {
    "cve": "CVE-2026-99999",
    "product_status": {"known_affected": ["linuxr580_tesla_all_driver_versions_prior_to_580_999_01"]},
    "scores": [{"cvss_v3": {"baseSeverity": "HIGH"}}],
}
TRACKING = {"id": "5999", "initial_release_date": f"{TODAY}T00:00:00Z"}
BULLETIN = {"document": {"title": "GPU Display Driver", "tracking": TRACKING}, "vulnerabilities": [HOLE]}
RELEASES = {"580": {"type": "lts branch", "driver_info": [{"release_version": "580.999.01"}]}}


@pytest.fixture(scope="module")
def written(call: Call, elsewhere: Path) -> Path:
    """The folder that the playbook has written, where two of its sources are files and the others are silent.

    All are named as from where it was started.
    """
    folder = elsewhere / "sources"
    folder.mkdir()
    with tarfile.open(folder / "bulletins.tar.gz", "w:gz") as archive:
        data = json.dumps(BULLETIN).encode()
        member = tarfile.TarInfo("product-security-main/2026/5999/5999.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    (folder / "releases.json").write_text(json.dumps(RELEASES))
    # As Python would otherwise import from there.
    (elsewhere / "requests.py").write_text("raise ModuleNotFoundError(\"No module named 'requests'\")\n")
    sources = ["--bulletins", "sources/bulletins.tar.gz", "--releases", "./sources/releases.json"]
    options = json.dumps({"to": "sources/tables", "knowledge_sources": sources})
    done = call("ansible-playbook", "gpuwright.node.knowledge", "-e", options, **NO_NETWORK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "driver bulletin 5999" in done.stdout and "Nothing was read of torch" in done.stdout
    return folder / "tables"


def test_what_was_read_is_written_with_its_day(written: Path) -> None:
    content = yaml.safe_load((written / "knowledge.yml").read_text())
    assert set(content) == {"schema", "tables", "drivers", "bulletins"}
    assert {row["as_of"] for row in content["tables"].values()} == {str(TODAY)}
    assert content["bulletins"][-1]["branches"]["580"]["fixed"] == "580.999.01"


def test_without_a_folder_or_an_answer_nothing_is_written(call: Call, tmp_path: Path) -> None:
    done = call("ansible-playbook", "gpuwright.node.knowledge")
    assert done.returncode != 0 and "[knowledge.question]" in done.stdout
    options = json.dumps({"to": str(tmp_path / "new"), "knowledge_sources": ["--releases", "/no/file"]})
    done = call("ansible-playbook", "gpuwright.node.knowledge", "-e", options, **NO_NETWORK)
    assert done.returncode != 0 and "[knowledge.nothing]" in done.stdout, done.stdout
    assert "Nothing was read of the drivers' bulletins" in done.stdout and not (tmp_path / "new").exists()


def test_a_python_without_the_libraries_is_named(call: Call, tmp_path: Path) -> None:
    (tmp_path / "requests.py").write_text("raise ModuleNotFoundError(\"No module named 'requests'\")\n")
    done = call("ansible-playbook", "gpuwright.node.knowledge", "-e", f"to={tmp_path}/new", PYTHONPATH=str(tmp_path))
    assert done.returncode != 0 and "[knowledge.libraries]" in done.stdout, done.stdout


def plan(call: Call, folder: Path, **more: str) -> str:
    options = {"gpu": "A100", "os": "rhel 9.6", "system_driver_version": "580.178.04"}
    options |= {"preflight_knowledge": str(folder), **more}
    done = call("ansible-playbook", "gpuwright.node.plan", "-e", json.dumps(options))
    assert done.returncode == 0, done.stdout + done.stderr
    # Lines are broken by the length of the folder's name, too.
    return " ".join(done.stdout.replace("\\n", " ").split())


def copied(written: Path, folder: Path, change: Callable[[str], str]) -> Path:
    """A folder with the file as it was changed, and its SHA-256."""
    text = change((written / "knowledge.yml").read_text())
    (folder / "knowledge.yml").write_text(text)
    (folder / "knowledge.yml.sha256").write_text(hashlib.sha256(text.encode()).hexdigest())
    return folder


def test_the_plan_knows_what_is_newer(call: Call, written: Path) -> None:
    said = plan(call, written)
    assert f"are used: bulletins (as of {TODAY})" in said or f"bulletins (as of {TODAY})" in said
    assert "NVIDIA-5999" in said and "580.999.01" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace(str(TODAY), "2020-01-01"), "is not newer than the toolkit's own"),
        (lambda text: text.replace(str(TODAY), "2999-01-01"), "is to come"),
        (lambda text: text.replace("580.999.01", "595.999.01"), "has not the form of the matrix"),
        (lambda text: "tables: [", "is no YAML"),
    ],
    ids=["older", "to-come", "wrong", "half"],
)
def test_what_is_not_newer_or_wrong_is_not_used(
    call: Call, written: Path, tmp_path: Path, change: Callable[[str], str], words: str
) -> None:
    said = plan(call, copied(written, tmp_path, change))
    assert words in said and "NVIDIA-5999" not in said, said


def test_a_key_that_must_have_signed_it_is_asked_for(call: Call, written: Path, tmp_path: Path) -> None:
    folder, key = copied(written, tmp_path, str), tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    told = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], check=True, capture_output=True, text=True).stdout
    signer = told.split()[1]
    assert "NVIDIA-5999" not in plan(call, folder, preflight_knowledge_signer=signer)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "gpuwright-bundle", "-f", str(key), f"{folder}/knowledge.yml"]
    subprocess.run(command, check=True, capture_output=True)
    assert "NVIDIA-5999" in plan(call, folder, preflight_knowledge_signer=signer)
    # Another one's signature, and a file that was cut off after it was signed.
    assert "NVIDIA-5999" not in plan(call, folder, preflight_knowledge_signer="SHA256:" + "A" * 43)
    (folder / "knowledge.yml").write_bytes((folder / "knowledge.yml").read_bytes()[:-1])
    assert "NVIDIA-5999" not in plan(call, folder, preflight_knowledge_signer=signer)
