"""Kernel modules that a distribution has built and signed: nothing is in them but what modinfo reads, and a signature.

No compiler is needed where the fleet is built, and no key is on a host.
"""

from __future__ import annotations

import functools
import struct
import tempfile
import threading
from pathlib import Path

from .paths import PACKAGES_DIR
from .shell import run
from .specs import Words, fill

# The name of the kernel's own key in the simulated /proc/keys (hardware.py).
KEY_NAME = "Fleet kernel signing key"
SIGN_FILE = PACKAGES_DIR / "kernel-devel/usr/src/kernels/@KREL@/scripts/sign-file"
# By file the names of modules that it depends on.
MODULES = {"nvidia": "", "nvidia-modeset": "nvidia", "nvidia-drm": "nvidia-modeset", "nvidia-uvm": "nvidia"}
DESCRIPTION = ("version=@SIGNED@", "license=@LICENSE@", "vermagic=@KREL@ SMP mod_unload modversions ")
# ELF64: sizes of its header and of a section's; kinds of sections.
HEADER_BYTES, SECTION_BYTES = 64, 64
PROGRAM_BITS, STRING_TABLE, ALLOCATED = 1, 3, 2


def section(name: int, kind: int, flags: int, offset: int, size: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, 0, 0, 1, 0)


def module_file(texts: list[str]) -> bytes:
    """A relocatable file for x86-64 whose section .modinfo has these texts ("version=580.95.05")."""
    names = b"\0.modinfo\0.shstrtab\0"
    modinfo = b"".join(text.encode() + b"\0" for text in texts)
    contents = modinfo + names
    padding = -len(contents) % 8
    table = HEADER_BYTES + len(contents) + padding
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, HEADER_BYTES, 0, 0, SECTION_BYTES, 3, 2)
    sections = [
        bytes(SECTION_BYTES),
        section(names.index(b".modinfo"), PROGRAM_BITS, ALLOCATED, HEADER_BYTES, len(modinfo)),
        section(names.index(b".shstrtab"), STRING_TABLE, 0, HEADER_BYTES + len(modinfo), len(names)),
    ]
    return identity + header + contents + bytes(padding) + b"".join(sections)


# Packages are built side by side, and a second key would take the place of the first one while that is used.
ONE_AT_A_TIME = threading.Lock()


@functools.cache
def signing_key() -> tempfile.TemporaryDirectory[str]:
    """A folder with key.pem and certificate.der, gone with this process."""
    folder = tempfile.TemporaryDirectory(prefix="fleet-")
    key, certificate = Path(folder.name, "key.pem"), Path(folder.name, "certificate.der")
    run([
        "openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", "3650", "-batch",
        "-subj", f"/CN={KEY_NAME}", "-keyout", key, "-outform", "DER", "-out", certificate,
    ])  # fmt: skip
    return folder


def write_signed_modules(folder: Path, words: Words) -> None:
    """The driver's modules of a package: `words` has SIGNED (the driver's version), LICENSE and KREL."""
    folder.mkdir(parents=True)
    with ONE_AT_A_TIME:
        key = Path(signing_key().name)
    for name, depends in MODULES.items():
        file = folder / f"{name}.ko"
        own = [f"name={name.replace('-', '_')}", f"depends={depends}"]
        own += ["alias=pci:v000010DEd*sv*sd*bc03sc02i00*"] if name == "nvidia" else []
        file.write_bytes(module_file([*own, *fill(list(DESCRIPTION), words)]))
        run(["sh", SIGN_FILE, "sha256", key / "key.pem", key / "certificate.der", file])
