"""Which packages can go together, and who needs the others."""

from __future__ import annotations

from gpuwright.packages.listing import needed_debs

# name:arch, version, depends, provides
DEBS = [
    ("dkms:all", "3", "gcc | c-compiler, make", ""),
    ("gcc:amd64", "12", "libc6 (>= 2.36)", "c-compiler"),
    ("make:amd64", "4", "libc6", ""),
    ("libc6:amd64", "2.36", "", ""),
    ("tool:amd64", "1", "make", ""),
]


def test_what_nobody_else_needs_can_go() -> None:
    assert needed_debs(["dkms:all", "gcc:amd64"], DEBS) == {}


def test_what_a_package_of_somebody_else_needs_stays_with_all_that_it_needs() -> None:
    assert needed_debs(["dkms:all", "gcc:amd64", "make:amd64", "libc6:amd64"], DEBS) == {
        "make:amd64": "tool",
        "libc6:amd64": "make",
    }


def test_one_of_two_alternatives_is_enough() -> None:
    clang = ("clang:amd64", "14", "", "c-compiler")
    assert needed_debs(["gcc:amd64"], DEBS) == {"gcc:amd64": "dkms"}
    assert needed_debs(["gcc:amd64"], [*DEBS, clang]) == {}
