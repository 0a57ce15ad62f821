"""Write docs/compatibility.md and docs/compatibility-tables.md from the matrix (`make docs`).

tests/unit/docs/test_compatibility.py finds drift.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/compatibility.md"
TABLES = REPOSITORY / "docs/compatibility-tables.md"
sys.path[:0] = [str(REPOSITORY / "collections"), str(REPOSITORY / "tools")]
from ansible_collections.gpuwright.node.plugins.module_utils.gpu import cards
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import support
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import list_candidates
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from compatibility_cards import first_page, table

SYSTEMS = ("rhel 8.8", "rhel 8.10", "rhel 9", "rhel 10", "debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04")


def read_matrix() -> dict[str, Any]:
    files = sorted((REPOSITORY / "roles/preflight/files/matrix").glob("*.yml"))
    locks = (REPOSITORY / "roles/framework_pytorch/files/locks").glob("*.txt")
    matrix = {name: rows for file in files for name, rows in yaml.load(file.read_text(), yaml.CSafeLoader).items()}
    return {**matrix, "locks": sorted(lock.name for lock in locks)}


def mark(row: dict[str, Any]) -> str:
    """What was not verified, if anything, and the source of the rest."""
    return " ".join([*([] if row["verified"] else [f"unverified: {row['unverified']};"]), links(row)])


def links(row: dict[str, Any]) -> str:
    sources = row["source"] if isinstance(row["source"], list) else [row["source"]]
    return " ".join(f"[{number}]({source.split(' ')[0]})" for number, source in enumerate(sources, 1))


def version(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


def served(matrix: dict[str, Any], serves: Callable[[str, dict[str, Any]], bool]) -> str:
    return ", ".join(name for name, row in matrix["architectures"].items() if serves(name, row)) or "none"


def compiled_by(cuda: str) -> Callable[[str, dict[str, Any]], bool]:
    return lambda _name, kind: support.compiles(kind, cuda)


def code_in(cudnn: dict[str, Any]) -> Callable[[str, dict[str, Any]], bool]:
    return lambda name, kind: support.has_code(name, kind, cudnn)


def driven(matrix: dict[str, Any], branch: str, flavour: str) -> str:
    known = flavour in matrix["drivers"][branch]["flavours"]
    return served(matrix, lambda _name, row: known and support.drives(row, flavour, branch))


def builds(matrix: dict[str, Any], series: str) -> str:
    """Builds of a release with their cuDNN and the GPUs for which they have code."""
    rows = {
        candidate.pins["pytorch_build"]: candidate.row
        for candidate in list_candidates(matrix, {}, None)["pytorch"]
        if candidate.pins["pytorch"].startswith(series + ".") and candidate.row["cuda"]
    }
    served_by = matrix["pytorch_index"]
    texts = []
    for name, row in rows.items():
        inside = f", cuDNN {row['cudnn']}" if "cudnn" in row else ""
        doubt = " unverified" if row["index"] != "pypi" and not served_by["verified"] else ""
        place = " (PyPI)" if row["index"] == "pypi" else ""
        texts.append(f"{name}{place}{inside}{doubt}: {' '.join(row['capabilities'])}")
    return "; ".join(texts)


def facts(row: dict[str, Any]) -> list[str]:
    """The cells of a card after its name."""
    memory, ecc, pcie = row["memory"], row["ecc"], row.get("pcie")
    return [
        row["class"],
        " ".join([memory["kind"].upper(), *([f"{memory['gib']} GiB"] if "gib" in memory else [])]),
        ecc["kind"] + (f", {ecc['delivered'].lower()}" if "delivered" in ecc else ""),
        "yes" if row["mig"] else "no",
        f"{pcie['generation']}.0 x{pcie['lanes']}" if pcie else "",
        row.get("nvlink", "none"),
        "yes" if "known_good" in row else "no",
        row.get("first_driver", ""),
        " ".join([*([] if row["verified"] else ["unverified"]), links(row)]),
    ]


def plans(matrix: dict[str, Any], profile: str) -> list[list[str]]:
    rows = []
    for card in [example.name for example in reversed(cards.examples())]:
        for system in SYSTEMS:
            answer = solve(matrix, imagined_host(card, system), {"profile": profile})
            if "conflicts" in answer:
                rows.append([card, system, "refused: " + answer["conflicts"][0]["what"], "", "", "", "", ""])
                continue
            torch, driver = answer["pytorch"], answer["driver"]
            lock = "yes" if torch["locked"] else "no"
            chosen = [f"{driver['branch']} {driver['flavour']}", answer["cuda"]["version"], answer["cudnn"]["version"]]
            chosen += [answer["python"]["version"], f"{torch['version']} {torch['build']}", lock]
            rows.append([card, system, *chosen])
    return rows


def systems(releases: list[dict[str, Any]]) -> list[list[str]]:
    return [[f"{row['name']} {row['version']}", row["eol"], ", ".join(row["pythons"]), mark(row)] for row in releases]


def repository(family: dict[str, Any]) -> list[str]:
    """The cells of a family's row of os_families."""
    streams = family["format"] == "rpm" and family.get("streams", True)
    source = family["cuda_repository"]
    return [
        family["name"], ", ".join(family["machines"]), family.get("driver_from", ""), family["cuda_from"],
        "yes" if streams else "", "yes" if family.get("dcgm", True) else "no",
        source["key_fingerprint"] or unknown_key(source), mark(family),
    ]  # fmt: skip


def unknown_key(source: dict[str, Any]) -> str:
    """The cell of a repository's key without a known fingerprint: what is known, and that preflight refuses its hosts.

    source  a family's `cuda_repository`; NVIDIA names the file of a key after its short id
    """
    short = source["key_url"].rpartition("/")[2].removesuffix(".pub")
    setting = "`system_driver_repository_key_fingerprint`"
    return f"not known here, only its short id {short}: hosts are refused until {setting} gives it"


def first(matrix: dict[str, Any]) -> str:
    return first_page(matrix, unknown_key(matrix["os_families"]["el10"]["cuda_repository"]))


def page(matrix: dict[str, Any]) -> str:
    lines = [
        "# Compatibility: the complete tables",
        "",
        "Written by `make docs` from `roles/preflight/files/matrix/`, which has every row's source; change it there. "
        f"Last checked {matrix['as_of']}.",
        "",
        '"unverified" marks what was not read in a source: the plan prefers other rows and warns when it rests on it. '
        "The last cell of a row leads to where it was read.",
        "",
    ]
    for name, profile in matrix["profiles"].items():
        pins = ", ".join(f"{pin} {value}" for pin, value in profile["pins"].items()) or "nothing pinned"
        lines += [f"## Plans of the profile {name}", "", f"{profile['description']} ({pins}).", ""]
        lines += table(
            ["card", "system", "driver", "CUDA", "cuDNN", "Python", "PyTorch", "locked"], plans(matrix, name)
        )
    lines += [
        "## GPUs",
        "",
        "A card without a name here has the architecture of the block that its PCI id lies in. One card of each "
        "compute capability stands in the plans above.",
        "",
    ]
    rows = [
        [chip, row["architecture"], row["compute_capability"], ", ".join(row["ids"]),
         "; ".join(f"{name} ({', '.join(details['ids'])})" for name, details in row["cards"].items()), mark(row)]
        for chip, row in matrix["devices"].items()
    ]  # fmt: skip
    lines += table(["chip", "architecture", "compute capability", "PCI ids 10de:", "cards by name", "source"], rows)
    lines += [
        "### Cards",
        "",
        "What verification expects of a card: a data-centre card must have ECC on and say whether memory is broken. "
        "First driver: the first branch whose open module names the card, empty for those before 520. A cell is empty "
        "where nothing is known.",
        "",
    ]
    rows = [[name, *facts(row)] for chip in matrix["devices"].values() for name, row in chip["cards"].items()]
    lines += table(
        ["card", "class", "memory", "ECC", "MIG", "PCIe", "NVLink", "floors", "first driver", "source"], rows
    )
    lines += ["## Driver branches", ""]
    rows = [
        [branch, row["status"], row["eol"], *(driven(matrix, branch, name) for name in ("proprietary", "open")),
         mark(row)]
        for branch, row in matrix["drivers"].items()
    ]  # fmt: skip
    lines += table(
        ["branch", "status", "updates until", "proprietary module drives", "open module drives", "source"], rows
    )
    lines += ["## CUDA toolkits", ""]
    rows = [
        [name, row["matching_driver"], matrix["cuda_majors"][name.split(".")[0]]["minimum_driver"],
         served(matrix, compiled_by(name)), mark(row)]
        for name, row in sorted(matrix["cuda"].items(), key=lambda item: version(item[0]))
    ]  # fmt: skip
    lines += table(["toolkit", "came with driver", "runs from driver", "compiles for", "source"], rows)
    lines += ["## cuDNN", ""]
    rows = [
        [row["version"], row["cuda_from"] + " to " + (row["cuda_to"] or row["cuda_major"] + ".x"),
         served(matrix, code_in(row)), mark(row)]
        for row in matrix["cudnn"]
    ]  # fmt: skip
    lines += table(["cuDNN", "CUDA", "has code for", "source"], rows)
    index = matrix["pytorch_index"]
    doubt = f'Builds without "(PyPI)" are served by {index["url"]} alone; {mark(index)}'
    lines += ["## PyTorch", "", doubt, ""]
    rows = [
        [row["releases"][-1], f"{row['pythons'][0]} to {row['pythons'][-1]}",
         builds(matrix, series), mark(row)]
        for series, row in sorted(matrix["pytorch"].items(), key=lambda item: version(item[0]))
    ]  # fmt: skip
    lines += table(["PyTorch", "Python", "builds and the GPUs they have code for", "source"], rows)
    lines += ["## TensorFlow", ""]
    rows = [
        [row["releases"][-1], f"{row['pythons'][0]} to {row['pythons'][-1]}", row["cuda"], row["cudnn"],
         "pip" if row["from_pip"] else "the node", mark(row)]
        for _series, row in sorted(matrix["tensorflow"].items(), key=lambda item: version(item[0]))
    ]  # fmt: skip
    lines += table(["TensorFlow", "Python", "CUDA", "cuDNN", "which come from", "source"], rows)
    titles = ["system", "updates until", "Python", "source"]
    lines += ["## Systems", "", *table(titles, systems(matrix["os_releases"]))]
    elsewhere = (
        "9 and 10 stand for the minor releases that have no row of their own. On aarch64 nothing is installed: "
        "`tools/gpu-plan --machine` says what would fit, and the plan marks it."
    )
    lines += [elsewhere, "", "### NVIDIA's repositories", ""]
    titles = ["systems", "processors", "from driver", "from CUDA", "module streams", "DCGM", "fingerprint of the key"]
    lines += table([*titles, "source"], [repository(family) for family in matrix["os_families"].values()])
    return "\n".join(line.rstrip() for line in lines)


if __name__ == "__main__":
    PAGE.write_text(first(read_matrix()))
    TABLES.write_text(page(read_matrix()))
