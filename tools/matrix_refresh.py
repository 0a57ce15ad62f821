"""Releases since the matrix was written, and proposed rows for them to check: `make matrix-refresh`.

It reads the index that pip is configured for, NVIDIA's file of driver releases and its security bulletins, OSV, and the
indexes of the repositories that the matrix names; what cannot be reached is reported in one sentence. Proposed rows are
marked `verified: false` and say what nobody has verified. They are printed; `--write` adds them to the matrix and
changes no existing row. Exit status 0: every source was read, 1: one gave no answer.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "collections"), str(Path(__file__).parent)]
import hole_news
import knowledge_file
import matrix_check as check
import matrix_rows as rows
import pip_index
import repository_index
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import candidates as plan_candidates

News = rows.News
RELEASES = "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json"
# Names of the kinds of branches in NVIDIA's file, and in the matrix.
STATUS = {"lts branch": "lts", "production branch": "production", "new feature branch": "new-feature"}


def series_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def unread(row: dict[str, Any], source: str, day: str, what: str) -> dict[str, Any]:
    return {**row, "source": source, "checked": day, "verified": False, "unverified": what}


def framework_news(kind: str, package: str, matrix: dict[str, Any], day: str, index: pip_index.Index) -> Iterator[News]:
    """Releases of a framework that are newer than its rows. Raises NoAnswerError."""
    newest = max(matrix[kind], key=version_key)
    known = {release for row in matrix[kind].values() for release in row["releases"]}
    pythons = matrix[kind][newest]["pythons"]
    # A release begins with newer Pythons and ends with older ones: the middle one sees both neighbours.
    ask = pythons[len(pythons) // 2]
    last = max(known, key=version_key)
    found = [name for name in index.versions(package, ask) if version_key(name) > version_key(last)]
    for series in sorted({series_of(name) for name in found}, key=version_key):
        releases = sorted((name for name in found if series_of(name) == series), key=version_key)
        if series in matrix[kind]:
            text = f"{package} {', '.join(releases)} belongs to the row {series}: add it to its releases"
            yield News(kind, series, {}, text, tuple(releases))
            continue
        served = [python for python in _around(pythons) if releases[-1] in _versions(index, package, python)]
        old = matrix[kind][newest]
        demanded = check.requirements(
            index.wheel(package, releases[-1], ask).requires,
            ask,
            "and-cuda" if kind == "tensorflow" else "",
        )
        source = f"https://pypi.org/project/{package}/{releases[-1]}/"
        row = {"releases": releases, "pythons": served, "glibc": old["glibc"]}
        make = pytorch_row if kind == "pytorch" else tensorflow_row
        row, doubt = make(matrix, row, demanded)
        text = f"{package} {', '.join(releases)} is newer than {last}"
        yield News(kind, series, unread(row, source, day, doubt), text)


def _versions(index: pip_index.Index, package: str, python: str) -> list[str]:
    try:
        return index.versions(package, python)
    except pip_index.NoAnswerError:
        return []


def _around(pythons: list[str]) -> list[str]:
    """Those Pythons, and the next one to be released."""
    major, minor = pythons[-1].split(".")
    return [*pythons, f"{major}.{int(minor) + 1}"]


def pytorch_row(matrix: dict[str, Any], row: dict[str, Any], demanded: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The build on PyPI: its CUDA, its cuDNN, and the GPUs of the last known build for that CUDA."""
    cuda = check.inside(
        demanded, *(f"nvidia-cuda-runtime-cu{major}" for major in matrix["cuda_majors"]), "cuda-toolkit"
    )
    cudnn = check.inside(demanded, *(f"nvidia-cudnn-cu{major}" for major in matrix["cuda_majors"]))
    known = matrix["pytorch_builds"]["capabilities"]
    build: dict[str, Any] = {"cudnn": ".".join(cudnn.split(".")[:3])} if cudnn else {}
    name = "cu" + "".join(cuda.split(".")[:2])
    if name not in known:
        build["capabilities"] = known[max(known, key=lambda one: version_key(plan_candidates.build_cuda(one)))]
    builds = {name: {**build, "index": "pypi"}} if cuda else {}
    doubt = "for which GPUs its builds have code, which others the PyTorch index serves, and its glibc"
    return {**row, "builds": builds}, doubt


def tensorflow_row(matrix: dict[str, Any], row: dict[str, Any], demanded: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Like the newest row, without a PyTorch beside it: `make matrix-check` says which pairs pip resolves."""
    old = matrix["tensorflow"][max(matrix["tensorflow"], key=version_key)]
    nccl = next((f"{name} {wanted}" for name, wanted in demanded.items() if name.startswith("nvidia-nccl")), "")
    names = ("cuda", "cudnn", "from_pip", "capabilities", "ptx")
    new = {**row, **{name: old[name] for name in names}, "pytorch": [], "pytorch_below": ""}
    doubt = "its CUDA, its cuDNN, for which GPUs it has code, and which PyTorch fits beside it"
    return {**new, "demands": nccl or "what was not read"}, doubt


def library_news(kind: str, matrix: dict[str, Any], day: str, index: pip_index.Index) -> Iterator[News]:
    """Releases of cuDNN and NCCL that are newer than their rows, for each CUDA. Raises NoAnswerError."""
    for major in sorted({row["cuda_major"] for row in matrix[kind]}, key=int):
        package = f"nvidia-{kind}-cu{major}"
        last = max((row["version"] for row in matrix[kind] if row["cuda_major"] == major), key=version_key)
        # CUDA 10 has no wheels.
        found = index.versions(package, "3.12") if int(major) > 10 else []
        newer = [name for name in found if version_key(name)[:3] > version_key(last)]
        listed = {*matrix["released"].get(kind, []), *(row["version"] for row in matrix[kind])}
        unlisted = [name for name in newer if ".".join(name.split(".")[:3]) not in listed]
        if not newer:
            continue
        version = ".".join(newer[0].split(".")[:3])
        text = f"{package} {newer[0]} is newer than {last}"
        text += f"; not in released.yml: {', '.join(unlisted)}" if unlisted else ""
        row = {}
        if kind == "cudnn":
            row = {"version": version, "package_version": newer[0], "cuda_major": major, "cuda_from": f"{major}.0"}
            row |= {"cuda_to": "", "built_for": "", "minimum_driver": matrix["cuda_majors"][major]["minimum_driver"]}
            doubt = f"for which GPUs cuDNN {version} has code, and its packages"
            row = unread(row, f"https://pypi.org/project/{package}/", day, doubt)
        more = tuple(".".join(name.split(".")[:3]) for name in unlisted)
        yield News(kind, "", row, text, more)


def toolkit_news(matrix: dict[str, Any], index: pip_index.Index) -> Iterator[News]:
    """Toolkits that are newer than their rows; which driver they came with is not on PyPI. Raises NoAnswerError."""
    last = max(matrix["cuda"], key=version_key)
    newer = {series_of(name) for name in index.versions("cuda-toolkit", "3.12")} - set(matrix["cuda"])
    for name in sorted(newer, key=version_key):
        if version_key(name) > version_key(last):
            text = (
                f"CUDA {name} is newer than {last}: its row needs the driver that it came with, from its release notes"
            )
            yield News("cuda", name, {}, text)


def driver_news(matrix: dict[str, Any], address: str, day: str) -> Iterator[News]:
    """Branches and releases of the driver that the matrix lacks. Raises NoAnswerError, also for an unknown format."""
    try:
        releases = json.loads(repository_index.read(address))
    except (ValueError, RecursionError):
        raise repository_index.NoAnswerError("it is no JSON") from None
    if not isinstance(releases, dict) or not releases:
        raise repository_index.NoAnswerError("it names no branches")
    last = max(matrix["drivers"], key=int)
    for branch, details in sorted(releases.items()):
        if not (branch.isdecimal() and isinstance(details, dict) and isinstance(details.get("driver_info"), list)):
            raise repository_index.NoAnswerError(f"what it says of branch {branch[:20]!r} cannot be read")
        found = [str(entry.get("release_version", "")) for entry in details["driver_info"] if isinstance(entry, dict)]
        known = matrix["released"]["driver_version"].get(branch)
        if int(branch) > int(last):
            old = matrix["drivers"][last]
            row: dict[str, Any] = {"status": STATUS.get(str(details.get("type")), "unknown"), "eol": ""}
            row |= {name: old[name] for name in ("preferred_flavour", "packages")}
            row["flavours"] = {
                name: {"stream": f"{branch}-{one['stream'].split('-', 1)[1]}"} for name, one in old["flavours"].items()
            }
            doubt = f"which kernel modules branch {branch} has, and how long it is supported"
            yield News(
                "drivers", branch, unread(row, RELEASES, day, doubt), f"driver branch {branch} is newer than {last}"
            )
        elif known:
            newer = [name for name in found if name not in known and version_key(name) > version_key(known[-1])]
            if newer:
                text = f"driver {', '.join(newer)} is newer than {known[-1]}: add it to branch {branch} in released.yml"
                yield News("drivers", branch, {}, text, tuple(newer))


def repository_news(matrix: dict[str, Any], family: dict[str, Any]) -> Iterator[News]:
    """Toolkits and branches that a system's repository has but the matrix lacks. Raises NoAnswerError."""
    names = repository_index.packages(family["cuda_repository"]["url"], family["format"])
    prefix, title = family["cuda_package_prefix"], family["cuda_repository"]["id"]
    toolkits = {name[len(prefix) :].replace("-", ".") for name in names if name.startswith(prefix)}
    toolkits = {name for name in toolkits if name.count(".") == 1 and name.replace(".", "").isdecimal()}
    flavours = {row["package"] for row in family["flavours"].values()}
    branches = {version.split(".")[0] for name in flavours for version in names.get(name, ())}
    for kind, found, known in (("cuda", toolkits, matrix["cuda"]), ("drivers", branches, matrix["drivers"])):
        last = max(known, key=version_key)
        newer = sorted((one for one in found if version_key(one) > version_key(last)), key=version_key)
        if newer:
            yield News(kind, newer[-1], {}, f"{title} has {kind} {', '.join(newer)}, newer than {last}")


def collect(matrix: dict[str, Any], asked: argparse.Namespace, day: str) -> tuple[list[News], list[str]]:
    """What is newer, and a sentence for each source that gave no answer."""
    families = matrix["os_families"].values()
    index = pip_index.Index()
    with ThreadPoolExecutor(check.AT_ONCE) as readers:
        sources: list[tuple[str, Callable[[], Iterator[News]]]] = [
            ("torch", lambda: framework_news("pytorch", "torch", matrix, day, index)),
            ("tensorflow", lambda: framework_news("tensorflow", "tensorflow", matrix, day, index)),
            ("cuDNN", lambda: library_news("cudnn", matrix, day, index)),
            ("NCCL", lambda: library_news("nccl", matrix, day, index)),
            ("the CUDA toolkit", lambda: toolkit_news(matrix, index)),
            (_named("the drivers' releases", asked.releases), lambda: driver_news(matrix, asked.releases, day)),
            (
                _named("the drivers' bulletins", asked.bulletins),
                partial(hole_news.bulletin_news, matrix, asked.bulletins, day),
            ),
            (_named("the wheels' vulnerabilities", asked.osv), partial(hole_news.wheel_news, matrix, asked.osv, day)),
            *((_title(family), partial(repository_news, matrix, family)) for family in families),
        ]
        answers = list(readers.map(_answer, sources))
    news = [entry for answer in answers if not isinstance(answer, str) for entry in answer]
    return news, [answer for answer in answers if isinstance(answer, str)]


def _named(what: str, address: str) -> str:
    return f"{what} ({repository_index.shown(address)})"


def _title(family: dict[str, Any]) -> str:
    return str(repository_index.shown(family["cuda_repository"]["url"]))


def _answer(source: tuple[str, Callable[[], Iterator[News]]]) -> list[News] | str:
    name, read = source
    try:
        return list(read())
    except (pip_index.NoAnswerError, repository_index.NoAnswerError) as error:
        return f"Nothing was read of {name}: {error}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="add the proposed rows to the matrix; no row is changed")
    parser.add_argument(
        "--knowledge", type=Path, help="folder for a file of the tables with the proposed rows (preflight_knowledge)"
    )
    parser.add_argument("--matrix", type=Path, default=check.MATRIX, help="folder of the matrix")
    parser.add_argument("--releases", default=RELEASES, help="NVIDIA's file of driver releases")
    parser.add_argument("--bulletins", default=hole_news.BULLETINS, help="an archive (tar.gz) of NVIDIA's bulletins")
    parser.add_argument("--osv", default=hole_news.osv.SERVER, help="the server of OSV")
    asked = parser.parse_args()
    files = {file.name: file.read_text() for file in sorted(asked.matrix.glob("*.yml"))}
    matrix = {name: rows for text in files.values() for name, rows in yaml.load(text, yaml.CSafeLoader).items()}
    news, silent = collect(matrix, asked, datetime.date.today().isoformat())
    for entry in news:
        print(entry.text + ".")
        if entry.row:
            print(f"# for {rows.FILES[entry.kind]}\n{rows.proposal(entry)}")
        if entry.row and asked.write:
            files[rows.FILES[entry.kind]] = rows.add_row(files[rows.FILES[entry.kind]], entry)
    if asked.write:
        for name in {rows.FILES[entry.kind] for entry in news if entry.row}:
            (asked.matrix / name).write_text(files[name])
    if asked.knowledge:
        written, left = knowledge_file.write(asked.knowledge, files, news, silent)
        for words in left:
            print(words + ".")
        text = "{}: set preflight_knowledge to its folder" if written else "No table was written: no source answered"
        print(text.format(written))
    print(
        *silent,
        f"{len(news)} newer than the matrix of {matrix['as_of']}, {len(silent)} source(s) without an answer",
        sep="\n",
    )
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
