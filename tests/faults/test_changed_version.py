"""README's "Change a version", done on a node that had passed, and taken back."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY, on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")


def of_the_page() -> dict[str, Any]:
    """The variables that the page tells to set."""
    section = (REPOSITORY / "README.md").read_text().split("\n## Change a version\n")[1].split("\n## ")[0]
    block = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert block, section
    return yaml.safe_load(block[1])


def installed() -> list[str]:
    """The toolkit that the link leads to, its compiler, and the packages of CUDA and of the driver."""
    return on_host(
        "readlink -f /usr/local/cuda; /usr/local/cuda/bin/nvcc --version | grep release;"
        " rpm -qa 'cuda-toolkit*' 'libcudnn*' 'nvidia-driver*' 'kmod-nvidia*' | sort"
    ).splitlines()


def test_the_node_gets_it_and_passes_and_gets_back_what_it_had() -> None:
    wanted = of_the_page()
    before = installed()
    assert wanted["system_cuda_version"] not in before[0], before
    done = play("site.yml", **wanted)
    assert done.rc == 0 and done.changed > 0 and ": PASS" in on_host("gpu-doctor"), done.output
    toolkit, compiler, *packages = installed()
    assert toolkit == f"/usr/local/cuda-{wanted['system_cuda_version']}", toolkit
    assert f"release {wanted['system_cuda_version']}," in compiler
    assert any(f"-{wanted['system_driver_branch']}." in name for name in packages if "nvidia-driver" in name), packages
    assert play("site.yml", **wanted).changed == 0
    # The pin is taken out again.
    back = play("site.yml")
    assert back.rc == 0 and ": PASS" in on_host("gpu-doctor"), back.output
    assert installed()[:2] == before[:2]
    assert play("site.yml").changed == 0
