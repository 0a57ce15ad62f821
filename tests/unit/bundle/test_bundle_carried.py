"""What a controller beside air-gapped nodes is installed from: the collection, its Python packages, the matrix."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import carried, collection, making, use
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.index import Sources
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.signature import NAMESPACE, SIGNER
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import verified
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.wheels import read_lock
from made_bundle import NOW, Key, key
from test_bundle_making import question

REPOSITORY = Path(__file__).resolve().parents[3]
# At the top of a checkout, and for who develops or tests it, or the operator's own.
NOT_CARRIED = {
    *(".ansible-lint", ".ansible-lint-ignore", ".ci", ".dockerignore", ".editorconfig", ".github", ".gitignore"),
    *(".pre-commit-config.yaml", ".yamllint", "Makefile", "ansible.cfg", "collections", "deploy", "findings"),
    *("inventory", "pyproject.toml", "site.yml", "tests", "tools"),
}
SHARED, OLD, NEW = (f"{name}-py3-none-any.whl" for name in ("shared-1.0", "apart-1.0", "apart-2.0"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of this checkout."""
    return collection.archive(tmp_path_factory.mktemp("bundle") / "collection")


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, as ansible-galaxy installs it from that archive."""
    folder = tmp_path_factory.mktemp("collections")
    command = [sys.executable, "-m", "ansible", "galaxy", "collection", "install", "--offline", "--force", "-p"]
    done = subprocess.run([*command, str(folder), str(built)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "ansible_collections/gpuwright/node"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> making.Places:
    """A lock file for two packages, one of which another Python has in another version; a folder has the wheels."""
    lines = []
    (tmp_path / "shelf").mkdir()
    for file, marker in ((SHARED, ""), (OLD, " ; python_full_version < '3.11'"), (NEW, " ; python_version != '3.10'")):
        (tmp_path / "shelf" / file).write_text(file)
        name, version = file.split("-")[:2]
        lines.append(f"{name}=={version}{marker} \\\n    --hash=sha256:{hashlib.sha256(file.encode()).hexdigest()}\n")
    (tmp_path / "controller.lock").write_text("".join(lines))
    monkeypatch.setattr(carried, "LOCK", tmp_path / "controller.lock")
    return making.Places(tmp_path / "bundle")


def environment(places: making.Places, said: list[str], *pythons: str, dry: bool = False) -> set[str]:
    shelf = places.bundle.with_name("shelf")
    return carried.environment(places, pythons, Sources((), (str(shelf),)), said.append, dry)


def test_the_archive_has_what_a_controller_needs_and_nothing_of_the_operator(built: Path) -> None:
    with tarfile.open(built) as file:
        names = file.getnames()
    assert not [name for name in names if name.split("/")[0] in NOT_CARRIED or name.endswith(".pyc")]
    for name in ("playbooks/site.yml", "library/host_plan.py", "requirements/controller.lock"):
        assert name in names
    assert len([name for name in names if re.fullmatch(rf"{collection.WHEELS}/\w+/gan_trainer-.*\.whl", name)]) == 1


def test_the_page_names_the_archive_and_starts_nothing_in_the_bundle(built: Path) -> None:
    """What somebody has added, such as ansible.cfg or a later collection, is not taken for a part of the bundle."""
    page = (REPOSITORY / "docs/air-gapped.md").read_text()
    block = page.partition("## Install the controller")[2].split("```")[1]
    assert f"$B/collection/{built.name}" in block and "*" not in block
    assert f"-I {SIGNER} -n {NAMESPACE}" in block
    assert [line for line in block.splitlines() if "cd $B" in line] == [
        "(cd $B && sha256sum --check --quiet --strict ~/sums)"
    ]


def test_each_file_at_the_top_of_the_checkout_is_carried_or_not() -> None:
    command = ["git", "-C", str(REPOSITORY), "ls-files"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {name.split("/")[0] for name in listed if name} == NOT_CARRIED | set(collection.PARTS)


def test_the_same_checkout_gives_the_same_archive(built: Path) -> None:
    before = built.stat()
    assert collection.archive(built.parent) == built
    assert (built.stat().st_ino, built.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    built.write_bytes(built.read_bytes()[:1000])
    collection.archive(built.parent)
    assert collection.contents_of(built)


def test_what_git_ignores_and_what_lies_beside_stays(tmp_path: Path) -> None:
    for path in ("galaxy.yml", "roles/a/tasks/main.yml", "roles/a/b.pyc", "inventory/hosts.yml", "key", "plugins/.env"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    expected = ["galaxy.yml", "roles/a/tasks/main.yml"]
    assert collection._walked(tmp_path) == expected and not collection._not_ignored(tmp_path)
    (tmp_path / ".gitignore").write_text("*.pyc\n.env\n")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, capture_output=True)
    assert collection._not_ignored(tmp_path) == expected


def test_an_installed_collection_is_passed_on_as_it_was_installed(built: Path, installed: Path, tmp_path: Path) -> None:
    again = collection.archive(tmp_path, installed)
    assert again.name == built.name and collection.contents_of(again) == collection.contents_of(built)
    data = again.read_bytes()
    again.unlink()
    assert collection.archive(tmp_path, installed).read_bytes() == data
    with tarfile.open(again) as file:
        assert file.getmember("plugins/modules").linkname == "../library"


def test_an_installed_collection_that_was_changed_is_not_passed_on(installed: Path, tmp_path: Path) -> None:
    root = tmp_path / "node"
    shutil.copytree(installed, root, symlinks=True)
    (root / "added").touch()
    assert collection.archive(tmp_path / "bundle", root)
    (root / "playbooks/site.yml").write_text("---\n")
    (root / "plugins/modules").unlink()
    (root / "plugins/modules").symlink_to("/usr")
    with pytest.raises(BundleError, match=r"playbooks/site.yml.*not as installed.*\[bundle.collection\]") as caught:
        collection.archive(tmp_path / "bundle", root)
    assert "plugins/modules" in str(caught.value)
    (root / "FILES.json").write_text("{")
    with pytest.raises(BundleError, match=r"\[bundle.collection\]"):
        collection.archive(tmp_path / "bundle", root)


def test_each_python_gets_its_wheels_once(places: making.Places) -> None:
    said: list[str] = []
    lock = "controller/controller.lock"
    assert environment(places, said, "3.10", "3.11", dry=True) == set() and not places.bundle.exists()
    found = environment(places, said, "3.10", "3.11", "3.12")
    assert found == {lock, *(f"controller/wheels/{name}" for name in (SHARED, OLD, NEW))}
    assert said == ["controller: 3 wheels to download, 0 MiB"] * 2
    assert environment(places, said, "3.11") == {lock, *(f"controller/wheels/{name}" for name in (SHARED, NEW))}
    assert len(said) == 2 and environment(places, said) == set()
    (places.bundle.with_name("shelf") / NEW).unlink()
    (places.bundle / "controller/wheels" / NEW).unlink()
    with pytest.raises(BundleError, match=r"apart 2.0 for Python 3.12.*\[bundle.wheels\]"):
        environment(places, said, "3.12")


def test_a_bundle_for_the_controller_alone(places: making.Places, tmp_path: Path) -> None:
    operator: Key = key(tmp_path)
    places.bundle.mkdir()
    own = environment(places, [], "3.11")
    for left in ("controller/wheels/old.whl", "images/left.tar"):
        (places.bundle / left).parent.mkdir(exist_ok=True)
        (places.bundle / left).touch()
    assert making.finished(places, {}, operator.path, 90, NOW, own)
    assert set(verified(places.bundle, operator.fingerprint, NOW).files) == own
    assert not making.finished(places, {}, operator.path, 90, NOW, own)
    listing = use.listing_of(places.bundle, operator.fingerprint, NOW, tmp_path / "cache")
    with pytest.raises(BundleError, match=r"release: the bundle has none.*\[bundle.plan\]"):
        use.entry_for(listing, "a5-01", question())


def test_one_for_the_controller_alone_takes_no_place_of_one_for_nodes(places: making.Places) -> None:
    making.check_no_plans(places)
    making.write_question(places, "a5-01", question())
    with pytest.raises(BundleError, match=r"bundle_folder.*\[bundle.folder\]"):
        making.check_no_plans(places)


def test_the_lock_of_the_controller_is_a_part_of_the_tested_one() -> None:
    """What an operator installs is what `make test` ran with."""
    own, tested = ((REPOSITORY / f"requirements/{name}.lock").read_text() for name in ("controller", "dev"))
    pinned = (REPOSITORY / "requirements/controller.in").read_text()
    for python in carried.PYTHONS:
        found = read_lock(own, python)
        assert set(found) <= set(read_lock(tested, python))
        names = {f"{one.name}=={one.version}" for one in found}
        asked = re.findall(r"(?m)^(\w\S+)$", pinned)
        assert asked and {line.replace("_", "-") for line in asked} <= names
        assert {"jinja2", "pyyaml", "cryptography", "packaging"} <= {one.name for one in found}
