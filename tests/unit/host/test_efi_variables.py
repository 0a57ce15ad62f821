"""Secure Boot, the enrolled keys and DKMS's key, read from the firmware's variables of made-up hosts."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import efi
import pytest
from gpuwright.host.secure_boot.certificates import describe_certificate, fingerprint, plain
from gpuwright.host.secure_boot.efi_variables import parse_signature_lists, read_certificates, read_state
from gpuwright.host.secure_boot.module_key import key_place, read_module_key
from gpuwright.probe.host import probe
from gpuwright.probe.module_signature import is_trusted, read_enrolled_keys, read_next_signature
from healthy_files import MODINFO
from host_tree import RUNNING, HostTree, answers
from node_names import MOK

FLAG = efi.FOLDER + "/{}-" + efi.GLOBAL
SECURE_BOOT, SETUP = FLAG.format("SecureBoot"), FLAG.format("SetupMode")
SHIM_STATE = f"{efi.FOLDER}/MokSBStateRT-{efi.SHIM}"
STUB = "/sys/kernel/boot_params/data"
ON, OFF = b"\x06\0\0\0\x01", b"\x06\0\0\0\x00"


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "unsupported"),
        ({"/sys/firmware/efi/systab": b""}, "unknown"),
        ({efi.FOLDER + "/Boot0000-8be4df61": b"12345"}, "unsupported"),
        ({SECURE_BOOT: ON}, "enabled"),
        ({SECURE_BOOT: OFF}, "disabled"),
        ({SECURE_BOOT: b"\x06\0\0\0\x02"}, "unknown"),
        ({SECURE_BOOT: b"\x06\0\0\0"}, "unknown"),
        ({SECURE_BOOT: b""}, "unknown"),
        ({SECURE_BOOT: ON, SETUP: ON}, "disabled"),
        ({SECURE_BOOT: ON, SETUP: OFF}, "enabled"),
        ({SECURE_BOOT: ON, SHIM_STATE: ON}, "disabled"),
        ({SECURE_BOOT: ON, SHIM_STATE: OFF}, "enabled"),
        ({SECURE_BOOT: ON, SHIM_STATE: b""}, "enabled"),
        # Without the variables, what the kernel's EFI stub found.
        ({"/sys/firmware/efi/systab": b"", STUB: bytes(0x1EC) + b"\x03\0"}, "enabled"),
        ({"/sys/firmware/efi/systab": b"", STUB: bytes(0x1EC) + b"\x02\0"}, "disabled"),
        ({"/sys/firmware/efi/systab": b"", STUB: bytes(0x1EC) + b"\x01\0"}, "unknown"),
        ({"/sys/firmware/efi/systab": b"", STUB: bytes(0x1EC)}, "unknown"),
        ({STUB: bytes(0x1EC) + b"\x03\0"}, "unsupported"),
    ],
)
def test_secure_boot(host, files, expected):
    for path, content in files.items():
        host.put(path, content)
    found = read_state(host.root)
    assert found["state"] == expected
    assert bool(found["because"]) is (expected == "unknown"), "unknown says why"
    assert probe(host.root, answers())["secure_boot"] == expected


def dkms_key(host: HostTree, certificate: bytes = efi.KEY) -> None:
    efi.secure_boot_on(host)
    host.put("/var/lib/dkms/mok.pub", certificate)
    host.put("/var/lib/dkms/mok.key", "private")


@pytest.mark.parametrize(
    ("variables", "state", "enrolled"),
    [
        ([], "not_enrolled", False),
        ([("MokListRT", efi.SHIM)], "enrolled", True),
        # shim splits a list that is too large for one variable.
        ([("MokListRT2", efi.SHIM)], "enrolled", True),
        ([("db", efi.SECURITY)], "enrolled", True),
        ([("MokNew", efi.SHIM)], "staged", False),
        ([("MokListXRT", efi.SHIM)], "blocked", False),
        ([("dbx", efi.SECURITY), ("MokListRT", efi.SHIM)], "blocked", False),
        # Of that name, and of somebody else; and lists that have nothing to do with it.
        ([("MokListRT", efi.SECURITY), ("MokDel", efi.SHIM), ("MokListTrustedRT", efi.SHIM)], "not_enrolled", False),
    ],
)
def test_the_key_of_dkms(host, variables, state, enrolled):
    """mokutil of RHEL 8 (0.3.0) calls a key enrolled that waits for the console; the firmware's variables do not."""
    dkms_key(host)
    for name, owner in variables:
        efi.put_keys(host, name, efi.OTHER_KEY, efi.KEY, owner=owner)
    node = probe(host.root, answers(mokutil="/var/lib/dkms/mok.pub is already enrolled\n"))
    assert node["module_key_enrolled"] is enrolled
    assert node["module_key"]["state"] == state


def test_another_key_of_the_same_name_does_not_count(host):
    dkms_key(host)
    efi.put_keys(host, "MokListRT", efi.OTHER_KEY)
    assert probe(host.root, answers())["module_key_enrolled"] is False


def test_the_kernels_own_copy_of_the_list_counts(host):
    dkms_key(host)
    host.put("/sys/firmware/efi/mok-variables/MokListRT", efi.signature_list(efi.KEY))
    assert read_module_key(host.root, "rhel", RUNNING)["state"] == "enrolled"


@pytest.mark.parametrize(
    "data", [b"\x06\0\0", b"\x06\0\0\0" + b"x" * 20, b"\x06\0\0\0" + efi.signature_list(efi.KEY)[:-3]]
)
def test_a_damaged_list_is_unknown_and_never_enrolled(host, data):
    dkms_key(host)
    efi.put_keys(host, "db", efi.KEY, owner=efi.SECURITY)
    host.put(f"{efi.FOLDER}/MokListRT-{efi.SHIM}", data)
    found = read_module_key(host.root, "rhel", RUNNING)
    assert (found["state"], bool(found["because"])) == ("unknown", True)
    assert probe(host.root, answers())["module_key_enrolled"] is None


def test_no_key_an_empty_one_and_no_variables(host):
    assert read_module_key(host.root, "rhel", RUNNING)["state"] == "none"
    host.put("/var/lib/dkms/mok.pub", b"")
    assert read_module_key(host.root, "rhel", RUNNING)["state"] == "unknown"
    host.put("/var/lib/dkms/mok.pub", efi.KEY)
    found = read_module_key(host.root, "rhel", RUNNING)
    assert (found["state"], found["made"]) == ("unknown", False) and "efivars" in found["because"]


def test_ubuntus_key_lies_elsewhere(host):
    """A node on which that key is enrolled is good, whatever lies in the folder of DKMS."""
    efi.secure_boot_on(host)
    host.put("/etc/os-release", 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n')
    host.put("/var/lib/shim-signed/mok/MOK.der", efi.KEY)
    host.put("/var/lib/shim-signed/mok/MOK.priv", "private")
    host.put("/var/lib/dkms/mok.pub", efi.OTHER_KEY)
    efi.put_keys(host, "MokListRT", efi.KEY)
    node = probe(host.root, answers())
    assert node["module_key_enrolled"] is True
    assert node["module_key"]["certificate"] == "/var/lib/shim-signed/mok/MOK.der" and node["module_key"]["made"]


@pytest.mark.parametrize(
    ("system", "files", "expected"),
    [
        ("rhel", {}, ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")),
        ("debian", {}, ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")),
        ("debian", {"framework.conf": "# mok_signing_key=/a\n"}, ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")),
        ("rhel", {"framework.conf": 'mok_signing_key="/a"\nmok_certificate=/b\n'}, ("/a", "/b")),
        ("ubuntu", {"framework.conf": "mok_signing_key=/a\nmok_certificate=/b\n"}, ("/a", "/b")),
        (
            "ubuntu",
            {"framework.conf": "mok_certificate=/b\n"},
            tuple("/var/lib/shim-signed/mok/MOK." + e for e in ("priv", "der")),
        ),
        ("rhel", {"framework.conf.d/s.conf": "mok_signing_key=/a\n"}, ("/a", "/var/lib/dkms/mok.pub")),
        (
            "rhel",
            {"framework.conf.d/s.bak": "mok_signing_key=/a\n"},
            ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"),
        ),
        (
            "rhel",
            {
                "framework.conf": "mok_signing_key=/x\n",
                "framework.conf.d/s.conf": "mok_signing_key=/k/$kernelver/key\n",
            },
            (f"/k/{RUNNING}/key", "/var/lib/dkms/mok.pub"),
        ),
    ],
)
def test_where_dkms_looks(host, system, files, expected):
    for name, text in files.items():
        host.put(f"/etc/dkms/{name}", text)
    assert tuple(key_place(host.root, system, RUNNING)) == expected


def test_a_key_in_a_token_is_made_where_its_certificate_is(host):
    dkms_key(host)
    host.put("/etc/dkms/framework.conf", "mok_signing_key='pkcs11:token=site'\nmok_certificate=/var/lib/dkms/mok.pub\n")
    assert read_module_key(host.root, "rhel", RUNNING)["made"] is True


def test_certificates_are_described_as_modinfo_names_signers():
    assert describe_certificate(efi.KEY) == {"name": "DKMS module signing key", "numbers": [MOK, "d939395a3c4c0e2a"]}
    assert describe_certificate(efi.OTHER_KEY) == {
        "name": "DKMS module signing key",
        "numbers": [plain(hex(4711)), "aabbcc5a3c4c0e2a"],
    }
    assert fingerprint(efi.KEY).replace(":", "") == hashlib.sha1(efi.KEY).hexdigest()


@pytest.mark.parametrize("end", [0, 1, 2, 3, 40, 100, 200, 400, len(efi.KEY) - 1])
def test_a_certificate_that_is_cut_off_is_none(end):
    with pytest.raises(ValueError, match="certificate"):
        describe_certificate(efi.KEY[:end])


@pytest.mark.parametrize("data", [b"garbage", bytes(50), b"\x30\x00", b"\x30\x02\x30\x00"])
def test_garbage_is_no_certificate(data):
    with pytest.raises(ValueError, match="certificate"):
        describe_certificate(data)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
@pytest.mark.parametrize("subject", ["/CN=x", "/C=DE/O=Example/CN=Name \u00e4/emailAddress=a@b.example"])
def test_a_certificate_of_this_machines_openssl(tmp_path, subject):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-utf8", "-subj", subject, "-outform", "DER"]
    subprocess.run([*command, "-keyout", tmp_path / "k", "-out", tmp_path / "c"], check=True, capture_output=True)
    found = describe_certificate((tmp_path / "c").read_bytes())
    assert found["name"] == ("x" if subject == "/CN=x" else "Name \u00e4") and len(found["numbers"]) == 2


def test_lists_of_hashes_are_passed_over():
    data = efi.signature_list(b"h" * 32, kind=efi.SHA256) + efi.signature_list(efi.KEY, efi.OTHER_KEY)
    assert parse_signature_lists(data) == [efi.KEY, efi.OTHER_KEY]
    assert parse_signature_lists(b"") == []
    with pytest.raises(ValueError, match="sizes"):
        parse_signature_lists(data[:16] + b"\xff\xff\0\0" + data[20:])
    with pytest.raises(ValueError, match="sizes"):
        parse_signature_lists(data[:24] + b"\x10\0\0\0" + data[28:])


def test_a_list_is_read_once_however_often_it_is_shown(host):
    efi.put_keys(host, "MokListRT", efi.KEY, efi.OTHER_KEY)
    host.put("/sys/firmware/efi/mok-variables/MokListRT", efi.signature_list(efi.KEY))
    assert read_certificates(host.root, "MokListRT") == [efi.KEY, efi.OTHER_KEY]


def test_without_variables_nothing_is_known_of_lists(host):
    with pytest.raises(OSError, match="efivars"):
        read_certificates(host.root, "MokListRT")


def test_enrolled_keys_are_read_without_mokutil(host):
    efi.put_keys(host, "MokListRT", efi.KEY)
    efi.put_keys(host, "db", efi.OTHER_KEY, owner=efi.SECURITY)
    found = read_enrolled_keys(host.root, answers())
    assert [one["numbers"][0] for one in found] == [MOK, plain(hex(4711))]


KERNEL_KEY = (
    "01 I------ 1 perm 1f030000 0 0 asymmetri {}: 0c51b9a1d1e0a3f5d6a0f0c5a1d0b2c3d4e5f607: X509.rsa d4e5f607 []\n"
)


@pytest.mark.parametrize(
    ("enrolled", "modinfo", "trusted"),
    [
        ([efi.KEY], MODINFO, True),
        ([efi.OTHER_KEY], MODINFO, False),
        ([], MODINFO, False),
        ([efi.KEY], "version: 580.95.05\nlicense: NVIDIA\n", False),
        ([efi.KEY], "version: 1\nsig_id: PKCS#7\nsigner:\nsig_key:\nsig_hashalgo: md4\n", None),
        ([], "version: 1\nsigner: Vendor\nsig_key: 47:11\nsig_hashalgo: sha256\n", True),
    ],
)
def test_whether_the_next_boot_takes_the_module(host, enrolled, modinfo, trusted):
    efi.secure_boot_on(host)
    efi.put_keys(host, "MokListRT", *enrolled)
    host.put("/proc/keys", KERNEL_KEY.format("Vendor"))
    found = read_next_signature(host.root, answers(modinfo=modinfo), RUNNING, "enabled")
    assert found is not None and found["trusted"] is trusted and found["kernel"] == RUNNING
    assert bool(found["because"]) is (trusted is None)


def test_the_signature_is_asked_for_only_where_it_counts(host):
    assert read_next_signature(host.root, answers(modinfo=MODINFO), RUNNING, "disabled") is None
    assert read_next_signature(host.root, answers(), RUNNING, "enabled") is None, "no module, no signature"
    host.put("/sys/module/module/parameters/sig_enforce", "Y\n")
    host.put("/proc/keys", KERNEL_KEY.format("Vendor"))
    efi.put_keys(host, "MokListRT", efi.KEY)
    found = read_next_signature(host.root, answers(modinfo=MODINFO), RUNNING, "disabled")
    assert found is not None and found["trusted"] is True


def test_a_key_of_the_kernel_counts_by_name_unless_one_of_that_name_is_enrolled():
    file, kernel = {"signer": "DKMS", "key": "1"}, [{"name": "DKMS", "numbers": ["9"]}]
    assert is_trusted(file, [], lambda: kernel)
    assert not is_trusted(file, [{"name": "DKMS", "numbers": ["2"]}], lambda: kernel)
    assert is_trusted(file, [{"name": "DKMS", "numbers": ["2"]}], lambda: [{"name": "DKMS", "numbers": ["1"]}])
