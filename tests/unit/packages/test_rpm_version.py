"""Version order as rpm has it; the expectations are those of rpm's own rpmvercmp tests and of real kernel names."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from gpuwright.packages.rpm_version import compare_kernels, compare_versions, kernel_sort_key
from hypothesis import given
from hypothesis import strategies as st

CASES = [
    ("1.0", "1.0", 0),
    ("1.0", "2.0", -1),
    ("2.0.1", "2.0", 1),
    ("2.0.1a", "2.0.1", 1),
    ("5.5p1", "5.5p2", -1),
    ("5.5p1", "5.5p10", -1),
    ("10xyz", "10.1xyz", -1),
    ("xyz10", "xyz10.1", -1),
    ("xyz.4", "8", -1),
    ("1.05", "1.5", 0),
    ("1_0", "1.0", 0),
    ("1.0~rc1", "1.0", -1),
    ("1.0~rc1", "1.0~rc2", -1),
    ("1.0^", "1.0", 1),
    ("1.0^git1", "1.0.1", -1),
    ("1.0~rc1^git1", "1.0~rc1", 1),
    ("20101121", "20101122", -1),
]


@pytest.mark.parametrize(("left", "right", "expected"), CASES)
def test_versions(left, right, expected):
    assert compare_versions(left, right) == expected
    assert compare_versions(right, left) == -expected


def test_kernels_of_rhel_8_and_debian_are_in_order():
    ordered = [
        "4.18.0-80.el8.x86_64",
        "4.18.0-477.10.1.el8_8.x86_64",
        "4.18.0-477.27.1.el8_8.x86_64",
        "4.18.0-553.el8_10.x86_64",
        "4.18.0-553.16.1.el8_10.x86_64",
        "4.18.0.1-5.el8.x86_64",
        "6.1.0-9-amd64",
        "6.1.0-13-amd64",
        "6.10.2-1-amd64",
    ]
    assert sorted(reversed(ordered), key=kernel_sort_key) == ordered


words = st.text(alphabet="0123456789abzAZ.-_~^", max_size=12)


@given(words, words, words)
def test_it_is_an_order(a, b, c):
    assert compare_kernels(a, b) == -compare_kernels(b, a)
    if compare_kernels(a, b) <= 0 and compare_kernels(b, c) <= 0:
        assert compare_kernels(a, c) <= 0


@pytest.mark.skipif(not shutil.which("rpm"), reason="no rpm to compare with")
@pytest.mark.parametrize(("left", "right", "expected"), CASES)
def test_rpm_agrees(left, right, expected):
    script = f'print(rpm.vercmp("{left}", "{right}"))'
    done = subprocess.run(["rpm", "--eval", f"%{{lua: {script}}}"], capture_output=True, text=True, check=True)
    assert int(done.stdout) == expected
