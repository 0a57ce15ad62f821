"""From the lists of packages (repositories.yml) to single packages, and RPM spec files (pure functions)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

Words = dict[str, str]


@dataclass(frozen=True)
class Package:
    """One stand-in package; the fields are explained at the top of repositories.yml."""

    name: str
    repository: str
    version: str = "1.0"
    release: str = "1.el8"
    epoch: int = 0
    noarch: bool = False
    installed: bool = False
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    obsoletes: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    twin_paths: tuple[str, ...] = ()
    libraries_to: str = ""
    tree: str = ""
    moves: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    signed_modules: str = ""
    dirs: tuple[str, ...] = ()
    post: str = ""
    preun: str = ""
    posttrans: str = ""
    words: Words = field(default_factory=dict)

    @property
    def arch(self) -> str:
        return "noarch" if self.noarch else "x86_64"

    @property
    def nevra(self) -> str:
        return f"{self.name}-{self.epoch}:{self.version}-{self.release}.{self.arch}"


def fill(value: Any, words: Words) -> Any:
    """Replace @NAME@ by its word, everywhere inside `value`."""
    if isinstance(value, str):
        return re.sub(r"@([A-Z_0-9]+)@", lambda match: words.get(match.group(1), match.group(0)), value)
    if isinstance(value, list):
        return [fill(item, words) for item in value]
    if isinstance(value, dict):
        return {fill(key, words): fill(item, words) for key, item in value.items()}
    return value


def rpm_version_of_kernel(release: str) -> tuple[str, str]:
    """Version and release of an RPM for the kernel `uname -r`: RPM allows one dash only, between the two."""
    version, _, rest = release.removesuffix(".x86_64").partition("-")
    return version, re.sub(r"[^A-Za-z0-9._+~^]", "_", rest) or "1"


def newer_kernel(release: str) -> str:
    """The name of a kernel one patch level above: 4.18.0-477.el8 -> 4.18.1-477.el8."""
    return re.sub(r"^(\d+(?:\.\d+)*?\.?)(\d+)(?=[^\d.]|$)", lambda m: m.group(1) + str(int(m.group(2)) + 1), release)


def kernel_words(running: str) -> list[Words]:
    entries = []
    for release, role in ((running, "running"), (newer_kernel(running), "newer")):
        version, rpm_release = rpm_version_of_kernel(release)
        entries.append({"KREL": release, "KVERSION": version, "KRELEASE": rpm_release, "ROLE": role})
    return entries


def selected(entry: dict[str, Any], words: Words) -> bool:
    """Whether a package exists for this entry of its matrix (`only` / `except`)."""
    only, unless = entry.get("only", {}), entry.get("except", {})
    return all(words[key] in values for key, values in only.items()) and not any(
        words.get(key) in values for key, values in unless.items()
    )


def package_of(entry: dict[str, Any], repository: str, words: Words) -> Package:
    words = words | entry.get("words", {})
    filled = fill({k: v for k, v in entry.items() if k not in ("matrix", "only", "except", "words")}, words)
    installed = filled.pop("installed", False)
    lists = {key: tuple(value) for key, value in filled.items() if isinstance(value, list)}
    is_installed = installed is True or installed == words.get("ROLE", "never")
    return Package(**(filled | lists), repository=repository, words=words, installed=is_installed)


def expand(data: dict[str, Any], running_kernel: str) -> list[Package]:
    """Every package of a repositories.yml, matrices expanded."""
    matrices = data["matrices"] | {"kernels": kernel_words(running_kernel)}
    packages = [
        replace(package_of({"name": name} | entry, "baseos", {}), installed=True)
        for name, entry in data.get("installed_empty", {}).items()
    ]
    for repository, entries in data["packages"].items():
        for entry in entries:
            for words in matrices[entry["matrix"]] if "matrix" in entry else [{}]:
                if selected(entry, words):
                    packages.append(package_of(entry, repository, words))
    return packages


def spec_text(package: Package, payload: str, files: list[str]) -> str:
    """The spec file of a package whose files lie ready in the folder `payload`."""
    head = {
        "Name": package.name,
        "Epoch": str(package.epoch) if package.epoch else "",
        "Version": package.version,
        "Release": package.release,
        "Summary": f"Stand-in for {package.name} (gpuwright test fleet)",
        "License": "MIT",
        "BuildArch": package.arch,
        "AutoReqProv": "no",
    }
    lines = [f"{key}: {value}" for key, value in head.items() if value]
    for tag in ("requires", "provides", "conflicts", "obsoletes"):
        lines += [f"{tag.capitalize()}: {value}" for value in getattr(package, tag)]
    lines += ["", "%description", "Stand-in of the gpuwright test fleet; not the real package.", "", "%install"]
    lines += [f"cp -a '{payload}/.' %{{buildroot}}/" if files else "mkdir -p %{buildroot}", "", "%files", *files]
    for scriptlet in ("post", "preun", "posttrans"):
        if text := getattr(package, scriptlet):
            lines += ["", f"%{scriptlet}", text]
    return "\n".join(lines) + "\n"


def module_documents(module: dict[str, Any], packages: list[Package]) -> list[dict[str, Any]]:
    """The modulemd documents (one per stream, and the defaults) of one module."""
    documents: list[dict[str, Any]] = []
    driver_versions = {version for stream in module["streams"].values() for version in stream["versions"]}
    kmods = {stream["kmod"] for stream in module["streams"].values()}
    modular = [package for package in packages if package.version in driver_versions and "BRANCH" in package.words]
    for number, (name, stream) in enumerate(module["streams"].items()):
        artifacts = [
            package.nevra
            for package in modular
            if package.version in stream["versions"] and (package.name == stream["kmod"] or package.name not in kmods)
        ]
        data = {
            "name": module["name"],
            "stream": name,
            "version": 20251101000000,
            "context": f"{number:08x}",
            "arch": "x86_64",
            "summary": f"Nvidia driver for {name} branch (stand-in)",
            "description": f"This package provides the most recent version of the Nvidia display driver ({name}).",
            "license": {"module": ["MIT"]},
            "profiles": {p: {"rpms": sorted([*rpms, stream["kmod"]])} for p, rpms in module["profiles"].items()},
            "artifacts": {"rpms": sorted(artifacts)},
        }
        documents.append({"document": "modulemd", "version": 2, "data": data})
    defaults = {
        "module": module["name"],
        "stream": module["default_stream"],
        "profiles": {name: ["default"] for name in module["streams"]},
    }
    documents.append({"document": "modulemd-defaults", "version": 1, "data": defaults})
    return documents
