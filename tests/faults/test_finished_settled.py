"""Whatever is done to what the roles look at, a plain run and one that enters every role end in the same state."""

from __future__ import annotations

import json

import pytest
from conftest import on_host, play

STAMP = "/var/lib/gpuwright/stamp.json"
# Each line breaks one thing that a role looks at; together they touch every role that has something on this host.
BREAK = """
sed -i 's/^gpgcheck.*/gpgcheck = 0/' /etc/yum.repos.d/epel.repo
chmod 666 /etc/pki/rpm-gpg/RPM-GPG-KEY-epel
sed -i '/own-0:1/d' /etc/dnf/plugins/versionlock.list && echo 'own-0:1-1.*' >> /etc/dnf/plugins/versionlock.list
rm /etc/modules-load.d/gpuwright-nvidia.conf
sed -i 's/^ExecStart=.*/ExecStart=\\/bin\\/false/' /etc/systemd/system/gpuwright-devices.service
systemctl disable gpuwright-devices.service
systemctl disable nvidia-persistenced.service
ln -sfn /usr/local/cuda-0.0 /usr/local/cuda
chown 12:12 /etc/profile.d/gpuwright-cuda.sh
chmod 700 /etc/gpuwright
echo '{}' > /etc/gpuwright/runtime.json
rm /usr/bin/gpu-run
ln -sfn /bin/true /usr/bin/gpu-doctor
echo 'exit 1' >> /usr/local/bin/gpu-job
chmod 777 /usr/local/bin/gpu-run
echo 'x = 1' >> /usr/local/lib/gpuwright/gpuwright/__init__.py
rm /usr/local/lib/gpuwright/gpuwright/host/files.py
touch /usr/local/lib/gpuwright/gpuwright/of_nobody.py
usermod -s /bin/bash trainer
chmod 777 /var/lib/gpuwright-trainer
rm /usr/bin/gpu-tune
rpm -e --nodeps numactl
systemctl stop gpuwright-check.timer
systemctl disable gpuwright-check.path
systemctl mask gpuwright-boot-check.service 2>/dev/null || true
echo '# somebody' >> /etc/systemd/system/gpuwright-check.service
chmod 777 /var/lib/gpuwright
chown 12 /opt/gpuwright/venvs
rm $(readlink -f /opt/gpuwright/venvs/current)/gpuwright.json
rm -r /opt/gpuwright/venvs/current/lib/python3.11/site-packages/gan_trainer/engine
chmod -R o+w /opt/gpuwright/venvs/current/lib/python3.11/site-packages/numpy
rm /opt/gpuwright/venvs/current
chmod 755 /srv/gan/runs
echo 'steps: 1' >> /etc/gpuwright/train-gan/default.yml
rm -r /etc/gpuwright/jobs
rm /etc/systemd/system/gpu-job@.service
sed -i 's/"gpu_count": 1/"gpu_count": 2/' /etc/gpuwright/expectations.json
"""
# What the host is, as a text to be compared: files and links by content, mode and owner; packages, units, accounts.
STATE = """
export LC_ALL=C
for top in /etc/yum.repos.d /etc/pki/rpm-gpg /etc/dnf/plugins /etc/modules-load.d /etc/profile.d /etc/gpuwright \
  /etc/systemd/system /usr/local/bin /usr/local/lib/gpuwright /usr/bin/gpu-run /usr/bin/gpu-job /usr/bin/gpu-doctor \
  /usr/bin/gpu-tune /usr/local/cuda /opt/gpuwright /srv/gan /var/lib/gpuwright-trainer; do
  find $top -name __pycache__ -prune -o -printf '%p %y %m %U:%G %l\\n'
  find $top -name __pycache__ -prune -o -type f -size -1024k -print0 | xargs -0 -r sha256sum
done | sort
rpm -qa | sort
getent passwd; getent group
systemctl is-enabled gpuwright-devices nvidia-persistenced
systemctl is-enabled gpuwright-check.timer gpuwright-check.path gpuwright-boot-check
systemctl is-active gpuwright-check.timer gpuwright-check.path
stat -c '%a %U' /var/lib/gpuwright
"""


@pytest.fixture(scope="module")
def settled_host(finished_host: None) -> None:
    for _twice in range(2):
        done = play("site.yml")
        assert done.rc == 0, done.output
    assert json.loads(on_host(f"cat {STAMP}"))["schema"] == 1


def broken_and_run(full: bool = False) -> tuple[str, int]:
    """The state after everything was broken and one run, and how many tasks of that run changed something."""
    for line in BREAK.strip().splitlines():
        on_host(line)
    done = play("site.yml", gpuwright_full=full)
    assert done.rc == 0, done.output
    return on_host(STATE), done.changed


@pytest.mark.usefixtures("settled_host")
def test_both_ways_end_in_the_same_state() -> None:
    before = on_host(STATE).splitlines()
    plain, changed = broken_and_run()
    full, changed_by_full = broken_and_run(full=True)
    assert changed == changed_by_full >= 20
    assert sorted(set(plain.splitlines()) ^ set(full.splitlines())) == []
    # A lock was added by hand, which is nobody's but theirs.
    left = sorted(set(plain.splitlines()) ^ set(before))
    assert all("versionlock.list" in line for line in left), left
    again = play("site.yml")
    assert again.rc == 0 and again.changed == 0, again.output
