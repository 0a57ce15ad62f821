"""What an uninstallation undoes, what it leaves and why, and when the record may go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from gpuwright.first_record import undo
from gpuwright.first_record.stays import with_running
from gpuwright.first_record.undo import Found, Tools
from gpuwright.first_record.what_goes_back import REMOVE, STAYS, Row
from gpuwright.host.bounded import Finished
from provisioned_node import EDITOR, OURS, Node

DAEMON = "/etc/docker/daemon.json"
UNIT = "/etc/systemd/system/train-gan@.service"
PASSWD = "root:x:0:0:root:/root:/bin/bash\n"
TRAINER = "trainer:x:990:990:gpuwright trainer:/var/lib/gpuwright-trainer:/sbin/nologin\n"


class Uninstalled(Node):
    """A node with answers of rpm and systemd."""

    needed: Mapping[str, str] = {}
    owners: Mapping[str, str] = {}
    instances = ""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.commands: list[list[str]] = []

    def run(self, command: Sequence[str], seconds: float) -> Finished:
        self.commands.append(list(command))
        if command[0] == "userdel":
            self.write("/etc/passwd", PASSWD)
            self.write("/etc/group", "root:x:0:\n")
        return Finished(0, self.instances, "", False, False, False, "")

    def tools(self) -> Tools:
        return Tools(
            self.look, lambda names, family: dict(self.needed), lambda paths, family: dict(self.owners), self.run
        )

    def find(self) -> Found:
        return undo.find(str(self.root), self.tools())

    def steps(self) -> dict[str, str]:
        return {row.name: row.step for row in self.find().rows}

    def why(self, name: str) -> str:
        return next(row.why for row in self.find().rows if row.name == name)

    def put_back(self) -> None:
        undo.put_back(self.find(), str(self.root), self.tools())

    def finish(self) -> bool:
        return undo.finish(self.find(), str(self.root))


@pytest.fixture
def node(tmp_path: Path) -> Uninstalled:
    made = Uninstalled(tmp_path)
    made.write(DAEMON, "{}")
    return made


def provision(node: Uninstalled) -> None:
    """What a first run leaves, in a few files."""
    node.begin("run-1")
    node.write(OURS, "nvidia_uvm")
    node.write(UNIT, "[Service]")
    node.write(DAEMON, '{"runtimes": {"nvidia": {}}}')
    node.write("/etc/gpuwright/runtime.json", "{}")
    node.write("/usr/local/lib/gpuwright/gpuwright/host.py", "")
    node.write("/opt/gpuwright/venvs/abc/bin/python", "")
    (node.root / "srv/gan/data").mkdir(parents=True)
    # From /etc/skel, by useradd.
    node.write("/var/lib/gpuwright-trainer/.bashrc", "")
    node.write("/etc/passwd", PASSWD + TRAINER)
    node.write("/etc/group", "root:x:0:\ntrainer:x:990:\n")
    node.install(**{"nvidia-driver.x86_64": "3:580.1-1"})
    node.end("run-1")


def without_packages(node: Uninstalled) -> None:
    node.packages.pop("nvidia-driver.x86_64")
    node.install()


def test_a_node_is_put_back_to_its_first_record_and_the_record_goes_last(node: Uninstalled) -> None:
    before = sorted(str(path.relative_to(node.root)) for path in node.root.rglob("*"))
    provision(node)
    assert undo.describe(node.find(), str(node.root), node.tools())["packages"] == {
        "remove": ["nvidia-driver-3:580.1-1.x86_64"], "install": [], "keys": [],
    }  # fmt: skip
    without_packages(node)
    node.put_back()
    assert (node.root / DAEMON[1:]).read_text() == "{}" and ["userdel", "trainer"] in node.commands
    assert ["systemctl", "daemon-reload"] in node.commands
    said = undo.describe(node.find(), str(node.root), node.tools())
    assert (said["differences"], said["rows"], said["stays"]) == (0, [], [])
    assert node.finish()
    assert sorted(str(path.relative_to(node.root)) for path in node.root.rglob("*")) == before


def test_of_a_file_that_somebody_changed_since_the_hash_is_told_and_not_the_content(node: Uninstalled) -> None:
    provision(node)
    node.write(OURS, "nvidia_uvm\n# password: hunter2\n")
    without_packages(node)
    assert node.steps()[OURS] == "stays" and node.why(OURS) == "somebody has changed it since"
    node.put_back()
    said = undo.describe(node.find(), str(node.root), node.tools())
    assert "hunter2" in (node.root / OURS[1:]).read_text() and "hunter2" not in json.dumps(said)
    assert said["differences"] == 0 and said["stays"][0].startswith(f"{OURS} stays (file 0644 0:0 ")
    # As long as something of ours is left, so is the record.
    assert not node.finish() and node.record()["packages"]
    (node.root / OURS[1:]).unlink()
    assert node.finish() and not (node.root / "var/lib/gpuwright").exists()


def test_what_an_administrator_wrote_before_us_is_not_lost_to_the_first_record(node: Uninstalled) -> None:
    node.begin("run-0")
    node.end("run-0")
    node.write(DAEMON, '{"registry": 1}')
    provision(node)
    without_packages(node)
    assert node.why(DAEMON) == "somebody had changed it before a run of this toolkit did"
    node.put_back()
    assert "nvidia" in (node.root / DAEMON[1:]).read_text()


@pytest.mark.parametrize("content", ["", "eA==", "???"])
def test_nothing_is_removed_while_the_record_of_something_else_is_damaged(node: Uninstalled, content: str) -> None:
    """As a disk or a hand leaves it: an uninstallation that stops halfway would be worse than none."""
    provision(node)
    without_packages(node)
    file = node.root / "var/lib/gpuwright/first-record.json"
    record = json.loads(file.read_text())
    assert record["contents"]
    record["contents"] = dict.fromkeys(record["contents"], content)
    file.write_text(json.dumps(record))
    before = (node.root / DAEMON.lstrip("/")).read_bytes()
    with pytest.raises(undo.NotDone, match=f"{DAEMON} cannot be put back, since the record of it is damaged"):
        node.put_back()
    assert (node.root / UNIT.lstrip("/")).exists() and (node.root / DAEMON.lstrip("/")).read_bytes() == before


def test_packages_and_files_of_others_stay_and_are_named(node: Uninstalled) -> None:
    provision(node)
    node.write(EDITOR, "an administrator's")
    node.install(**{"htop.x86_64": "0:3-1"})
    node.needed = {"nvidia-driver-580.1-1.x86_64": "their-tool"}
    assert node.steps()["htop.x86_64"] == node.steps()[EDITOR] == node.steps()["nvidia-driver.x86_64"] == "stays"
    assert node.why("nvidia-driver.x86_64") == "their-tool needs it"
    node.owners = {UNIT: "nvidia-driver"}
    assert node.why(UNIT) == "it belongs to the package nvidia-driver"
    node.put_back()
    assert (node.root / EDITOR[1:]).exists() and (node.root / UNIT[1:]).exists() and not node.finish()


def test_data_stays_and_with_it_whom_it_belongs_to(node: Uninstalled) -> None:
    provision(node)
    node.write("/srv/gan/data/images.tar", "pictures")
    node.write("/var/lib/gpuwright-trainer/weights.pt", "weights")
    without_packages(node)
    assert node.why("/srv/gan") == "it holds 1 file that no run of the toolkit wrote"
    assert node.why("trainer") == "files that stay belong to it"
    node.put_back()
    assert (node.root / "srv/gan/data/images.tar").exists() and (
        node.root / "var/lib/gpuwright-trainer/weights.pt"
    ).exists()
    assert not any(command[0] == "userdel" for command in node.commands)
    assert undo.describe(node.find(), str(node.root), node.tools())["differences"] == 0


def test_a_second_uninstallation_has_nothing_to_do(node: Uninstalled) -> None:
    provision(node)
    without_packages(node)
    node.put_back()
    assert node.finish()
    node.begin("run-3")
    assert undo.describe(node.find(), str(node.root), node.tools())["differences"] == 0
    assert node.finish() and not (node.root / "var/lib/gpuwright").exists()
    node.end("run-3")
    assert not (node.root / "var/lib/gpuwright").exists()


def test_versions_that_were_there_before_are_asked_for(node: Uninstalled) -> None:
    node.begin("run-1")
    node.install(
        **{"bash.x86_64": "1:5.0-2", "kernel.x86_64": "0:1-1 0:2-1", "gpg-pubkey.(none)": "0:7fa2af80-576db785"}
    )
    node.end("run-1")
    node.record()
    assert undo.describe(node.find(), str(node.root), node.tools())["packages"] == {
        "remove": ["kernel-1-1.x86_64", "kernel-2-1.x86_64"], "install": ["bash-4.4-1.x86_64"], "keys": ["7fa2af80"],
    }  # fmt: skip


def test_units_are_those_of_our_files_and_running_instances_of_templates(node: Uninstalled) -> None:
    provision(node)
    node.instances = "train-gan@faces.service loaded active running GAN\n"
    assert undo.units_of(node.find().rows, node.run) == ["train-gan@faces.service"]


def test_a_node_that_was_provisioned_before_loses_what_only_the_toolkit_makes(node: Uninstalled) -> None:
    node.write(OURS, "nvidia_uvm")
    node.install(**{"nvidia-driver.x86_64": "3:580.1-1"})
    node.write("/usr/local/lib/gpuwright/gpuwright/host.py", "")
    node.begin("run-1")
    node.end("run-1")
    assert node.steps() == {OURS: "remove", "/usr/local/lib/gpuwright": "remove"}
    assert node.find().record["late"] == ["/usr/local/lib/gpuwright"]
    node.put_back()
    assert not (node.root / OURS[1:]).exists() and not (node.root / "usr/local/lib/gpuwright").exists()


def test_in_check_mode_on_a_bare_node_nothing_is_made(node: Uninstalled) -> None:
    assert undo.describe(node.find(), str(node.root), node.tools())["differences"] == 0
    assert not (node.root / "var/lib/gpuwright").exists()


def test_an_account_that_cannot_be_removed_is_named(node: Uninstalled, monkeypatch: pytest.MonkeyPatch) -> None:
    provision(node)
    without_packages(node)
    failed = Finished(8, "", "userdel: user trainer is currently used by process 1\n", False, False, False, "")
    tools = node.tools()._replace(run=lambda command, seconds: failed)
    with pytest.raises(undo.NotDone, match="userdel trainer: .*currently used by process 1"):
        undo.put_back(node.find(), str(node.root), tools)
    # The next run goes on from there.
    node.put_back()
    assert node.finish()


def test_what_a_package_manager_kept_or_took_during_the_uninstallation_is_put_right(node: Uninstalled) -> None:
    """dnf's removal of a plugin takes its configuration with it, which was there before the plugin."""
    held = "/etc/dnf/plugins/versionlock.conf"
    node.write(held, "[main]")
    provision(node)
    node.begin("run-2")
    without_packages(node)
    (node.root / held[1:]).rename(node.root / f"{held[1:]}.rpmsave")
    assert node.steps()[held] == "restore" and node.steps()[f"{held}.rpmsave"] == "remove"
    node.put_back()
    assert (node.root / held[1:]).read_text() == "[main]" and not (node.root / f"{held[1:]}.rpmsave").exists()
    assert node.finish()


@pytest.mark.parametrize(
    ("release", "name", "found", "stays"),
    [
        ("6.8.0-90-generic", "linux-image-6.8.0-90-generic:amd64", "6.8.0-90.91", True),
        ("6.8.0-90-generic", "linux-modules-6.8.0-90-generic:amd64", "6.8.0-90.91", True),
        ("6.8.0-90-generic", "linux-modules-extra-6.8.0-90-generic:amd64", "6.8.0-90.91", True),
        ("6.8.0-90-generic", "linux-modules-nvidia-580-6.8.0-90-generic:amd64", "6.8.0-90.91", False),
        ("6.8.0-90-generic", "linux-headers-6.8.0-90-generic:amd64", "6.8.0-90.91", False),
        ("6.8.0-90-generic", "linux-image-6.8.0-91-generic:amd64", "6.8.0-91.92", False),
        ("4.18.0-513.5.1.el8_9.x86_64", "kernel-core.x86_64", "0:4.18.0-477.el8 0:4.18.0-513.5.1.el8_9", True),
        ("4.18.0-513.5.1.el8_9.x86_64", "kernel-core.x86_64", "0:4.18.0-477.el8 0:4.18.0-553.el8", False),
        ("4.18.0-513.5.1.el8_9.x86_64", "kernel-devel.x86_64", "0:4.18.0-513.5.1.el8_9", False),
        ("", "linux-image-6.8.0-90-generic:amd64", "6.8.0-90.91", False),
    ],
)
def test_the_kernel_that_runs_stays(tmp_path: Path, release: str, name: str, found: str, stays: bool) -> None:
    """A patch day has brought it, and no package manager removes a kernel in use."""
    file = tmp_path / "proc/sys/kernel/osrelease"
    file.parent.mkdir(parents=True)
    file.write_text(release + "\n")
    [row] = with_running([Row("packages", name, "nothing", found, REMOVE, "", True)], str(tmp_path))
    assert (row.step == STAYS) is stays
