# SPDX-License-Identifier: Apache-2.0
"""The hash of the password that MokManager asks for: its format, and whether a request has it.

mokutil takes the output of crypt(3) (password-crypt.c, `decode_pass`), the same from 0.2.0 to 0.7.2; of its methods,
these three are not broken. Its own `mokutil --generate-hash` writes $6$. It does not know yescrypt ($y$), the default
of Debian's mkpasswd.
"""

import re
import struct
from typing import Match, Optional

TO64 = "[./0-9A-Za-z]"
FORMS = (
    re.compile(r"\$(?P<method>6)\$(?:rounds=(?P<rounds>[0-9]{4,9})\$)?(?P<salt>%s{1,16})\$%s{86}" % (TO64, TO64)),
    re.compile(r"\$(?P<method>5)\$(?:rounds=(?P<rounds>[0-9]{4,9})\$)?(?P<salt>%s{1,16})\$%s{43}" % (TO64, TO64)),
    re.compile(r"(?P<salt>\$(?P<method>2)[axy]\$[0-3][0-9]\$%s{22})%s{31}" % (TO64, TO64)),
)
MAKE_IT = "Make one with `mkpasswd -m sha-512`, `openssl passwd -6` or `mokutil --generate-hash`"
# mokutil's pw_crypt_t: method, rounds, size of the salt, salt; the hash follows.
REQUEST = struct.Struct("<HQH32s")
METHODS = {"5": 3, "6": 4, "2": 5}
DEFAULT_ROUNDS = 5000


def hash_problem(text: str) -> str:
    """What is wrong with the hash, in one sentence that does not repeat it; "" if nothing is."""
    if not text:
        return f"the password's hash is missing. {MAKE_IT}"
    if _parse(text):
        return ""
    if text.startswith("$y$") or text.startswith("$gy$") or text.startswith("$7$"):
        return f"the password's hash was made with yescrypt or scrypt, which MokManager does not support. {MAKE_IT}"
    if text.startswith("$"):
        return f"the password's hash is not of the forms $6$SALT$HASH, $5$SALT$HASH or $2y$. {MAKE_IT}"
    return f"the value is not a hash (crypt(3): $6$SALT$HASH); a password itself must not be given here. {MAKE_IT}"


def _parse(text: str) -> Optional[Match[str]]:
    return next((match for match in (form.fullmatch(text) for form in FORMS) if match), None)


def made_with(request: bytes, text: str) -> bool:
    """Whether a request (variable MokAuth) was made with this hash: method, rounds and salt are the same."""
    match = _parse(text)
    if not match or len(request) < REQUEST.size:
        return False
    method, rounds, size, salt = REQUEST.unpack_from(request)
    fields = match.groupdict()
    if METHODS[fields["method"]] != method:
        return False
    if fields["method"] != "2" and rounds != int(fields.get("rounds") or DEFAULT_ROUNDS):
        return False
    return salt[:size].rstrip(b"\0") == fields["salt"].encode()
