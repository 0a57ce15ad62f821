# SPDX-License-Identifier: Apache-2.0
"""Translate ssh's message into whether a host was reached at all, who refused, and what to do next."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from .cause import Cause, first_cause

# What the patterns are from; OpenSSH translates nothing.
SSH, SSHPASS, ANSIBLE, KERNEL = (
    "OpenSSH 7 to 9, the C library",
    "sshpass, OpenSSH",
    "ansible-core's ssh connection",
    "Linux",
)
OURS = "library/reboot_node.py"
# First match wins.
CAUSES = (
    Cause(
        # Before what ssh said last, which is the same for a host that was never there.
        "reach.rebooted",
        r"was rebooted and has not answered since",
        "The host was rebooted and has not answered since: {last_words}",
        "Look at its console (BMC): does it hang while it boots, or has it another address? Run again once it answers; "
        "for a slow firmware, set a longer system_reboot_timeout.",
        OURS,
        "unreachable",
    ),
    Cause(
        "reach.key_changed",
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|[Hh]ost key for \S+ has changed|DNS SPOOFING",
        "The host key of {host} is not the one that this controller knows",
        "If the host was reinstalled: ssh-keygen -R '{known}', then ssh to it once and compare the fingerprint. "
        "If not, find out who answers there.",
        SSH,
    ),
    Cause(
        "reach.key_unknown",
        r"Host key verification failed|Host Key checking is enabled|host key is known for|authenticity of host",
        "The host key of {host} is not known to this controller",
        "Compare its fingerprint: ssh {port_option}{host}; answering yes keeps it in known_hosts.",
        SSH,
    ),
    Cause(
        "reach.key_open",
        r"(?s)(UNPROTECTED PRIVATE KEY FILE|Load key .+: bad permissions).*Permission denied \(",
        "{host} was reached, but this controller cannot use the key {bad_key}: other users can read it",
        "chmod 600 {bad_key_word}",
        SSH,
    ),
    Cause(
        "reach.key_unreadable",
        r"(?s)(Identity file .+ not accessible|Load key .+: Permission denied).*Permission denied \(",
        "{host} was reached, but this controller cannot use the key {bad_key}: {key_error}",
        "Correct ansible_ssh_private_key_file, or the permissions of the file: ls -l {bad_key_word}",
        SSH,
    ),
    Cause(
        "reach.key_damaged",
        r"(?s)Load key .+: .*Permission denied \(",
        "{host} was reached, but this controller cannot use the key {bad_key}: it is damaged or not a private key",
        "`ssh-keygen -y -f {bad_key_word}` must print its public half; otherwise correct ansible_ssh_private_key_file.",
        SSH,
    ),
    Cause(
        "reach.password",
        r"[Ii]ncorrect username|Invalid/incorrect|Permission denied, please",
        "{host} was reached, but refuses the password of {user}",
        "Run again with -k and the password of {user} on that host, or install a key: ssh-copy-id {way}",
        SSHPASS,
    ),
    Cause(
        "reach.login",
        r"Permission denied \(|Too many authentication failures"
        r"|[Aa]uthentication (failed|failure)|No more authentication methods|no supported authentication",
        "{host} was reached, but refuses the login of {user}{with_key}{methods}",
        "Correct ansible_user or the key (ansible_ssh_private_key_file; ssh-add, if it has a passphrase), or "
        "install it: {let_in}. With a password: -k. Try: ssh {way}",
        SSH,
    ),
    Cause(
        "reach.account",
        r"account (has )?expired|account is currently not available|Unprivileged users are not permitted|"
        r"[Ss]ystem is (booting up|going down)|nologin",
        "{host} was reached, but does not let {user} log in now",
        "ssh {way} shows why: the host is starting or shutting down, or the account is closed.",
        SSH,
    ),
    Cause(
        "reach.algorithms",
        r"Unable to negotiate|no matching (host key|key exchange|cipher|mac)",
        "{host} was reached, but its ssh server and this controller have no algorithm in common",
        "Update the older of the two, or name the algorithm in ansible_ssh_common_args, as `ssh -v` proposes.",
        SSH,
    ),
    Cause(
        "reach.name",
        r"Could not resolve hostname|Name or service not known|[Nn]ame resolution|nodename nor servname|"
        r"No address associated|No such host is known",
        "The host cannot be reached: the name {name} is not known",
        "Correct the name or set ansible_host; `getent hosts {name}` must answer.",
        SSH,
        "unreachable",
    ),
    Cause(
        "reach.port",
        r"Connection refused",
        "The host cannot be reached: {host} port {port} refuses connections",
        "The machine is on, but no ssh server listens: start sshd, or correct ansible_host and ansible_port.",
        SSH,
        "unreachable",
    ),
    Cause(
        "reach.route",
        r"No route to host|[Nn]etwork is unreachable|Host is down|Host is unreachable",
        "The host cannot be reached: there is no route to {host}",
        "Is it switched on and on this network? Try: ping {host}; look at gateway, VPN and firewall.",
        SSH,
        "unreachable",
    ),
    Cause(
        "reach.timeout",
        r"Connection timed out|Operation timed out|[Tt]imed? ?out|not responding",
        "The host cannot be reached: {host} does not answer in time (port {port})",
        "Is it switched on, and does a firewall let port {port} through? Try: ssh {way}",
        SSH,
        "unreachable",
    ),
    Cause(
        "reach.closed",
        r"[Cc]onnection (closed|reset)|closed by remote host|stdio forwarding failed|kex_exchange",
        "The host cannot be reached: {host} closes the connection before a login",
        "Look at `sudo journalctl -u sshd -u ssh` there: too many logins at once (MaxStartups), fail2ban, or a jump "
        "host "
        "that cannot reach it.",
        SSH,
        "unreachable",
    ),
    Cause(
        # ssh ended before Ansible had sent the module, and its message is lost.
        "reach.ended",
        r"Broken pipe",
        "The host cannot be reached: ssh to {host} (port {port}) ended before anything was sent",
        "To see the reason: ssh {way}",
        ANSIBLE,
        "unreachable",
    ),
    Cause(
        "reach.space",
        r"No space left on device",
        "{host} was reached, but a file system there is full",
        "Free space there (`df -h / /tmp /var/tmp`) and run again.",
        KERNEL,
    ),
    Cause(
        "reach.temporary",
        r"Failed to create temporary directory",
        "{host} was reached, but {user} cannot write temporary files there",
        "There, `df -h . /var/tmp; findmnt -T .` shows whether it is full or read-only; or set ansible_remote_tmp.",
        ANSIBLE,
    ),
)
UNKNOWN = Cause("reach.unknown", "", "The host cannot be reached", "Try: ssh {way}", kind="unreachable")
LONGEST = 400
# Names that are nobody's (RFC 2606), as in the inventory that comes with the toolkit; resolvers may answer for them.
EXAMPLE = re.compile(r"(^|\.)(example(\.(com|net|org))?|invalid)\.?$", re.IGNORECASE)
YOUR_OWN = (
    "{name} is a name for examples, as in the inventory that comes with the toolkit. List your own servers there "
    "instead, in a checkout in inventory/hosts.yml."
)


def reach_failure(message: str, host: str = "", variables: Any = None) -> dict[str, Any]:
    """C(kind) (unreachable, or refused if the host was reached), C(problem), C(evidence), C(next), C(common).

    The evidence is "" if the problem says it all. Hosts whose C(common) is equal have the same problem but for their
    names; it is compared, and never shown.

    message    what Ansible's connection said      host  the inventory's name
    variables  the host's; ansible_host, ansible_port and ansible_user are named where ssh did not, its key and options
               (ansible_ssh_private_key_file, ansible_ssh_common_args) in the command to try
    """
    text = _key_told(str(message), str((variables or {}).get("ansible_ssh_private_key_file") or ""))
    words = _words(text, host, variables or {})
    found = first_cause(CAUSES, text)
    if found:
        return _row(found[0], "", words)
    return _row(UNKNOWN, _plain(text), words)


def _key_told(text: str, key: str) -> str:
    """Add a sentence that ssh prints only for C(-i), not for Ansible's option that names a key: the key is missing."""
    path = Path(key).expanduser() if key else Path()
    if path.is_absolute() and not path.exists() and "Permission denied (" in text:
        return f"Warning: Identity file {key} not accessible: No such file or directory.\n{text}"
    return text


def _row(cause: Cause, evidence: str, words: dict[str, str]) -> dict[str, Any]:
    anybody = {name: words[name].replace(words["host"], "HOST") for name in ("way", "let_in")}
    anybody = {**words, **anybody}
    anybody |= {"host": "HOST", "name": "HOST", "known": words["known"].replace(words["host"], "HOST")}
    untouched = cause.kind == "unreachable" and EXAMPLE.search(words["name"])
    step = YOUR_OWN if untouched else cause.next
    return {
        "id": cause.id,
        "kind": cause.kind,
        "problem": cause.problem.format(**words),
        "evidence": evidence,
        "next": step.format(**words),
        "common": {"problem": cause.problem.format(**anybody), "next": step.format(**anybody)},
    }


def _words(text: str, host: str, variables: Any) -> dict[str, str]:
    """Names to use in the sentences: from ssh's message, else from the inventory, else general words."""
    asked = re.search(r"connect to host (\S+) port (\d+)", text) or re.search(r"(?:by|server) (\S+) port (\d+)", text)
    told = re.search(r"([^\s@]+)@(\S+): Permission denied", text)
    name = re.search(r"Could not resolve hostname (\S+?):", text)
    methods = re.search(r"Permission denied (\([\w,-]+\))", text)
    keyed = re.search(r"[Hh]ost key for (\S+) has changed|host key is known for (\S+)", text)
    address = str(variables.get("ansible_host") or host or "the host")
    for match, group in ((told, 2), (asked, 1), (name, 1)):
        address = match.group(group) if match else address
    if keyed:
        address = (keyed.group(1) or keyed.group(2)).strip("[]").partition("]:")[0]
    port = asked.group(2) if asked else str(variables.get("ansible_port") or 22)
    user = told.group(1) if told else str(variables.get("ansible_user") or "")
    key = str(variables.get("ansible_ssh_private_key_file") or "")
    bad_key = re.search(
        r'Identity file (?P<named>.+?) not accessible|(?:Load key "|ions \d+ for \')(?P<loaded>.+?)["\']', text
    )
    file = (bad_key["named"] or bad_key["loaded"]) if bad_key else key
    key_error = re.search(r"not accessible: ([^.\n]+)", text)
    way = _way(user, address, port, key, str(variables.get("ansible_ssh_common_args") or ""))
    return {
        "host": address,
        "name": address,
        "port": port,
        "port_option": "" if port == "22" else f"-p {port} ",
        "known": address if port == "22" else f"[{address}]:{port}",
        "user": user or "ansible_user",
        "way": way,
        "methods": f" {methods.group(1)}" if methods else "",
        "with_key": f" with the key {key}" if key else "",
        "bad_key": file,
        "bad_key_word": shlex.quote(file),
        "last_words": _plain(text.rpartition("answered since: ")[2]),
        "key_error": key_error.group(1).lower() if key_error else "permission denied",
        "let_in": _let_in(methods.group(1) if methods else "", user, key, way),
    }


def _way(user: str, address: str, port: str, key: str, options: str) -> str:
    """The arguments of C(ssh) or C(ssh-copy-id): as Ansible connects, without options that hold a password."""
    words = ["" if port == "22" else f"-p {port}", f"-i {key}" if key else ""]
    words += ["" if "pass" in options.lower() else options, f"{user}@{address}" if user else address]
    return " ".join(filter(None, words))


def _let_in(methods: str, user: str, key: str, way: str) -> str:
    """A server that accepts only keys cannot be given one from here."""
    if not methods or "password" in methods or "keyboard" in methods:
        return f"ssh-copy-id {way}"
    public = f"ssh-keygen -y -f {shlex.quote(key)}" if key else "ssh-add -L"
    return f"append what `{public}` prints to ~{user}/.ssh/authorized_keys there"


def _plain(text: str) -> str:
    """The sentence itself, without what Ansible prints around it."""
    line = re.sub(r"\s+", " ", text).strip()
    line = re.sub(r"^(Failed to connect to the host via \w+: ?)?(ssh: )?", "", line)
    return line[:LONGEST].strip()
