"""One host's problem is one host's: what cannot go is left out, the rest goes through every layer of site.yml."""

from __future__ import annotations

from pathlib import Path

import pytest
from left_out_site import LAYERS, Site, go_on, reached, summary

SEVEN = ["a5-01", "a5-02", "a5-04", "a5-05", "a5-06", "a5-08", "a5-10"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_ten_hosts_of_which_one_is_down_one_busy_and_one_refused(site: Site) -> None:
    for name in SEVEN:
        site.host(name)
    site.unreachable("a5-03")
    site.busy("a5-07")
    site.refused("a5-09")
    done = site.run("site.yml", "-f", "3")
    assert reached(done.stdout) == {name: list(LAYERS) for name in SEVEN}
    # Ansible's own code for a run that did not reach a host.
    assert done.returncode == 4, done.stdout
    end = summary(done.stdout)
    assert "Left out: 3 of 10 hosts. Nothing was changed on them." in end and "Done: 7 of 10 hosts." in end
    assert "a5-03 unreachable The host cannot be reached: 127.0.0.1 port 1 refuses connections next: " in end
    assert "a5-07 busy The GPUs are in use and the driver would be replaced (seen: python3 (pid 77)) next: Drain" in end
    assert "a5-09 refused CUDA 13.0 cannot compile for Tesla V100-PCIE-16GB" in end and "12.9" in end
    assert go_on(done.stdout) == [*"ansible-playbook -i hosts.yml site.yml -f 3 -l".split(), "a5-03,a5-07,a5-09"]
    # Once each: the reason stands in the summary and nowhere else.
    for words in ("refuses connections", "would be replaced", "cannot compile for"):
        assert done.stdout.count(words) == 1, words
