"""A folder as the root of a provisioned node, with a made-up systemd; a test changes one thing of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuwright.first_record.effective import ENABLED
from gpuwright.first_record.stamp import read_stamp
from gpuwright.host.bounded import Finished
from provisioned_node import Node

FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ntrainer:x:990:990:gpuwright trainer:/var/lib/x:/sbin/nologin\n"
    "eve:x:1000:1000::/home/eve:/bin/bash\nmine:x:1001:1001::/home/mine:/bin/bash\n",
    "/etc/group": "root:x:0:\ntrainer:x:990:mine\nwheel:x:10:\neve:x:1000:\n",
    "/etc/shadow": "root:$6$x:1::::::\ntrainer:!!:19000::::::\neve:$6$y:1::::::\n",
    "/etc/subuid": "eve:100000:65536\ntrainer:165536:65536\n",
    "/etc/subgid": "eve:100000:65536\n",
    "/etc/yum.repos.d/epel.repo": "[epel]\ngpgcheck=1\n",
    "/etc/pki/rpm-gpg/RPM-GPG-KEY-epel": "key\n",
    "/etc/dnf/dnf.conf": "[main]\n",
    "/etc/dnf/plugins/versionlock.list": "own-0:1-1.*\n",
    "/etc/modules-load.d/gpuwright-nvidia.conf": "nvidia_uvm\n",
    "/etc/systemd/system/gpuwright-check.timer": "[Timer]\n",
    "/etc/systemd/system/gpuwright-boot-check.service": "[Service]\n",
    "/etc/systemd/system/gpu-job@.service": "[Service]\n",
    "/etc/profile.d/gpuwright-cuda.sh": "export\n",
    "/etc/gpuwright/runtime.json": "{}\n",
    "/etc/gpuwright/train-gan/default.yml": "steps: 1\n",
    "/etc/docker/daemon.json": "{}\n",
    "/boot/grub2/grubenv": "boot_success=1\n",
    "/usr/local/bin/gpu-run": "#!/bin/sh\n",
    "/usr/local/lib/gpuwright/gpuwright/__init__.py": "",
    "/usr/local/lib/gpuwright/gpuwright/host/files.py": "x = 1\n",
    "/opt/gpuwright/venvs/0123/gpuwright.json": "{}\n",
    "/opt/gpuwright/venvs/0123/lib/python3.11/site-packages/numpy/core.py": "x = 1\n",
    "/data/site/runs/kept": "a run\n",
    "/proc/sys/vm/swappiness": "10\n",
    "/etc/udev/rules.d/99-scratch.rules": "a rule\n",
    "/sys/fs/selinux/booleans/container_use_devices": "1 1\n",
}
LINKS = {
    "/opt/gpuwright/venvs/current": "0123",
    "/usr/bin/gpu-run": "/usr/local/bin/gpu-run",
    "/usr/local/cuda": "/usr/local/cuda-12.8",
}
TUNING = {
    "schema": 1,
    "settings": [
        {"name": "vm.swappiness", "wanted": "10", "reason": "", "keys": {"/proc/sys/vm/swappiness": "10"}},
        {"name": "irqbalance", "wanted": "enabled active", "reason": "", "keys": {"unit irqbalance.service": "x"}},
    ],
    "skipped": [],
}
BEFORE = {"schema": 1, "knobs": {}, "files": {"/etc/udev/rules.d/99-scratch.rules": None}, "folders": []}
# As variables and the plan of the host name them.
NAMES = ["/data/site/runs", "/srv/gan/data", "mine", "trainer"]


class Stamped(Node):
    """Its stamp is kept by a run that changed nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.units: dict[str, dict[str, str]] = {}
        for path, text in FILES.items():
            self.write(path, text)
        for path, target in LINKS.items():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).symlink_to(target)
        self.write("/etc/gpuwright/tuning.json", json.dumps(TUNING))
        self.write("/var/lib/gpuwright/tuning-before.json", json.dumps(BEFORE))

    def path(self, path: str) -> Path:
        return self.root / path[1:]

    def systemctl(self, command: Sequence[str], seconds: float) -> Finished:
        """As systemctl(1) shows units: one block each, in the order of the question."""
        names = command[command.index("--") + 1 :]
        usual = {"LoadState": "loaded", "UnitFileState": "enabled", "Type": "simple", "ActiveState": "active"}
        blocks = []
        for name in names:
            shown = {**dict.fromkeys(ENABLED, ""), "Id": name, **usual, **self.units.get(name, {})}
            blocks.append("\n".join(f"{key}={value}" for key, value in shown.items()))
        return Finished(0, "\n\n".join(blocks) + "\n", "", False, False, False, "")

    def look(self, family: str, root: str, known: Any = None, **options: Any) -> dict[str, Any]:
        from gpuwright.first_record.look import look

        options = {"run": self.systemctl, **options} if options else {}
        return look(family, root, known, lambda family: dict(self.packages), **options)

    def begin_wide(self, run: str) -> None:
        from gpuwright.first_record.ledger import begin

        begin(run, str(self.root), self.look, lambda family, root: (), names=NAMES)

    def changed(self) -> list[str]:
        """What the next run's probe finds changed."""
        return read_stamp(str(self.root), self.systemctl)["changed"]

    def chown(self, path: str) -> None:
        os.lchown(self.path(path), 12, 12)
