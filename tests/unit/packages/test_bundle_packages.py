"""The repositories of a bundle: the same packages give the same files, so a second run fetches and signs nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.packages import bundle_packages


def test_the_metadata_has_no_time_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1795581907, 1795581999))

    def program(command: list[str]) -> None:
        """As createrepo_c and modifyrepo_c, which knows no --set-timestamp-to-revision."""
        repodata = Path(command[-1]) / ("repodata" if command[0] == "createrepo_c" else "")
        repodata.mkdir(exist_ok=True)
        stamp = 1 if command[0] == "createrepo_c" else next(clock)
        with (repodata / "repomd.xml").open("a") as file:
            file.write(f"<data><timestamp>{stamp}</timestamp></data>")

    monkeypatch.setattr(bundle_packages, "run", program)
    (tmp_path / "dkms.rpm").write_text("dkms")
    package = SimpleNamespace(localPkg=lambda: str(tmp_path / "dkms.rpm"))
    base = SimpleNamespace(repos={"epel": SimpleNamespace(get_metadata_path=lambda kind: f"/cache/{kind}.yaml")})
    found = []
    for _run in range(2):
        bundle_packages.write_repository(base, "epel", [package], str(tmp_path / "epel"))
        found.append((tmp_path / "epel/repodata/repomd.xml").read_bytes())
    assert found[0] == found[1] == b"<data><timestamp>1</timestamp></data>" * 2
    assert (tmp_path / "epel/Packages/dkms.rpm").read_text() == "dkms"
