"""The simulated firmware and shim of one boot: EFI variables that outlive it, and a MokManager with a person before it.

The person is /etc/fleet/console.json, gone after the boot that it was read in: {"password": "..."} chooses Enroll MOK and
types it, {"choose": "Continue boot"} leaves; without the file nobody presses a key. As MokManager.c has it: a request is
removed before anything is asked, and three wrong passwords end it. Runs on Python 3.6.
"""

import importlib
import json
import os
import struct
import sys

VARIABLES = "/var/lib/fleet/firmware/efi/efivars"
# What only boot services see.
STORE = "/var/lib/fleet/boot-services"
CONSOLE = "/etc/fleet/console.json"
SCREEN = "/var/log/fleet-console.log"
GLOBAL, SHIM = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "605dab50-e046-4300-abb6-3dd810dd8b23"
ATTRIBUTES = b"\x06\0\0\0"
REQUEST = struct.Struct("<HQH32s128s")  # pw_crypt_t of mokutil: method, rounds, size of the salt, salt, hash
SHA512, PREFIX, ROUNDS = 4, "$6$", 5000
DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def path(name, owner=SHIM):
    return f"{VARIABLES}/{name}-{owner}"


def read(file):
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b""


def write(file, data):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "wb") as stream:
        stream.write(data)


def take(file):
    """The content, and the file is gone."""
    data = read(file)
    if os.path.exists(file):
        os.unlink(file)
    return data


def sha512_digest(text):
    """The 64 bytes that the last part of a $6$ hash stands for."""
    digest, order = bytearray(64), (0, 21, 42)
    for place in range(0, 84, 4):
        number = sum(DIGITS.index(letter) << 6 * index for index, letter in enumerate(text[place : place + 4]))
        for index, position in enumerate(order):
            digest[position] = number >> 16 - 8 * index & 255
        order = (order[1] + 1, order[2] + 1, order[0] + 1)
    digest[63] = DIGITS.index(text[84]) | (DIGITS.index(text[85]) & 3) << 6
    return bytes(digest)


def is_right(password, request):
    method, rounds, size, salt, digest = REQUEST.unpack(request)
    if method != SHA512:
        raise SystemExit("the stand-in for MokManager knows $6$ alone")
    crypt = importlib.import_module("crypt")  # Python 3.13 has none: a host of Ubuntu 24.04 has nobody at its console
    count = "" if rounds == ROUNDS else f"rounds={rounds}$"
    made = crypt.crypt(password, PREFIX + count + salt[:size].decode())
    return sha512_digest(made.rsplit("$", 1)[1]) == digest[:64]


def ask(person, request, auth):
    """What MokManager shows, and whether the request is granted."""
    screen = ["Press any key to perform MOK management"]
    if not person:
        return screen + ["Booting in 0 seconds"], False
    screen.append("Perform MOK management")
    if "password" not in person:
        return screen + [person["choose"]], False
    screen += ["Enroll MOK", "[Enroll MOK]", "Continue", "Enroll the key(s)?", "Yes"]
    if not is_right(person["password"], auth):
        return screen + ["Password:", "Password doesn't match"] * 3 + ["Failed to enroll keys"], False
    return screen + ["Password:", "Reboot"], True


def main(secure_boot):
    write(path("SecureBoot", GLOBAL), ATTRIBUTES + (b"\x01" if secure_boot == "on" else b"\0"))
    write(path("SetupMode", GLOBAL), ATTRIBUTES + b"\0")
    person = json.loads(take(CONSOLE).decode() or "{}")
    # Written by mokutil through a plain file, so its attributes come first.
    request, auth = take(path("MokNew"))[4:], read(path("MokAuth"))[4:]
    if request:
        screen, granted = ask(person, request, auth)
        write(SCREEN, read(SCREEN) + ("\n".join(screen) + "\n\n").encode())
        if granted:
            take(path("MokAuth"))
            write(STORE + "/MokList", read(STORE + "/MokList") + request)
    write(path("MokListRT"), ATTRIBUTES + read(STORE + "/MokList"))


if __name__ == "__main__":
    main(sys.argv[1])
