"""Conditions in which the main job must do its work; those of one mix hold at the same time, on one host."""

from __future__ import annotations

from .condition import Condition
from .network import MIRROR_HOST

LOADER = "LD_LIBRARY_PATH=/opt/world/usr/lib/x86_64-linux-gnu:/opt/world/lib/x86_64-linux-gnu"
# Newer than the host, on its own file systems, written by anybody; sockets, links and sticky folders are none of it.
OPEN_FILES = (
    "find / -xdev \\( -path /tmp -o -path /proc -o -path /sys -o -path /run -o -path /dev \\) -prune -o "
    "-newer /etc/world/bare \\( -type f -o -type d ! -perm -1000 \\) -perm -0002 -print"
)


def zone(name: str) -> Condition:
    return Condition(
        f"controller in {name}",
        environment={"TZ": name},
        here=f'test "$(date +%z)" != +0000; date "+%Z is UTC%z"; test "$TZ" = {name}',
    )


def controller_umask(value: int) -> Condition:
    return Condition(
        f"controller with umask {value:03o}",
        umask=value,
        host="date > /etc/world/bare",
        seen=f'found=$({OPEN_FILES}); test -z "$found" || {{ echo "open to all: $found"; exit 1; }}; '
        "echo none of $(find / -xdev -newer /etc/world/bare -type f 2>/dev/null | wc -l) new files is open to all",
        here=f'test "$(umask)" = {value:04o}; umask',
    )


def host_umask(value: int) -> Condition:
    """Root's umask, however somebody becomes root: sudo, ssh, a login, a service of systemd."""
    return Condition(
        f"host with umask {value:03o}",
        host=f"""
echo 'Defaults umask=0{value:03o}, umask_override' > /etc/sudoers.d/umask
chmod 0440 /etc/sudoers.d/umask
sed -i 's/^UMASK.*/UMASK {value:03o}/' /etc/login.defs
echo 'umask {value:03o}' > /etc/profile.d/umask.sh
for name in common-session common-session-noninteractive; do
  echo 'session optional pam_umask.so umask={value:03o}' >> /etc/pam.d/$name
done""",
        seen=f"""
test "$(sudo sh -c umask)" = {value:04o}
venv=$(readlink -f /opt/gpuwright/venvs/current)
runuser -u trainer -- $venv/bin/python -c 'import torch'
echo "sudo umask $(sudo sh -c umask); environment $(stat -c %a $venv), the trainer imports torch from it" """,
    )


LOCALE = Condition(
    "locale C, on both ends",
    environment={"LC_ALL": "C.UTF-8", "LANG": "C"},
    # Read at each login over ssh, and by sudo.
    host="""
printf 'LANG=C\\nLC_ALL=C\\n' >> /etc/environment
echo 'Defaults env_keep += "LANG LC_ALL"' > /etc/sudoers.d/locale && chmod 0440 /etc/sudoers.d/locale""",
    seen="LC_ALL=C gpu-doctor --help >/dev/null; grep -h LC_ALL /etc/environment",
    here='echo "$LC_ALL"; test "$LC_ALL" = C.UTF-8',
)
FOLDER = Condition(
    "working directory elsewhere, spaces in the path",
    here='pwd | grep " "; ! test -e ansible.cfg; ! test -e site.yml; pwd',
)
NO_TERMINAL = Condition("no TTY", here="! tty; echo not a tty")
SECURE_PATH = Condition(
    "host with secure_path",
    host="""
echo 'Defaults secure_path="/sbin:/bin:/usr/sbin:/usr/bin"' > /etc/sudoers.d/path && chmod 0440 /etc/sudoers.d/path""",
    seen="sudo sh -c 'echo $PATH' | grep -x /sbin:/bin:/usr/sbin:/usr/bin",
)
SUDO_PASSWORD = Condition(
    "sudo with a password",
    host="echo 'admin:@PASSWORD@' | chpasswd; echo 'admin ALL=(ALL) ALL' > /etc/sudoers.d/admin",
    words=("--become-password-file", "@PASSWORD_FILE@"),
    seen="! sudo -l -U admin | grep NOPASSWD; sudo -l -U admin | grep '(ALL) ALL'",
)
REQUIRETTY = Condition(
    "sudo with requiretty",
    host="echo 'Defaults:admin requiretty' > /etc/sudoers.d/terminal && chmod 0440 /etc/sudoers.d/terminal",
    variables={"ansible_pipelining": False},
    seen="setsid runuser -u admin -- sudo -n true 2>&1 </dev/null | grep 'must have a tty'",
)
NOEXEC_TMP = Condition(
    "noexec /tmp",
    boot="mount -o remount,noexec,nosuid,nodev /tmp",
    seen="findmnt -no OPTIONS /tmp | grep noexec",
)
HIDEPID = Condition(
    "hidepid=2",
    boot="mount -o remount,hidepid=2 /proc",
    seen="""
! runuser -u trainer -- ls -d /proc/1 2>/dev/null
findmnt -no OPTIONS /proc | head -1 | grep -E 'hidepid=(2|invisible)' """,
)
NOSUID_HOMES = Condition(
    "nosuid, nodev and noexec homes",
    boot="mount --bind /home /home && mount -o remount,bind,nosuid,nodev,noexec /home",
    seen="findmnt -no OPTIONS /home | grep -o 'rw,nosuid,nodev,noexec'",
)
OTHER_PYTHON = Condition(
    "python3 points to another version",
    # RHEL's own programs name platform-python; those of the fleet's userland do so from here on.
    host=f"""
sed -i '1s|^#!/usr/bin/python3|#!/usr/libexec/platform-python|' \\
  $(grep -lIs '^#!/usr/bin/python3' /usr/bin/* /usr/sbin/* /usr/lib/dnf/* || true)
cat > /opt/world/python3 <<'END'
#!/bin/sh
{LOADER} exec /opt/world/usr/bin/pypy3.9 "$@"
END
chmod 0755 /opt/world/python3
ln -sfn /opt/world/python3 /usr/bin/python3
python3 -c 'import json, ssl'""",
    seen="! python3 -c 'import dnf' 2>/dev/null; echo \"python3 is $(python3 -V | head -1), without dnf\"",
)
PROXY_ONLY = Condition(
    "a proxy is the only way out",
    # The network's own name service knows no address outside: whoever does not ask the proxy gets nowhere.
    boot="""
grep -v -E 'repo.fleet.test|host.containers' /etc/hosts > /run/hosts && cat /run/hosts > /etc/hosts""",
    host="""
for name in http https; do
  echo "${name}_proxy=@PROXY@"
done >> /etc/environment
echo 'Defaults env_keep += "http_proxy https_proxy"' > /etc/sudoers.d/proxy
chmod 0440 /etc/sudoers.d/proxy
echo 'proxy=@PROXY@' >> /etc/dnf/dnf.conf""",
    seen="! curl -s --noproxy '*' -o /dev/null --max-time 5 http://repo.fleet.test/; echo no way without it",
)
MIRROR = Condition(
    "a mirror with a login and a path",
    host=f"""
cd /etc/yum.repos.d
sed -i -e 's|^baseurl = http://repo.fleet.test/|baseurl = http://{MIRROR_HOST}/site/gpu/|' \\
  -e '/^baseurl/a username = @USER@' -e '/^baseurl/a password = @PASSWORD@' redhat.repo
chmod 0600 redhat.repo""",
    variables={
        "system_kernel_epel_url": "@MIRROR@/epel",
        "system_kernel_epel_key_url": "@MIRROR@/keys/RPM-GPG-KEY-epel",
        "system_driver_repository_url": "@MIRROR@/cuda-rhel8-x86_64",
        "system_driver_repository_key_url": "@MIRROR@/keys/RPM-GPG-KEY-nvidia",
        "framework_pytorch_wheelhouse": "",
        "framework_pytorch_index_url": "@MIRROR@/py/simple/",
    },
    seen="""
folders="/etc /opt/gpuwright /var/lib/gpuwright* /var/log /usr/local /root /home"
open=$(grep -rlsF -e '@PASSWORD@' -e '@QUOTED@' $folders |
  grep -v ^/etc/world | xargs -r -d '\\n' ls -l | grep -v '^-rw-------' || true)
test -z "$open" || { echo "readable by others: $open"; exit 1; }
echo "the password is in no file that others read" """,
)
# In FIPS mode MD5 is away; SHA-1 as a digest is not, and Ansible's own modules use it.
FIPS = Condition(
    "FIPS: no MD5 in any Python",
    host="""
file=$(/usr/libexec/platform-python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/sitecustomize.py
rm -f $file
cat > $file <<'END'
import hashlib
def _refused(*words, usedforsecurity=True, _real=hashlib.md5, **named):
    if usedforsecurity:
        raise ValueError("[digital envelope routines] unsupported: disabled for FIPS")
    return _real(*words, usedforsecurity=False, **named)
def _new(name, *words, _real=hashlib.new, **named):
    return _refused(*words, **named) if name.lower() == "md5" else _real(name, *words, **named)
hashlib.md5, hashlib.new = _refused, _new
END
chmod 0644 $file
! /usr/libexec/platform-python -c 'import hashlib; hashlib.md5()' 2>/dev/null""",
    seen="""
for python in /usr/libexec/platform-python /opt/gpuwright/venvs/current/bin/python; do
  $python -c 'import hashlib; hashlib.md5()' 2>&1 | grep 'disabled for FIPS'
done""",
)
# What a node with SELinux has in its files; a container has no kernel of its own to enforce it.
SELINUX = Condition(
    "SELinux enforcing, by its files",
    host="""
mkdir -p /etc/selinux/targeted
printf 'SELINUX=enforcing\\nSELINUXTYPE=targeted\\n' > /etc/selinux/config
sha256sum /etc/selinux/config > /etc/world/selinux
for name in getenforce setenforce semanage setsebool restorecon; do
  printf '#!/bin/sh\\necho "%s $*" >> /var/log/world-selinux\\n' $name > /usr/sbin/$name
  test $name != getenforce || echo 'echo Enforcing' >> /usr/sbin/$name
  chmod 0755 /usr/sbin/$name
done""",
    seen="""
sha256sum --quiet -c /etc/world/selinux
! grep -E 'setenforce|setsebool' /var/log/world-selinux 2>/dev/null
echo "$(grep SELINUX= /etc/selinux/config), unchanged; nobody called setenforce" """,
)
# fapolicyd's files as its package ships them, and a service that is on; no container has the kernel's fanotify for it.
FAPOLICYD_HOST = """
mkdir -p /etc/fapolicyd/rules.d
printf 'permissive = 0\\nintegrity = none\\ntrust = rpmdb,file\\n' > /etc/fapolicyd/fapolicyd.conf
cd /etc/fapolicyd/rules.d
echo 'allow perm=any uid=0 : dir=/var/tmp/' > 20-dracut.rules
echo 'deny_audit perm=any pattern=ld_so : all' > 30-patterns.rules
printf 'allow perm=open all : ftype=application/x-sharedlib trust=1\\n' > 41-shared-obj.rules
printf 'deny_audit perm=open all : ftype=application/x-sharedlib\\n' >> 41-shared-obj.rules
echo 'deny_audit perm=execute all : all' > 90-deny-execute.rules
echo 'allow perm=open all : all' > 95-allow-open.rules
printf '[Service]\\nExecStart=/usr/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \\
  > /etc/systemd/system/fapolicyd.service
systemctl daemon-reload
systemctl enable --now fapolicyd"""
FAPOLICYD = Condition(
    "fapolicyd on, by its files, with the lines that preflight names",
    host=f"""{FAPOLICYD_HOST}
printf '%s\\n' 'allow perm=any all : dir=/opt/gpuwright/' 'allow perm=any all : dir=/usr/local/lib/gpuwright/' \\
  > 35-gpuwright.rules
sha256sum /etc/fapolicyd/*.conf /etc/fapolicyd/rules.d/* > /etc/world/fapolicyd""",
    seen="""
sha256sum --quiet -c /etc/world/fapolicyd
test "$(ls /etc/fapolicyd/rules.d | wc -l)" = "$(grep -c rules.d /etc/world/fapolicyd)"
echo "fapolicyd is $(systemctl is-active fapolicyd), its files as they were" """,
)
TRAINER = Condition(
    "an existing trainer account, given over",
    host="useradd --create-home --shell /bin/bash --comment 'Alice Example' trainer",
    variables={"system_training_adopt_user": True},
    seen="getent passwd trainer | grep nologin",
)
IPV6 = Condition(
    "IPv6 only",
    seen="""
test -z "$(ip -4 -o addr show scope global)"
ip -6 -o addr show scope global | grep -o 'inet6 [^ ]*' | head -1""",
)

# Each mix is one run on one host, with what its network is; no condition of a mix may hide what another would show.
MIXES: dict[str, tuple[Condition, ...]] = {
    "proxy": (
        zone("Asia/Kolkata"),
        controller_umask(0o000),
        LOCALE,
        FOLDER,
        NO_TERMINAL,
        host_umask(0o027),
        SECURE_PATH,
        SUDO_PASSWORD,
        REQUIRETTY,
        NOEXEC_TMP,
        HIDEPID,
        NOSUID_HOMES,
        OTHER_PYTHON,
        PROXY_ONLY,
        MIRROR,
        SELINUX,
    ),
    "ipv6": (
        IPV6,
        zone("America/New_York"),
        controller_umask(0o077),
        FOLDER,
        NO_TERMINAL,
        host_umask(0o077),
        TRAINER,
        FIPS,
        FAPOLICYD,
    ),
}
# Those of one scenario of `make test`: what costs no time. The scenario's tests become root without a password.
CHEAP = (host_umask(0o027), SECURE_PATH, NOEXEC_TMP, HIDEPID, NOSUID_HOMES)
