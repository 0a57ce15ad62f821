"""Secure Boot: nothing is removed before a key is enrolled, and the way from a bare host to a module that is taken.

mokutil, openssl, DKMS, signatures and modinfo are real; firmware, console and what the kernel loads are simulated.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, on_host, play
from gpuwright.verdict.expectations import PLAN_PARTS
from playbook_run import Run

NAME, HOST = "secure-boot", "a5-31"
PASSWORD = "enrol-this-42"
CERTIFICATE = "/var/lib/dkms/mok.pub"
VARIABLES = "/sys/firmware/efi/efivars"
SCREENS = "/var/log/fleet-console.log"
on_node = functools.partial(on_host, fleet=NAME, host=HOST)


def hash_of(password: str) -> str:
    command = ["openssl", "passwd", "-6", "-stdin"]
    return subprocess.run(command, input=password, check=True, capture_output=True, text=True).stdout.strip()


HASH = hash_of(PASSWORD)


def system(*arguments: str, password_hash: str = HASH, **variables: object) -> Run:
    wanted = {"system_kernel_prepare_secure_boot": True, "system_kernel_secure_boot_password_hash": password_hash}
    return play("playbooks/system.yml", *arguments, fleet=NAME, **{**wanted, **variables})


def reboot(person: dict[str, str] | None = None) -> str:
    """A boot with this person at the console; what the screen showed."""
    if person:
        on_node(f"cat > /etc/fleet/console.json <<'END'\n{json.dumps(person)}\nEND")
    on_node(f": > {SCREENS}; systemctl reboot", check=False)
    subprocess.run([*FLEET, "up", "--fleet", NAME], cwd=REPOSITORY, check=True, capture_output=True)
    return on_node(f"cat {SCREENS}")


def untouched() -> bool:
    """No driver was installed or removed, and nouveau still has the card."""
    return on_node("rpm -qa '*nvidia*'; ls /etc/modprobe.d /usr/lib/modprobe.d | grep nvidia", check=False) == ""


def waits(done: Run) -> None:
    assert done.rc != 0 and "Waiting for the console" in done.text, done.output
    assert "Perform MOK management: Enroll MOK" in done.text and "Enroll the key(s)?: Yes" in done.text
    assert HASH not in done.output and PASSWORD not in done.output
    assert untouched()


@pytest.fixture(scope="module", autouse=True)
def secure_boot_fleet() -> Iterator[None]:
    """Bare at first; the tests are in the order of its life."""
    subprocess.run([*FLEET, "reset", "--fleet", NAME], cwd=REPOSITORY, check=True)
    yield
    subprocess.run([*FLEET, "down", "--fleet", NAME], cwd=REPOSITORY, check=True)


def test_stops_before_anything_is_removed() -> None:
    done = play("site.yml", fleet=NAME)
    assert done.rc != 0 and HOST in done.text
    assert "Secure Boot is on" in done.text and "system_kernel_prepare_secure_boot" in done.text
    assert "mokutil --import" not in done.text, "the file that it would need is DKMS's, and DKMS is not there"
    assert "Nothing was removed" in done.text and "changed=0" in done.text


@pytest.mark.parametrize("wrong", ["", PASSWORD, "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$" + "x" * 43])
def test_a_wrong_form_of_the_hash_stops_before_anything_changes(wrong: str) -> None:
    done = system("-vvv", password_hash=wrong)
    assert done.rc != 0 and "openssl passwd -6" in done.text and "changed=0" in done.text
    assert not wrong or wrong not in done.output
    assert on_node("rpm -q dkms; ls /var/lib/dkms", check=False).startswith("package dkms is not installed")


def test_check_mode_stages_nothing() -> None:
    done = system("--check", "--diff")
    assert done.rc != 0 and "Secure Boot" in done.text
    assert HASH not in done.output and on_node(f"ls {VARIABLES} | grep -c MokNew", check=False) == "0"


def test_a_bare_host_is_prepared_and_waits() -> None:
    done = system("-vvv", "--diff")
    waits(done)
    assert on_node("mokutil --list-new | grep -c 'Fingerprint'") == "1"
    shown = on_node(f"openssl x509 -inform DER -in {CERTIFICATE} -noout -fingerprint -sha1").split("=")[1]
    assert shown.replace(":", " ") in done.text
    assert on_node("stat -c '%a %U' /var/lib/dkms/mok.key") == "600 root"
    look = f"journalctl --no-pager | grep -cF '{HASH}'; grep -rlF '{HASH}' /etc /tmp /run /var /root /home"
    assert on_node(look, check=False) == "0", "the node keeps the hash nowhere but in the firmware"


def test_a_rerun_while_it_waits_stages_nothing_again() -> None:
    before = on_node(f"sha256sum {VARIABLES}/Mok* {CERTIFICATE}")
    done = system()
    waits(done)
    assert "changed=0" in done.text and "by an earlier run" in done.text
    assert on_node(f"sha256sum {VARIABLES}/Mok* {CERTIFICATE}") == before


@pytest.mark.parametrize("person", [None, {"choose": "Continue boot"}, {"password": "another-password"}])
def test_what_was_not_confirmed_is_staged_again(person: dict[str, str] | None) -> None:
    screens = reboot(person)
    assert "Press any key to perform MOK management" in screens
    done = system()
    waits(done)
    assert "was not confirmed" in done.text and "staged the import again" in done.text


def test_a_forgotten_password_is_replaced() -> None:
    done = system(password_hash=hash_of("a new one"))
    assert "staged the import again" in done.text and on_node("mokutil --list-new | grep -c Fingerprint") == "1"
    assert "Password doesn't match" in reboot({"password": PASSWORD})
    waits(system())


def test_a_confirmed_key_lets_the_run_go_on() -> None:
    screens = reboot({"password": PASSWORD})
    assert screens.endswith("Password:\nReboot")
    done = system(system_reboot_policy="allowed")
    assert done.rc == 0, done.output
    assert "Waiting for the console" not in done.text
    assert on_node("modinfo -F signer nvidia") == "DKMS module signing key"
    number = on_node(f"openssl x509 -inform DER -in {CERTIFICATE} -noout -serial").split("=")[1]
    assert on_node("modinfo -F sig_key nvidia").replace(":", "") == number
    assert "580." in on_node("cat /proc/driver/nvidia/version")
    assert system().changed == 0


def test_gpu_doctor_passes_it() -> None:
    """Verification, which comes in a later layer, would leave the expectations."""
    expected = {
        "schema": 1, "gpu_count": 1, "gpu_model": "Tesla V100-PCIE-16GB", "smoke_device": "cuda", "runs_dir": "/srv",
        "venv": "/opt/gpuwright/venvs/current", "training_user": "trainer",
        "plan": {part: {} for part in PLAN_PARTS},
    }  # fmt: skip
    on_node(f"cat > /etc/gpuwright/expectations.json <<'END'\n{json.dumps(expected)}\nEND")
    said = on_node("gpu-doctor --level quick --json; rm /etc/gpuwright/expectations.json", check=False)
    checks = {check["id"]: check for check in json.loads(said)["checks"]}
    assert checks["secure_boot"]["status"] == "PASS", checks["secure_boot"]
    assert checks["secure_boot"]["value"] == "enabled, key enrolled"


def test_a_module_of_another_key_is_found_before_the_reboot() -> None:
    """Signed anew with a key that nobody enrolled: preflight says whose, while the old module still runs."""
    on_node(
        "set -e; cd /root; openssl req -new -x509 -nodes -days 9 -newkey rsa:2048 -subj '/CN=Some other key' "
        "-keyout k -outform DER -out c 2>/dev/null\n"
        "for file in /lib/modules/$(uname -r)/*/nvidia*.ko*; do\n"
        "case $file in *.xz) unxz $file; file=${file%.xz};; esac\n"
        "/lib/modules/$(uname -r)/build/scripts/sign-file sha256 k c $file\ndone; depmod -a"
    )
    done = system()
    assert done.rc != 0 and "signed by Some other key, whose key is not trusted here" in done.text
    assert "Do not reboot" in done.text and "changed=0" in done.text
