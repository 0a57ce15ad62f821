"""Containers: what the description of the GPUs survives, Docker's configuration before and after, undoing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from conftest import on_host, play
from playbook_run import Run

pytestmark = pytest.mark.usefixtures("finished_host")
SPEC = "/var/run/cdi/nvidia.yaml"
DAEMON = "/etc/docker/daemon.json"
# What a site may have set: it must stay.
SITES_OWN = {"data-root": "/data/docker", "features": {"buildkit": True}, "runtimes": {"other": {"path": "/x"}}}
UNIT = "[Service]\\nExecStart=/bin/sleep infinity\\nExecReload=/usr/bin/touch /run/reloaded\\n"


def containers(engine: str, *arguments: str, state: str = "present") -> Run:
    wish = {"system_containers_engine": engine, "system_containers_state": state}
    return play("playbooks/system.yml", "--tags", "system_containers", *arguments, **wish)


def check(name: str = "containers.gpu", level: str = "quick") -> dict:
    """What gpu-doctor says of containers now."""
    report = json.loads(on_host(f"gpu-doctor --level {level} --json || true"))
    return next(check for check in report["checks"] if check["id"] == name)


@pytest.fixture
def with_podman() -> Iterator[None]:
    done = containers("podman")
    assert done.rc == 0, done.output
    yield
    assert containers("podman", state="absent").rc == 0


@pytest.fixture
def docker() -> Iterator[None]:
    """Docker as a site has installed it."""
    on_host(
        f"mkdir -p /etc/docker; echo '{json.dumps(SITES_OWN)}' > {DAEMON}; "
        "printf '#!/bin/sh\\necho Docker version 26.0.2, build 3c863ff\\n' > /usr/bin/dockerd; "
        "chmod 755 /usr/bin/dockerd; "
        f"printf '{UNIT}' > /etc/systemd/system/docker.service; systemctl daemon-reload; systemctl start docker"
    )
    yield
    assert containers("docker", state="absent").rc == 0
    on_host(
        "systemctl stop docker; rm -rf /etc/docker /usr/bin/dockerd /run/reloaded /etc/systemd/system/docker.service; "
        "systemctl daemon-reload"
    )


def test_a_description_for_another_driver_is_found_and_mended(with_podman: None) -> None:
    assert check()["status"] == "PASS"
    on_host(f"sed -i 's/libcuda[.]so[.][0-9.]*/libcuda.so.470.1/' {SPEC}")
    found = check()
    assert found["status"] == "FAIL" and "written for driver 470.1, but " in found["message"]
    # As when DKMS has built a module.
    on_host("touch /lib/modules/$(uname -r)/modules.dep; sleep 5")
    assert check()["status"] == "PASS"


def test_a_lost_description_is_written_again_by_a_plain_rerun(with_podman: None) -> None:
    on_host(f"rm {SPEC}")
    assert check()["message"] == "no CDI specification: containers find no GPU"
    assert containers("podman").changed == 1
    assert check()["status"] == "PASS"
    assert containers("podman").changed == 0


def test_a_damaged_description_is_unknown(with_podman: None) -> None:
    on_host(f"echo '<html>' > {SPEC}")
    assert check()["status"] == "UNKNOWN"
    on_host("systemctl start gpuwright-cdi")
    assert check()["status"] == "PASS"


def test_numbers_that_cannot_be_read_stop_the_run(with_podman: None) -> None:
    before = on_host("cat /etc/subuid")
    on_host("echo broken >> /etc/subuid")
    done = containers("podman")
    assert done.rc != 0 and "has the line 'broken'; expected name:first:count" in done.text
    on_host(f"cat > /etc/subuid <<'END'\n{before}\nEND")


REFRESH = "/etc/systemd/system/nvidia-cdi-refresh.service"
# As the toolkit brings it from 1.18 on; it also says that it was asked.
REFRESH_UNIT = f"""\
[Unit]
Description=The toolkit's own writer
[Service]
Type=oneshot
EnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
ExecStart=/usr/bin/nvidia-ctk cdi generate --output={SPEC}
ExecStartPost=/bin/sh -c 'echo written >> /run/refreshed'
[Install]
WantedBy=multi-user.target
"""


def form() -> str:
    return on_host(f"sed -n 's/^cdiVersion: //p' {SPEC}")


def test_a_description_that_the_engine_refuses_is_found_and_written_anew(with_podman: None) -> None:
    assert form() == "0.5.0", "podman 4.9 refuses groups"
    assert check("containers.resolved", "standard")["status"] == "PASS"
    on_host(f"nvidia-ctk cdi generate --output={SPEC}")
    assert form() == "0.7.0"
    found = check()
    assert found["status"] == "FAIL" and "podman 4.9.4 refuses CDI 0.7.0" in found["message"]
    assert "unresolvable" in check("containers.resolved", "standard")["message"]
    on_host("systemctl start gpuwright-cdi")
    assert check()["status"] == "PASS"


def test_a_newer_engine_gets_the_newest_form(with_podman: None) -> None:
    on_host("cp -p /usr/bin/podman /usr/bin/podman.before; sed -i 's/4.9.4-rhel/5.4.0/' /usr/bin/podman")
    assert check()["status"] == "PASS", "it accepts the older form, too"
    assert containers("podman").rc == 0 and form() == "0.7.0"
    assert check()["status"] == "PASS" and containers("podman").changed == 0
    on_host("mv /usr/bin/podman.before /usr/bin/podman")
    assert check()["status"] == "FAIL"
    assert containers("podman").rc == 0 and form() == "0.5.0"
    assert check()["status"] == "PASS"


def test_the_toolkits_own_unit_writes_where_it_is_enabled(with_podman: None) -> None:
    on_host(f"cat > {REFRESH} <<'END'\n{REFRESH_UNIT}END\nsystemctl daemon-reload; systemctl enable nvidia-cdi-refresh")
    on_host(f"echo stale > {SPEC}; systemctl start gpuwright-cdi; sleep 3")
    assert on_host("cat /run/refreshed") == "written" and form() == "0.5.0"
    assert check()["status"] == "PASS"
    on_host(f"rm {SPEC}; systemctl start gpuwright-cdi")
    assert form() == "0.5.0", "nobody waits for the toolkit's unit at a boot"
    settings = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
    on_host(f"mkdir -p $(dirname {settings}); echo NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS= > {settings}")
    on_host("systemctl start nvidia-cdi-refresh")
    assert form() == "0.7.0", "what people have set counts more"
    assert check()["status"] == "FAIL"
    on_host(f"systemctl disable nvidia-cdi-refresh; rm {REFRESH} {settings} /run/refreshed; systemctl daemon-reload")
    on_host("systemctl start gpuwright-cdi")
    assert check()["status"] == "PASS"


def test_docker_must_be_there_already() -> None:
    done = containers("docker")
    assert done.rc != 0 and "has no /usr/bin/dockerd. Docker comes from the site: install it first" in done.text
    assert done.changed == 0


def test_docker_keeps_what_the_site_has_set(docker: None) -> None:
    pid = on_host("systemctl show -P MainPID docker")
    assert containers("docker", "--check").rc == 0
    assert json.loads(on_host(f"cat {DAEMON}")) == SITES_OWN
    done = containers("docker")
    assert done.rc == 0, done.output
    found = json.loads(on_host(f"cat {DAEMON}"))
    assert found["data-root"] == "/data/docker"
    assert found["features"] == {"buildkit": True, "cdi": True}
    assert set(found["runtimes"]) == {"other", "nvidia"}
    assert on_host("ls /run/reloaded") and on_host("systemctl show -P MainPID docker") == pid, "told, and not restarted"
    assert containers("docker").changed == 0
    assert check()["status"] == "PASS"
    gone = containers("docker", state="absent")
    assert gone.rc == 0, gone.output
    assert json.loads(on_host(f"cat {DAEMON}")) == SITES_OWN
    assert containers("docker", state="absent").changed == 0


def test_undoing_leaves_the_engine_and_nothing_else(with_podman: None) -> None:
    assert containers("podman", "--check", state="absent").rc == 0
    assert check()["status"] == "PASS", "check mode changes nothing"
    assert containers("podman", state="absent").rc == 0
    assert containers("podman", state="absent").changed == 0
    assert on_host(f"ls /etc/systemd/system | grep cdi; ls {SPEC} /etc/gpuwright/containers.json", check=False) == ""
    assert on_host("rpm -q podman >/dev/null && rpm -q nvidia-container-toolkit-base", check=False).endswith(
        "installed"
    )
    assert check()["status"] == "SKIP"
