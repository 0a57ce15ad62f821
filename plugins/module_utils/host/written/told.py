# SPDX-License-Identifier: Apache-2.0
"""The door for text that others chose, before it reaches a terminal, a log, a page, a difference, a metric or a bundle.

Secrets are known by the key before them and by their own form; a pattern takes too much rather than too little. What a
terminal would obey is taken out, and a text has a greatest length.
"""

import re
from typing import Any, Callable, Match, Pattern, Tuple

from ..patterns import lazily

LONGEST = 4000
MASKED = "***"
# A login whose password has an unencoded "/", "?" or "#" extends beyond the part that is formally the host.
SCHEME_LEAD = r"(?P<lead>\b[A-Za-z][A-Za-z0-9+.-]{0,15}://)(?P<value>[^\s/@:\"'<>]{0,200}:"
RAW_LOGIN = lazily(SCHEME_LEAD + r"(?!\d*(?:/|$))[^\s\"'<>]{0,500})(?=@)")
# One that begins as a port does, in front of what is a host.
PORT_LOGIN = lazily(SCHEME_LEAD + r"\d{0,10}/[^\s\"'<>]{0,500})(?=@[\w-]{1,64}[.:/])")
LOGIN = lazily(r"(?P<lead>\b[A-Za-z][A-Za-z0-9+.-]{0,15}://)(?P<value>[^\s/?#\"'<>]{1,700})(?=@)")
WORDS = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|authorization|(?:set-)?cookie|signature"
    r"|(?:api|access|secret|private|encryption|shared|account|auth|license|signing|session|master)[_-]?key)"
)
# A whole text in quotes, else all to the next blank: what is left behind a comma may belong to the password.
QUOTED = r"\"(?:[^\"\\\n]|\\.){1,4000}\"|'(?:[^'\\\n]|\\.){1,4000}'"
VALUE = r"(?P<value>" + QUOTED + r"|(?!(?:\\?[\"'])|\*{3})[^\s\"'<>&;\\]{1,4000})"
SCHEME = r"(?:(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)\s+)?"
# Keys of PEM files, as a whole.
PEM = lazily(r"(?P<lead>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)(?P<value>.{1,20000}?)(?=-----END|\Z)", re.DOTALL)
# What stands in a line, in lower case, that a pattern can find something in.
NAMES = ("pass", "pwd", "secret", "token", "credential", "authorization", "cookie", "signature", "key")
FORMS = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "sk-", "xox", "akia", "asia", "aiza"),
    *("nvapi-", "npm_", "pypi-", "eyj", "$", "grub.pbkdf2"),
)
SECRETS: Tuple[Tuple[Tuple[str, ...], Pattern], ...] = (
    (("@",), RAW_LOGIN),
    (("@",), PORT_LOGIN),
    (("@",), LOGIN),
    # key=value, key: value, "key": "value", 'key': 'value', <key>value, in any case, with other words around the key.
    (
        NAMES,
        lazily(
            r"(?P<lead>"
            + WORDS
            + r"(?:_?(?:hash|value|text|in|out))?[0-9]{0,2}\\?[\"']?\s{0,20}(?:=>|:=|=|:(?!//)|>)\s{0,20}(?:\\[\"'])?"
            + SCHEME
            + ")"
            + VALUE,
            re.IGNORECASE,
        ),
    ),
    # Short words that mean other things elsewhere: only with an equals sign.
    (
        ("pass=", "pw=", "sig=", "auth=", "chap="),
        lazily(
            r"(?P<lead>(?<![A-Za-z])(?:[A-Za-z0-9]{1,40}_)?(?:pass|pw|sig|auth|chap)=)(?![0-9]{1,9}(?:\s|$))" + VALUE,
            re.IGNORECASE,
        ),
    ),
    (
        ("bearer", "basic", "negotiate", "apikey"),
        lazily(
            r"(?P<lead>\b(?:Bearer|Basic|Negotiate|ApiKey)\s+)(?P<value>[A-Za-z0-9+/_.~-]{8,4000}={0,2})", re.IGNORECASE
        ),
    ),
    # Options of programs.
    (
        NAMES,
        lazily(
            r"(?P<lead>--?(?:[A-Za-z0-9]{1,30}-){0,4}" + WORDS + r"(?:-[a-z]{1,20})?[ =]\s{0,20})" + VALUE,
            re.IGNORECASE,
        ),
    ),
    (
        ("-u", "--user", "--proxy-user"),
        lazily(
            r"(?P<lead>(?:^|\s)(?:-u|--user|--proxy-user|-U)[ =]?\"?'?)(?P<value>[^\s:\"']{1,100}:[^\s\"']{1,4000})"
        ),
    ),
    (("sshpass",), lazily(r"(?P<lead>\bsshpass\s+-p\s{0,5})" + VALUE)),
    # netrc(5).
    (("login",), lazily(r"(?P<lead>\blogin\s+\S{1,200}\s+password\s+)" + VALUE)),
    # An iSCSI root of dracut.cmdline(7), and a login in front of a host that has no scheme.
    (("iscsi:",), lazily(r"(?P<lead>\biscsi:)(?P<value>[^\s@]{1,400})(?=@)", re.IGNORECASE)),
    (
        ("@",),
        lazily(
            r"(?P<lead>(?<![\w.:/@+-]))(?P<value>[A-Za-z_][\w.+-]{0,63}:[^\s:@/\"'<>]{1,200})(?=@(?:[A-Za-z][\w-]*(?:\.[\w-]+)*|"
            r"(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?![\w:]*:[0-9A-Fa-f]{2}\b))"
        ),
    ),
    # By their own form: tokens of GitHub, GitLab, Hugging Face, OpenAI, Slack, AWS, Google, NVIDIA, npm, PyPI; JSON web
    # tokens; hashes of crypt(5).
    (
        FORMS,
        lazily(
            r"(?P<lead>(?<![A-Za-z0-9]))(?P<value>gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{16,255}"
            r"|hf_[A-Za-z0-9]{16,255}"
            r"|sk-[A-Za-z0-9_-]{16,255}|xox[abeprs]-[A-Za-z0-9-]{10,255}|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,60}|nvapi-[\w-]{16,255}"
            r"|npm_[A-Za-z0-9]{30,60}|pypi-[\w-]{30,500}|eyJ[\w-]{8,4000}\.[\w-]{4,4000}\.[\w-]{0,4000}"
            r"|\$(?:[1-7]|2[abxy]|5|6|y|gy|7)\$[^\s:\"',;]{8,400}|grub\.pbkdf2\.[\w.]{20,2000})"
        ),
    ),
)
KEY = lazily(r"(?:^|[^A-Za-z])?" + WORDS + r"(?:_?hash)?[0-9]{0,2}$", re.IGNORECASE)
# Marks that turn the direction of a line, or that nobody sees.
INVISIBLE = lazily("[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


# What a reading says of a password, which is none itself.
STATES = ("locked", "set", "empty", "none", "unknown")


def is_secret(key: str) -> bool:
    """Whether a field of this name holds a secret: hf_token, db-password2; not max_tokens."""
    return KEY.search(key) is not None


def replaced(text: str, make: Callable[[str, str], str]) -> str:
    """The text with each secret in it replaced by `make(kind, secret)`; kind is "login" or "secret"."""
    if "PRIVATE KEY-----" in text:
        text = _replaced(PEM, text, make)
    # A bundle has logs of megabytes, and most of their lines have none of the words.
    return "\n".join(_of_line(line, make) for line in text.split("\n"))


def _of_line(line: str, make: Callable[[str, str], str]) -> str:
    low = line.lower()
    for hints, pattern in SECRETS:
        if any(hint in low for hint in hints):
            line = _replaced(pattern, line, make)
    return line


def _replaced(pattern: Pattern, text: str, make: Callable[[str, str], str]) -> str:
    kind = "login" if pattern in (LOGIN, RAW_LOGIN, PORT_LOGIN) else "secret"

    def one(found: Match[str]) -> str:
        value = found.group("value")
        quote = value[0] if value[:1] in ('"', "'") and value[-1:] == value[:1] else ""
        return found.group("lead") + quote + make(kind, value[len(quote) : len(value) - len(quote)]) + quote

    return pattern.sub(one, text)


def without_secrets(text: str) -> str:
    """The text with each secret as ***."""
    return replaced(text, lambda _kind, _value: MASKED)


def values_hidden(value: Any) -> Any:
    """A copy of what JSON holds, without secrets in its texts and in fields that are named for one."""
    if isinstance(value, dict):
        return {
            key: MASKED if is_secret(str(key)) and one not in (None, "", *STATES) else values_hidden(one)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [values_hidden(one) for one in value]
    return without_secrets(value) if isinstance(value, str) else value


def printable(text: object, most: int = 0) -> str:
    """The text on one line, without what could repaint a terminal; of at most `most` characters, 0: any number."""
    line = "".join(char if char.isprintable() else " " for char in INVISIBLE.sub(" ", str(text)))
    return line if not most or len(line) <= most else line[: max(0, most - 2)] + ".."


def kept_lines(text: str) -> str:
    """The same for a text of several lines, whose line breaks and tabs stay."""
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def told(text: object, most: int = LONGEST) -> str:
    """What others wrote, for people: one line without secrets, and not longer than `most` characters."""
    # Secrets first, since a line break ends them; what is far behind the limit is not looked at.
    return printable(without_secrets(str(text)[: 4 * most + 4000]), most)


def told_lines(text: object, most_lines: int, most: int = LONGEST) -> str:
    """The last lines of a program's output, each as in `told`."""
    return "\n".join(
        told(line, most) for line in without_secrets(str(text)[-most_lines * (most + 1) :]).splitlines()[-most_lines:]
    )
