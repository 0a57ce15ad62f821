"""What ansible-test and galaxy-importer say of the collection: `make test-sanity`. Exit status 0 where all is clean.

Of ansible-test these are left out: tests that need programs which are no Python packages (shellcheck, pslint), pylint,
whose rules ruff has here, and import, which wants every plug-in to load on each Python that Ansible knows: what runs on
nodes is tried under Python 3.6 by its own tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
SKIPPED = ("import", "pylint", "pslint", "shellcheck")
# It brings an ansible-core and an ansible-lint of its own, so it has an environment of its own, which is kept.
IMPORTER = "galaxy-importer==0.4.44"
IMPORTED = "Importer processing completed successfully"
# It leaves ansible-test to us; of that, our list of what is ignored is all that it warns of.
IMPORTER_SETTINGS = "[galaxy-importer]\nRUN_ANSIBLE_TEST = False\nRUN_ANSIBLE_LINT = True\nCHECK_CHANGELOG = True\n"
EXPECTED_WARNING = "Ignore files skip ansible-test sanity tests"
# ansible-test downloads this script, whose host is no registry; Python brings a pip of its own.
GET_PIP = "get_pip_23_1_2.py"


def installed(folder: Path) -> Path:
    """The collection as ansible-galaxy installs it, with its links resolved: ansible-test walks into none."""
    galaxy = [str(PROGRAMS / "ansible-galaxy"), "collection"]
    build = [*galaxy, "build", "--output-path", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
    (file,) = folder.glob("*.tar.gz")
    install = [*galaxy, "install", "--offline", "-p", str(folder / "linked"), str(file)]
    subprocess.run(install, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    root = folder / "ansible_collections/gpuwright/node"
    shutil.copytree(folder / "linked/ansible_collections/gpuwright/node", root)
    shutil.rmtree(root / "library")
    return root


def importer_python() -> Path:
    """Python with galaxy-importer, from PyPI, made once for each release of it."""
    venv = CACHE / "galaxy-importer"
    stamp, python = venv / "release.txt", venv / "bin/python"
    if not (stamp.exists() and stamp.read_text() == IMPORTER):
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", IMPORTER], check=True)
        stamp.write_text(IMPORTER)
    return python


def imported(file: Path, folder: Path) -> bool:
    """Whether Galaxy would take the artefact, without a warning that is new."""
    settings, python = folder / "importer.cfg", importer_python()
    settings.write_text(IMPORTER_SETTINGS)
    path = f"{python.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(python), "-m", "galaxy_importer.main", str(file)],
        cwd=folder,
        env={**os.environ, "PATH": path, "GALAXY_IMPORTER_CONFIG": str(settings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if re.match("WARNING|ERROR", line)]
    warnings = [line for line in found if EXPECTED_WARNING not in line]
    good = done.returncode == 0 and IMPORTED in done.stdout and not warnings
    print("galaxy-importer:", IMPORTED if good else "\n".join(warnings or done.stdout.splitlines()[-40:]), flush=True)
    return good


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = installed(Path(name))
        home = Path(name) / "home"
        cache = home / ".ansible/test/cache"
        cache.mkdir(parents=True)
        (cache / GET_PIP).write_text("import ensurepip\n\nensurepip.bootstrap(default_pip=True)\n")
        command = [str(PROGRAMS / "ansible-test"), "sanity", "--python", f"{sys.version_info[0]}.{sys.version_info[1]}"]
        for test in SKIPPED:
            command += ["--skip-test", test]
        environment = {**os.environ, "HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        clean = subprocess.run(command, cwd=root, env=environment).returncode == 0
        (file,) = Path(name).glob("*.tar.gz")
        return 0 if imported(file, Path(name)) and clean else 1


if __name__ == "__main__":
    sys.exit(main())
