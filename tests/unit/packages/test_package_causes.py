"""Why dnf or apt failed: each cause by the words of the tools."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures import contact, pip, reach
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.package_manager import CAUSES, package_failure

# Of dnf 4.14 and apt 2.6 as they were run; those marked "source" are from the programs' sources and public reports.
# APT_RAN has what apt 2.6 of Debian 12 and apt 3.0 of Debian 13 say, and where: on stdout or stderr.
DNF = [
    ("At least 205MB more space needed on the /boot filesystem.", "packages.space"),
    ("Transaction test error: installing package x needs 12MB more space on the / filesystem", "packages.space"),
    ("OSError: [Errno 30] Read-only file system: '/var/cache/dnf/x'", "packages.read_only"),
    ("Failed to obtain the transaction lock (logged in as: root).", "packages.locked"),
    ("Waiting for process with pid 4711 to finish.", "packages.locked"),
    (
        "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)",
        "packages.locked",
    ),
    ("Error: Error: rpmdb open failed", "packages.database"),
    (
        "error: rpmdb: BDB0113 Thread/process 12/34 failed: BDB1507 Thread died in Berkeley DB library",
        "packages.database",
    ),
    ("Warning: failed loading '/etc/yum.repos.d/x.repo', skipping.", "packages.config"),
    (
        "Config error: Parsing file \"/etc/dnf/dnf.conf\" failed: Parsing file '/etc/dnf/dnf.conf' failed",
        "packages.config",
    ),
    ("Failed to validate GPG signature for dkms-3.3.0-1.el8.noarch: Package dkms is not signed", "packages.signature"),
    ("repomd.xml GPG signature verification error: Signing key not found", "packages.signature"),
    (
        "Public key for x.rpm is not installed. Failing package is: x\n GPG Keys are configured as: file:///k",
        "packages.signature",
    ),
    (
        "[MIRROR] x.rpm: Downloading successful, but checksum doesn't match. Calculated: 1(sha256)",
        "packages.half_mirror",
    ),
    ('There are no enabled repositories in "/etc/yum.repos.d", "/etc/yum/repos.d".', "packages.unregistered"),
    (
        "This system is not registered with an entitlement server. You can use subscription-manager",
        "packages.unregistered",
    ),
    (
        "  - Status code: 403 for https://cdn.redhat.com/content/dist/rhel8/repodata/repomd.xml (IP: 192.0.2.1)",
        "packages.refused",
    ),
    ("  - Status code: 401 for https://mirror.example.com/repodata/repomd.xml (IP: 192.0.2.1)", "packages.refused"),
    (
        "  - Curl error (5): Couldn't resolve proxy name for http://m/x [Could not resolve proxy: p.invalid]",
        "packages.proxy",
    ),
    ("  - Status code: 407 for http://m/repodata/repomd.xml (IP: 192.0.2.1)", "packages.proxy"),
    (
        "  - Curl error (6): Couldn't resolve host name for http://m.invalid/x [Could not resolve host: m.invalid]",
        "packages.name",
    ),
    ("  - Curl error (60): SSL peer certificate or SSH remote key was not OK for https://m/x", "packages.certificate"),
    ("  - Status code: 404 for http://mirror.example.com/8.3/repodata/repomd.xml (IP: 192.0.2.1)", "packages.address"),
    (
        "  - Curl error (7): Couldn't connect to server for http://m/x [Failed to connect to m port 80]",
        "packages.unreachable",
    ),
    (
        "  - Curl error (28): Timeout was reached for http://m/x [Connection timed out after 5000 milliseconds]",
        "packages.unreachable",
    ),
    ("  - Curl error (35): SSL connect error for https://m/x [gnutls_handshake() failed]", "packages.unreachable"),
    (
        "Failed to download metadata for repo 'epel': Cannot download repomd.xml: All mirrors were tried",
        "packages.unreachable",
    ),
    (
        "All matches were filtered out by modular filtering for argument: x\nUnable to find a match: x",
        "packages.hidden",
    ),
    ("package x-1.el8 is filtered out by exclude filtering", "packages.hidden"),
    ("No package kernel-devel-4.18.0-477.el8.x86_64 available.", "packages.unavailable"),
    ("Problem: nothing provides dkms needed by kmod-nvidia-latest-dkms", "packages.unavailable"),
    ("file /usr/bin/nvidia-smi from install of a conflicts with file from package b-1", "packages.files"),
    ("Depsolve Error occurred: Problem: package a conflicts with b", "packages.conflict"),
    (
        "Error in POSTIN scriptlet in rpm package x: warning: %post(x-1.x86_64) scriptlet failed, exit status 1",
        "packages.script",
    ),
]
APT = [
    ("E: You don't have enough free space in /var/cache/apt/archives/.", "packages.space"),
    (
        "E: List directory /var/lib/apt/lists/partial is missing. - Acquire (30: Read-only file system)",
        "packages.read_only",
    ),
    (
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)",
        "packages.locked",
    ),
    (
        "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
        "packages.locked",
    ),
    (
        "dpkg: unrecoverable fatal error: parsing file '/var/lib/dpkg/status' near line 12: end of file",
        "packages.database",
    ),
    (
        "E:Conflicting values set for option Signed-By regarding source https://x/ /: /a.gpg != /b.asc",
        "packages.sources",
    ),
    ("E: Malformed entry 1 in list file /etc/apt/sources.list.d/x.list (Suite)", "packages.sources"),
    ("E: Type 'debx' is not known on line 1 in source list /etc/apt/sources.list.d/x.list", "packages.sources"),
    # source: apt 3.0 with sqv since 2026-02-01
    (
        "Sub-process /usr/bin/sqv returned an error code (1), error: Signing key on 12 is not bound: No binding "
        "signature because: Policy rejected non-revocation signature because: SHA1 is not considered secure",
        "packages.old_signature",
    ),
    (
        "E: Release file for http://m/debian/dists/bookworm/InRelease is not valid yet (invalid for another 5h 3min).",
        "packages.not_yet_valid",
    ),
    (
        "E: Release file for http://m/debian/dists/bookworm-updates/InRelease is expired (invalid since 3d 1h).",
        "packages.expired",
    ),
    (
        "W: GPG error: http://m x InRelease: The following signatures couldn't be verified: NO_PUBKEY A4B4",
        "packages.signature",
    ),
    ("W: The following signatures were invalid: EXPKEYSIG A4B4 The vendor", "packages.signature"),
    (
        "E: Failed to fetch http://m/x.gz File has unexpected size (1 != 2). Mirror sync in progress?",
        "packages.half_mirror",
    ),
    ("E: Failed to fetch http://m/x.deb Hash Sum mismatch", "packages.half_mirror"),
    ("E: Failed to fetch https://m/x.deb 401 Unauthorized [IP: 192.0.2.1 443]", "packages.refused"),
    ("E: Failed to fetch http://m/x.deb 407 Proxy Authentication Required", "packages.proxy"),
    ("W: Failed to fetch http://m.invalid/InRelease  Could not resolve 'm.invalid'", "packages.name"),
    ("W: Failed to fetch http://m/InRelease Temporary failure resolving 'm'", "packages.name"),
    ("Certificate verification failed: The certificate is NOT trusted. Could not handshake", "packages.certificate"),
    ("E: The repository 'http://m/debian bookworm Release' does not have a Release file.", "packages.address"),
    ("Failed to fetch http://m/debian/x.deb  404  Not Found", "packages.address"),
    (
        "W: Failed to fetch http://m/InRelease  Could not connect to m:80 (192.0.2.1), connection timed out",
        "packages.unreachable",
    ),
    ("E: Unable to locate package nvidia-open", "packages.unavailable"),
    ("no available installation candidate for cuda-drivers=580.95.05-*", "packages.unavailable"),
    ("E: Package 'nvidia-smi' has no installation candidate", "packages.unavailable"),
    ("E: Packages were downgraded and -y was used without --allow-downgrades.", "packages.downgrade"),
    ("E: Held packages were changed and -y was used without --allow-change-held-packages.", "packages.held"),
    (
        "dpkg: error processing archive x.deb: trying to overwrite '/usr/bin/nvidia-smi', which is also in package y",
        "packages.files",
    ),
    ("The following packages have unmet dependencies: nvidia-smi", "packages.conflict"),
    ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "packages.script"),
    ("installed x package post-installation script subprocess returned error exit status 10", "packages.script"),
]
# The releases of apt that said so, its stdout from where it matters, its stderr, and the cause.
UNMET = "The following packages have unmet dependencies:\n {}\n"
NO_WAY = "E: Unable to correct problems, you have held broken packages.\n"
SOLVER = (
    "E: The following information from --solver 3.0 may provide additional context:\n"
    "   Unable to satisfy dependencies. Reached two conflicting decisions:\n"
)
DPKG = "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
AFTER = "Errors were encountered while processing:\n bb\n"
APT_RAN = [
    ("2.6", UNMET.format("bb : Depends: gone but it is not installable"), NO_WAY, "packages.conflict"),
    ("2.6 3.0", UNMET.format("bb : Depends: cc (= 2) but 1 is to be installed"), NO_WAY, "packages.conflict"),
    (
        "3.0",
        UNMET.format("bb : Depends: gone but it is not installable"),
        f"{NO_WAY}{SOLVER}   1. bb:amd64=1 is selected for install\n   2. bb:amd64 Depends gone\n"
        "      but none of the choices are installable:\n      [no choices]\n",
        "packages.unavailable",
    ),
    (
        "3.0",
        UNMET.format("ee : Depends: dd but it is not installable"),
        f"{NO_WAY}{SOLVER}   1. dd:amd64=1 is not selected for install because:\n      1. cc:amd64 Conflicts dd\n",
        "packages.conflict",
    ),
    (
        "2.6 3.0",
        "Unpacking bb (1) ...\ndpkg: error processing archive /var/cache/apt/archives/bb_1_all.deb (--unpack):\n"
        f" trying to overwrite '/usr/bin/x', which is also in package aa 1.21.23\n{AFTER}",
        DPKG,
        "packages.files",
    ),
    (
        "2.6 3.0",
        "Setting up bb (1) ...\ndpkg: error processing package bb (--configure):\n"
        f" installed bb package post-installation script subprocess returned error exit status 10\n{AFTER}",
        DPKG,
        "packages.script",
    ),
    (
        "2.6 3.0",
        "",
        "E: Unable to parse package file /var/lib/dpkg/status (1)\n"
        "W: You may want to run apt-get update to correct these problems\nE: The package cache file is corrupted\n",
        "packages.database",
    ),
    (
        "3.0",
        "",
        "W: OpenPGP signature verification failed: file:/x x InRelease: Sub-process /usr/bin/sqv returned an error "
        "code (1), error message is: Missing key A9CC, which is needed to verify signature.\n"
        "E: The repository 'file:/x x InRelease' is not signed.\n",
        "packages.signature",
    ),
    (
        "3.0",
        "",
        "E: Failed to fetch https://m/x/InRelease  SSL connection failed: error:0A000086:SSL routines::certificate "
        "verify failed / Success [IP: 192.0.2.1 443]\nE: Some index files failed to download.\n",
        "packages.certificate",
    ),
    (
        "2.6 3.0",
        "",
        "E: Failed to fetch http://m/x/InRelease  Could not connect to m:80 (192.0.2.1). - connect (111: Connection "
        "refused)\n",
        "packages.unreachable",
    ),
    ("3.0", "", "E: Failed to fetch http://m/x/InRelease  Could not resolve 'm'\n", "packages.name"),
    (
        "2.6 3.0",
        "",
        "E: Failed to fetch http://m/x  503  Service Unavailable [IP: 192.0.2.1 80]\n",
        "packages.unreachable",
    ),
    ("2.6 3.0", "", "E: Version '9' for 'aa' was not found\n", "packages.unavailable"),
    (
        "2.6 3.0",
        "",
        "E: Malformed entry 1 in sources file /etc/apt/sources.list.d/x.sources (Suite)\n",
        "packages.sources",
    ),
]
END = "ERROR: No matching distribution found for torch==2.10.0"
PIP = [
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "pip.space"),
    ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "pip.hash"),
    ("WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.')': /x " + END, "pip.proxy"),
    ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')) " + END, "pip.certificate"),
    ("ERROR: HTTP error 403 while getting https://m/torch.whl 403 Client Error: Forbidden for url", "pip.refused"),
    ("The repository located at m is not a trusted or secure host and is being ignored. " + END, "pip.plain_http"),
    ("NewConnectionError: [Errno -2] Name or service not known: /simple/torch/ " + END, "pip.name"),
    (
        "NewConnectionError: Failed to establish a new connection: [Errno 111] Connection refused " + END,
        "pip.unreachable",
    ),
    ("ERROR: torch.whl is not a supported wheel on this platform.", "pip.python"),
    (END, "pip.missing"),
    ("ERROR: Could not install packages: [Errno 13] Permission denied: '/opt/gpuwright/x'", "pip.rights"),
]
EACH = [("redhat", *row) for row in DNF] + [("debian", *row) for row in APT]


@pytest.mark.parametrize(("family", "said", "fault"), EACH)
def test_the_tools_own_words_have_their_cause(family: str, said: str, fault: str) -> None:
    found = package_failure({"msg": said}, ["dkms"], family)
    assert found["id"] == fault
    manager, other = ("apt", "dnf") if family == "debian" else ("dnf", "apt")
    assert "\n" not in found["text"] and f"{manager} said: " in found["text"] and "{" not in found["text"]
    assert f"`{other}" not in found["text"]


@pytest.mark.parametrize(("releases", "stdout", "stderr", "fault"), APT_RAN)
def test_what_apt_says_on_stdout_alone_is_read_too(releases: str, stdout: str, stderr: str, fault: str) -> None:
    """Ansible's module puts stderr alone into its message; dpkg's errors and unmet dependencies are on stdout."""
    progress = "Reading package lists...\n(Reading database ... 5%\rSelecting previously unselected package bb.\n"
    result = {"msg": f"'/usr/bin/apt-get install bb' failed: {stderr}", "stdout": progress + stdout, "stderr": stderr}
    found = package_failure(result, ["bb"], "debian")
    assert found["id"] == fault, found["text"]
    assert "Reading" not in found["text"] and ("showhold" in found["text"]) == (fault == "packages.conflict")
    for line in stdout.splitlines()[1:2]:
        assert line.strip() in found["text"]


def test_each_cause_has_a_sample_and_a_source() -> None:
    assert {row.id for row in CAUSES} == {fault for _family, _said, fault in EACH}
    assert all(row.source and row.next and row.problem for row in CAUSES)


def test_what_nobody_knows_is_the_tools_last_words_without_a_guess() -> None:
    found = package_failure({"msg": "x" * 5000 + " it is the moon"}, ["dkms", "gcc"], "debian")
    assert (
        found["id"] == "packages.failed" and "it is the moon Run `sudo apt-get install dkms gcc` there" in found["text"]
    )
    assert len(found["text"]) < 1000
    assert "gave no reason" in package_failure({}, ["dkms"])["text"]


def test_the_words_that_were_recognised_are_shown() -> None:
    found = package_failure(
        {"msg": "Reading package lists... " * 200 + "E: Unable to locate package zz"}, ["zz"], "debian"
    )
    assert "Unable to locate package zz" in found["text"]


def test_a_command_says_what_it_wrote_and_how_to_repeat_it() -> None:
    """As `dnf reinstall` ends when the newer version is there, too."""
    argv = ["dnf", "--assumeyes", "reinstall", "kmod-nvidia-latest-dkms-570.172.08-1.el8.x86_64"]
    said = "Error: Transaction test error:\n  package kmod-nvidia-latest-dkms-3:570.172.08 is already installed"
    result = {"msg": "non-zero return code", "cmd": argv, "rc": 1, "stdout": "Downloading Packages:", "stderr": said}
    text = package_failure(result, [])["text"]
    assert "is already installed" in text and f"`sudo {' '.join(argv)}`" in text and "interrupted transaction" in text
    assert "non-zero return code" not in text


@pytest.mark.parametrize(("said", "fault"), PIP)
def test_pips_own_words_have_their_cause(said: str, fault: str) -> None:
    found = pip.pip_failure({"msg": said})
    assert found["id"] == fault and "{" not in found["text"]


def test_pip_is_not_tried_again_where_that_cannot_help() -> None:
    assert {fault for said, fault in PIP if not pip.pip_failure({"msg": said})["final"]} == {
        "pip.proxy",
        "pip.name",
        "pip.unreachable",
    }
    assert {row.id for row in pip.CAUSES} == {fault for _said, fault in PIP}
    unknown = pip.pip_failure({"msg": "x" * 5000 + " it is https://u:secret@m the moon"})
    assert unknown["id"] == "pip.failed" and unknown["text"].endswith("the moon") and "secret" not in unknown["text"]


@pytest.mark.parametrize("table", [contact.CAUSES, reach.CAUSES, pip.CAUSES])
def test_each_cause_says_where_its_words_are_from(table: tuple) -> None:
    assert all(row.source and row.next and row.problem for row in table)
