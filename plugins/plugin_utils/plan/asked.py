# SPDX-License-Identifier: Apache-2.0
"""What a plan must know besides the host itself: what the inventory asks for, and the environment that results.

In Python and not in variables of a role: Ansible compiles every template anew for each host and task.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.gpuwright.node.plugins.module_utils.packages.addresses import split_login

from .candidates import PINS
from .matrix import CARDS, SHIPPED, read_matrix
from .question import imagined_host

# As in roles/system_repository/vars/main.yml (a test compares).
CONTAINERS = {
    "redhat": "https://nvidia.github.io/libnvidia-container/stable/rpm/x86_64",
    "debian": "https://nvidia.github.io/libnvidia-container/stable/deb/amd64/",
}
# By the beginning of its names, the settings of each repository.
REPOSITORIES = {
    "system_kernel_epel": ("url", "key_fingerprint", "metadata_signed"),
    "system_driver_repository": ("url", "key_fingerprint", "metadata_signed"),
    "system_containers_repository": ("url", "key_fingerprint"),
}
CONTAINER_ENGINE = "system_containers_engine"
REPOSITORY_SETTINGS = (
    CONTAINER_ENGINE,
    *(f"{first}_{last}" for first, names in REPOSITORIES.items() for last in names),
)
CONTAINER_PACKAGE = "nvidia-container-toolkit-base"
LOCKS = SHIPPED.parents[2] / "framework_pytorch/files/locks"


@functools.cache
def sha256_of(path: str, size: int, modified_ns: int) -> str:
    """The SHA-256 of a file, computed once for all hosts as long as its size and time are these. Raises OSError."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Asked:
    """Of one host.

    setting    the value of a public variable of any role, or its default
    text_of    the text of a file of the controller, as the lookup `file` finds and reads it
    beside     the lookup `package_lock`: the lock of the packages that are installed beside the plan's own
    variables  the host's; what is used of them is no template: ansible_version, inventory_dir, playbook_dir
    """

    def __init__(
        self,
        setting: Callable[[str], Any],
        text_of: Callable[[str], str],
        beside: Callable[..., dict[str, Any]],
        variables: Mapping[str, Any],
    ) -> None:
        self.setting = functools.cache(setting)
        self._text_of, self._beside, self._variables = text_of, beside, variables

    def pins(self) -> dict[str, Any]:
        return {pin: self.setting(name) for pin, name in PINS.items()}

    def circumstances(self, judged_only: bool) -> dict[str, Any]:
        """`judged_only`: nothing is installed by this plan."""
        hold = boolean(self.setting("system_driver_version_lock"), strict=False)
        return {
            "ansible_core": self._variables["ansible_version"]["full"],
            "today": datetime.date.today().isoformat(),
            "only_judged": judged_only,
            "kernel_target": self.setting("system_kernel_target"),
            "site_driver": self._site_driver(),
            "driver_guards": {"guards": self.setting("system_driver_guards"), "hold": hold},
        }

    def _site_driver(self) -> dict[str, Any]:
        """The guest driver that the inventory names, for machines with parts of cards; `problem` of its file, or ""."""
        file, digest = (self.setting(f"system_driver_package_{name}") for name in ("file", "sha256"))
        found = {"file": file, "packages": self.setting("system_driver_packages"), "problem": ""}
        if file:
            try:
                status = Path(file).stat()
                seen = sha256_of(file, status.st_size, status.st_mtime_ns)
            except OSError as error:
                return {**found, "problem": f"it cannot be read on the controller ({error.strerror})"}
            if seen != str(digest).lower():
                said = (
                    f"system_driver_package_sha256 is {digest}" if digest else "system_driver_package_sha256 is not set"
                )
                found["problem"] = f"its SHA-256 is {seen}, and {said}"
        return found

    def hardware(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The cards of an image: it is for servers with cards, whatever the machine has on which it is made."""
        if node["gpus"]:
            return {}
        count, model = self.setting("verify_expected_gpu_count"), self.setting("verify_expected_gpu_model")
        if not (self.setting("system_kernel_target") and model and int(count) > 0):
            return {"gpus": []}
        try:
            releases = read_matrix(SHIPPED, without=[CARDS])["os_releases"]
            return {"gpus": imagined_host(f"{count}x {model}", "", "", node["machine"], releases)["gpus"]}
        except ValueError:
            return {"gpus": []}

    def locks(self) -> list[str] | None:
        """The lock files that exist; whoever names their own is not asked for another."""
        if self.setting("framework_pytorch_lock_file"):
            return None
        return sorted(path.name for path in LOCKS.glob("*.txt"))

    def repositories(self, node: Mapping[str, Any], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the system layer relies on, as the role system_repository is told it (a test compares).

        `url` is without a login, `also` the vendor's own address, `packages` what a run would take from it; one that
        is `always` configured is configured whether these are there or not.
        """
        found = []
        if node["os"]["family"] == "redhat":
            epel = self._repository("system_kernel_epel", plan["epel"])
            packages = [name for name in plan["kernel"]["packages"] if name == "dkms"] + plan["runtime"]["packages"]
            found.append({"id": "epel", **epel, "always": True, "packages": packages})
        driver = plan["driver"]
        if driver["repository"]:
            vendors = self._repository("system_driver_repository", driver["repository"])
            own = driver["packages"] if driver["source"] == "nvidia" else []
            packages = plan["platform"]["packages"] if driver["present"] else own
            packages = [*packages, plan["cuda"]["package"], *plan["cudnn"]["packages"], *plan["nccl"]["packages"]]
            named = [name for name in packages if name]
            found.append({"id": driver["repository"]["id"], **vendors, "always": False, "packages": named})
        if self.setting(CONTAINER_ENGINE):
            vendor = {"url": CONTAINERS[node["os"]["family"]], "key_fingerprint": ""}
            toolkit = self._repository("system_containers_repository", vendor)
            toolkit["packages_signed"] = False
            found.append(
                {"id": "nvidia-container-toolkit", **toolkit, "always": False, "packages": [CONTAINER_PACKAGE]}
            )
        return found

    def _repository(self, prefix: str, vendor: Mapping[str, Any]) -> dict[str, Any]:
        asked = {name: self.setting(f"{prefix}_{name}") for name in REPOSITORIES[prefix]}
        return {
            "url": split_login(asked["url"] or vendor["url"]).url,
            "also": vendor["url"],
            "fingerprint": asked["key_fingerprint"] or vendor["key_fingerprint"],
            "packages_signed": True,
            "metadata_signed": boolean(asked.get("metadata_signed", True), strict=False),
        }

    def environment(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """What the role framework_pytorch will build for this plan, by the same words (a test compares).

        `name` is that of its folder: what is built already takes no more space, and any other environment does. `lock`
        is the text of all its lock files, and `beside` what is installed beside the plan's own packages.
        """
        own = self.setting("framework_pytorch_lock_file")
        file = own or str(LOCKS / plan["pytorch"]["lock"])
        base = self._text_of(file) if own or plan["pytorch"]["locked"] else "\n".join(plan["requirements"])
        python = plan["python"]["version"]
        folder = self._variables.get("inventory_dir")
        beside = self._beside(
            self.setting("framework_pytorch_packages"),
            base_name=Path(file).name,
            base=base,
            python=python,
            # A list of hosts on the command line has no folder, and Ansible then says None.
            folder=self._variables["playbook_dir"] if str(folder or None) == "None" else folder,
            locks=self.setting("framework_pytorch_locks_folder"),
        )
        lock = "\n".join(filter(None, [base, beside["text"]]))
        name = hashlib.sha256(f"{python}\n{lock}".encode()).hexdigest()[:16]
        return {"name": name, "lock": lock, "beside": beside}
