"""EFI variables as the kernel shows them, and two certificates for them that openssl made once."""

from __future__ import annotations

import base64
import struct
import uuid

from host_tree import HostTree

FOLDER = "/sys/firmware/efi/efivars"
GLOBAL, SECURITY = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
X509, SHA256 = "a5c059a1-94e4-4aa7-87b5-ab155c2bf072", "c1c41626-504c-4092-aca9-41f936934328"
# Both are of "DKMS module signing key": serial 27ed54a1d5af8748948d9f8932ee9c7c34a0b1c2, identifier d939395a3c4c0e2a
KEY = base64.b64decode(
    "MIICEzCCAXygAwIBAgIUJ+1UodWvh0iUjZ+JMu6cfDSgscIwDQYJKoZIhvcNAQELBQAwIjEgMB4GA1UEAwwXREtNUyBtb2R1bGUgc2lnbmluZy"
    "BrZXkwIBcNMjYxMTIyMDYzNDU2WhgPMjEyNjEwMjkwNjM0NTZaMCIxIDAeBgNVBAMMF0RLTVMgbW9kdWxlIHNpZ25pbmcga2V5MIGfMA0GCSqG"
    "SIb3DQEBAQUAA4GNADCBiQKBgQCnUh7KQUTcLH8tCil7ABQuX69TEiVZgc5qI2IUiYLz3tSdNWiXtMR20RsvuElGk23YzfiEzcXBT7b/5gWeRn"
    "W20HGxbk61UTpgo4C/g+8UAVZEriJVIu6RhXYnNueoBu9pBv0gqPG9zPUOsXaHqDtQBaLCHDSNh7VHTAaauqYe0QIDAQABo0QwQjAMBgNVHRMB"
    "Af8EAjAAMB8GA1UdJQQYMBYGCCsGAQUFBwMDBgorBgEEAZIIEAECMBEGA1UdDgQKBAjZOTlaPEwOKjANBgkqhkiG9w0BAQsFAAOBgQCDZOf5V4"
    "HMTwDdtOCfGhJUTMq6fgalc/6ppuvSk4BdzF95wLQUNoJJFBCGktJ/ZkkT6QJEiyYQaqhdhBlQYBKF5P+71G74kOuxiSGkXkWDcr69aH8xZIRQ"
    "heM/O+ON2AqEEDxUPrQ2OFv54fOyXFpEGErWl938a4nXD7zDr1aZSw=="
)
# serial 4711, identifier aabbcc5a3c4c0e2a, more names before the common one
OTHER_KEY = base64.b64decode(
    "MIICPzCCAaigAwIBAgICEmcwDQYJKoZIhvcNAQELBQAwQTELMAkGA1UEBhMCVVMxEDAOBgNVBAoMB1JlZCBIYXQxIDAeBgNVBAMMF0RLTVMgbW"
    "9kdWxlIHNpZ25pbmcga2V5MCAXDTI2MTEyMjA2MzQ1NloYDzIxMjYxMDI5MDYzNDU2WjBBMQswCQYDVQQGEwJVUzEQMA4GA1UECgwHUmVkIEhh"
    "dDEgMB4GA1UEAwwXREtNUyBtb2R1bGUgc2lnbmluZyBrZXkwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBALG3BiCfS7m3SM3uG49lyS1QmC"
    "SgBje0CUvAA61dLEVZO0Cefw3ZpKM4b4H1JDEXvDmsw7almiHH09wE59fS71iO/+6f5JmsCEl04ofKxpDf7VAQhlTVCo3naxEi/ma6vrmA0cqV"
    "jHklHbtjlv/m5DSQiBPVEEv3MXEC/5UAnkjtAgMBAAGjRDBCMAwGA1UdEwEB/wQCMAAwHwYDVR0lBBgwFgYIKwYBBQUHAwMGCisGAQQBkggQAQ"
    "IwEQYDVR0OBAoECKq7zFo8TA4qMA0GCSqGSIb3DQEBCwUAA4GBABLub1eW8E/6MKUfHo2zNAskKF5DbAD8/grOqgwQebIW18Bze9jdO2uLQ+0D"
    "q9aoDSHadqf5USV2wUf1qsJSv1/gI6qEgfxG+5Q3zBT0m19H5mLIpn9+v8BGtFkkkYIIapKR3J4YfUtj6mdubC5I86ij8QJxORAGU268c69EKp"
    "mH"
)


def signature_list(*entries: bytes, kind: str = X509) -> bytes:
    """An EFI_SIGNATURE_LIST for each entry, as mokutil and shim write them."""
    lists = []
    for entry in entries:
        head = uuid.UUID(kind).bytes_le + struct.pack("<III", 28 + 16 + len(entry), 0, 16 + len(entry))
        lists.append(head + uuid.UUID(SHIM).bytes_le + entry)
    return b"".join(lists)


def put_variable(host: HostTree, name: str, data: bytes, owner: str = SHIM) -> None:
    host.put(f"{FOLDER}/{name}-{owner}", b"\x06\0\0\0" + data)


def put_keys(host: HostTree, name: str, *certificates: bytes, owner: str = SHIM) -> None:
    put_variable(host, name, signature_list(*certificates), owner)


def secure_boot_on(host: HostTree) -> None:
    put_variable(host, "SecureBoot", b"\x01", GLOBAL)
    put_variable(host, "SetupMode", b"\0", GLOBAL)
