#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: packages for a bundle, resolved and downloaded on a connected system of the same release."""

DOCUMENTATION = r"""
module: bundle_packages
short_description: Download the packages of a bundle, and make repositories of them
description:
  - Resolves each group of packages for an empty system with dnf, from the repositories that this system has and those
    in O(repositories), and says how much there is to download. Nothing is installed.
  - With O(download), it downloads what is not there yet, checks every signature, and writes a repository for each that
    packages come from, with its module metadata.
  - The action plug-in of this name then copies the repositories to the controller.
options:
  groups:
    description: What to resolve together, as C(packages) (names or patterns of dnf) and C(modules) (C(name:stream)).
    type: list
    elements: dict
    required: true
  repositories:
    description: Repositories besides those of this system, as C(id), C(url), C(key), and perhaps C(user), C(password).
    type: list
    elements: dict
    default: []
  work:
    description: Folder for packages and repositories; it is kept, so that a second run downloads nothing.
    type: path
    required: true
  download:
    description: Whether to download, or only to say how much there is.
    type: bool
    default: false
  dest:
    description: Folder on the controller that gets the repositories; used by the action plug-in.
    type: path
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Download
  gpuwright.node.bundle_packages:
    groups: [{packages: [gcc, kernel-devel-4.18.0-477.10.1.el8_8.x86_64], modules: ["nvidia-driver:580-dkms"]}]
    work: /var/cache/gpuwright/bundle
    dest: /srv/bundle/targets/rhel-8-x86_64
    download: true
"""

RETURN = r"""
packages:
  description: Each package, as repository, file, nevra, size in bytes, and whether it is here already.
  type: list
  elements: dict
  returned: always
bytes:
  description: What there is to download.
  type: int
  returned: always
repositories:
  description: Repositories of the bundle, as id, and key if the system has the key that its packages are signed with.
  type: list
  elements: dict
  returned: when downloaded
files:
  description: Size and sha256 of each file below O(work)/repositories.
  type: dict
  returned: when downloaded
"""

import contextlib
import os
import shutil
from typing import Any, Dict, List

from ansible.module_utils.common.respawn import has_respawned, respawn_module
from ansible_collections.gpuwright.node.plugins.module_utils.host.os_family import python_of_dnf
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.owning import make_folders
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.packages.bundle_files import digest_of, free_bytes
from ansible_collections.gpuwright.node.plugins.module_utils.packages.bundle_packages import (
    PackagesError,
    Resolver,
    download,
    own_id,
    rows_of,
    write_repository,
)

try:
    import dnf
    import dnf.exceptions
    import dnf.module.module_base
    import dnf.rpm
except ImportError:
    dnf = None


def go_on_with_dnf() -> None:
    """Start again under the Python that dnf runs with: since 2.17, Ansible chooses the newest that a host has."""
    with contextlib.suppress(OSError):
        python = python_of_dnf()
        if not has_respawned():
            respawn_module(python)


def listing(folder: str) -> Dict[str, Any]:
    """Size and SHA-256 of every file below the folder."""
    found = {}
    for place, _folders, files in os.walk(folder):
        for file in files:
            path = os.path.join(place, file)
            name = os.path.relpath(path, folder)
            found[name] = {"size": os.path.getsize(path), "sha256": digest_of(path)}
    return found


def made(module: AnsibleModule) -> Dict[str, Any]:
    """The result of the module; PackagesError."""
    work = module.params["work"]
    make_folders(work)
    resolver = Resolver(dnf, work, module.params["repositories"])
    packages: Dict[str, Any] = {}
    bases: List[Any] = []
    for group in module.params["groups"]:
        bases.append(resolver.base())
        packages.update((str(one), one) for one in resolver.closure(bases[-1], group))
        if module.params["download"]:
            download(resolver, bases[-1], sorted(bases[-1].transaction.install_set))
    rows = rows_of([packages[name] for name in sorted(packages)])
    there = sum(row["size"] for row in rows if not row["here"])
    answer: Dict[str, Any] = {"packages": rows, "bytes": there, "free": free_bytes(work)}
    if not module.params["download"]:
        return answer
    names = sorted({one.repo.id for one in packages.values()})
    folder = os.path.join(work, "repositories")
    for left in set(os.listdir(folder) if os.path.isdir(folder) else []) - {own_id(name) for name in names}:
        shutil.rmtree(os.path.join(folder, left))
    answer["repositories"] = []
    for name in names:
        own = [one for one in packages.values() if one.repo.id == name]
        write_repository(bases[-1], name, own, os.path.join(folder, own_id(name)))
        # A repository of this system has its key in a file that every system of the release has.
        key = "" if name != own_id(name) else " ".join(own[0].repo.gpgkey)
        answer["repositories"].append({"id": own_id(name), "key": key, "signed": bool(own[0].repo.gpgcheck)})
    answer["files"] = listing(folder)
    return answer


def main() -> None:
    """Resolve; download if asked for."""
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "required": True},
            "repositories": {"type": "list", "elements": "dict", "default": [], "no_log": False},
            "work": {"type": "path", "required": True},
            "download": {"type": "bool", "default": False},
            "dest": {"type": "path"},
        },
        supports_check_mode=True,
    )
    if dnf is None:
        go_on_with_dnf()
        module.fail_json(
            msg="This machine has no dnf for its Python, so it cannot get packages for a bundle. [bundle.builder]"
        )
    os.umask(0o022)
    try:
        answer = made(module)
    except PackagesError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"Packages for the bundle cannot be kept on this machine: {error}. [bundle.files]")
    module.exit_json(changed=module.params["download"] and answer["bytes"] > 0, **answer)


if __name__ == "__main__":
    main()
