"""Conditions in which the main job must end before it changes anything, and the words with which it does."""

from __future__ import annotations

from .condition import Condition, Refusal
from .done import FAPOLICYD_HOST, PROXY_ONLY, REQUIRETTY, SUDO_PASSWORD
from .network import MIRROR_HOST

FAKETIME = "/opt/world/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def clock(offset: str) -> Condition:
    """Each program that root starts through sudo reads another time; the machine's own clock stays as it is.

    sshd's sandbox allows none of the library's system calls, so it is not loaded into everything.
    """
    return Condition(
        f"clock {offset} s off",
        host=f"""
printf 'LD_PRELOAD={FAKETIME}\\nFAKETIME={offset}\\nFAKETIME_DISABLE_SHM=1\\n' > /etc/clock
echo 'Defaults env_file=/etc/clock' > /etc/sudoers.d/clock && chmod 0440 /etc/sudoers.d/clock
real=$(date +%s); told=$(sudo date +%s); test $((told - real - {int(offset)})) -ge -2""",
    )


def full(folder: str, mib: int) -> Condition:
    """A file system of its own with so much space, and what was there before."""
    script = f"""
cp -a {folder} /run/world-copy
mount -t tmpfs -o size={mib}m none {folder}
cp -a /run/world-copy/. {folder}/"""
    return Condition(f"full {folder}", host=script)


NO_PASSWORD = Condition("sudo with a password, none given", host=SUDO_PASSWORD.host)
WRONG_PASSWORD = Condition(
    "sudo with a password, a wrong one given", host=SUDO_PASSWORD.host, words=("--become-password-file", "@WRONG_FILE@")
)
NO_RIGHTS = Condition(
    "sudo without rights",
    host="echo 'admin:@PASSWORD@' | chpasswd; rm /etc/sudoers.d/admin",
    words=("--become-password-file", "@PASSWORD_FILE@"),
)
TERMINAL = Condition("sudo with requiretty, pipelining on", host=REQUIRETTY.host, words=())
WRONG_USER = Condition("another login", variables={"ansible_user": "nobody-here"})
WRONG_KEY = Condition(
    "a key that the host does not know",
    host="sed -i /AuthorizedKeysFile/d /etc/ssh/sshd_config.d/10-fleet.conf; systemctl reload ssh",
)
NO_KEY = Condition("a file of a key that is none", variables={"ansible_ssh_private_key_file": "@WRONG_FILE@"})
AWAY = Condition("a host that has no ssh server", variables={"ansible_port": 2222})
LOCALE_C = Condition("controller with locale C alone", environment={"LC_ALL": "C", "LANG": "C"})
READ_ONLY = Condition("read-only root", host="mount -o remount,bind,ro /")
NO_PROXY = Condition("a proxy is the only way out, and nobody named it", boot=PROXY_ONLY.boot)
FAPOLICYD = Condition("fapolicyd on, by its files", host=FAPOLICYD_HOST)
# The pinned key is one of them; who owns the other could sign what apt and rpm install.
TWO_KEYS = Condition(
    "a key file with two keys",
    host=f"echo '@MIRROR_ADDRESS@ {MIRROR_HOST}' >> /etc/hosts",
    variables={"system_driver_repository_key_url": "@MIRROR@/keys/two"},
)
READ_ONLY_WITH_FILES = Condition(
    "read-only root, pipelining off", READ_ONLY.host, variables={"ansible_pipelining": False}
)

REFUSALS = (
    Refusal(LOCALE_C, ("Ansible requires the locale encoding to be UTF-8",)),
    Refusal(NO_PASSWORD, ("The host's sudo asks for a password, but none was given", "Run again with -K")),
    Refusal(WRONG_PASSWORD, ("The host's sudo refuses the password",)),
    Refusal(NO_RIGHTS, ("ansible_user may not become root on the host", "admin is not in the sudoers file")),
    Refusal(WRONG_USER, ("refuses the login of nobody-here with the key", "Correct ansible_user or the key")),
    Refusal(WRONG_KEY, ("refuses the login of admin with the key", "prints to ~admin/.ssh/authorized_keys there")),
    Refusal(NO_KEY, ("this controller cannot use the key", "it is damaged or not a private key", "ssh-keygen -y -f")),
    Refusal(AWAY, ("The host cannot be reached", "port 2222 refuses connections", "start sshd")),
    Refusal(TERMINAL, ("The host's sudo requires a terminal (requiretty)", "you must have a tty to run sudo")),
    Refusal(full("/boot", 9), ("The file system of /boot has", "MiB free, but about")),
    Refusal(full("/opt", 100), ("The file system of /opt has", "MiB free, but about", "Python environment")),
    Refusal(READ_ONLY, ("The file system of /boot, /etc, /opt, /usr", "is mounted read-only")),
    Refusal(READ_ONLY_WITH_FILES, ("was reached, but admin cannot write temporary files there", "findmnt")),
    Refusal(clock("+600"), ("The clock is 6", "s ahead of the controller's", "chronyc makestep")),
    Refusal(clock("-600"), ("The clock is 5", "s behind the controller's", "chronyc makestep")),
    Refusal(FAPOLICYD, ("fapolicyd lets only root use files that no package has installed", "35-gpuwright.rules")),
    Refusal(TWO_KEYS, ("is refused: it must hold the pinned key and no other", "it holds 2 primary keys")),
    Refusal(NO_PROXY, ("The repository epel cannot be reached from this host", "proxy in /etc/dnf/dnf.conf")),
)
