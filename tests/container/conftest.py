"""The image of the trainer, built from this repository on a base made by mmdebstrap: no image registry is asked."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/fleet"), str(REPOSITORY / "collections")]
fleet_base = importlib.import_module("gpuwright_fleet.base")
paths = importlib.import_module("gpuwright_fleet.paths")
podman = importlib.import_module("gpuwright_fleet.podman").podman
run = importlib.import_module("gpuwright_fleet.shell").run
wheelhouse = importlib.import_module("gpuwright_fleet.wheelhouse")

CONTAINERFILE = REPOSITORY / "deploy/container/Containerfile"
BARE, PLAIN, PYTHON, IMAGE = (
    f"localhost/gpuwright-container-{name}" for name in ("bare", "plain", "python", "trainer")
)
# The build of the fleet's wheels (wheelhouse.LOCK), as the Containerfile spells it.
PYTORCH = wheelhouse.LOCK.stem.partition("-")[2]


def build(tag: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`podman build` of the Containerfile with the repository as its context, as docs/containers.md says."""
    return podman(
        "build", "--isolation", "chroot", "--network", "host", "--pull=never", "--layers=false", "--format", "docker",
        "--file", str(CONTAINERFILE), "--tag", tag, *words, str(REPOSITORY), check=check,
    )  # fmt: skip


def based_on(image: str) -> list[str]:
    """Build arguments that make a local image the base, by its digest."""
    digest = podman("image", "inspect", "--format", "{{.Digest}}", image).stdout.strip()
    return ["--build-arg", f"BASE_IMAGE={image}", "--build-arg", f"BASE_DIGEST={digest}"]


def debian(repository: str, *packages: str) -> str:
    """A minimal Debian 12 with these packages, made by mmdebstrap and kept between runs."""
    made_by = fleet_base.__file__
    assert made_by is not None
    key = paths.content_hash([Path(made_by)], "container", *packages)
    image = f"{repository}:{key}"
    if podman("image", "exists", image, check=False).returncode != 0:
        archive = paths.cache_dir() / f"container-{key}.tar"
        command: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=minbase"]
        command += [f"--include={','.join(packages)}"]
        command += [f"--aptopt={option}" for option in fleet_base.apt_options()]
        command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
        run([*command, fleet_base.SUITE, archive, *fleet_base.controller_sources()], timeout=900)
        podman("import", str(archive), image)
        archive.unlink()
        for old in podman("images", "--format", "{{.Repository}}:{{.Tag}}", repository).stdout.split():
            if old != image:
                podman("image", "rm", old, check=False)
    return image


@pytest.fixture(scope="session")
def bare() -> str:
    """Debian 12 without Python, as nvidia/cuda is Ubuntu without Python."""
    return debian(BARE, "ca-certificates")


@pytest.fixture(scope="session")
def plain() -> str:
    """Debian 12 with its own Python and nothing else, as somebody's machine that nobody has prepared."""
    return debian(PLAIN, "python3")


@pytest.fixture(scope="session")
def with_python(bare: str) -> str:
    """What the Containerfile makes of a base without Python, in the place of python:slim."""
    build(PYTHON, "--target", "base", *based_on(bare))
    return PYTHON


@pytest.fixture(scope="session")
def build_arguments(with_python: str) -> list[str]:
    """Base and wheels that are on this machine."""
    wheels = wheelhouse.build_wheelhouse()
    assert wheels, "the fleet's wheelhouse could not be made"
    sources = ["--volume", f"{wheels}:/wheels:ro", "--build-arg", "PIP_FIND_LINKS=/wheels"]
    return [*based_on(with_python), *sources, "--build-arg", "PIP_NO_INDEX=1"]


@pytest.fixture(scope="session")
def image(build_arguments: list[str]) -> Iterator[str]:
    """The trainer's image on the plain base with PyTorch's CPU build; removed at the end."""
    build(IMAGE, *build_arguments, "--build-arg", f"PYTORCH={PYTORCH}", "--build-arg", "REVISION=abc123")
    yield IMAGE
    podman("image", "rm", "--force", IMAGE, check=False)


@pytest.fixture(scope="session")
def about(image: str) -> dict:
    """What the image says of itself."""
    return json.loads(podman("image", "inspect", image).stdout)[0]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """A folder for runs that belongs to the trainer's number."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.chown(folder, 10001, 10001)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def in_container(image: str, runs: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the image as Kubernetes would: read-only, no capabilities, no network, no way to more rights."""
    config = tmp_path / "config.yml"
    config.write_text("run_dir: /srv/gan/runs/first\ndata: synthetic\ndevice: cpu\nimage_size: 32\n")
    # As a ConfigMap's, since the trainer is not root; the tests themselves run under umask 027.
    config.chmod(0o644)

    def call(*words: str, program: str = "", name: str = "") -> subprocess.CompletedProcess[str]:
        command = ["run", "--rm", "--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp:exec", "--network", "none"]
        command += ["--cap-drop", "ALL", *(["--name", name] if name else [])]
        command += ["--security-opt", "no-new-privileges", "--volume", f"{runs}:/srv/gan/runs"]
        command += ["--volume", f"{config}:/etc/gan/config.yml:ro", *(["--entrypoint", program] if program else [])]
        return podman(*command, image, *words, check=False, timeout=300)

    return call
