# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor.pyz: the library of a node and its program in one file that any Python from 3.6 on runs.

It is made from `plugins/module_utils` on the controller, using only the standard library, and is byte for byte the same
for the same sources: times, order and modes are fixed.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import yaml
from ansible_collections.gpuwright.node.plugins.module_utils.doctor.bundle.make import NOT_ON_NODES
from ansible_collections.gpuwright.node.plugins.plugin_utils.trees import tree_files

from .started import ROOT

LIBRARY = ROOT / "plugins/module_utils"
PACKAGE = "gpuwright"
NAME = "gpu-doctor.pyz"
# PEP 441: a zip file after a line that names the interpreter.
FIRST_LINE = b"#!/usr/bin/env python3\n"
# The earliest time that a zip file can store.
MOMENT = (1980, 1, 1, 0, 0, 0)
UNIX = 3
MODE = 0o644
PROGRAM = """\
# SPDX-License-Identifier: Apache-2.0
import sys

if sys.version_info < (3, 6):
    sys.exit("gpu-doctor.pyz: this is Python {{}}.{{}}; expected Python 3.6 or newer".format(*sys.version_info[:2]))

from {package}.doctor.program import main

sys.exit(main(pyz_version="{version}"))
"""


def version(root: Path = ROOT) -> str:
    """The collection's version: from galaxy.yml in a checkout, from its manifest if it is installed.

    Raises OSError or ValueError.
    """
    galaxy = root / "galaxy.yml"
    if galaxy.exists():
        found = yaml.safe_load(galaxy.read_text("utf-8"))
    else:
        found = json.loads((root / "MANIFEST.json").read_text("utf-8"))["collection_info"]
    return str(found["version"])


def pyz(root: Path = ROOT) -> bytes:
    """The program. Raises OSError or ValueError if its sources or its version cannot be read."""
    sources = tree_files(str(root / "plugins/module_utils"), NOT_ON_NODES)
    files = {f"{PACKAGE}/{name}": text for name, text in sources.items()}
    files["__main__.py"] = PROGRAM.format(package=PACKAGE, version=version(root))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, MOMENT)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = UNIX
            member.external_attr = MODE << 16
            archive.writestr(member, files[name].encode(), compresslevel=9)
    return FIRST_LINE + buffer.getvalue()


def write(folder: Path) -> Path:
    """Write the program into a folder, which is created if necessary; the file is replaced in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    # Each worker of a run may be the first.
    new, file = folder / f".{NAME}.{os.getpid()}", folder / NAME
    new.write_bytes(pyz())
    new.chmod(0o755)
    return new.replace(file)
