"""Our profile of tuned lies where the installed tuned looks, whatever its version, and follows it when it moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpuwright.tuning import knobs as tuning_knobs
from gpuwright.tuning import profiles
from gpuwright.tuning.file_texts import HEAD
from gpuwright.tuning.plan import Refused
from tuned_host import EARLIER, LATER, TunedHost, as_a_kernel_does, text, tune

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files are given to root")

CONFIG = "/etc/tuned/tuned-main.conf"
COMMENTED = "daemon = 1\n# profile_dirs = /usr/lib/tuned/profiles,/etc/tuned/profiles\n"
OWN = "etc/tuned/gpuwright/tuned.conf"
OWN_LATER = "etc/tuned/profiles/gpuwright/tuned.conf"


@pytest.fixture
def host(tmp_path: Path, fake_bin, monkeypatch) -> TunedHost:
    host = TunedHost(tmp_path, fake_bin)
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tuning_knobs, "put_text", as_a_kernel_does(host.root))
    (host.folder / "var/lib/gpuwright").mkdir(parents=True)
    return host


def ours(host: TunedHost) -> list[str]:
    """Every copy of our profile."""
    return sorted(str(path.relative_to(host.folder)) for path in host.folder.rglob("gpuwright/tuned.conf"))


def active(host: TunedHost) -> str:
    return (host.state / "tuned").read_text().strip()


@pytest.mark.parametrize(
    ("folders", "config", "place"),
    [
        (EARLIER, "", OWN),
        (LATER, COMMENTED, OWN_LATER),
        # EL 9: the option is there, the folders are the earlier ones.
        (EARLIER, COMMENTED, OWN),
        (("/opt/tuned", "/etc/tuned/ours"), "profile_dirs = /opt/tuned, /etc/tuned/ours\n", "etc/tuned/ours/{}"),
        (("/opt/tuned", "/srv/tuned"), "profile_dirs=/opt/tuned;/srv/tuned/ # of this site\n", "srv/tuned/{}"),
        (("/etc/tuned/a", "/usr/lib/b"), "profile_dirs=/etc/tuned/a,\n  /usr/lib/b\n", "etc/tuned/a/{}"),
        (LATER, "profile_dirs = /srv\nprofile_dirs = /etc/tuned/profiles,/usr/lib/tuned/profiles\n", OWN_LATER),
        (LATER, "no option\n", OWN_LATER),
        (LATER, "profile_dirs = \n", OWN_LATER),
    ],
)
def test_the_profile_lies_where_the_installed_tuned_looks(host, folders, config, place) -> None:
    if config:
        host.put(CONFIG, config)
    host.tuned("balanced", folders)
    everything = host.everything()
    tune(host)
    assert ours(host) == [place.format("gpuwright/tuned.conf")]
    assert active(host) == "gpuwright"
    assert tune(host)[0] is False
    tune(host, absent=True)
    assert host.everything() == everything


@pytest.mark.parametrize("python", ["python3/dist-packages", "python3.6/site-packages"])
@pytest.mark.parametrize(
    ("code", "place"),
    [
        ('LOAD_DIRECTORIES = ["/usr/lib/tuned", "/etc/tuned"]\n', OWN),
        ('CFG_PROFILE_DIRS = "profile_dirs"\n', "etc/tuned/ours/gpuwright/tuned.conf"),
    ],
)
def test_an_option_that_this_tuned_does_not_know_does_not_count(host, python: str, code: str, place: str) -> None:
    """One file for all nodes of a site, whose tuned differ."""
    host.put(CONFIG, "profile_dirs = /usr/lib/tuned,/etc/tuned/ours\n")
    host.put(f"/usr/lib/{python}/tuned/consts.py", code)
    host.tuned("balanced", ("/usr/lib/tuned", "/" + place.partition("/gpuwright")[0]))
    tune(host)
    assert ours(host) == [place] and active(host) == "gpuwright"


def test_a_folder_that_an_administrator_made_for_later_does_not_count(host) -> None:
    host.tuned("balanced")
    host.put("/etc/tuned/profiles/mine/tuned.conf", "[main]\n")
    tune(host)
    assert ours(host) == [OWN]


def test_a_parent_is_looked_for_where_tuned_looks(host) -> None:
    host.tuned("balanced", LATER)
    host.put("/etc/tuned/mine/tuned.conf", "[main]\n")
    with pytest.raises(Refused, match="tuned has no profile 'mine'"):
        tune(host, tuned_parent="mine")
    host.put("/etc/tuned/profiles/mine/tuned.conf", "[main]\n")
    tune(host, tuned_parent="mine")
    assert "include=mine" in text(host, OWN_LATER)


def test_a_profile_that_the_package_moved_is_ours_still(host) -> None:
    host.tuned("balanced")
    tune(host)
    host.upgrade_tuned()
    assert ours(host) == [OWN_LATER]
    assert tune(host, check=True)[0] is False
    assert tune(host)[0] is False
    tune(host, absent=True)
    assert ours(host) == [] and active(host) == "balanced"
    assert not list(host.folder.rglob("etc/tuned/**/gpuwright"))
    assert not (host.folder / "var/lib/gpuwright/tuning-before.json").exists()


def test_what_the_package_moved_is_put_back_without_another_run(host) -> None:
    host.tuned("balanced")
    tune(host)
    host.upgrade_tuned()
    assert tune(host, absent=True)[0] is True
    assert ours(host) == [] and active(host) == "balanced"
    assert not list(host.folder.rglob("etc/tuned/**/gpuwright"))


def test_an_own_profile_of_that_name_moves_with_its_record(host) -> None:
    host.put("/" + OWN, "mine\n")
    host.tuned("balanced")
    tune(host)
    host.upgrade_tuned()
    assert tune(host)[0] is False
    tune(host, absent=True)
    assert ours(host) == [OWN_LATER] and text(host, OWN_LATER) == "mine\n"


def test_a_copy_that_stayed_at_the_earlier_place_goes(host) -> None:
    """An upgrade that moves nothing, and an earlier checkout's run on a newer tuned, which failed."""
    host.tuned("balanced")
    tune(host)
    (host.state / "tuned.folders").write_text(" ".join(LATER))
    host.tuned("balanced", LATER)
    assert tune(host)[0] is True
    assert ours(host) == [OWN_LATER] and active(host) == "gpuwright"
    assert not (host.folder / "etc/tuned/gpuwright").exists()
    assert tune(host)[0] is False
    tune(host, absent=True)
    assert ours(host) == [] and active(host) == "balanced"


@pytest.mark.parametrize("rerun", [True, False])
def test_a_second_copy_written_by_an_earlier_checkout_goes(host, rerun) -> None:
    """Moved by the package, then written again to the earlier place."""
    host.tuned("balanced")
    tune(host)
    profile = text(host, OWN)
    host.upgrade_tuned()
    host.put("/" + OWN, profile)
    if rerun:
        assert tune(host)[0] is True
        assert ours(host) == [OWN_LATER] and active(host) == "gpuwright"
        assert tune(host)[0] is False
    tune(host, absent=True)
    assert ours(host) == [] and active(host) == "balanced"
    assert not list(host.folder.rglob("etc/tuned/**/gpuwright"))


def test_a_profile_of_somebody_else_is_never_taken_for_ours(host) -> None:
    host.tuned("balanced")
    tune(host)
    (host.folder / OWN).unlink()
    host.put("/" + OWN_LATER, "mine\n")
    host.upgrade_tuned()
    tune(host)
    assert text(host, OWN_LATER).startswith(HEAD)
    tune(host, absent=True)
    assert text(host, OWN_LATER) == "mine\n"


def test_every_place_is_known_as_one_of_ours() -> None:
    assert all(profiles.is_own(known[1] + profiles.OWN) for known in profiles.DEFAULTS)
    assert not profiles.is_own("/etc/tuned/profiles/mine/tuned.conf")
