"""What dnf or apt says that it has installed need not be asked for; anything else is."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.filter.left_out import left_out

SAID = [
    "Installed: gcc-8.5.0-18.el8.x86_64",
    "Installed: nvidia-driver-cuda-3:580.95.05-1.el8.x86_64",
    "Installed: cuda-toolkit-12-9-12.9.1-1.x86_64",
    "Installed: libcudnn9-cuda-12-9.10.2.21-1.x86_64",
    "Removed: make-4.2.1-11.el8.x86_64",
]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gcc", True),
        ("gcc.x86_64", True),
        ("gcc-8.5.0", True),
        ("gcc-8.5.0-18.el8", True),
        ("gcc-8.5.0-18.el8.x86_64", True),
        ("gcc-8.5.1", False),
        ("nvidia-driver-cuda", True),
        ("nvidia-driver-cuda-580.*", True),
        ("nvidia-driver-cuda-570.*", False),
        ("nvidia-driver", False),
        ("cuda-toolkit-12-9", True),
        ("cuda-toolkit-12", False),
        ("libcudnn9-cuda-12-9.10.2.21-1", True),
        ("libcudnn9-cuda-12-9.10.2.22-1", False),
        ("make", False),
        ("libc++", False),
    ],
)
def test_what_is_named(name: str, told: bool) -> None:
    assert left_out([name], SAID) == ([] if told else [name])


APT_SAID = """\
Preparing to unpack .../libcuda1_535.261.03-1_amd64.deb ...
Unpacking dkms (3.0.10-8+deb12u1) ...
Setting up libcuda1:amd64 (535.261.03-1) ...
Setting up gcc (4:12.2.0-3) ...
Setting up nvidia-kernel-dkms (535.261.03-1) ...
Setting up linux-headers-6.1.0-39-amd64 (6.1.148-1) ...\r
dpkg: error processing package nvidia-smi (--configure):
""".splitlines()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gcc", True),
        ("gcc=4:12.2.0-3", True),
        ("gcc=4:12.2.0-4", False),
        ("libcuda1", True),
        ("libcuda1:amd64", True),
        ("libcuda1=535.*", True),
        ("libcuda1=545.*", False),
        ("libcuda", False),
        ("linux-headers-6.1.0-39-amd64", True),
        ("dkms", False),
        ("nvidia-smi", False),
    ],
)
def test_what_apt_names(name: str, told: bool) -> None:
    assert left_out([name], APT_SAID) == ([] if told else [name])


def test_nothing_said_is_nothing_known() -> None:
    assert left_out(["gcc", "make"], []) == ["gcc", "make"]
    assert left_out(["gcc", "make"], ["Nothing to do"]) == ["gcc", "make"]
