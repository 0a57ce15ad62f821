#!/bin/sh
# packaging 24.2 (PyPI; pip carries the same code): builds of one release that differ in what they run on.
#
# PEP 440 ignores a local version where the requirement has none: torch==2.9.0 is met by 2.9.0+cpu. Among several, the
# "newest" is chosen by comparing the local parts as text, so cu92 is newer than cu130, and xpu is newer than all.
#
# Seen: "True True xpu cu92" for the four questions below.
# Why it matters: a pin without local part lets a CPU build stand on a GPU node, and an index with several builds of one
# release gives the build whose name is last in the alphabet.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet packaging==24.2 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
seen=$("$work/venv/bin/python" -c 'from packaging.specifiers import SpecifierSet
from packaging.version import Version
pinned = SpecifierSet("==2.9.0")
builds = [Version(f"2.9.0+{name}") for name in ("cpu", "cu126", "cu130", "rocm6.4", "xpu")]
cuda = [Version("2.9.0+cu92"), Version("2.9.0+cu130")]
print(pinned.contains("2.9.0+cpu"), SpecifierSet("<=2.9.0").contains("2.9.0+cu130"), max(builds).local, max(cuda).local)')
[ "$seen" = "True True xpu cu92" ] || { echo "seen now: $seen" >&2; exit 1; }
