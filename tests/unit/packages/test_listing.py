"""Which packages can go together, and who needs the others."""

from __future__ import annotations

import pytest
from gpuwright.packages import listing
from gpuwright.packages.listing import NotListed, needed_debs, removable

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


def test_rpms_own_test_of_the_removal_is_repeated_without_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc-c++ is somebody's; of dkms, gcc and cpp, dkms can go. The texts are rpm 4.18's."""
    needs = {"gcc": "gcc-c++-8.5.0-18.el8.x86_64", "cpp": "gcc-8.5.0-18.el8.x86_64"}

    def ask(command: list[str], allowed: tuple[int, ...] = (0,)) -> str:
        if command[:3] != ["rpm", "-e", "--test"]:
            return f"{command[-1]}-8.5.0-18.el8.x86_64\n"
        going = [name.partition("-")[0] for name in command[3:]]
        lines = [
            f"\t{name} is needed by (installed) {by}"
            for name, by in needs.items()
            if name in going and not (by.startswith("gcc-8") and "gcc" in going)
        ]
        return "\n".join(["error: Failed dependencies:", *lines]) if lines else ""

    monkeypatch.setattr(listing, "_ask", ask)
    names = [f"{name}-8.5.0-18.el8.x86_64" for name in ("cpp", "gcc", "dkms")]
    assert removable(names, "redhat") == {
        "gcc-8.5.0-18.el8.x86_64": "gcc-c++-8.5.0-18.el8.x86_64",
        "cpp-8.5.0-18.el8.x86_64": "gcc-8.5.0-18.el8.x86_64",
    }


def test_an_error_of_rpm_is_not_taken_for_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_ask", lambda command, allowed=(0,): "error: can't create transaction lock")
    with pytest.raises(NotListed, match="cannot test the removal"):
        removable(["dkms-3-1.noarch"], "redhat")
