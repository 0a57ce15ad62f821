"""The tool behind `make matrix-refresh`, on a local index, local repositories and answers that are none."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from module_files import load_file
from test_matrix import SCHEMA
from test_plan_questions import FOLDER, MATRIX, make_host

TOOL = REPOSITORY / "tools/matrix_refresh.py"
refresh = load_file("tools/matrix_refresh.py")
CANARY = "s3cret-canary"
CUDA = ["cuda-toolkit[cublas]==13.2.1", "nvidia-cudnn-cu13==9.99.0.12", "nvidia-nccl-cu13==2.99.1"]
# What an index has: name, version and tag of the wheel, and what it demands.
WHEELS: list[tuple[str, str, str, list[str]]] = [
    ("torch", "2.15.0", "cp313-cp313-manylinux_2_28_x86_64", CUDA),
    ("torch", "2.15.9", "cp313-cp313-manylinux_2_28_x86_64", CUDA),
    ("torch", "2.99.0", "cp313-cp313-manylinux_2_28_x86_64", CUDA),
    ("torch", "2.99.0", "cp314-cp314-manylinux_2_28_x86_64", CUDA),
    ("torch", "2.99.1rc1", "cp313-cp313-manylinux_2_28_x86_64", CUDA),
    ("torch", "3.0.0", "cp313-cp313-macosx_14_0_arm64", []),
    ("tensorflow", "2.99.0", "cp312-cp312-manylinux_2_27_x86_64", ["nvidia-nccl-cu12<3.0,>=2.31; extra == 'and-cuda'"]),
    ("nvidia-cudnn-cu11", "9.10.2.21", "py3-none-manylinux_2_27_x86_64", []),
    ("nvidia-cudnn-cu12", "9.26.0.51", "py3-none-manylinux_2_27_x86_64", []),
    ("nvidia-cudnn-cu13", "9.99.0.12", "py3-none-manylinux_2_27_x86_64", []),
    ("nvidia-nccl-cu11", "2.16.5", "py3-none-manylinux1_x86_64", []),
    ("nvidia-nccl-cu12", "2.27.5", "py3-none-manylinux_2_27_x86_64", []),
    ("nvidia-nccl-cu13", "2.99.1", "py3-none-manylinux_2_18_x86_64", []),
    ("cuda-toolkit", "13.9.0", "py2.py3-none-any", []),
]
RELEASES = {
    "580": {
        "type": "lts branch",
        "driver_info": [{"release_version": "580.999.01"}, {"release_version": "580.95.05"}],
    },
    "700": {"type": "new feature branch", "driver_info": [{"release_version": "700.10.02"}]},
}
# As NVIDIA writes a bulletin; "version" and "versions" were both seen.
CSAF: dict[str, Any] = {
    "document": {
        "title": "Security Bulletin: GPU Display Driver - December 2026",
        "tracking": {"id": "5999", "initial_release_date": "2026-12-09T00:00:00Z"},
    },
    "vulnerabilities": [
        {
            "cve": "CVE-2026-99999",
            "product_status": {
                "known_affected": [
                    "linuxr580_geforce_all_driver_versions_prior_to_580_999_99",
                    "linuxr580_tesla_all_driver_versions_prior_to_580_999_01",
                    "linuxr620_tesla_all_driver_version_prior_to_620_99_07",
                    "linuxr580_vgpu_19_guest_driver_580_1_1all_versions_prior_to_and_including_vgpu_19_1",
                ]
            },
            "scores": [{"cvss_v3": {"baseSeverity": "HIGH"}}],
        },
    ],
}
HOLE: dict[str, Any] = {
    "id": "GHSA-aaaa-bbbb-cccc",
    "aliases": ["CVE-2026-88888"],
    "summary": "A picture can run code.",
    "database_specific": {"severity": "HIGH"},
    "affected": [
        {
            "package": {"name": "torch", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.98.0"}]}],
        }
    ],
}
REPOMD = (
    '<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary">'
    '<location href="repodata/primary.xml.gz"/></data></repomd>'
)
PRIMARY = '<metadata xmlns="http://linux.duke.edu/metadata/common">{}</metadata>'
PACKAGE = '<package type="rpm"><name>{}</name><version epoch="0" ver="{}" rel="1"/></package>'


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def archive(**csaf: Any) -> bytes:
    """NVIDIA's bulletins, as the server of its repository packs them: {name: content}, "d" for a slash."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        for number, content in csaf.items():
            data = json.dumps(content).encode()
            year, one = number[1:5], number[5:]
            member = tarfile.TarInfo(f"product-security-main/{year}/{one}/{one}.json")
            member.size = len(data)
            files.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def make_wheel(folder: Path, name: str, version: str, tag: str, demands: list[str]) -> None:
    file = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    file.parent.mkdir(parents=True, exist_ok=True)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    lines = [
        f"Name: {name}",
        f"Version: {version}",
        "Provides-Extra: and-cuda",
        *(f"Requires-Dist: {one}" for one in demands),
    ]
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", *lines, ""]))
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    with (folder / "index.html").open("a") as page:
        page.write(f'<a href="{file.name}">{file.name}</a>\n')


class World:
    """A server with an index, releases and a repository for each system, and a copy of the matrix that names it."""

    def __init__(self, root: Path) -> None:
        self.web, self.matrix = root / "web", root / "matrix"
        self.asked: list[str] = []
        self.status = 0
        for name, version, tag, demands in WHEELS:
            make_wheel(self.web / "simple" / name, name, version, tag, demands)
        put(self.web / "releases.json", json.dumps(RELEASES))
        other = {**CSAF, "document": {**CSAF["document"], "title": "Security Bulletin: DGX Spark"}}
        put(self.web / "bulletins.tar.gz", archive(n20265999=CSAF, n20265998=other))
        put(self.web / "v1/vulns" / HOLE["id"], json.dumps(HOLE))
        packages = PACKAGE.format("cuda-toolkit-13-9", "13.9.0") + PACKAGE.format(
            "cuda-toolkit-13-config-common", "13.9.0"
        )
        put(self.web / "el8/repodata/repomd.xml", REPOMD)
        put(self.web / "el8/repodata/primary.xml.gz", gzip.compress(PRIMARY.format(packages).encode()))
        deb = "Package: nvidia-open\nVersion: 701.10.02-1\n\nPackage: cuda-toolkit-12-9\nVersion: 12.9.1-1\n"
        world = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(world.web))

            def do_GET(self) -> None:
                world.asked.append(self.headers.get("Authorization", ""))
                if world.status:
                    self.send_error(world.status)
                else:
                    super().do_GET()

            def do_POST(self) -> None:
                queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
                found = [
                    {"vulns": [{"id": HOLE["id"]}]} if one["package"]["name"] == "torch" else {} for one in queries
                ]
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"results": found}).encode())

            def log_message(self, *_arguments: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.host = f"127.0.0.1:{self.server.server_port}"
        shutil.copytree(FOLDER, self.matrix)
        systems = yaml.load((self.matrix / "systems.yml").read_text(), yaml.CSafeLoader)
        for name, family in systems["os_families"].items():
            family["cuda_repository"]["url"] = f"http://mirror:{CANARY}@{self.host}/{name}/"
            if family["format"] == "deb":
                put(self.web / name / "Packages.gz", gzip.compress(deb.encode()))
            elif name != "el8":
                shutil.copytree(self.web / "el8", self.web / name)
        put(self.matrix / "systems.yml", yaml.safe_dump(systems))

    def read(self) -> dict[str, Any]:
        files = sorted(self.matrix.glob("*.yml"))
        return {name: rows for file in files for name, rows in yaml.load(file.read_text(), yaml.CSafeLoader).items()}

    def environment(self, host: str) -> dict[str, str]:
        address = {"PIP_INDEX_URL": f"http://mirror:{CANARY}@{host}/simple/", "PIP_CONFIG_FILE": os.devnull}
        return {**address, "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "5", "no_proxy": "127.0.0.1"}

    def run(self, *words: str, host: str = "") -> tuple[int, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment |= self.environment(host or self.host)
        command = [sys.executable, str(TOOL), "--matrix", str(self.matrix), *words]
        server = f"http://mirror:{CANARY}@{host or self.host}"
        command += ["--releases", f"{server}/releases.json", "--bulletins", f"{server}/bulletins.tar.gz"]
        command += ["--osv", f"http://{host or self.host}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert CANARY not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.server.shutdown()


def newest(numbers: Iterable[str]) -> str:
    """Of the rows as they are today: each new release of a library changes them."""
    return max(numbers, key=lambda number: [int(part) for part in number.split(".")])


def test_what_is_newer_is_told_and_written_beside_what_was_verified(world: World) -> None:
    before = world.read()
    cudnn, nccl = ([row["version"] for row in before[kind] if row["cuda_major"] == "13"] for kind in ("cudnn", "nccl"))
    pytorch, tensorflow = (
        [release for row in before[kind].values() for release in row["releases"]] for kind in ("pytorch", "tensorflow")
    )
    code, output = world.run("--write")
    assert code == 0, output
    for words in (
        "torch 2.15.9 belongs to the row 2.15",
        f"torch 2.99.0 is newer than {newest(pytorch)}",
        f"tensorflow 2.99.0 is newer than {newest(tensorflow)}",
        f"nvidia-cudnn-cu13 9.99.0.12 is newer than {newest(cudnn)}; not in released.yml: 9.99.0.12",
        f"nvidia-nccl-cu13 2.99.1 is newer than {newest(nccl)}",
        f"CUDA 13.9 is newer than {newest(before['cuda'])}",
        f"driver branch 700 is newer than {newest(before['drivers'])}",
        f"driver 580.999.01 is newer than {newest(before['released']['driver_version']['580'])}: add it to branch 580",
        "cuda-rhel8-x86_64 has cuda 13.9",
        "cuda-debian12-x86_64 has drivers 701",
        "driver bulletin 5999 of 2026-12-09 is new: fixed in 580.999.01, 620.99.07",
        ": CVE-2026-88888, fixed in 2.98.0, is new",
        "verified: false",
    ):
        assert words in output, output
    assert "3.0.0" not in output and "rc1" not in output
    after = world.read()
    jsonschema.Draft202012Validator({**SCHEMA, "properties": {**SCHEMA["properties"], "os_families": {}}}).validate(
        after
    )
    torch = after["pytorch"].pop("2.99")
    assert torch["builds"] == {"cu132": {"cudnn": "9.99.0", "index": "pypi"}}
    assert (torch["releases"], torch["pythons"]) == (["2.99.0"], ["3.13", "3.14"])
    added = [torch, after["tensorflow"].pop("2.99"), after["drivers"].pop("700"), after["cudnn"].pop()]
    added.append(after["wheel_holes"].pop())
    assert all(row["verified"] is False and row["unverified"] and row["source"] and row["checked"] for row in added)
    bulletin = after["bulletins"].pop()
    row = {"severity": "HIGH", "cves": ["CVE-2026-99999"]}
    assert bulletin["branches"] == {"580": {"fixed": "580.999.01", **row}, "620": {"fixed": "620.99.07", **row}}
    assert added[-1]["what"] == "A picture can run code" and added[-1]["ids"][0] == "CVE-2026-88888"
    assert after == before
    # The login went where it belongs, and nowhere else.
    assert base64.b64encode(f"mirror:{CANARY}".encode()).decode() in " ".join(world.asked)

    matrix = world.read()
    plan = solve(matrix, make_host("A100", "debian 13"), {"pytorch": "2.99"})
    assert (plan["pytorch"]["version"], plan["pytorch"]["build"]) == ("2.99.0", "cu132")
    assert any("PyTorch 2.99.0 cu132 relies on something that was not verified" in text for text in plan["warnings"])
    files = {file.name: file.read_text() for file in world.matrix.glob("*.yml")}
    _code, output = world.run("--write")
    assert "torch 2.99.0" not in output and "branch 700" not in output and "5999" not in output
    assert files == {file.name: file.read_text() for file in world.matrix.glob("*.yml")}


def test_a_row_of_that_name_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="stays as it is"):
        refresh.rows.add_row(
            (FOLDER / "pytorch.yml").read_text(), refresh.News("pytorch", "2.10", {"releases": []}, "")
        )
    library = {"version": "9.10.2", "cuda_major": "12"}
    with pytest.raises(ValueError, match="stays as it is"):
        refresh.rows.add_row((FOLDER / "libraries.yml").read_text(), refresh.News("cudnn", "", library, ""))


def test_sources_that_cannot_be_reached_are_one_sentence_each(world: World) -> None:
    code, output = world.run("--write", host="127.0.0.1:9")
    silent = [line for line in output.splitlines() if line.startswith("Nothing was read of")]
    assert code == 1
    assert [line for line in silent if "index that pip is configured for cannot be reached." in line] == silent[:5]
    assert "drivers' releases (http://***@127.0.0.1:9/releases.json): it cannot be reached." in silent[5]
    assert "drivers' bulletins (http://***@127.0.0.1:9/bulletins.tar.gz): it cannot be reached." in silent[6]
    assert "wheels' vulnerabilities (http://127.0.0.1:9): it did not answer" in silent[7]
    # The repositories answered.
    assert "8 source(s) without an answer" in output and "cuda-rhel8-x86_64 has cuda 13.9" in output


def affected(*products: str) -> dict[str, Any]:
    hole = {"cve": "CVE-2026-1", "product_status": {"known_affected": list(products)}, "scores": []}
    return {**CSAF, "vulnerabilities": [hole]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no archive", "its bulletins cannot be read"),
        (archive(), "it has no bulletin about the driver"),
        (archive(n20265999={"document": {}}), "its bulletins cannot be read"),
        # What is not understood of a branch must not count as a branch without vulnerabilities.
        (archive(n20265999=affected("linuxr580_tesla_up_to_580_1_1")), "linuxr580_tesla_up_to_580_1_1 cannot be read"),
        (archive(n20265999=affected("windowsr580_tesla_all_driver_versions_prior_to_580_1_1")), "it has no bulletin"),
    ],
    # An archive has the time at which it was made.
    ids=["no-archive", "empty", "another-form", "unknown-words", "windows"],
)
def test_bulletins_of_another_form_are_no_news(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bulletins.tar.gz").write_bytes(content)
    with pytest.raises(refresh.repository_index.NoAnswerError, match=words):
        list(refresh.hole_news.bulletin_news(MATRIX, str(tmp_path / "bulletins.tar.gz"), "2026-12-10"))


@pytest.mark.parametrize(
    ("status", "package", "words"),
    [
        (401, "torch", "refuses the login"),
        (403, "torch", "refuses the login"),
        (500, "torch", "answers with an error of its own"),
        (0, "no-such-package", "does not have it"),
    ],
)
def test_an_index_that_gives_no_answer_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch, status: int, package: str, words: str
) -> None:
    world.status = status
    for name, value in world.environment(world.host).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(refresh.pip_index.NoAnswerError) as caught:
        refresh.pip_index.Index().versions(package, "3.12")
    assert str(caught.value) == f"the index that pip is configured for {words}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "it is no JSON"),
        (b"<html>", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 100000, "it is no JSON"),
        (b"[]", "it names no branches"),
        (b"{}", "it names no branches"),
        (b'{"580": 3}', "what it says of branch '580' cannot be read"),
        (b'{"580": {"driver_info": 3}}', "what it says of branch '580' cannot be read"),
        (b'{"R580": {"driver_info": []}}', "what it says of branch 'R580' cannot be read"),
    ],
)
def test_a_releases_file_of_another_form_is_no_news(tmp_path: Path, answer: bytes, words: str) -> None:
    put(tmp_path / "releases.json", answer)
    with pytest.raises(refresh.repository_index.NoAnswerError, match=words):
        list(refresh.driver_news(MATRIX, str(tmp_path / "releases.json"), "2026-11-22"))


@pytest.mark.parametrize("kind", ["rpm", "deb"])
@pytest.mark.parametrize(
    "broken",
    [b"", b"no gzip", gzip.compress(b"<metadata" * 50)[:-9], gzip.compress(b"nothing")],
    ids=["empty", "no gzip", "cut off", "no index"],
)
def test_an_index_of_a_repository_that_is_none_is_no_news(world: World, kind: str, broken: bytes) -> None:
    name = "el8" if kind == "rpm" else "debian12"
    url = f"http://mirror:{CANARY}@{world.host}/{name}/"
    assert refresh.repository_index.packages(url, kind)
    next(file for file in (world.web / name).rglob("*.gz")).write_bytes(broken)
    with pytest.raises(refresh.repository_index.NoAnswerError, match="its index cannot be read"):
        refresh.repository_index.packages(url, kind)
    world.status = 404
    with pytest.raises(refresh.repository_index.NoAnswerError, match="the server answers 404"):
        refresh.repository_index.packages(url, kind)
