"""The role system_containers: what it reads of a specification, numbers of rootless users, defaults."""

from __future__ import annotations

import json
from pathlib import Path

import healthy_containers
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuwright.node.plugins.filter import subordinate_ids as ids
from gpuwright.checks.containers.engine import read_version
from gpuwright.checks.containers.reading import parse_spec, read_containers
from healthy_files import put_program
from host_tree import HostTree

REPOSITORY = Path(__file__).resolve().parents[4]
ROLE = REPOSITORY / "roles/system_containers"
FOUND = healthy_containers.READINGS["containers"]["spec"]
PARSED = {name: value for name, value in FOUND.items() if name != "readable"}


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path / "node")


def defaults(role: str) -> dict:
    return yaml.safe_load((REPOSITORY / f"roles/{role}/defaults/main.yml").read_text())


def test_the_rootless_user_is_the_one_that_trains_unless_somebody_says_otherwise():
    (user,) = defaults("system_containers")["system_containers_rootless_users"]
    assert user == "{{ lookup('gpuwright.node.setting', 'system_training_user') }}"


# -- the specification -------------------------------------------------------------------------------------------------


def test_yaml_and_json_are_read_alike():
    as_json = json.dumps(yaml.safe_load(healthy_containers.CDI))
    pretty = json.dumps(yaml.safe_load(healthy_containers.CDI), indent=2)
    assert parse_spec(healthy_containers.CDI) == parse_spec(as_json) == parse_spec(pretty) == PARSED


def test_a_card_counts_once_and_its_capabilities_not_at_all():
    text = (
        healthy_containers.CDI + "  - path: /dev/nvidia1\n  - path: /dev/nvidia10\n"
        "  - path: /dev/nvidia-caps/nvidia-cap1\n"
    )
    assert parse_spec(text)["cards"] == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia10"]


def test_a_device_that_is_only_called_alike_is_not_all():
    assert parse_spec(healthy_containers.CDI.replace("name: all", "name: allocated"))["all"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no kind"),
        ("<html>proxy error</html>", "has no kind"),
        ("kind: nvidia.com/gpu\n", "has no cdiVersion"),
        ("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n", "names 0 versions of libcuda"),
        (healthy_containers.CDI + "  - hostPath: /usr/lib64/libcuda.so.535.261.03\n", "names 2 versions"),
    ],
)
def test_what_is_no_specification_is_unreadable(text, words):
    with pytest.raises(ValueError, match=words):
        parse_spec(text)


def test_no_record_means_no_containers(host: HostTree):
    host.put("/var/run/cdi/nvidia.yaml", healthy_containers.CDI)
    assert read_containers(host.root) is None


@pytest.mark.parametrize(
    "record", ["", "{", "[]", '{"schema": 2}', '{"schema": 1, "engine": "lxc", "spec": "/x"}', '{"schema": 1}']
)
def test_a_record_that_cannot_be_used_is_unreadable(host: HostTree, record):
    host.put("/etc/gpuwright/containers.json", record)
    with pytest.raises(ValueError, match="containers.json"):
        read_containers(host.root)


@pytest.mark.parametrize(
    ("files", "others"),
    [
        ({}, []),
        ({"/etc/cdi/nvidia.yaml": healthy_containers.CDI}, ["/etc/cdi/nvidia.yaml"]),
        ({"/etc/cdi/old.json": json.dumps(yaml.safe_load(healthy_containers.CDI))}, ["/etc/cdi/old.json"]),
        ({"/var/run/cdi/nvidia-2.yaml": healthy_containers.CDI}, ["/var/run/cdi/nvidia-2.yaml"]),
        ({"/etc/cdi/mlx.yaml": healthy_containers.CDI.replace("nvidia.com/gpu", "mellanox.com/nic")}, []),
        ({"/etc/cdi/nvidia.yaml.rpmsave": healthy_containers.CDI, "/etc/cdi/notes.txt": "kind: nvidia.com/gpu"}, []),
        ({"/etc/cdi/damaged.yaml": b"\xff\xfe"}, []),
    ],
)
def test_a_second_specification_is_seen(host: HostTree, files, others):
    record = {"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}
    host.put("/etc/gpuwright/containers.json", json.dumps(record))
    host.put("/run/cdi/nvidia.yaml", healthy_containers.CDI)
    host.link("/var/run", "../run")
    for path, text in files.items():
        host.put(path, text)
    found = read_containers(host.root)
    assert found is not None and found["others"] == others


def test_the_specification_may_be_a_link_into_the_other_folder(host: HostTree):
    record = {"schema": 1, "engine": "docker", "spec": "/var/run/cdi/nvidia.yaml"}
    host.put("/etc/gpuwright/containers.json", json.dumps(record))
    host.put("/var/run/cdi/nvidia.yaml", healthy_containers.CDI)
    host.link("/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")
    found = read_containers(host.root)
    assert found is not None and found["others"] == []


def test_engine_and_specification_may_be_missing(host: HostTree):
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "docker", "spec": "/var/run/cdi/nvidia.yaml"}')
    nothing = {"engine": "docker", "program": False, "version": None, "spec": None, "others": []}
    assert read_containers(host.root) == nothing
    put_program(host, "/usr/bin/dockerd", "echo 'Docker version 26.0.2, build 3c863ff'")
    host.put("/var/run/cdi/nvidia.yaml", healthy_containers.CDI)
    assert read_containers(host.root) == {**nothing, "program": True, "version": "26.0.2", "spec": FOUND}


def test_an_account_without_a_home_may_ask_too(host: HostTree, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    put_program(host, "/usr/bin/podman", '[ -d "$HOME" ] && echo podman version 4.3.1')
    assert read_version(host.root, "/usr/bin/podman") == "4.3.1"


@pytest.mark.parametrize("script", ["exit 125", "echo podman", "echo 'podman version ?'"])
def test_an_engine_that_does_not_say_its_version_is_unreadable(host: HostTree, script):
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}')
    put_program(host, "/usr/bin/podman", script)
    found = read_containers(host.root)
    assert found is not None and list(found["version"]) == ["unreadable"]


def test_a_description_that_people_have_written_elsewhere_counts(host: HostTree):
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}')
    host.put("/etc/cdi/nvidia.yaml", healthy_containers.CDI)
    found = read_containers(host.root)
    assert found is not None and (found["spec"], found["others"]) == (FOUND, [])


def test_a_file_or_folder_for_root_alone_is_seen(host: HostTree):
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}')
    host.put("/run/cdi/nvidia.yaml", healthy_containers.CDI)
    host.link("/var/run", "/run")
    for path, mode, readable in (
        ("run/cdi/nvidia.yaml", 0o600, False),
        ("run/cdi/nvidia.yaml", 0o644, True),
        ("run/cdi", 0o750, False),
        ("run/cdi", 0o755, True),
    ):
        (host.folder / path).chmod(mode)
        found = read_containers(host.root)
        assert found is not None and found["spec"]["readable"] is readable, (path, oct(mode))


@pytest.mark.parametrize(
    ("text", "cdi", "groups"),
    [
        (healthy_containers.CDI.replace("0.5.0", "0.7.0"), "0.7.0", False),
        (healthy_containers.CDI.replace("0.5.0", '"0.7.0"'), "0.7.0", False),
        (
            healthy_containers.CDI.replace("containerEdits:\n  dev", "containerEdits:\n  additionalGids: [44]\n  dev"),
            "0.5.0",
            True,
        ),
    ],
)
def test_what_a_description_needs_is_read_from_yaml_and_json(text, cdi, groups):
    loaded = yaml.safe_load(text)
    for words in (text, json.dumps(loaded), json.dumps(loaded, indent=1)):
        found = parse_spec(words)
        assert (found["cdi"], found["groups"]) == (cdi, groups)


# -- numbers of rootless users -----------------------------------------------------------------------------------------


def test_numbers_begin_where_those_of_others_end():
    text = "alice:100000:65536\nbob:231072:65536\n"
    assert ids.subordinate_ids(text, ["trainer", "alice"]) == text + "trainer:296608:65536\n"


def test_a_first_user_begins_at_the_usual_number_and_a_second_behind():
    assert ids.subordinate_ids("", ["a", "b", "a"]) == "a:100000:65536\nb:165536:65536\n"


def test_comments_and_empty_lines_stay():
    assert ids.subordinate_ids("# ours\n\n", ["a"]) == "# ours\n\na:100000:65536\n"


def test_who_has_numbers_keeps_them():
    text = ids.subordinate_ids("", ["a", "b"])
    assert ids.subordinate_ids(text, ["b", "a"]) == text


@pytest.mark.parametrize("line", ["alice", "alice:x:5", "alice:1", "a:1:2:3"])
def test_a_line_that_nobody_understands_stops(line):
    with pytest.raises(AnsibleFilterError, match="expected name:first:count"):
        ids.subordinate_ids(f"{line}\n", ["trainer"])
