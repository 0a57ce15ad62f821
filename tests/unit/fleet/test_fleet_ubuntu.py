"""Ubuntu on the test fleet: its archive has what is planned, in suites and components, and grub's menu decides."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve

FLEET = Path(__file__).resolve().parents[2] / "fleet"
sys.path.insert(0, str(FLEET))

from gpuwright_fleet import modules, specs, ubuntu  # noqa: E402
from test_plan_questions import MATRIX, ask, make_host  # noqa: E402

# What each host boots, and which metapackage brought it.
KERNELS = {"ubuntu2204": ("6.8.0-87-generic", "generic-hwe-22.04"), "ubuntu2404": ("6.8.0-1040-aws", "aws")}
MENU = """
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
   set next_entry=
   save_env next_entry
else
   set default="{default}"
fi
function load_video {{
  insmod vbe
}}
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1' {{
    if [ x$feature_platform_search_hint = xy ]; then
      search --no-floppy
    fi
    linux    /boot/vmlinuz-6.8.0-60-generic root=/dev/vda1 ro  quiet panic=5
}}
submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {{
    menuentry 'Ubuntu, with Linux 6.8.0-60-generic' $menuentry_id_option 'gnulinux-6.8.0-60-generic-advanced-1' {{
        linux    /boot/vmlinuz-6.8.0-60-generic root=/dev/vda1 ro  quiet panic=5
    }}
    menuentry 'Ubuntu, with Linux 6.8.0-50-generic' $menuentry_id_option 'gnulinux-6.8.0-50-generic-advanced-1' {{
        linux    /boot/vmlinuz-6.8.0-50-generic root=/dev/vda1 ro  quiet
    }}
}}
"""
OLD, NEW = "6.8.0-50-generic", "6.8.0-60-generic"
OLD_ID = "gnulinux-advanced-1>gnulinux-6.8.0-50-generic-advanced-1"


@pytest.fixture
def grub() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grub", FLEET / "el8/overlay/usr/libexec/fleet/grub.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("default", "environment", "releases"),
    [
        ("0", {}, [NEW]),
        ("1>1", {}, [OLD]),
        ("1>Ubuntu, with Linux 6.8.0-50-generic", {}, [OLD]),
        ("${saved_entry}", {"saved_entry": OLD_ID}, [OLD]),
        ("${saved_entry}", {}, [NEW]),
        # grub takes the first entry where nothing has that name.
        ("${saved_entry}", {"saved_entry": "gnulinux-gone"}, [NEW]),
        ("0", {"next_entry": OLD_ID}, [OLD, NEW]),
        ("${saved_entry}", {"saved_entry": OLD_ID, "next_entry": "0"}, [NEW, OLD]),
    ],
)
def test_grub_starts_what_its_menu_and_its_environment_say(
    grub: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: str, environment: dict, releases: list
) -> None:
    (tmp_path / "grub.cfg").write_text(MENU.format(default=default))
    unset: list[list[str]] = []
    monkeypatch.setattr(grub, "MENU", str(tmp_path / "grub.cfg"))
    monkeypatch.setattr(grub, "environment", lambda: environment)
    monkeypatch.setattr(grub.subprocess, "run", lambda words, **_: unset.append(words))
    found = grub.starts()
    assert [release for release, _ in found] == releases
    assert ("panic=5" in found[0][1].split()) == (releases[0] == NEW)
    # A choice for one boot is gone with that boot.
    assert bool(unset) == ("next_entry" in environment)


def listed(platform: str) -> list[specs.Package]:
    data = yaml.safe_load((FLEET / "ubuntu/repositories.yml").read_text())
    return [package for package in specs.expand(data, "6.18.44") if package.repository == platform]


def host_of(platform: str) -> dict:
    release, stem = KERNELS[platform]
    kernel = {
        "running": release,
        "next_boot": release,
        "installed": [release],
        "owners": {release: {"package": f"linux-image-{release}", "version": "1"}},
        "metapackages": [{"name": f"linux-image-{stem}", "version": "1", "brings": [release]}],
    }
    return make_host("T4", f"ubuntu {ubuntu.RELEASES[platform].version}", kernel=kernel)


@pytest.mark.parametrize("platform", sorted(KERNELS))
def test_a_host_boots_one_flavour_and_is_offered_the_headers_of_that_kernel(platform: str) -> None:
    packages, (release, stem) = listed(platform), KERNELS[platform]
    installed = {package.name for package in packages if package.installed}
    assert {f"linux-image-{release}", f"linux-image-{stem}"} <= installed
    assert not {name for name in installed if "headers" in name or "nvidia" in name}
    plan = solve(MATRIX, host_of(platform), {})
    offered = {package.name for package in packages}
    assert set(plan["kernel"]["devel"]) | {f"linux-headers-{stem}"} <= offered
    assert {
        name for name in plan["python"]["packages"] if name.startswith(f"python{plan['python']['version']}")
    } <= offered


@pytest.mark.parametrize("platform", sorted(KERNELS))
def test_signed_modules_are_for_one_kernel_and_one_version_of_the_driver(platform: str) -> None:
    host = {**host_of(platform), "secure_boot": "enabled", "module_key": {"state": "none"}}
    plan, packages = solve(MATRIX, host, {}), listed(platform)
    offered = {package.name: package for package in packages}
    assert plan["driver"]["signed"] and set(plan["driver"]["packages"]) <= set(offered)
    for release in sorted(
        package.words["KREL"] for package in packages if package.name == f"linux-image-{KERNELS[platform][1]}"
    ):
        module = offered[plan["kernel"]["module"].format(kernel=release)]
        assert f"linux-image-{release}" in module.requires and module.signed_modules.startswith(
            f"/lib/modules/{release}/"
        )
        assert f"nvidia-kernel-common-580-server (<= {module.words['SIGNED']}-1)" in module.requires


def test_a_signed_module_says_whose_it_is(tmp_path: Path) -> None:
    modules.write_signed_modules(tmp_path / "580srv", {"SIGNED": "580.95.05", "LICENSE": "Dual MIT/GPL", "KREL": OLD})
    content = (tmp_path / "580srv/nvidia.ko").read_bytes()
    assert content.startswith(b"\x7fELF") and content.endswith(b"~Module signature appended~\n")
    texts = content.split(b"\0")
    assert {
        b"version=580.95.05",
        b"license=Dual MIT/GPL",
        f"vermagic={OLD} SMP mod_unload modversions ".encode(),
    } <= set(texts)
    assert modules.KEY_NAME.encode() in content
    assert modules.KEY_NAME in (FLEET / "el8/overlay/usr/libexec/fleet/hardware.py").read_text()


@pytest.mark.parametrize("platform", sorted(ubuntu.RELEASES))
def test_the_archives_own_driver_is_there_in_its_component(platform: str) -> None:
    plan = ask("T4", f"ubuntu {ubuntu.RELEASES[platform].version}", driver_source="distribution")
    packages = {package.name: package for package in listed(platform)}
    wanted = [name for name in plan["driver"]["packages"] if not name.startswith("nvidia-modprobe")]
    assert wanted and {ubuntu.place_of(packages[name])[1] for name in wanted} == {"restricted"}
    assert ubuntu.place_of(packages["nvidia-modprobe"])[1] == "multiverse"


def test_a_newer_kernel_is_an_update_and_what_debian_built_is_in_main() -> None:
    newer = [package for package in listed("ubuntu2204") if package.words.get("ROLE") == "newer"]
    assert newer and {ubuntu.place_of(package)[0] for package in newer} == {("-updates", "-security")}
    assert ubuntu.place_of(None) == (("",), "main")


def test_the_index_of_a_suite_is_what_is_signed(tmp_path: Path) -> None:
    ubuntu.write_suite(
        tmp_path / "jammy", ubuntu.RELEASES["ubuntu2204"], "", {"Package: a\n": "main", "Package: b\n": "restricted"}
    )
    text = (tmp_path / "jammy/Release").read_text()
    assert "Origin: Ubuntu\n" in text and "Codename: jammy\n" in text
    for component, content in (("main", "Package: a\n"), ("restricted", "Package: b\n"), ("universe", "")):
        file = tmp_path / f"jammy/{component}/binary-amd64/Packages"
        assert file.read_text() == content
        digest = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True).stdout.split()[0]
        assert f" {digest} {len(content)} {component}/binary-amd64/Packages" in text
